//! [F25] Clients on a socket that mean harm: heads and bodies that do not come, do not end, or are none.

use super::*;
use crate::http_server::patience::BODY_TIME;

const CONFIG_MAPS: &str = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: fake\r\n";

/// Runs a client beside a server of its own, and checks that no connection is left.
async fn beside<T>(client: impl AsyncFnOnce(std::net::SocketAddr) -> T) -> T {
    let server = FakeApiServer::new();
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let result = client(address).await;
        stop.send(()).unwrap();
        result
    };
    let shutdown = async { stopped.await.unwrap() };
    let (served, result) = tokio::join!(server.serve(listener, shutdown), client);
    served.unwrap();
    assert_eq!(tasks(), 0);
    result
}

async fn send(address: std::net::SocketAddr, bytes: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have enough of it before all is sent.
    let _ = stream.write_all(bytes.as_ref()).await;
    stream
}

/// The code of an answer, and all of it; 0 if the connection was closed without one.
async fn exchange(address: std::net::SocketAddr, bytes: impl AsRef<[u8]>) -> (u16, String) {
    let mut stream = send(address, bytes).await;
    let _ = stream.shutdown().await;
    let answer = String::from_utf8_lossy(&rest(stream).await).into_owned();
    (code(&answer), answer)
}

fn code(answer: &str) -> u16 {
    answer.get(9..12).map_or(0, |code| code.parse().unwrap())
}

#[tokio::test]
async fn who_sends_no_whole_head_is_cut_off() {
    beside(async |address| {
        let begun = Instant::now();
        let mut held = Vec::new();
        for part in ["", "GET /healthz HTT", "GET /healthz HTTP/1.1\r\nHost: fake\r\n"] {
            held.push(send(address, part).await);
        }
        // This one rests after its request.
        let mut used = send(address, "GET /healthz HTTP/1.1\r\nHost: fake\r\n\r\n").await;
        let mut answer = [0; 12];
        used.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        held.push(used);
        // A watch is no idle connection.
        let watch = open_watch(address).await;
        assert_eq!(tasks(), 5);
        tokio::time::pause(); // nothing but the time of a head is waited for from here on
        for stream in held {
            let left = rest(stream).await;
            assert!(
                left.is_empty() || left.ends_with(b"ok"),
                "{}",
                String::from_utf8_lossy(&left)
            );
        }
        assert!(
            (HEAD_TIME..HEAD_TIME * 2).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(tasks(), 1, "the watch is still open");
        drop(watch);
        tokio::time::resume();
    })
    .await;
}

#[tokio::test]
async fn who_sends_no_whole_body_is_cut_off() {
    beside(async |address| {
        let begun = Instant::now();
        let mut slow = send(address, format!("{CONFIG_MAPS}Content-Length: 1000\r\n\r\n{{")).await;
        let chunked = send(
            address,
            format!("{CONFIG_MAPS}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"),
        )
        .await;
        let watch = open_watch(address).await;
        assert_eq!(tasks(), 3);
        tokio::time::pause(); // nothing but the time of a body is waited for from here on
        // A byte now and then does not help.
        for _ in 0..5 {
            tokio::time::sleep(BODY_TIME / 6).await;
            slow.write_all(b" ").await.unwrap();
        }
        for stream in [slow, chunked] {
            let answer = String::from_utf8_lossy(&rest(stream).await).into_owned();
            assert_eq!(code(&answer), 400, "{answer}");
            let why = "the body of the request could not be read: it did not come within 60 seconds";
            assert!(answer.contains(why), "{answer}");
        }
        assert!(
            (BODY_TIME..BODY_TIME * 2).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        drop(watch);
        tokio::time::resume();
    })
    .await;
}

#[tokio::test]
async fn bodies_without_end_are_cut_off_at_the_limit() {
    beside(async |address| {
        for (head, piece) in [
            (
                "Transfer-Encoding: chunked\r\n\r\n",
                format!("10000\r\n{}\r\n", "x".repeat(0x10000)),
            ),
            // The line of 100 MB.
            ("Content-Length: 104857600\r\n\r\n", "x".repeat(0x10000)),
        ] {
            let stream = send(address, format!("{CONFIG_MAPS}{head}")).await;
            let (mut read, mut write) = stream.into_split();
            let pour = async {
                let mut poured = 0_usize;
                while write.write_all(piece.as_bytes()).await.is_ok() && poured < 100 << 20 {
                    poured += piece.len();
                }
                poured
            };
            let answer = async {
                let mut answer = [0; 12];
                read.read_exact(&mut answer).await.unwrap();
                String::from_utf8_lossy(&answer).into_owned()
            };
            let (poured, answer) = tokio::join!(pour, answer);
            assert_eq!(answer, "HTTP/1.1 413");
            assert!(poured < 50 << 20, "the server read on: {poured}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let line = |uri: &str| format!("GET {uri} HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n\r\n");
    let with = |headers: &str, body: &str| format!("{CONFIG_MAPS}Connection: close\r\n{headers}\r\n{body}");
    let cases: Vec<(Vec<u8>, &[u16])> = vec![
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), &[400]),
        (b"\x00\r\n\r\n".to_vec(), &[400]),
        (b"GET /version HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[0, 400]),
        (line("/api/v1/\0").into_bytes(), &[400]),
        (
            line(&format!("/api/v1/pods?x={}", "a".repeat(70_000))).into_bytes(),
            &[414],
        ),
        (
            line(&format!("/api/v1/pods?x={}", "a".repeat(1_200_000))).into_bytes(),
            &[414, 431],
        ),
        (
            with(&format!("X-A: {}\r\n", "a".repeat(1_200_000)), "").into_bytes(),
            &[431],
        ),
        (with(&"X-A: a\r\n".repeat(50_000), "").into_bytes(), &[431]),
        (with("X-A: a\0b\r\n", "").into_bytes(), &[400]),
        (
            with("Content-Length: 2\r\nContent-Length: 3\r\n", "{}").into_bytes(),
            &[400],
        ),
        (with("Content-Length: -1\r\n", "{}").into_bytes(), &[400]),
        (
            with("Content-Length: 99999999999999999999999\r\n", "{}").into_bytes(),
            &[400],
        ),
        (
            with("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n").into_bytes(),
            &[400],
        ),
        (
            with(
                "Transfer-Encoding: chunked\r\n",
                "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            )
            .into_bytes(),
            &[400],
        ),
        (with("Transfer-Encoding: nonsense\r\n", "{}").into_bytes(), &[400]),
        // Less than was promised, and then the end; more, which is no request of its own.
        (with("Content-Length: 100\r\n", "{}").into_bytes(), &[400]),
        (with("Content-Length: 2\r\n", "{}garbage\r\n\r\n").into_bytes(), &[422]),
    ];
    beside(async |address| {
        for (request, wanted) in cases {
            let (code, answer) = exchange(address, &request).await;
            let shown = String::from_utf8_lossy(&request[..request.len().min(100)]).into_owned();
            assert!(wanted.contains(&code), "{shown:?} -> {answer}");
        }
        let (code, _) = exchange(address, line("/healthz")).await;
        assert_eq!(code, 200, "the server is well");
    })
    .await;
}

#[tokio::test]
async fn there_are_so_many_connections_at_once() {
    beside(async |address| {
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = send(address, "GET /healthz HTTP/1.1\r\nHost: fake\r\n\r\n").await;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            held.push(stream);
        }
        // The system takes it, the server does not yet.
        let late = send(
            address,
            "GET /healthz HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert_eq!(tasks(), MAX_CONNECTIONS);
        held.pop();
        let answer = String::from_utf8_lossy(&rest(late).await).into_owned();
        assert_eq!(code(&answer), 200, "{answer}");
    })
    .await;
}

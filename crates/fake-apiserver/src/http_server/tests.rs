//! Connections and their tasks: how they end, whatever the client does.

mod faults;
mod hostile;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;

async fn listen() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Tasks of this test's runtime, the test itself not included.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Opens a watch and reads up to its first event.
async fn open_watch(address: std::net::SocketAddr) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: fake\r\n\r\n")
        .await
        .unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.contains("\"type\":\"ADDED\"") {
        line.clear();
        assert_ne!(reader.read_line(&mut line).await.unwrap(), 0, "the watch ended early");
    }
    reader
}

async fn rest(mut reader: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut rest = Vec::new();
    // A connection that is broken off has said all that it says.
    let _ = reader.read_to_end(&mut rest).await;
    rest
}

#[tokio::test]
async fn shutdown_ends_an_open_watch_cleanly_and_leaves_no_task() {
    let server = FakeApiServer::new();
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let watch = open_watch(address).await;
        assert_eq!(server.open_watches("namespaces"), 1);
        assert_eq!(tasks(), 1, "one connection");
        stop.send(()).unwrap();
        rest(watch).await
    };
    let shutdown = async { stopped.await.unwrap() };
    let (served, rest) = tokio::join!(server.serve(listener, shutdown), client);
    served.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    assert_eq!((tasks(), server.open_watches_total()), (0, 0));
}

#[tokio::test]
async fn shutdown_breaks_off_clients_that_hold_their_connection() {
    let server = FakeApiServer::new();
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let mut held = Vec::new();
        for part in [
            "",
            "GET /api/v1/names",
            "POST /api/v1/namespaces HTTP/1.1\r\nHost: fake\r\nContent-Length: 100\r\n\r\n{",
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(part.as_bytes()).await.unwrap();
            held.push(stream);
        }
        // Its answer comes after the server has taken the connections before it.
        held.push(open_watch(address).await.into_inner());
        assert_eq!(tasks(), 4);
        tokio::time::pause(); // nothing but the grace is waited for from here on
        let begun = Instant::now();
        stop.send(()).unwrap();
        (held, begun)
    };
    let shutdown = async { stopped.await.unwrap() };
    let (served, (held, begun)) = tokio::join!(server.serve(listener, shutdown), client);
    served.unwrap();
    assert_eq!(tasks(), 0);
    assert!((GRACE..GRACE * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    for stream in held {
        rest(stream).await; // ends, because the server has closed it
    }
}

#[tokio::test]
async fn dropping_the_future_breaks_the_connections() {
    let server = FakeApiServer::new();
    let (listener, address) = listen().await;
    let watch = tokio::select! {
        served = server.serve(listener, std::future::pending()) => panic!("{served:?}"),
        watch = open_watch(address) => watch,
    };
    assert!(!rest(watch).await.ends_with(b"0\r\n\r\n"), "broken off, not ended");
    server.wait_for_no_watches().await;
    assert_eq!(tasks(), 0);
}

// A fault rule that refuses the connection is one without an answer, also over a socket.
#[tokio::test]
async fn refused_request_gets_no_answer() {
    let server = FakeApiServer::new();
    server.inject(crate::Rule::new(crate::Fault::Refuse));
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: fake\r\n\r\n")
            .await
            .unwrap();
        let answer = rest(stream).await;
        stop.send(()).unwrap();
        answer
    };
    let shutdown = async { stopped.await.unwrap() };
    let (served, answer) = tokio::join!(server.serve(listener, shutdown), client);
    served.unwrap();
    assert_eq!(answer, b"");
    assert_eq!(tasks(), 0);
}

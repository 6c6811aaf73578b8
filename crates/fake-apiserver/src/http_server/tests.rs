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

/// Sends a GET on a connection of its own; returns all of the answer.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    String::from_utf8(rest(stream).await).unwrap()
}

#[tokio::test]
async fn a_view_is_served_beside_the_server_and_ends_its_own_watches() {
    // [F22] two servers of one cluster, one of which is behind
    let server = FakeApiServer::new();
    let stale = server.view("stale");
    stale.freeze();
    let namespace = k8s_openapi::api::core::v1::Namespace {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("new".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    server.load(&namespace).unwrap();
    let ((listener, address), (stale_listener, stale_address)) = (listen().await, listen().await);
    let ((stop, stopped), (stop_stale, stale_stopped)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    let client = async {
        let list = "/api/v1/namespaces?resourceVersion=0";
        assert!(get(address, list).await.contains(r#""name":"new""#));
        assert!(!get(stale_address, list).await.contains(r#""name":"new""#));
        let (watch, stale_watch) = (open_watch(address).await, open_watch(stale_address).await);
        let views: Vec<_> = server.watches().into_iter().map(|watch| watch.view).collect();
        assert_eq!(views, [None, Some("stale".to_owned())]);
        stop_stale.send(()).unwrap();
        assert!(rest(stale_watch).await.ends_with(b"0\r\n\r\n"), "ended, not broken off");
        assert_eq!(server.open_watches("namespaces"), 1, "that of the other server goes on");
        stop.send(()).unwrap();
        assert!(rest(watch).await.ends_with(b"0\r\n\r\n"));
    };
    let (served, stale_served, ()) = tokio::join!(
        server.serve(listener, async { stopped.await.unwrap() }),
        stale.serve(stale_listener, async { stale_stopped.await.unwrap() }),
        client
    );
    served.unwrap();
    stale_served.unwrap();
    assert_eq!(tasks(), 0);
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

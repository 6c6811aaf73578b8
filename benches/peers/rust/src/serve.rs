//! The server side of every comparison, in a process of its own: hands out prepared bytes as fast as the socket takes
//! them, so that what is measured is the client.
//!
//! Speaks as much HTTP/1.1 as informers need. A list is the prepared body; a streaming list is refused as an older server
//! refuses it; a watch stays open and silent until it is told what to send:
//!
//! | request | does |
//! | --- | --- |
//! | `GET /control/flood` | the open watch sends every event; answers at once |
//! | `GET /control/expire` | the open watch sends an ERROR 410 and ends; answers at once |
//! | `GET /control/watches/N` | answers when N watches have been opened |
//!
//! One thread per connection and no runtime: a few connections, each of which mostly writes.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::Context;

use crate::prepare;

/// How large a piece of a list is, in the transfer encoding.
const PIECE: usize = 64 << 10;
/// An order for the watch that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Flood,
    Expire,
}

struct Server {
    media_type: &'static str,
    list: Vec<u8>,
    flood: Vec<u8>,
    expire: Vec<u8>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    watches: u64,
    order: Option<Order>,
}

pub(crate) fn serve(dir: &Path, protobuf: bool) -> anyhow::Result<()> {
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let server = if protobuf {
        Server::new(
            "application/vnd.kubernetes.protobuf",
            &read("list.pb")?,
            frames(&read("events.pb")?),
            &read("expire.pb")?,
        )
    } else {
        let events = read(prepare::EVENTS)?;
        let expire = concat!(
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"too old resource version","reason":"Expired","code":410}}"#,
            "\n"
        );
        let lines = events.split_inclusive(|byte| *byte == b'\n');
        Server::new("application/json", &read(prepare::LIST)?, lines, expire.as_bytes())
    };
    let server = Arc::new(server);
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the loopback interface")?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let (stream, server) = (stream?, Arc::clone(&server));
        std::thread::spawn(move || {
            if let Err(error) = server.connection(&stream) {
                eprintln!("peers serve: {error:#}");
            }
        });
    }
    Ok(())
}

/// Cuts length-prefixed frames, each with its prefix.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
        let (frame, rest) = bytes.split_at_checked(4 + length)?;
        bytes = rest;
        Some(frame)
    })
}

/// Appends one chunk of a chunked body.
fn chunk(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n");
}

const END: &[u8] = b"0\r\n\r\n";

impl Server {
    fn new<'a>(media_type: &'static str, list: &[u8], events: impl Iterator<Item = &'a [u8]>, expire: &[u8]) -> Self {
        let mut this = Self {
            media_type,
            list: Vec::with_capacity(list.len() + list.len() / 1000),
            flood: Vec::new(),
            expire: Vec::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        for piece in list.chunks(PIECE) {
            chunk(&mut this.list, piece);
        }
        this.list.extend_from_slice(END);
        // A real server flushes each event, so each is a chunk.
        events.for_each(|event| chunk(&mut this.flood, event));
        chunk(&mut this.expire, expire);
        this.expire.extend_from_slice(END);
        this
    }

    /// Answers the requests of one connection until it is closed.
    fn connection(&self, stream: &TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream).lines();
        // A client that has what it wants breaks the connection off, which is an end like any other.
        while let Some(Ok(request)) = lines.next() {
            // The headers say nothing that is needed, and no request here has a body.
            while lines
                .next()
                .is_some_and(|header| header.is_ok_and(|header| !header.is_empty()))
            {}
            let path = request.split(' ').nth(1).unwrap_or_default();
            if self.answer(path, stream).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, path: &str, mut stream: &TcpStream) -> std::io::Result<()> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let flag = |name: &str| {
            query
                .split('&')
                .any(|pair| pair == format!("{name}=true") || pair == format!("{name}=1"))
        };
        match path {
            "/api/v1/pods" if flag("sendInitialEvents") => refuse(stream),
            "/api/v1/pods" if flag("watch") => self.watch(stream),
            "/api/v1/pods" => {
                self.head(stream)?;
                stream.write_all(&self.list)
            }
            "/control/flood" => self.order(Order::Flood, stream),
            "/control/expire" => self.order(Order::Expire, stream),
            _ => match path
                .strip_prefix("/control/watches/")
                .and_then(|count| count.parse().ok())
            {
                Some(count) => {
                    self.wait(|state| (state.watches >= count).then_some(()));
                    short(stream, "200 OK", "text/plain", "")
                }
                None => short(stream, "404 Not Found", "text/plain", ""),
            },
        }
    }

    fn head(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let media_type = self.media_type;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
    }

    fn watch(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        self.head(stream)?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).watches += 1;
        self.changed.notify_all();
        loop {
            match self.wait(|state| state.order.take()) {
                Order::Flood => stream.write_all(&self.flood)?,
                Order::Expire => return stream.write_all(&self.expire),
            }
        }
    }

    fn order(&self, order: Order, stream: &TcpStream) -> std::io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).order = Some(order);
        self.changed.notify_all();
        short(stream, "200 OK", "text/plain", "")
    }

    fn wait<R>(&self, mut ready: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(ready) = ready(&mut state) {
                return ready;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What an API server without streaming lists says.
fn refuse(stream: &TcpStream) -> std::io::Result<()> {
    let body = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden","#,
        r#""reason":"Invalid","code":422}"#
    );
    short(stream, "422 Unprocessable Entity", "application/json", body)
}

fn short(mut stream: &TcpStream, status: &str, media_type: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes())
}

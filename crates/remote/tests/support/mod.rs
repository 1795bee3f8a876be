//! A web server with faults, on threads.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod reads;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file of the server.
#[derive(Clone, Default)]
pub struct ServedFile {
    pub bytes: Arc<Vec<u8>>,
    pub etag: Option<String>,
    pub modified: Option<String>,
}

impl ServedFile {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(bytes), etag: Some("\"v1\"".into()), modified: Some(DATE.into()) }
    }
}

pub const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub number: usize,
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
}

impl Asked {
    /// The number of bytes at the end of the file that are asked for.
    pub fn suffix(&self) -> Option<usize> {
        self.headers.get("range")?.strip_prefix("bytes=-")?.parse().ok()
    }

    /// First and last byte.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (begin, end) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((begin.parse().ok()?, end.parse().ok()?))
    }
}

/// What is done to a reply.
#[derive(Clone, Debug)]
pub enum ServerFault {
    None,
    Status(u16, Vec<(&'static str, String)>),
    /// 200 with the whole file in place of the range.
    Whole,
    /// The Content-Range says another first byte, last byte, total.
    Range(i64, i64, i64),
    NoContentRange,
    /// The Content-Length differs.
    Length(i64),
    /// A chunked body with so many more bytes.
    Long(usize),
    /// The connection is closed after so many bytes of the body.
    Cut(usize),
    /// The connection is reset after so many bytes of the body.
    Reset(usize),
    /// A wait after each byte.
    Trickle(Duration),
    /// Nothing more comes after so many bytes of the body.
    Stall(usize),
    /// No reply.
    Silence,
    /// A wait before the reply.
    Late(Duration),
}

type Choose = Box<dyn FnMut(&Asked) -> ServerFault + Send>;
/// Replies to a request itself: status, headers, body.
pub type Handler = Box<dyn Fn(&Asked) -> Option<(u16, Vec<(String, String)>, Vec<u8>)> + Send + Sync>;

pub struct Server {
    pub port: u16,
    pub files: Mutex<HashMap<String, ServedFile>>,
    choose: Mutex<Choose>,
    handler: Mutex<Option<Arc<Handler>>>,
    pub asked: Mutex<Vec<Asked>>,
    /// Replies in the making, and the most of them at once.
    at_once: Mutex<(usize, usize)>,
}

impl Server {
    pub fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            files: Mutex::default(),
            choose: Mutex::new(Box::new(|_| ServerFault::None)),
            handler: Mutex::default(),
            asked: Mutex::default(),
            at_once: Mutex::default(),
        });
        let serving = server.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(connection));
            }
        });
        server
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    pub fn put(&self, name: &str, file: ServedFile) -> String {
        self.files.lock().unwrap().insert(format!("/{name}"), file);
        self.url(name)
    }

    pub fn faults(&self, choose: impl FnMut(&Asked) -> ServerFault + Send + 'static) {
        *self.choose.lock().unwrap() = Box::new(choose);
    }

    /// The first `count` requests for bytes get this fault.
    pub fn fault(&self, fault: ServerFault, count: usize) {
        let mut left = count;
        self.faults(move |_| {
            if left == 0 {
                return ServerFault::None;
            }
            left -= 1;
            fault.clone()
        });
    }

    pub fn handle(&self, handler: Handler) {
        *self.handler.lock().unwrap() = Some(Arc::new(handler));
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Most requests that it had at the same time.
    pub fn most_at_once(&self) -> usize {
        self.at_once.lock().unwrap().1
    }

    fn serve(&self, connection: TcpStream) -> Option<()> {
        connection.set_nodelay(true).ok()?;
        let mut lines = BufReader::new(connection.try_clone().ok()?);
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let mut first = line.split_whitespace();
            let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
            let mut headers = HashMap::new();
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).ok()?;
                let Some((name, value)) = line.trim().split_once(':') else { break };
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            let asked = {
                let mut all = self.asked.lock().unwrap();
                let number = all.len();
                all.push(Asked { number, method, path, headers });
                all.last().unwrap().clone()
            };
            if let Some(n) = asked.headers.get("content-length").and_then(|n| n.parse().ok()) {
                std::io::copy(&mut (&mut lines).take(n), &mut std::io::sink()).ok()?;
            }
            {
                let mut at_once = self.at_once.lock().unwrap();
                *at_once = (at_once.0 + 1, at_once.1.max(at_once.0 + 1));
            }
            let replied = self.reply(&connection, &asked);
            self.at_once.lock().unwrap().0 -= 1;
            replied?;
        }
    }

    /// `None`: the connection ends.
    fn reply(&self, mut out: &TcpStream, asked: &Asked) -> Option<()> {
        let fault = (self.choose.lock().unwrap())(asked);
        if let ServerFault::Late(time) = fault {
            std::thread::sleep(time);
        }
        let handler = self.handler.lock().unwrap().clone();
        if let Some((status, headers, body)) = handler.and_then(|handler| handler(asked)) {
            let mut head = format!("HTTP/1.1 {status} X\r\n");
            headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
            if !headers.iter().any(|(name, _)| name == "Content-Length") {
                head += &format!("Content-Length: {}\r\n", body.len());
            }
            out.write_all(format!("{head}\r\n").as_bytes()).ok()?;
            return if asked.method == "HEAD" { Some(()) } else { out.write_all(&body).ok() };
        }
        if let ServerFault::Status(status, headers) = &fault {
            let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n");
            headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
            return out.write_all(format!("{head}\r\n").as_bytes()).ok();
        }
        if matches!(fault, ServerFault::Silence) {
            return wait_for_end(out);
        }
        let path = asked.path.split('?').next().unwrap().to_owned();
        let Some(file) = self.files.lock().unwrap().get(&path).cloned() else {
            return out.write_all(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n").ok();
        };
        let mut head = String::new();
        if let Some(tag) = &file.etag {
            head += &format!("ETag: {tag}\r\n");
            if asked.headers.get("if-match").is_some_and(|wanted| wanted != tag) {
                return out.write_all(b"HTTP/1.1 412 X\r\nContent-Length: 0\r\n\r\n").ok();
            }
        }
        if let Some(date) = &file.modified {
            head += &format!("Last-Modified: {date}\r\n");
        }
        let size = file.bytes.len();
        let last = asked.suffix().map(|n| if size == 0 { (0, 0) } else { (size - n.min(size), size - 1) });
        let ranged = asked.range().or(last).filter(|_| !matches!(fault, ServerFault::Whole));
        let (begin, end) = match ranged {
            Some((begin, _)) if begin >= size => {
                let head =
                    format!("HTTP/1.1 416 X\r\nContent-Range: bytes */{size}\r\nContent-Length: 0\r\n{head}\r\n");
                return out.write_all(head.as_bytes()).ok();
            }
            Some((begin, last)) => (begin, (last + 1).min(size)),
            None => (0, size),
        };
        let body = &file.bytes[begin..end];
        let shifted = |value: usize, by: i64| value as i64 + by;
        let (a, b, c) = if let ServerFault::Range(a, b, c) = fault { (a, b, c) } else { (0, 0, 0) };
        if ranged.is_some() && !matches!(fault, ServerFault::NoContentRange) {
            let (begin, last, size) = (shifted(begin, a), shifted(end - 1, b), shifted(size, c));
            head += &format!("Content-Range: bytes {begin}-{last}/{size}\r\n");
        }
        let length = if let ServerFault::Length(by) = fault { shifted(body.len(), by) } else { body.len() as i64 };
        head += &match fault {
            ServerFault::Long(_) => "Transfer-Encoding: chunked\r\n".to_owned(),
            _ => format!("Content-Length: {length}\r\n"),
        };
        let status = if ranged.is_some() { 206 } else { 200 };
        out.write_all(format!("HTTP/1.1 {status} X\r\n{head}\r\n").as_bytes()).ok()?;
        if asked.method == "HEAD" {
            return Some(());
        }
        match fault {
            ServerFault::Cut(n) => {
                out.write_all(&body[..n.min(body.len())]).ok()?;
                None
            }
            ServerFault::Reset(n) => {
                out.write_all(&body[..n.min(body.len())]).ok()?;
                std::thread::sleep(Duration::from_millis(5));
                socket2::SockRef::from(out).set_linger(Some(Duration::ZERO)).ok()?;
                None
            }
            ServerFault::Stall(n) => {
                out.write_all(&body[..n.min(body.len())]).ok()?;
                wait_for_end(out)
            }
            ServerFault::Trickle(wait) => {
                for byte in body {
                    out.write_all(&[*byte]).ok()?;
                    std::thread::sleep(wait);
                }
                Some(())
            }
            ServerFault::Long(more) => {
                out.write_all(format!("{:x}\r\n", body.len() + more).as_bytes()).ok()?;
                out.write_all(body).ok()?;
                out.write_all(&vec![0xEE; more]).ok()?;
                out.write_all(b"\r\n0\r\n\r\n").ok()
            }
            ServerFault::Length(by) if by < 0 => {
                out.write_all(&body[..length as usize]).ok()?;
                None
            }
            ServerFault::Length(_) => {
                out.write_all(body).ok()?;
                None
            }
            _ => out.write_all(body).ok(),
        }
    }
}

/// Says nothing until the client closes.
fn wait_for_end(connection: &TcpStream) -> Option<()> {
    connection.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut rest = [0; 64];
    let mut from = connection;
    while from.read(&mut rest).is_ok_and(|n| n > 0) {}
    let _closed = connection.shutdown(Shutdown::Both);
    None
}

//! A client that says what it wants, byte by byte.

use super::super::secure::Token;
use super::super::wire::*;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct Raw {
    pub socket: TcpStream,
    seq: u32,
}

/// A reply whose checksum holds.
#[derive(Debug)]
pub struct RawReply {
    pub reply: Reply,
    pub body: Vec<u8>,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, seq: 0 }
    }

    /// After HELLO.
    pub fn greeted(address: SocketAddr, token: Option<&Token>) -> Self {
        let mut raw = Self::connect(address);
        let told = raw.hello(token).unwrap();
        assert_eq!(told.reply.state, State::Ok);
        raw
    }

    pub fn hello(&mut self, token: Option<&Token>) -> io::Result<RawReply> {
        let body = Hello { version: VERSION, token: token.map(|t| *t.bytes()) }.bytes();
        self.ask(Request::new(Op::Hello, 0), &body)
    }

    /// Sends, and returns the sequence number and the seed of the reply.
    pub fn send(&mut self, mut request: Request, body: &[u8]) -> io::Result<(u32, u32)> {
        self.seq += 1;
        (request.seq, request.body) = (self.seq, body.len() as u32);
        let head = request.bytes();
        self.socket.write_all(&[&head[..], body].concat())?;
        Ok((self.seq, seed(&head, body)))
    }

    pub fn receive(&mut self) -> io::Result<(RawReply, [u8; HEAD])> {
        let mut head = [0; HEAD];
        self.socket.read_exact(&mut head)?;
        let reply = Reply::parse(&head).unwrap();
        let mut body = vec![0; reply.len as usize];
        self.socket.read_exact(&mut body)?;
        Ok((RawReply { reply, body }, head))
    }

    /// Asks one thing.
    pub fn ask(&mut self, request: Request, body: &[u8]) -> io::Result<RawReply> {
        let (seq, seed) = self.send(request, body)?;
        let (told, head) = self.receive()?;
        assert_eq!(told.reply.seq, seq);
        assert_eq!(Reply::checksum(seed, &head, [&told.body[..]]), told.reply.crc);
        Ok(told)
    }

    pub fn open(&mut self, name: &str, number: u32) -> io::Result<RawReply> {
        self.ask(Request { file: number, ..Request::new(Op::Open, 0) }, name.as_bytes())
    }

    /// Whether the server has ended the connection.
    pub fn is_ended(&mut self) -> bool {
        is_at_end(&mut self.socket)
    }
}

/// Whether the other end has ended a connection, which may not be said before the read timeout.
pub fn is_at_end(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(e) => !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

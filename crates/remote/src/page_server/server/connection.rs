//! One connection: its bytes in both directions, and what belongs to it.

use super::super::wire::{Credits, HEAD};
use super::clients::Client;
use super::files::ServedFile;
use super::schedule::QueuedRequest;
use super::socket::Unsignalled;
use rustls::ServerConnection;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are encrypted ahead of the socket.
const SEALED_AHEAD: usize = 256 << 10;
/// Bytes a second at which a reply must be taken, and a request given.
pub(super) const SLOWEST: f64 = 16384.0;
/// Parts of one write.
const MOST_PARTS: usize = 64;

/// A reply on its way out.
pub(super) struct Outgoing {
    pub(super) head: [u8; HEAD],
    pub(super) body: Vec<u8>,
    /// Bytes of head and body that are written.
    pub(super) written: usize,
    /// Whether it answers a request, which then counts no longer.
    pub(super) answers: Option<u32>,
}

impl Outgoing {
    fn len(&self) -> usize {
        HEAD + self.body.len()
    }

    /// Its bytes that are not written yet.
    fn rest(&self) -> [&[u8]; 2] {
        let of_head = self.written.min(HEAD);
        [&self.head[of_head..], &self.body[self.written - of_head..]]
    }
}

/// A number that the client gave to a file.
pub(super) enum Slot {
    /// Its OPEN waits for the disk, and these requests for it.
    Opening(Vec<QueuedRequest>),
    /// It is open.
    Open(Arc<ServedFile>),
}

/// How far a connection has come.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// TLS is being agreed.
    Handshake,
    /// HELLO is awaited.
    Hello,
    /// It is served.
    Ready,
    /// It ends once its replies are written.
    Ending,
}

/// See the module.
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    pub(super) address: IpAddr,
    pub(super) client: Option<Arc<Client>>,
    pub(super) stage: Stage,
    /// Bytes that are no whole request yet.
    pub(super) inbox: Vec<u8>,
    out: VecDeque<Outgoing>,
    pub(super) out_bytes: usize,
    /// Whether the socket takes nothing now.
    pub(super) blocked: bool,
    pub(super) files: Vec<Option<Slot>>,
    /// Requests that are not answered, their ranges and bodies in bytes.
    pub(super) owed: u32,
    pub(super) owed_bytes: u64,
    pub(super) owed_bodies: usize,
    /// The most that it may owe, and the same before it shrank.
    pub(super) credits: Credits,
    pub(super) granted_before: Option<(Credits, Instant)>,
    /// Begin of its stage, last bytes from it, last bytes that it took.
    pub(super) since: Instant,
    pub(super) heard: Instant,
    pub(super) took: Instant,
    /// When the first waiting reply became the first.
    front: Instant,
    /// Begin of a request of which only a part has come.
    pub(super) partial: Option<Instant>,
    /// What epoll watches.
    pub(super) watched: u32,
}

/// The end of a connection.
pub(super) struct Gone;

impl Connection {
    pub(super) fn new(socket: TcpStream, address: IpAddr, tls: Option<ServerConnection>, credits: Credits) -> Self {
        let now = Instant::now();
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(Some(2 * SEALED_AHEAD));
            Box::new(tls)
        });
        Self {
            socket,
            stage: if tls.is_some() { Stage::Handshake } else { Stage::Hello },
            tls,
            address,
            client: None,
            inbox: Vec::new(),
            out: VecDeque::new(),
            out_bytes: 0,
            blocked: false,
            files: Vec::new(),
            owed: 0,
            owed_bytes: 0,
            owed_bodies: 0,
            credits,
            granted_before: None,
            since: now,
            heard: now,
            took: now,
            front: now,
            partial: None,
            watched: 0,
        }
    }

    /// Takes what has come into the inbox, one buffer of it. Whether there may be more.
    pub(super) fn receive(&mut self, scratch: &mut [u8]) -> Result<bool, Gone> {
        let n = match self.socket.read(scratch) {
            Ok(0) => return Err(Gone),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(_) => return Err(Gone),
        };
        self.heard = Instant::now();
        let full = n == scratch.len();
        let Some(tls) = &mut self.tls else {
            self.inbox.extend_from_slice(&scratch[..n]);
            return Ok(full);
        };
        let mut sealed = &scratch[..n];
        while !sealed.is_empty() {
            tls.read_tls(&mut sealed).map_err(|_| Gone)?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(_) => {
                    // The alert says why.
                    let _told = tls.write_tls(&mut Unsignalled(&self.socket));
                    return Err(Gone);
                }
            };
            let had = self.inbox.len();
            self.inbox.resize(had + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut self.inbox[had..]).map_err(|_| Gone)?;
        }
        if self.stage == Stage::Handshake && !tls.is_handshaking() {
            if tls.alpn_protocol() != Some(super::super::wire::ALPN) {
                return Err(Gone);
            }
            (self.stage, self.since) = (Stage::Hello, self.heard);
        }
        Ok(full)
    }

    pub(super) fn push(&mut self, reply: Outgoing) {
        if self.out.is_empty() {
            self.took = Instant::now();
            self.front = self.took;
        }
        self.out_bytes += reply.len();
        self.out.push_back(reply);
    }

    /// Whether something waits to be written.
    pub(super) fn owes_bytes(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether its first reply is taken too slowly to keep the memory for it.
    pub(super) fn is_overdue(&self, now: Instant, patience: Duration) -> bool {
        let len = self.out.front().map_or(0, Outgoing::len);
        let most = patience + Duration::from_secs_f64(len as f64 / SLOWEST);
        len > 0 && now.saturating_duration_since(self.front) > most
    }

    /// Writes what the socket takes, and hands over the replies that are written.
    pub(super) fn flush(&mut self, mut written: impl FnMut(Outgoing)) -> Result<(), Gone> {
        self.blocked = false;
        loop {
            let result = match &mut self.tls {
                None if self.out.is_empty() => return Ok(()),
                None => write_plain(&self.socket, &self.out),
                Some(tls) => {
                    // Whole replies, so that each is forgotten once it is sealed.
                    let mut sealed = 0;
                    while !tls.is_handshaking() && sealed < SEALED_AHEAD && !(tls.wants_write() && sealed == 0) {
                        let Some(reply) = self.out.front_mut() else { break };
                        let [head, body] = reply.rest();
                        let parts = [IoSlice::new(head), IoSlice::new(body)];
                        let n = tls.writer().write_vectored(&parts).map_err(|_| Gone)?;
                        sealed += n;
                        reply.written += n;
                        self.out_bytes -= n;
                        if reply.written < reply.len() {
                            break;
                        }
                        self.front = Instant::now();
                        self.out.pop_front().into_iter().for_each(&mut written);
                    }
                    if !tls.wants_write() {
                        return Ok(());
                    }
                    tls.write_tls(&mut Unsignalled(&self.socket))
                }
            };
            match result {
                Ok(mut n) => {
                    self.took = Instant::now();
                    if self.tls.is_some() {
                        continue;
                    }
                    self.out_bytes -= n;
                    while let Some(reply) = self.out.front_mut() {
                        let part = n.min(reply.len() - reply.written);
                        reply.written += part;
                        n -= part;
                        if reply.written < reply.len() {
                            break;
                        }
                        self.front = self.took;
                        self.out.pop_front().into_iter().for_each(&mut written);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// Forgets what was not written.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Outgoing> + '_ {
        self.out_bytes = 0;
        self.out.drain(..)
    }

    /// Says that nothing follows.
    pub(super) fn bye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _told = tls.write_tls(&mut Unsignalled(&self.socket));
        }
        let _ended = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

fn write_plain(socket: &TcpStream, out: &VecDeque<Outgoing>) -> io::Result<usize> {
    let mut parts = [IoSlice::new(&[]); MOST_PARTS];
    let mut count = 0;
    for part in out.iter().flat_map(Outgoing::rest).filter(|part| !part.is_empty()).take(MOST_PARTS) {
        parts[count] = IoSlice::new(part);
        count += 1;
    }
    Unsignalled(socket).write_vectored(&parts[..count])
}

//! Many raw connections played by one thread, and a server in a process of its own.

use super::super::secure::Token;
use super::super::wire::*;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The address number `n` of this machine, so that one machine plays many.
pub fn source(n: usize) -> IpAddr {
    Ipv4Addr::new(127, 1, (n / 250) as u8, 1 + (n % 250) as u8).into()
}

/// A connection from a chosen address.
pub fn connect_from(source: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// One connection that always has so many reads under way.
pub struct Member {
    socket: TcpStream,
    /// The number of its client.
    pub client: usize,
    depth: u32,
    most: u32,
    under_way: u32,
    seq: u32,
    inbox: Vec<u8>,
    /// Bytes of pages that came.
    pub got: u64,
    pub ended: bool,
}

/// Members, and what they read.
pub struct Crowd<'a> {
    pub members: Vec<Member>,
    truth: &'a [u8],
    len: u32,
    poll: OwnedFd,
    scratch: Vec<u8>,
}

impl<'a> Crowd<'a> {
    /// Reads of `len` bytes of a file whose bytes are known.
    pub fn new(truth: &'a [u8], len: u32) -> Self {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: the call gave this descriptor to the caller alone.
        let poll = unsafe { OwnedFd::from_raw_fd(fd) };
        Self { members: Vec::new(), truth, len, poll, scratch: vec![0; 256 << 10] }
    }

    /// A member joins: HELLO, OPEN of `name`.
    pub fn join(&mut self, to: SocketAddr, client: usize, token: &Token, name: &str, depth: u32) {
        let mut raw = super::raw::Raw::over(connect_from(source(client), to).unwrap());
        let told = raw.hello(Some(token)).unwrap();
        let most = Credits::parse(&told.body).unwrap().requests;
        assert_eq!(raw.open(name, 0).unwrap().reply.state, State::Ok);
        raw.socket.set_nonblocking(true).unwrap();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: self.members.len() as u64 };
        let fd = raw.socket.as_raw_fd();
        // SAFETY: both descriptors are open, and the event is valid for reading.
        assert_eq!(unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) }, 0);
        self.members.push(Member {
            socket: raw.socket,
            client,
            depth,
            most,
            under_way: 0,
            seq: 100,
            inbox: Vec::new(),
            got: 0,
            ended: false,
        });
    }

    /// Reads for a time.
    pub fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        for member in &mut self.members {
            member.ask(self.truth, self.len);
        }
        while Instant::now() < end {
            // SAFETY: the descriptor is open, and the array has the given length.
            let n = unsafe { libc::epoll_wait(self.poll.as_raw_fd(), events.as_mut_ptr(), 256, 20) };
            for event in &events[..usize::try_from(n).unwrap_or(0)] {
                let member = &mut self.members[event.u64 as usize];
                if !member.ended {
                    member.receive(self.truth, self.len, &mut self.scratch);
                    member.ask(self.truth, self.len);
                }
            }
        }
    }

    /// Bytes of each client since the last call.
    pub fn take_shares(&mut self, clients: usize) -> Vec<f64> {
        let mut shares = vec![0.0; clients];
        for member in &mut self.members {
            shares[member.client] += std::mem::take(&mut member.got) as f64;
        }
        shares
    }
}

impl Member {
    fn place(seq: u32, truth: &[u8], len: u32) -> usize {
        (seq as usize * 4096) % (truth.len() - len as usize)
    }

    fn ask(&mut self, truth: &[u8], len: u32) {
        let mut out = Vec::new();
        while self.under_way < self.depth.min(self.most) {
            self.seq += 1;
            let offset = Self::place(self.seq, truth, len) as u64;
            out.extend(Request { seq: self.seq, len, offset, ..Request::new(Op::Read, 0) }.bytes());
            self.under_way += 1;
        }
        if !out.is_empty() {
            // Requests are small; the kernel has room for those of all credits.
            self.ended |= self.socket.write_all(&out).is_err();
        }
    }

    fn receive(&mut self, truth: &[u8], len: u32, scratch: &mut [u8]) {
        match self.socket.read(scratch) {
            Ok(0) => return self.ended = true,
            Ok(n) => self.inbox.extend_from_slice(&scratch[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(_) => return self.ended = true,
        }
        let mut at = 0;
        while let Some(head) = self.inbox.get(at..).and_then(|rest| rest.first_chunk::<HEAD>()) {
            let reply = Reply::parse(head).unwrap();
            let Some(body) = self.inbox.get(at + HEAD..at + HEAD + reply.len as usize) else { break };
            match reply.state {
                State::Ok => {
                    let place = Self::place(reply.seq, truth, len);
                    assert!(*body == truth[place..place + len as usize], "wrong bytes");
                    self.got += body.len() as u64;
                    self.under_way -= 1;
                }
                State::Granted => self.most = Credits::parse(body).unwrap().requests,
                other => panic!("{other:?}: {}", String::from_utf8_lossy(body)),
            }
            at += HEAD + reply.len as usize;
        }
        self.inbox.drain(..at);
    }
}

/// The folder of a server's process; without it the child's test is none.
const CHILD: &str = "FARFIELD_SERVER_CHILD";

/// A server in a process of its own, whose memory counts alone. It ends with this.
pub struct Apart {
    child: Child,
    pub address: SocketAddr,
}

impl Apart {
    /// `folder` is served as `data`. The tokens are those of [`token`].
    pub fn start(folder: &Path, settings: &str) -> Self {
        let told = folder.with_extension("address");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "page_server::tests::crowd::a_child_that_serves", "--nocapture"]);
        command.env(CHILD, folder).env("FARFIELD_SERVER_SETTINGS", settings).stdout(Stdio::null());
        let mut this = Self { child: command.spawn().unwrap(), address: SocketAddr::from(([0; 4], 0)) };
        super::support::until("the server starts", Duration::from_secs(20), || told.exists());
        this.address = std::fs::read_to_string(&told).unwrap().parse().unwrap();
        let _gone = std::fs::remove_file(&told);
        this
    }

    /// A line of `/proc/PID/status` in bytes.
    pub fn memory(&self, line: &str) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let found = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
        found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<usize>().ok()).unwrap() << 10
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _gone = (self.child.kill(), self.child.wait());
    }
}

/// The token of a client of [`Apart`].
pub fn token(client: usize) -> Token {
    Token::parse(&format!("{client:064x}")).unwrap()
}

/// Its settings are one line: clients, bytes a second (0: no limit), memory limit.
#[test]
fn a_child_that_serves() {
    use super::super::server::{Server, ServerOptions};
    let (Some(folder), Ok(settings)) = (std::env::var_os(CHILD), std::env::var("FARFIELD_SERVER_SETTINGS")) else {
        return;
    };
    // SAFETY: the call takes no pointers. The child ends with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let numbers: Vec<u64> = settings.split(' ').map(|n| n.parse().unwrap()).collect();
    let folder = PathBuf::from(folder);
    let options = ServerOptions {
        tokens: (0..numbers[0] as usize).map(|n| (format!("client{n}"), token(n).hash())).collect(),
        rate: Some(numbers[1]).filter(|rate| *rate > 0),
        memory_limit: numbers[2] as usize,
        max_connections: 4096,
        ..super::support::options(&folder)
    };
    let server = Server::start(options).unwrap();
    let told = folder.with_extension("address");
    std::fs::write(told.with_extension("new"), server.address().to_string()).unwrap();
    std::fs::rename(told.with_extension("new"), told).unwrap();
    std::thread::sleep(Duration::from_secs(300));
}

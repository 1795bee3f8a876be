//! An event loop: connections, their sockets and their clocks. `dispatch` answers what they ask.
//!
//! A loop has its own connections, schedule and part of the memory limit, so loops share counts only. With a limit of
//! the rate there is one loop, whose schedule then sees all clients.

use super::super::wire::{Credits, Reply, State, HEAD, NO_SEQ};
use super::connection::{Connection, Gone, Outgoing, Slot, Stage, SLOWEST};
use super::mailbox::Post;
use super::schedule::Schedule;
use super::shared::ServerShared;
use super::socket;
use pager::place::Place;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are received at once.
const SCRATCH: usize = 64 << 10;
/// Events that are taken at once.
const EVENTS: usize = 256;
/// Time between two looks at the clocks of all connections.
const TICK: Duration = Duration::from_millis(250);
/// Time in which a client may still use credits that have shrunk.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// Bodies of requests that a connection may have waiting. Beyond it the socket is not read.
const MOST_BODIES: usize = 256 << 10;

const BELL: u64 = 0;
const LISTENER: u64 = 1;
const FIRST: u64 = 2;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

/// What a connection may have under way on a server that is not short of anything.
pub(super) const GRANT: Credits = Credits { requests: 512, files: 1024, bytes: 16 << 20 };

/// See the module.
pub(super) struct EventLoop {
    pub(super) shared: Arc<ServerShared>,
    pub(super) number: usize,
    poll: OwnedFd,
    listener: Option<TcpListener>,
    /// Whether the listener is not watched: there are no descriptors.
    paused: bool,
    pub(super) connections: HashMap<u64, Connection>,
    serial: u64,
    next_loop: usize,
    pub(super) schedule: Schedule,
    /// Requests that wait for an origin which takes no more now, and those that it has.
    pub(super) absent: Schedule,
    pub(super) at_origins: usize,
    /// The origin that took no more when it was last asked, and whether such a request is being tried again.
    pub(super) full_origin: Option<Arc<dyn Place>>,
    pub(super) is_pumping: bool,
    /// Bytes of buffers, and the most that are allowed.
    pub(super) held: usize,
    pub(super) memory: usize,
    /// Whether a request waited for memory since the last look.
    pub(super) starved: bool,
    /// Whether memory was freed since requests were last looked at.
    freed: bool,
    grant: Credits,
    /// Connections with replies to write.
    pub(super) dirty: Vec<u64>,
    scratch: Vec<u8>,
    /// The end of a server that stops.
    until: Option<Instant>,
}

impl EventLoop {
    pub(super) fn new(shared: Arc<ServerShared>, number: usize, listener: Option<TcpListener>) -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let this = Self {
            // SAFETY: the call gave this descriptor to the caller alone.
            poll: unsafe { OwnedFd::from_raw_fd(fd) },
            number,
            connections: HashMap::new(),
            serial: FIRST,
            next_loop: 0,
            schedule: Schedule::new(shared.rate, shared.rate_per_client),
            absent: Schedule::new(None, None),
            at_origins: 0,
            full_origin: None,
            is_pumping: false,
            held: 0,
            memory: shared.memory_limit / shared.mailboxes.len(),
            starved: false,
            freed: false,
            grant: GRANT,
            dirty: Vec::new(),
            scratch: vec![0; SCRATCH],
            until: None,
            paused: false,
            listener,
            shared,
        };
        this.watch(libc::EPOLL_CTL_ADD, this.shared.mailboxes[number].descriptor(), IN, BELL)?;
        if let Some(listener) = &this.listener {
            listener.set_nonblocking(true)?;
            this.watch(libc::EPOLL_CTL_ADD, listener.as_raw_fd(), IN, LISTENER)?;
        }
        Ok(this)
    }

    fn watch(&self, what: libc::c_int, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: both descriptors are open, and the event is valid for reading.
        match unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), what, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Serves until the server stops.
    pub(super) fn run(mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let mut ticked = Instant::now();
        let mut wait = Some(TICK);
        while !self.is_over() {
            // Rounded up, so that a short wait is no spin.
            let millis = wait.map_or(0, |wait| wait.min(TICK).as_micros().div_ceil(1000) as libc::c_int);
            let most = EVENTS as libc::c_int;
            // SAFETY: the descriptor is open, and the array has the given length.
            let n = unsafe { libc::epoll_wait(self.poll.as_raw_fd(), events.as_mut_ptr(), most, millis) };
            for event in &events[..usize::try_from(n).unwrap_or(0)] {
                let (token, happened) = (event.u64, event.events);
                match token {
                    BELL => self.letters(),
                    LISTENER => self.accept(),
                    id => {
                        if happened & !OUT != 0 {
                            self.readable(id);
                        }
                        if happened & OUT != 0 {
                            self.flush(id);
                        }
                    }
                }
            }
            self.freed = false;
            wait = self.pump();
            self.flush_dirty();
            if self.freed && self.schedule.waiting() + self.absent.waiting() > 0 {
                wait = None;
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick(ticked);
            }
        }
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.bye();
            }
            self.close(id);
        }
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| {
            Instant::now() >= until || self.connections.values().all(|c| c.owed == 0 && !c.owes_bytes())
        })
    }

    fn letters(&mut self) {
        for letter in self.shared.mailboxes[self.number].take() {
            match letter {
                Post::Accepted(socket, address) => self.serve(socket, address),
                Post::Answered(answered) => self.answered(*answered),
                Post::FromOrigin(letter) => self.came_from_origin(*letter),
                Post::Stop => {
                    self.listener = None;
                    self.until = Some(Instant::now() + self.shared.patience.ending);
                    self.tell_all(State::Ending, &[]);
                }
            }
        }
    }

    fn accept(&mut self) {
        // A part of those that wait, so that the others are served meanwhile.
        for _ in 0..64 {
            let (socket, from) = match self.listener.as_ref().map(TcpListener::accept) {
                Some(Ok(accepted)) => accepted,
                Some(Err(e)) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
                    // It would be ready again at once.
                    return self.pause_listener();
                }
                _ => return,
            };
            let address = from.ip().to_canonical();
            if !self.shared.clients.arrive(address) {
                self.shared.counts.turned_away.fetch_add(1, Relaxed);
                if self.make_room(address) && self.shared.clients.arrive(address) {
                    // It takes the place of the other on this loop, whose supply of such connections then lasts.
                    self.serve(socket, address);
                }
                continue;
            }
            self.next_loop = (self.next_loop + 1) % self.shared.mailboxes.len();
            if self.next_loop == self.number {
                self.serve(socket, address);
            } else {
                self.shared.mailboxes[self.next_loop].post(Post::Accepted(socket, address));
            }
        }
    }

    /// Closes the oldest connection that has not said HELLO, for one from `address`; whether there was any. So whoever
    /// only connects keeps nobody out: a client that goes on says HELLO within a round trip or two.
    fn make_room(&mut self, address: IpAddr) -> bool {
        let of_address = self.shared.clients.is_full_for(address);
        let new = |c: &Connection| matches!(c.stage, Stage::Handshake | Stage::Hello);
        let candidates = self.connections.iter().filter(|(_, c)| new(c) && (!of_address || c.address == address));
        // Numbers rise.
        let oldest = candidates.map(|(id, _)| *id).min();
        oldest.inspect(|id| self.close(*id)).is_some()
    }

    /// Leaves those that want to connect in the kernel until the next look at the clocks.
    fn pause_listener(&mut self) {
        if let Some(listener) = &self.listener {
            self.paused = self.watch(libc::EPOLL_CTL_DEL, listener.as_raw_fd(), IN, LISTENER).is_ok();
        }
    }

    fn serve(&mut self, socket: TcpStream, address: IpAddr) {
        let tls = self.shared.tls.clone().map(rustls::ServerConnection::new).transpose();
        let (Ok(tls), Ok(())) = (tls, socket::prepare(&socket, self.shared.rate)) else {
            return self.shared.clients.leave(address, None);
        };
        self.shared.counts.set_congestion(socket::congestion(&socket));
        let id = self.serial;
        self.serial += 1;
        let mut connection = Connection::new(socket, address, tls, self.grant);
        connection.watched = IN;
        if self.watch(libc::EPOLL_CTL_ADD, connection.socket.as_raw_fd(), IN, id).is_err() {
            return self.shared.clients.leave(address, None);
        }
        self.connections.insert(id, connection);
    }

    fn readable(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.receive(&mut self.scratch) {
            Ok(_) => {
                // A handshake has bytes to send.
                if connection.owes_bytes() {
                    self.dirty.push(id);
                }
                self.requests(id);
                self.rewatch(id);
            }
            Err(Gone) => self.close(id),
        }
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (mut freed, mut answered, mut bytes) = (0, Vec::new(), 0);
        let result = connection.flush(|reply| {
            freed += reply.body.capacity();
            bytes += (HEAD + reply.body.len()) as u64;
            answered.extend(reply.answers);
        });
        self.held -= freed;
        self.freed |= freed > 0;
        self.shared.counts.held.fetch_sub(freed as u64, Relaxed);
        self.shared.counts.bytes.fetch_add(bytes, Relaxed);
        if let Some(client) = &connection.client {
            client.bytes.fetch_add(bytes, Relaxed);
            client.requests.fetch_add(answered.len() as u64, Relaxed);
            client.under_way.fetch_sub(answered.len() as u64, Relaxed);
        }
        connection.owed -= answered.len() as u32;
        connection.owed_bytes -= answered.iter().map(|len| u64::from(*len)).sum::<u64>();
        let over = connection.stage == Stage::Ending && !connection.owes_bytes();
        let open = !connection.blocked;
        if result.is_err() || over {
            if over {
                connection.bye();
            }
            return self.close(id);
        }
        self.schedule.set_open(id, open);
        self.absent.set_open(id, open);
        self.rewatch(id);
    }

    fn flush_dirty(&mut self) {
        for id in std::mem::take(&mut self.dirty) {
            if self.connections.get(&id).is_some_and(|connection| connection.owes_bytes() && !connection.blocked) {
                self.flush(id);
            }
        }
    }

    /// Watches what the state of a connection needs.
    fn rewatch(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let full = connection.owed_bodies > 0 && self.held >= self.memory;
        let reads = connection.stage != Stage::Ending && connection.owed_bodies < MOST_BODIES && !full;
        let wanted = if reads { IN } else { 0 } | if connection.blocked { OUT } else { 0 };
        if wanted == connection.watched {
            return;
        }
        let watched = self.watch(libc::EPOLL_CTL_MOD, connection.socket.as_raw_fd(), wanted, id);
        match (watched, self.connections.get_mut(&id)) {
            (Ok(()), Some(connection)) => {
                if reads && connection.watched & IN == 0 {
                    // The rest of a request could not come before.
                    connection.partial = connection.partial.map(|_| Instant::now());
                }
                connection.watched = wanted;
            }
            _ => self.close(id),
        }
    }

    /// A request of a connection is no longer held with its body.
    pub(super) fn body_done(&mut self, id: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.owed_bodies -= bytes;
            self.rewatch(id);
        }
    }

    /// Counts bytes that came against the memory.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.held += bytes;
        self.shared.counts.held.fetch_add(bytes as u64, Relaxed);
    }

    /// Such bytes are held no longer.
    pub(super) fn release(&mut self, bytes: usize) {
        self.held -= bytes;
        self.freed |= bytes > 0;
        self.shared.counts.held.fetch_sub(bytes as u64, Relaxed);
    }

    /// Queues a reply.
    pub(super) fn push(&mut self, id: u64, reply: Outgoing) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        self.held += reply.body.capacity();
        self.shared.counts.held.fetch_add(reply.body.capacity() as u64, Relaxed);
        connection.push(reply);
        self.dirty.push(id);
        if connection.out_bytes >= SCRATCH * 4 && !connection.blocked {
            self.flush(id);
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, id: u64) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        if let Some(client) = &connection.client {
            client.under_way.fetch_sub(connection.owed.into(), Relaxed);
        }
        let staged = self.schedule.remove(id);
        self.release(staged);
        self.absent.remove(id);
        let freed: usize = connection.drain().map(|reply| reply.body.capacity()).sum();
        self.held -= freed;
        self.freed |= freed > 0;
        self.shared.counts.held.fetch_sub(freed as u64, Relaxed);
        self.shared.clients.leave(connection.address, connection.client.as_ref());
    }

    /// Says something to all clients that no request asked for.
    fn tell_all(&mut self, state: State, body: &[u8]) {
        let ready: Vec<u64> =
            self.connections.iter().filter(|(_, c)| c.stage == Stage::Ready).map(|(id, _)| *id).collect();
        for id in ready {
            let head = Reply::new(NO_SEQ, state, body.len()).sealed(0, [body]);
            self.push(id, Outgoing { head, body: body.to_vec(), written: 0, answers: None });
        }
    }

    /// Closes what was slow or idle, and grants less where memory is short.
    fn tick(&mut self, now: Instant) {
        if let Some(listener) = self.listener.as_ref().filter(|_| self.paused) {
            self.paused = self.watch(libc::EPOLL_CTL_ADD, listener.as_raw_fd(), IN, LISTENER).is_err();
        }
        let patience = self.shared.patience;
        let slow = |c: &Connection| {
            let waits = |since: Instant, most: Duration| now.saturating_duration_since(since) > most;
            let unread = c.owes_bytes() && waits(c.took, patience.reply) || c.is_overdue(now, patience.reply);
            // What has come of a long request buys time for its rest.
            let more = Duration::from_secs_f64(c.inbox.len() as f64 / SLOWEST);
            let watched = c.watched & IN != 0;
            let partial = c.partial.is_some_and(|since| watched && waits(since, patience.hello + more));
            unread
                || partial
                || match c.stage {
                    Stage::Handshake => waits(c.since, patience.handshake),
                    Stage::Hello => waits(c.since, patience.hello),
                    Stage::Ready => c.owed == 0 && waits(c.heard.max(c.took), patience.idle),
                    Stage::Ending => waits(c.since, patience.hello),
                }
        };
        let slow: Vec<u64> = self.connections.iter().filter(|(_, c)| slow(c)).map(|(id, _)| *id).collect();
        self.shared.counts.slow.fetch_add(slow.len() as u64, Relaxed);
        slow.into_iter().for_each(|id| self.close(id));

        let before = self.grant;
        let scale =
            |up: bool, value: u64, least: u64, most: u64| if up { value * 2 } else { value / 2 }.clamp(least, most);
        let up = !std::mem::take(&mut self.starved);
        self.grant.requests = scale(up, before.requests.into(), 8, GRANT.requests.into()) as u32;
        self.grant.bytes = scale(up, before.bytes, super::super::wire::MOST_READ as u64, GRANT.bytes);
        if self.grant != before {
            for connection in self.connections.values_mut() {
                let before = connection.granted_before.filter(|(_, at)| now.saturating_duration_since(*at) < GRACE);
                let most = before.map_or(connection.credits, |(before, _)| before);
                connection.granted_before = Some((most, if up { before.map_or(now, |(_, at)| at) } else { now }));
                connection.credits = self.grant;
            }
            self.shared.grants[self.number].store(self.grant.requests, Relaxed);
            let body = self.grant.bytes();
            self.tell_all(State::Granted, &body);
        }
    }

    /// The slot of a file's number.
    pub(super) fn slot(&mut self, id: u64, number: u32) -> Option<&mut Option<Slot>> {
        let connection = self.connections.get_mut(&id)?;
        let number = number as usize;
        if number >= GRANT.files as usize {
            return None;
        }
        if connection.files.len() <= number {
            connection.files.resize_with(number + 1, || None);
        }
        connection.files.get_mut(number)
    }
}

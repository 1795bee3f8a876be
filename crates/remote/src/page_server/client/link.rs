//! One connection, and its requests without an answer.

use super::super::wire::{seed, Credits, Op, Request, State};
use super::ask::Ask;
use super::files::{LinkFiles, Opened, OpenedFile};
use super::stream::Stream;
use pager::PageErrorKind;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a reply answers.
pub(super) enum Waiting {
    /// OPEN of a number.
    Open(u32),
    /// PING.
    Ping,
    /// A read or question, with the number of its file.
    Ask(Ask, Option<u32>),
}

/// A request that is not answered.
pub(super) struct Pending {
    pub(super) waiting: Waiting,
    pub(super) seed: u32,
    pub(super) sent: Instant,
}

struct LinkState {
    stream: Option<Arc<Stream>>,
    waiting: HashMap<u32, Pending>,
    seq: u32,
    files: LinkFiles,
    out: Vec<u8>,
    closed: Option<String>,
    /// Bytes of requests that the socket did not take.
    stuck: bool,
}

/// See the module.
pub(super) struct ServerLink {
    pub(super) id: u64,
    state: Mutex<LinkState>,
    /// Asks that were assigned to it, and their bytes.
    pub(super) owed: AtomicU32,
    pub(super) owed_bytes: AtomicU64,
    most: AtomicU32,
    most_bytes: AtomicU64,
    /// Whether HELLO was answered, and the server has not said that it ends.
    pub(super) up: AtomicBool,
    /// Whether it has answered anything after HELLO.
    pub(super) answered: AtomicBool,
    /// Since the begin: the last byte that came, or the last time that it began to owe.
    begin: Instant,
    heard: AtomicU64,
    pinged: AtomicBool,
}

impl ServerLink {
    pub(super) fn new(id: u64) -> Self {
        let state = LinkState {
            stream: None,
            waiting: HashMap::new(),
            seq: 0,
            files: LinkFiles::new(1),
            out: Vec::new(),
            closed: None,
            stuck: false,
        };
        Self {
            id,
            state: Mutex::new(state),
            owed: AtomicU32::new(0),
            owed_bytes: AtomicU64::new(0),
            most: AtomicU32::new(0),
            most_bytes: AtomicU64::new(0),
            up: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            begin: Instant::now(),
            heard: AtomicU64::new(0),
            pinged: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its socket, so that it can be ended from elsewhere.
    pub(super) fn set_stream(&self, stream: &Arc<Stream>) {
        let mut state = self.state();
        state.stream = Some(stream.clone());
        if state.closed.is_some() {
            stream.shut();
        }
    }

    /// HELLO was answered.
    pub(super) fn set_up(&self, credits: &Credits) {
        self.state().files = LinkFiles::new(credits.files);
        self.set_credits(credits);
        self.hear();
        self.up.store(true, Relaxed);
    }

    /// Sets the most that it may owe. Each ask may need an OPEN, so asks are half of the requests, and some are left for PING.
    pub(super) fn set_credits(&self, credits: &Credits) {
        self.most.store((credits.requests / 2).saturating_sub(2).max(1), Relaxed);
        self.most_bytes.store(credits.bytes, Relaxed);
    }

    /// Whether it can take an ask of so many bytes.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let (owed, owed_bytes) = (self.owed.load(Relaxed), self.owed_bytes.load(Relaxed));
        self.up.load(Relaxed)
            && owed < self.most.load(Relaxed)
            && (owed == 0 || owed_bytes + bytes <= self.most_bytes.load(Relaxed))
    }

    /// Counts an ask that is assigned to it.
    pub(super) fn assign(&self, bytes: u64) {
        if self.owed.fetch_add(1, Relaxed) == 0 {
            self.hear();
        }
        self.owed_bytes.fetch_add(bytes, Relaxed);
    }

    /// An assigned ask is no longer owed.
    pub(super) fn unassign(&self, bytes: u64) {
        self.owed.fetch_sub(1, Relaxed);
        self.owed_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Bytes came.
    pub(super) fn hear(&self) {
        self.heard.store(self.begin.elapsed().as_micros() as u64, Relaxed);
        self.pinged.store(false, Relaxed);
    }

    /// Time without a byte.
    pub(super) fn silent(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_micros(self.heard.load(Relaxed)))
    }

    /// Sends assigned asks. Returns those that it cannot send: it is closed.
    pub(super) fn send(&self, asks: Vec<Ask>) -> Vec<Ask> {
        let mut state = self.state();
        let Some(stream) = state.stream.clone().filter(|_| state.closed.is_none()) else { return asks };
        let mut left = Vec::new();
        let now = Instant::now();
        for mut ask in asks {
            let number = match ask.name() {
                None => None,
                Some(name) => match state.files.take(name) {
                    Some((number, true)) => {
                        let mut open = Request::new(Op::Open, 0);
                        (open.file, open.body) = (number, name.len() as u32);
                        let name = name.as_bytes().to_vec();
                        state.put(open, &name, Waiting::Open(number), now);
                        Some(number)
                    }
                    Some((number, false)) => Some(number),
                    None => {
                        left.push(ask);
                        continue;
                    }
                },
            };
            let (request, body) = ask.request(0, number.unwrap_or(0));
            ask.tries += 1;
            state.put(request, &body, Waiting::Ask(ask, number), now);
        }
        state.flush(&stream);
        left
    }

    /// Asks whether the server is there, once for each silence.
    pub(super) fn ping(&self) {
        if self.pinged.swap(true, Relaxed) {
            return;
        }
        let mut state = self.state();
        if let Some(stream) = state.stream.clone().filter(|_| state.closed.is_none()) {
            state.put(Request::new(Op::Ping, 0), &[], Waiting::Ping, Instant::now());
            state.flush(&stream);
        }
    }

    /// Sends what the socket did not take before. Whether something is left.
    pub(super) fn push_stuck(&self) -> bool {
        let mut state = self.state();
        if let Some(stream) = state.stream.clone().filter(|_| state.stuck) {
            state.flush(&stream);
        }
        state.stuck
    }

    /// The request that a reply answers.
    pub(super) fn take(&self, seq: u32) -> Option<Pending> {
        self.state().waiting.remove(&seq)
    }

    /// OPEN was answered.
    pub(super) fn opened(&self, number: u32, result: Result<OpenedFile, PageErrorKind>) {
        self.state().files.opened(number, result);
    }

    /// A read ended: what is known of its file. `forget`: the next read opens it again.
    pub(super) fn read_done(&self, number: Option<u32>, forget: bool) -> Opened {
        let number = number?;
        let mut state = self.state();
        if forget {
            state.files.forget(number);
        }
        state.files.done(number)
    }

    /// The next read of a number's file opens it again.
    pub(super) fn forget(&self, number: Option<u32>) {
        if let Some(number) = number {
            self.state().files.forget(number);
        }
    }

    /// The first request that is not answered: when it was asked for, and whether a task waits for any.
    pub(super) fn oldest(&self) -> (Option<Instant>, bool) {
        let state = self.state();
        let asks = state.waiting.values().filter_map(|p| match &p.waiting {
            Waiting::Ask(ask, _) => Some(ask),
            _ => None,
        });
        asks.fold((None, false), |(oldest, demand): (Option<Instant>, bool), ask| {
            let is_demand = ask.urgency() == super::super::wire::Urgency::Demand;
            (Some(oldest.map_or(ask.begun, |o| o.min(ask.begun))), demand | is_demand)
        })
    }

    /// Ends it: the thread that receives returns, with this reason.
    pub(super) fn end(&self, why: &str) {
        self.up.store(false, Relaxed);
        let mut state = self.state();
        state.closed.get_or_insert_with(|| why.to_owned());
        if let Some(stream) = &state.stream {
            stream.shut();
        }
    }

    /// Takes what is not answered, and the reason why it was ended from elsewhere.
    pub(super) fn close(&self) -> (Vec<Ask>, Option<String>) {
        self.end("closed");
        let mut state = self.state();
        let asks = state.waiting.drain().filter_map(|(_, pending)| match pending.waiting {
            Waiting::Ask(ask, _) => Some(ask),
            _ => None,
        });
        let asks: Vec<Ask> = asks.collect();
        let why = state.closed.clone().filter(|why| why != "closed");
        asks.iter().for_each(|ask| self.unassign(ask.bytes));
        (asks, why)
    }
}

impl LinkState {
    /// Adds a request to what goes out.
    fn put(&mut self, mut request: Request, body: &[u8], waiting: Waiting, sent: Instant) {
        loop {
            self.seq = self.seq.wrapping_add(1);
            if self.seq != super::super::wire::NO_SEQ && !self.waiting.contains_key(&self.seq) {
                break;
            }
        }
        request.seq = self.seq;
        let head = request.bytes();
        self.out.extend(head);
        self.out.extend(body);
        self.waiting.insert(self.seq, Pending { waiting, seed: seed(&head, body), sent });
    }

    fn flush(&mut self, stream: &Stream) {
        match stream.send(&mut self.out) {
            Ok(all) => self.stuck = !all,
            // The thread that receives sees the end, too.
            Err(_) => stream.shut(),
        }
    }
}

/// What a state other than done means for a read that begins at `begin`.
pub(super) fn error_of(state: State, server: &str, message: &[u8]) -> PageErrorKind {
    let server = || server.to_owned();
    let message = || String::from_utf8_lossy(&message[..message.len().min(1000)]).into_owned();
    match state {
        State::Missing => PageErrorKind::Missing,
        State::Link => {
            PageErrorKind::Denied("it is a symbolic link, or below one, which the server never follows".into())
        }
        State::NotFile => PageErrorKind::Io("it is no regular file".into()),
        State::Denied => PageErrorKind::Denied("the server has no permission to read it".into()),
        State::BadName => PageErrorKind::Denied("the name leads outside of what is served".into()),
        State::Unauthorized => PageErrorKind::Unauthorized { server: server(), message: message() },
        State::Io => PageErrorKind::Io(format!("{} could not read it", server())),
        // A read has its own answer for this.
        State::Short => PageErrorKind::Decode("the file ends before what its index names".into()),
        // Who asked knows how many.
        State::TooMany => PageErrorKind::TooMany { most: 0 },
        State::Late => {
            PageErrorKind::TimedOut { server: server(), tried: "once".into(), last: "its deadline passed".into() }
        }
        State::OriginFailed => {
            let said = if message().is_empty() { "it failed".to_owned() } else { message() };
            PageErrorKind::Unreachable {
                server: format!("the origin of {}", server()),
                tried: "asked by it".into(),
                last: said,
            }
        }
        State::Unsupported => PageErrorKind::Unsupported(message()),
        State::BadRequest => PageErrorKind::Protocol { server: server(), message: message() },
        other => PageErrorKind::Protocol { server: server(), message: format!("it answered {other:?}") },
    }
}

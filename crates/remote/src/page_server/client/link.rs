//! One connection, and its requests without an answer.

use super::super::wire::{seed, Credits, Op, Request, State};
use super::ask::Ask;
use super::files::{LinkFiles, Opened, OpenedFile};
use super::stream::Stream;
use pager::source::{Completion, ReadStep};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a reply answers.
pub(super) enum Waiting {
    /// OPEN of a number.
    Open(u32),
    /// Nothing: of PING, PROMOTE and CANCEL.
    Nothing,
    /// A read or question, with the number of its file.
    Ask(Ask, Option<u32>),
    /// A read that was withdrawn: its bytes, and the number of its file.
    Withdrawn(u64, Option<u32>),
}

/// Spreads sequence numbers, which follow each other.
#[derive(Default)]
pub(super) struct SeqHasher(u64);

impl Hasher for SeqHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }
    fn write_u32(&mut self, seq: u32) {
        self.0 = (self.0 ^ u64::from(seq)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// A request that is not answered.
pub(super) struct Pending {
    pub(super) waiting: Waiting,
    pub(super) seed: u32,
    pub(super) sent: Instant,
}

/// The token of the read whose reply comes now, and the address of its completion.
type Receiving = (u64, *const ());

struct LinkState {
    stream: Option<Arc<Stream>>,
    waiting: HashMap<u32, Pending, BuildHasherDefault<SeqHasher>>,
    receiving: Option<Receiving>,
    seq: u32,
    files: LinkFiles,
    out: Vec<u8>,
    closed: Option<String>,
    /// Bytes of requests that the socket did not take.
    stuck: bool,
    /// Whether a thread sends. It sends what others add meanwhile, too.
    sending: bool,
}

// SAFETY: the address of `Receiving` is compared and never followed.
unsafe impl Send for LinkState {}

/// See the module.
pub(super) struct ServerLink {
    pub(super) id: u64,
    state: Mutex<LinkState>,
    /// Asks that were assigned to it, and their bytes.
    pub(super) owed: AtomicU32,
    pub(super) owed_bytes: AtomicU64,
    most: AtomicU32,
    /// Requests of any kind that it may owe.
    most_requests: AtomicU32,
    most_bytes: AtomicU64,
    /// Whether HELLO was answered, and the server has not said that it ends.
    pub(super) up: AtomicBool,
    /// Whether it has answered anything after HELLO.
    pub(super) answered: AtomicBool,
    /// Since the begin: the last byte that came, or the last time that it began to owe.
    begin: Instant,
    heard: AtomicU64,
    pinged: AtomicBool,
    /// Microseconds that it took to connect, until they were told; then 0.
    took_us: AtomicU64,
}

impl ServerLink {
    pub(super) fn new(id: u64) -> Self {
        let state = LinkState {
            stream: None,
            waiting: HashMap::default(),
            receiving: None,
            seq: 0,
            files: LinkFiles::new(1),
            out: Vec::new(),
            closed: None,
            stuck: false,
            sending: false,
        };
        Self {
            id,
            state: Mutex::new(state),
            owed: AtomicU32::new(0),
            owed_bytes: AtomicU64::new(0),
            most: AtomicU32::new(0),
            most_requests: AtomicU32::new(0),
            most_bytes: AtomicU64::new(0),
            up: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            begin: Instant::now(),
            heard: AtomicU64::new(0),
            pinged: AtomicBool::new(false),
            took_us: AtomicU64::new(0),
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
        self.took_us.store((self.begin.elapsed().as_micros() as u64).max(1), Relaxed);
        self.hear();
        self.up.store(true, Relaxed);
    }

    /// Sets the most that it may owe. Each ask may need an OPEN, so asks are half of the requests, and some are left for PING.
    pub(super) fn set_credits(&self, credits: &Credits) {
        self.most.store((credits.requests / 2).saturating_sub(2).max(1), Relaxed);
        self.most_requests.store(credits.requests, Relaxed);
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
    pub(super) fn send(&self, asks: Vec<Ask>, server: &str) -> Vec<Ask> {
        let took_us = self.took_us.swap(0, Relaxed);
        if let Some(ask) = asks.first().filter(|_| took_us > 0) {
            ask.note(server, self.id, ReadStep::Connected { took_us });
        }
        asks.iter().for_each(|ask| ask.note(server, self.id, ReadStep::Sent));
        let mut state = self.state();
        if state.stream.is_none() || state.closed.is_some() {
            return asks;
        }
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
        self.flush(state);
        left
    }

    /// Sends what waits, and what other threads add meanwhile.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, LinkState>) {
        let Some(stream) = state.stream.clone() else { return };
        if state.sending || state.out.is_empty() && !state.stuck {
            return;
        }
        state.sending = true;
        let mut out = Vec::new();
        loop {
            std::mem::swap(&mut out, &mut state.out);
            drop(state);
            let sent = stream.send(&mut out);
            state = self.state();
            match sent {
                Ok(true) if state.out.is_empty() => {
                    // Its memory serves again.
                    state.out = out;
                    state.stuck = false;
                    break;
                }
                Ok(true) => {}
                Ok(false) => {
                    out.append(&mut state.out);
                    state.out = out;
                    state.stuck = true;
                    break;
                }
                // The thread that receives sees the end, too.
                Err(_) => {
                    stream.shut();
                    break;
                }
            }
        }
        state.sending = false;
    }

    /// A task waits now for some of these reads.
    pub(super) fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut state = self.state();
        let mut promoted = Vec::new();
        for (seq, pending) in &mut state.waiting {
            if let Waiting::Ask(ask, _) = &mut pending.waiting {
                if ask.is_of(tokens, done) && ask.promote() {
                    promoted.push(*seq);
                }
            }
        }
        self.tell(state, Op::Promote, &promoted);
    }

    /// Nobody waits for these reads any more. Returns those that were given up here. One whose reply has stopped half
    /// way for `pause` ends the connection.
    pub(super) fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>, pause: Duration) -> Vec<Ask> {
        let mut state = self.state();
        let mut withdrawn = Vec::new();
        let mut seqs = Vec::new();
        for (seq, pending) in &mut state.waiting {
            let Waiting::Ask(ask, number) = &pending.waiting else { continue };
            if ask.is_of(tokens, done) {
                let nothing = Waiting::Withdrawn(ask.bytes, *number);
                if let Waiting::Ask(ask, _) = std::mem::replace(&mut pending.waiting, nothing) {
                    withdrawn.push(ask);
                    seqs.push(*seq);
                }
            }
        }
        let stops = state.receiving.is_some_and(|(token, of)| {
            tokens.contains(&token) && std::ptr::addr_eq(of, Arc::as_ptr(done)) && self.silent() >= pause
        });
        self.tell(state, Op::Cancel, &seqs);
        if stops {
            self.end("a reply that nobody waits for stopped half way");
        }
        withdrawn
    }

    /// Sends a request about each of these requests, as far as the server takes more of them.
    fn tell(&self, mut state: MutexGuard<'_, LinkState>, op: Op, about: &[u32]) {
        if state.stream.is_none() || state.closed.is_some() {
            return;
        }
        let now = Instant::now();
        let most = self.most_requests.load(Relaxed).saturating_sub(4) as usize;
        for seq in about {
            if state.waiting.len() >= most {
                break;
            }
            let request = Request { file: *seq, ..Request::new(op, 0) };
            state.put(request, &[], Waiting::Nothing, now);
        }
        self.flush(state);
    }

    /// Asks whether the server is there, once for each silence.
    pub(super) fn ping(&self) {
        if self.pinged.swap(true, Relaxed) {
            return;
        }
        let mut state = self.state();
        if state.stream.is_some() && state.closed.is_none() {
            state.put(Request::new(Op::Ping, 0), &[], Waiting::Nothing, Instant::now());
            self.flush(state);
        }
    }

    /// Sends what the socket did not take before. Whether something is left.
    pub(super) fn push_stuck(&self) -> bool {
        let state = self.state();
        if !state.stuck {
            return false;
        }
        self.flush(state);
        self.state().stuck
    }

    /// The request that a reply answers.
    pub(super) fn take(&self, seq: u32) -> Option<Pending> {
        let mut state = self.state();
        let pending = state.waiting.remove(&seq);
        state.receiving = pending.as_ref().and_then(|pending| match &pending.waiting {
            Waiting::Ask(ask, _) => ask.whole().map(|(token, done)| (token, Arc::as_ptr(done).cast())),
            _ => None,
        });
        pending
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

    /// Takes what is not answered, the bytes of withdrawn reads, and the reason why it was ended from elsewhere.
    pub(super) fn close(&self) -> (Vec<Ask>, Vec<u64>, Option<String>) {
        self.end("closed");
        let mut state = self.state();
        let (mut asks, mut withdrawn) = (Vec::new(), Vec::new());
        for (_, pending) in state.waiting.drain() {
            match pending.waiting {
                Waiting::Ask(ask, _) => asks.push(ask),
                Waiting::Withdrawn(bytes, _) => withdrawn.push(bytes),
                Waiting::Open(_) | Waiting::Nothing => {}
            }
        }
        state.receiving = None;
        let why = state.closed.clone().filter(|why| why != "closed");
        asks.iter().map(|ask| ask.bytes).chain(withdrawn.iter().copied()).for_each(|bytes| self.unassign(bytes));
        (asks, withdrawn, why)
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
            let said = if message().is_empty() {
                "it failed; at that server, farfield doctor says why".to_owned()
            } else {
                message()
            };
            PageErrorKind::Unreachable {
                server: format!("the origin of {}", server()),
                tried: "asked by it".into(),
                last: said,
            }
        }
        State::Unsupported => PageErrorKind::Unsupported(message()),
        State::BadRequest => PageErrorKind::Protocol { server: server(), message: message() },
        // Who stages tells them apart.
        State::Full => PageErrorKind::Exhausted(message()),
        State::Unfit => PageErrorKind::Decode(message()),
        other => PageErrorKind::Protocol { server: server(), message: format!("it answered {other:?}") },
    }
}

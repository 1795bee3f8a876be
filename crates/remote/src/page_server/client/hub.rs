//! The connections of a server, and the asks that wait for them.

use super::super::wire::Urgency;
use super::address::ServerAddress;
use super::ask::Ask;
use super::connect;
use super::credentials::Credentials;
use super::keeper;
use super::link::ServerLink;
use super::options::ClientOptions;
use super::receive::{Finish, LinkError, Receiver, ReplyOutcome};
use super::stream::Stream;
use super::traffic::Traffic;
use pager::source::{Completion, ReadStep};
use pager::PageErrorKind;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A thread that receives completes reads: bookkeeping of the pager, and a handshake before.
const STACK_BYTES: usize = 256 << 10;
/// Pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time after which a server that was gone is asked again: the pager forgets failures of servers after as long.
const OUTAGE: Duration = Duration::from_secs(5);
/// Time without a byte, within a reply that nobody waits for, after which its connection ends.
const MOST_PAUSE: Duration = Duration::from_millis(200);
/// Wrong replies to one ask after which the server is not believed.
const MOST_FAULTS: u32 = 2;

pub(super) struct HubState {
    queues: [VecDeque<Ask>; 2],
    pub(super) links: Vec<Arc<ServerLink>>,
    serial: u64,
    /// Attempts that failed, one after another, and when the next may begin.
    failures: u32,
    pub(super) next_try: Option<Instant>,
    /// Whether the server was ever reached.
    reached: bool,
    last: Option<LinkError>,
    /// When a read last ended because the server was gone, and its error. The reads of a run come in rounds: for a
    /// while those that follow end at once, where each round would wait the whole deadline.
    gone: Option<(Instant, PageErrorKind)>,
    random: u64,
    pub(super) closed: bool,
    pub(super) keeper: bool,
}

/// See the module.
pub(super) struct Hub {
    pub(super) address: ServerAddress,
    pub(super) server: String,
    credentials: Credentials,
    pub(super) options: ClientOptions,
    pub(super) traffic: Traffic,
    state: Mutex<HubState>,
    /// Wakes the keeper.
    pub(super) bell: Condvar,
    /// Whether the keeper sleeps until something is asked.
    pub(super) asleep: AtomicBool,
    queued: AtomicUsize,
}

impl Hub {
    pub(super) fn new(address: ServerAddress, credentials: Credentials, options: ClientOptions) -> Arc<Self> {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1) | 1;
        let state = HubState {
            queues: Default::default(),
            links: Vec::new(),
            serial: 0,
            failures: 0,
            next_try: None,
            reached: false,
            last: None,
            gone: None,
            random,
            closed: false,
            keeper: false,
        };
        Arc::new(Self {
            server: address.to_string(),
            address,
            credentials,
            options,
            traffic: Traffic::new(),
            state: Mutex::new(state),
            bell: Condvar::new(),
            asleep: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts asks.
    pub(super) fn submit(self: &Arc<Self>, asks: Vec<Ask>) {
        let mut state = self.state();
        if state.closed {
            drop(state);
            return asks.into_iter().for_each(|ask| ask.fail(self.closed_error()));
        }
        let gone = state.gone.as_ref().filter(|(at, _)| at.elapsed() < OUTAGE);
        if let Some(kind) = gone.map(|(_, kind)| kind.clone()) {
            drop(state);
            return asks.into_iter().for_each(|ask| ask.fail(kind.clone()));
        }
        for ask in asks {
            self.traffic.begin(ask.bytes);
            state.queues[ask.urgency() as usize].push_back(ask);
            self.queued.fetch_add(1, Relaxed);
        }
        if !state.keeper {
            state.keeper = keeper::start(self);
        }
        drop(state);
        if self.asleep.load(Relaxed) {
            self.bell.notify_all();
        }
        self.pump();
    }

    /// Gives waiting asks to connections, and makes those that are wanted.
    pub(super) fn pump(self: &Arc<Self>) {
        let mut batches: Vec<(Arc<ServerLink>, Vec<Ask>)> = Vec::new();
        let mut state = self.state();
        if state.closed {
            return;
        }
        let HubState { queues, links, .. } = &mut *state;
        for queue in queues {
            while let Some(ask) = queue.front() {
                let with_room = links.iter().filter(|link| link.has_room(ask.bytes));
                let elsewhere = |link: &&Arc<ServerLink>| (link.id == ask.not_on, link.owed_bytes.load(Relaxed));
                let Some(link) = with_room.min_by_key(elsewhere).cloned() else { break };
                let Some(ask) = queue.pop_front() else { break };
                link.assign(ask.bytes);
                self.queued.fetch_sub(1, Relaxed);
                match batches.iter_mut().find(|(known, _)| known.id == link.id) {
                    Some((_, batch)) => batch.push(ask),
                    None => batches.push((link, vec![ask])),
                }
            }
        }
        let busy = self.queued.load(Relaxed) > 0 || !batches.is_empty();
        // A connection that ends still has its thread, and takes nothing.
        let alive = state.links.iter().filter(|link| link.up.load(Relaxed) || !link.answered.load(Relaxed)).count();
        let wanted = self.traffic.links().clamp(1, self.options.connections.max(1));
        let may = state.next_try.is_none_or(|next| Instant::now() >= next);
        if busy && alive < wanted && may {
            self.start_link(&mut state);
        }
        drop(state);
        for (link, batch) in batches {
            let left = link.send(batch, &self.server);
            if !left.is_empty() {
                left.iter().for_each(|ask| link.unassign(ask.bytes));
                self.put_back(left);
            }
        }
    }

    /// A task waits now for these reads.
    pub(super) fn promote(self: &Arc<Self>, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut state = self.state();
        let [demands, prefetches] = &mut state.queues;
        let (mut promoted, others): (VecDeque<Ask>, VecDeque<Ask>) =
            std::mem::take(prefetches).into_iter().partition(|ask| ask.is_of(tokens, done));
        *prefetches = others;
        for ask in &mut promoted {
            ask.promote();
        }
        let moved = !promoted.is_empty();
        demands.append(&mut promoted);
        let links = state.links.clone();
        drop(state);
        links.iter().for_each(|link| link.promote(tokens, done));
        if moved {
            self.pump();
        }
    }

    /// Nobody waits for these reads any more.
    pub(super) fn withdraw(self: &Arc<Self>, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut state = self.state();
        let mut queued = Vec::new();
        for queue in &mut state.queues {
            let all = std::mem::take(queue).into_iter();
            let (withdrawn, others) = all.partition::<VecDeque<Ask>, _>(|ask| ask.is_of(tokens, done));
            *queue = others;
            queued.extend(withdrawn);
        }
        self.queued.fetch_sub(queued.len(), Relaxed);
        let links = state.links.clone();
        drop(state);
        let mut sent = Vec::new();
        for link in links {
            let (rtt, ..) = self.traffic.state();
            let withdrawn = link.withdraw(tokens, done, MOST_PAUSE.max(rtt * 3));
            withdrawn.iter().for_each(|ask| ask.note(&self.server, link.id, ReadStep::Withdrawn));
            sent.extend(withdrawn);
        }
        // The bytes of those that were sent are still under way.
        queued.iter().for_each(|ask| self.traffic.end(ask.bytes));
        queued.into_iter().chain(sent).for_each(|ask| ask.fail(PageErrorKind::Withdrawn));
    }

    fn put_back(&self, asks: Vec<Ask>) {
        let mut state = self.state();
        if state.closed {
            drop(state);
            return asks.into_iter().for_each(|ask| self.fail(ask, self.closed_error()));
        }
        for ask in asks.into_iter().rev() {
            state.queues[ask.urgency() as usize].push_front(ask);
            self.queued.fetch_add(1, Relaxed);
        }
    }

    fn start_link(self: &Arc<Self>, state: &mut HubState) {
        state.serial += 1;
        let link = Arc::new(ServerLink::new(state.serial));
        // One at a time; the next attempt follows the end of this one.
        state.next_try = Some(Instant::now() + self.options.connect * 2);
        let (hub, of_thread) = (self.clone(), link.clone());
        let builder = std::thread::Builder::new().name("farfield-receive".into()).stack_size(STACK_BYTES);
        match builder.spawn(move || hub.run_link(&of_thread)) {
            Ok(_) => state.links.push(link),
            Err(e) => self.note_failure(state, LinkError::Lost(format!("no thread: {e}"))),
        }
    }

    /// The life of a connection.
    fn run_link(self: &Arc<Self>, link: &Arc<ServerLink>) {
        let error = match connect::connect(link, &self.address, &self.credentials, &self.options) {
            Err(error) => error,
            Ok((stream, credits)) => {
                link.set_up(&credits);
                let mut state = self.state();
                (state.reached, state.next_try, state.gone) = (true, None, None);
                drop(state);
                self.pump();
                let mut receiver = Receiver::new(&stream, link, &self.server);
                let error = loop {
                    match receiver.reply() {
                        Ok(None) => {}
                        Ok(Some(outcome)) => {
                            if let Err(error) = self.outcome(link, &stream, outcome, &mut receiver) {
                                break error;
                            }
                        }
                        Err(error) => break error,
                    }
                    if self.queued.load(Relaxed) > 0 {
                        self.pump();
                    }
                };
                receiver.complete();
                error
            }
        };
        self.lost(link, error);
        self.pump();
    }

    fn outcome(
        self: &Arc<Self>,
        link: &Arc<ServerLink>,
        stream: &Stream,
        outcome: ReplyOutcome,
        receiver: &mut Receiver<'_>,
    ) -> Result<(), LinkError> {
        if !link.answered.swap(true, Relaxed) {
            self.state().failures = 0;
        }
        match outcome {
            ReplyOutcome::Done(finish, bytes, sent, elsewhere) => {
                link.unassign(bytes);
                self.traffic.answered(bytes, sent, elsewhere, || stream.shortest_trip());
                self.traffic.end(bytes);
                match finish {
                    Finish::Read(read) => receiver.end_read(read),
                    Finish::Told(then, result) => then(result),
                }
                Ok(())
            }
            ReplyOutcome::Withdrawn(bytes) => {
                link.unassign(bytes);
                self.traffic.end(bytes);
                Ok(())
            }
            ReplyOutcome::Again(ask) => {
                link.unassign(ask.bytes);
                self.put_back(vec![ask]);
                Ok(())
            }
            ReplyOutcome::Wrong(mut ask, error) => {
                link.unassign(ask.bytes);
                if let LinkError::Fault(text) = &error {
                    ask.faults += 1;
                    ask.not_on = link.id;
                    if ask.faults >= MOST_FAULTS {
                        let message = format!("{text}, {} times for one read", ask.faults);
                        self.fail(ask, PageErrorKind::Protocol { server: self.server.clone(), message });
                        return Err(error);
                    }
                }
                self.lose(vec![ask], &error);
                Err(error)
            }
        }
    }

    /// Ends an ask with an error.
    fn fail(&self, ask: Ask, kind: PageErrorKind) {
        self.traffic.end(ask.bytes);
        ask.fail(kind);
    }

    /// A connection ended. What it owed is asked again.
    fn lost(self: &Arc<Self>, link: &Arc<ServerLink>, error: LinkError) {
        let (asks, withdrawn, why) = link.close();
        withdrawn.into_iter().for_each(|bytes| self.traffic.end(bytes));
        let error = match why {
            Some(why) if !matches!(error, LinkError::Refused(_)) => LinkError::Slow(why),
            _ => error,
        };
        let mut state = self.state();
        state.links.retain(|other| other.id != link.id);
        // Connections that end together count once.
        if !link.answered.load(Relaxed) || state.failures == 0 {
            self.note_failure(&mut state, error.clone());
        } else {
            state.last = Some(error.clone());
        }
        drop(state);
        self.lose(asks, &error);
        // The keeper knows the pause.
        self.bell.notify_all();
    }

    fn note_failure(&self, state: &mut HubState, error: LinkError) {
        state.failures += 1;
        let pause = FIRST_PAUSE * 2u32.saturating_pow(state.failures.min(16) - 1);
        state.random ^= state.random << 13;
        state.random ^= state.random >> 7;
        state.random ^= state.random << 17;
        let jitter = (state.random % 1000) as f64 / 1000.0;
        state.next_try = Some(Instant::now() + pause.min(LONGEST_PAUSE).mul_f64(0.5 + jitter / 2.0));
        state.last = Some(error);
    }

    /// Asks lost their connection: they wait for another one, or end.
    fn lose(&self, mut asks: Vec<Ask>, error: &LinkError) {
        let now = Instant::now();
        let sent = asks.iter().filter(|ask| ask.tries > 0);
        sent.for_each(|ask| ask.note(&self.server, 0, ReadStep::Retried));
        let mut state = self.state();
        let others = state.links.iter().any(|link| link.up.load(Relaxed));
        if !others {
            // Nothing serves what waits, either.
            let waiting = state.queues.iter_mut().flat_map(std::mem::take);
            let waiting: Vec<Ask> = waiting.collect();
            self.queued.fetch_sub(waiting.len(), Relaxed);
            asks.extend(waiting);
        }
        let refused = match error {
            LinkError::Refused(kind) if !others => Some(kind.clone()),
            _ => None,
        };
        let closed = state.closed;
        let mut failed: Vec<(Ask, PageErrorKind)> = Vec::new();
        for mut ask in asks {
            ask.failed.get_or_insert(now);
            match &refused {
                Some(kind) => failed.push((ask, kind.clone())),
                None if closed => failed.push((ask, self.closed_error())),
                None => {
                    state.queues[ask.urgency() as usize].push_back(ask);
                    self.queued.fetch_add(1, Relaxed);
                }
            }
        }
        drop(state);
        failed.into_iter().for_each(|(ask, kind)| self.fail(ask, kind));
        // A server that takes connections and answers wrongly would else get its reads again before the clock looks.
        self.expire(now);
    }

    fn closed_error(&self) -> PageErrorKind {
        let last = "this client has closed its connections".to_owned();
        PageErrorKind::Unreachable { server: self.server.clone(), tried: "not tried".into(), last }
    }

    /// Ends asks that have waited for the server too long.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.state();
        let reached = state.reached;
        let most = if reached { self.options.network_timeout } else { self.options.first_timeout };
        // Before the first connection, the search for its name counts, too.
        let waits = |ask: &Ask| {
            let since = ask.failed.or((!reached).then_some(ask.begun));
            since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        };
        let mut expired = Vec::new();
        for queue in &mut state.queues {
            let all = std::mem::take(queue).into_iter();
            let (over, stay) = all.partition::<VecDeque<Ask>, _>(|ask| waits(ask) >= most);
            *queue = stay;
            expired.extend(over);
        }
        let mut is_gone = !expired.is_empty() && !state.links.iter().any(|link| link.up.load(Relaxed));
        if is_gone {
            expired.extend(state.queues.iter_mut().flat_map(std::mem::take));
        }
        self.queued.fetch_sub(expired.len(), Relaxed);
        let last = state.last.clone();
        let attempts = state.failures;
        drop(state);
        for ask in expired {
            let server = self.server.clone();
            let passed = waits(&ask).as_secs_f64();
            let tried = format!("{} times in {passed:.1} s", attempts.max(ask.tries).max(1));
            let text = last.as_ref().map_or_else(|| "it has not answered yet".to_owned(), LinkError::text);
            let kind = match &last {
                Some(LinkError::Slow(_)) => PageErrorKind::TimedOut { server, tried, last: text },
                _ => PageErrorKind::Unreachable { server, tried, last: text },
            };
            if std::mem::take(&mut is_gone) {
                self.state().gone = Some((now, kind.clone()));
            }
            self.fail(ask, kind);
        }
    }

    /// Whether the server was ever reached.
    pub(super) fn was_reached(&self) -> bool {
        self.state().reached
    }

    /// The last failure, while no connection is up and one has failed.
    pub(super) fn why_lost(&self) -> Option<String> {
        let state = self.state();
        let is_lost = state.failures > 0 && !state.links.iter().any(|link| link.up.load(Relaxed));
        is_lost.then(|| state.last.as_ref().map_or_else(|| "it has not answered yet".to_owned(), LinkError::text))
    }

    /// Whether a demand waits for a connection.
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    /// Ends all connections; what was asked ends with an error.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let links = state.links.clone();
        let asks: Vec<Ask> = state.queues.iter_mut().flat_map(std::mem::take).collect();
        drop(state);
        self.queued.fetch_sub(asks.len(), Relaxed);
        links.iter().for_each(|link| link.end("this client has closed it"));
        asks.into_iter().for_each(|ask| self.fail(ask, self.closed_error()));
        self.bell.notify_all();
    }
}

/// The order of the queues.
const _: () = assert!(Urgency::Demand as usize == 0 && Urgency::Prefetch as usize == 1);

//! The requests of a place: which goes next, how many at once, and when a failed one is sent again.

use super::client::Connections;
use super::fault::{give_up, AttemptFault, Passing, PassingKind};
use super::meter::LineMeter;
use super::origin::{Ask, Origin, Patience};
use super::retry::{backoff, Budget};
use crate::net;
use crate::options::{NetworkOptions, USUAL_CONNECTIONS};
use futures_util::future::BoxFuture;
use pager::error::PageErrorKind;
use pager::source::Completion;
use reqwest::Response;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Most memory of a connection: hyper's largest read buffer.
pub(super) const CONNECTION_BYTES: u64 = 408 << 10;
/// Memory of a connection beside its reply: the reply's head, and records of TLS.
const BESIDE_REPLY: u64 = 48 << 10;
/// Memory of a waiting job: its read, a few buffers, and a share of the queue.
const JOB_BYTES: u64 = 256;

/// Something to do for a place. Dropped before its end, it answers with an error.
pub(super) trait LineJob: Send {
    /// Does it.
    fn run(self: Box<Self>, line: &ServerLine) -> BoxFuture<'_, ()>;

    /// Most memory of its connection.
    fn buffer_bytes(&self) -> u64 {
        CONNECTION_BYTES
    }

    /// Whether it is a read of these tokens.
    fn is_one_of(&self, tokens: &[u64], done: &Arc<dyn Completion>) -> bool {
        let _ = (tokens, done);
        false
    }

    /// Nobody waits for it, and it is dropped next.
    fn withdraw(&mut self) {}
}

/// Most memory of a connection for a reply of so many bytes. hyper doubles its buffer whenever a read fills it, and a
/// connection has no bytes behind its reply.
pub(super) fn buffer_of_reply(bytes: u64) -> u64 {
    bytes.saturating_mul(3).saturating_add(BESIDE_REPLY).min(CONNECTION_BYTES)
}

type BoxedJob = Box<dyn LineJob>;

/// Time after which a server that was given up gets full patience again. Until then each request has one attempt, so a
/// run over many pages ends soon after the first of them failed.
const GIVEN_UP: Duration = Duration::from_secs(5);

#[derive(Default)]
struct QueuedJobs {
    /// Somebody waits for these.
    demand: VecDeque<BoxedJob>,
    prefetch: VecDeque<BoxedJob>,
    /// Runners, each with one job under way.
    running: usize,
    /// Bytes of the connections of those jobs.
    buffers: u64,
}

/// A place's requests.
pub(super) struct ServerLine {
    /// Its name for messages.
    pub server: String,
    pub origin: Origin,
    pub options: NetworkOptions,
    pub meter: LineMeter,
    budget: Budget,
    /// Whether it ever replied.
    replied: AtomicBool,
    /// Connections that replied since the last silence.
    warm: AtomicUsize,
    requests: AtomicU64,
    /// The last time that a request was given up; `None` once the server has replied.
    given_up: Mutex<Option<Instant>>,
    permits: Semaphore,
    queue: Mutex<QueuedJobs>,
}

impl ServerLine {
    pub(super) fn new(
        server: String,
        options: NetworkOptions,
        authorities: Option<OsString>,
        origin: impl FnOnce(Arc<Connections>) -> Origin,
    ) -> Self {
        Self {
            server,
            origin: origin(Arc::new(Connections::new(&options, authorities))),
            meter: LineMeter::new(),
            budget: Budget::new(),
            replied: AtomicBool::new(false),
            warm: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            given_up: Mutex::default(),
            permits: Semaphore::new(options.connections),
            queue: Mutex::default(),
            options,
        }
    }

    fn queue(&self) -> MutexGuard<'_, QueuedJobs> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given_up(&self) -> MutexGuard<'_, Option<Instant>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> usize {
        self.meter.window().min(self.options.connections)
    }

    /// Most jobs under way.
    fn most(&self) -> usize {
        self.window().max(USUAL_CONNECTIONS.min(self.options.connections))
    }

    /// Further jobs that are welcome.
    pub(super) fn room(&self) -> usize {
        let queue = self.queue();
        let under_way = queue.running + queue.demand.len() + queue.prefetch.len();
        self.window().saturating_sub(under_way).max(usize::from(under_way == 0))
    }

    /// Most bytes that its connections and its queue take. The buffers of a connection are those of its reply: an idle
    /// one has none.
    pub(super) fn held_bytes(&self) -> u64 {
        let queue = self.queue();
        let jobs = queue.demand.capacity() + queue.prefetch.capacity();
        queue.buffers + jobs as u64 * JOB_BYTES
    }

    /// Requests sent so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Time for a page of a list: its body is a document that the server makes.
    pub(super) fn list_deadline(&self) -> Duration {
        self.options.connect + self.options.first_byte + self.options.stall
    }

    /// Queues jobs and starts as many as may run. `prefetch`: nobody waits for them. Without a network thread the jobs
    /// are dropped, and each answers with an error.
    pub(super) fn add(self: &Arc<Self>, jobs: Vec<BoxedJob>, prefetch: bool) {
        if jobs.is_empty() || net::handle().is_none() {
            return;
        }
        let mut queue = self.queue();
        let to = if prefetch { &mut queue.prefetch } else { &mut queue.demand };
        to.extend(jobs);
        let started = self.start(&mut queue);
        drop(queue);
        self.spawn(started);
    }

    /// Moves prefetches that somebody waits for now to the others of that kind.
    pub(super) fn promote(self: &Arc<Self>, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut queue = self.queue();
        if queue.prefetch.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut queue.prefetch);
        let (demanded, others) = waiting.into_iter().partition(|job| job.is_one_of(tokens, done));
        queue.prefetch = others;
        queue.demand.extend::<VecDeque<_>>(demanded);
        let started = self.start(&mut queue);
        drop(queue);
        self.spawn(started);
    }

    /// Ends reads that nobody waits for, if they have not begun. Others go on: to end one costs its connection.
    pub(super) fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut queue = self.queue();
        let mut withdrawn = Vec::new();
        let QueuedJobs { demand, prefetch, .. } = &mut *queue;
        for jobs in [demand, prefetch] {
            let all = std::mem::take(jobs).into_iter();
            let (of_them, others) = all.partition::<VecDeque<_>, _>(|job| job.is_one_of(tokens, done));
            *jobs = others;
            withdrawn.extend(of_them);
        }
        drop(queue);
        withdrawn.into_iter().for_each(|mut job| job.withdraw());
    }

    /// Counts the runners that may start now.
    fn start(&self, queue: &mut QueuedJobs) -> usize {
        let most = self.most();
        let demand = queue.demand.len().min(most.saturating_sub(queue.running));
        queue.running += demand;
        let ahead = queue.prefetch.len().min(self.window().saturating_sub(queue.running));
        queue.running += ahead;
        demand + ahead
    }

    fn spawn(self: &Arc<Self>, runners: usize) {
        if runners == 0 {
            return;
        }
        // One call across threads for all of them.
        let line = self.clone();
        net::spawn(async move {
            for _ in 0..runners {
                tokio::spawn(Runner(Some(line.clone()), 0).run());
            }
        });
    }

    /// The next job of a runner, whose last one had so many bytes of buffers. `None`: it ends. Runners start for what a
    /// grown window has room for.
    fn take(self: &Arc<Self>, had: u64) -> Option<BoxedJob> {
        let mut queue = self.queue();
        queue.buffers -= had;
        let job = self.next(&mut queue);
        match &job {
            Some(job) => queue.buffers += job.buffer_bytes(),
            None => queue.running -= 1,
        }
        let started = self.start(&mut queue);
        drop(queue);
        self.spawn(started);
        job
    }

    fn next(&self, queue: &mut QueuedJobs) -> Option<BoxedJob> {
        if let Some(job) = queue.demand.pop_front() {
            return Some(job);
        }
        if queue.running <= self.window() {
            return queue.prefetch.pop_front();
        }
        None
    }

    /// Sends a request and waits for the head of its reply.
    ///
    /// # Errors
    /// The fault of the connection. A reply of any status is none.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, AttemptFault> {
        let permit = self.permits.acquire().await;
        let running = self.options.connections - self.permits.available_permits();
        // A connection that has to be made first takes its own time.
        let connect = if running > self.warm.load(Relaxed) { self.options.connect } else { Duration::ZERO };
        self.requests.fetch_add(1, Relaxed);
        let begun = self.meter.begin();
        let usual = self.meter.first_byte(&self.options);
        let more = usual.saturating_mul(1 << ask.patience.failed.min(16));
        let deadline = connect.saturating_add(more).min(ask.patience.left.max(usual));
        let reply = self.origin.send(&self.server, ask, deadline).await;
        drop(permit);
        match &reply {
            Ok(reply) => {
                // Statuses that say "later" come from a server in trouble, too.
                if !reply.status().is_server_error() && !matches!(reply.status().as_u16(), 408 | 429) {
                    *self.given_up() = None;
                }
                self.meter.replied(begun);
                self.replied.store(true, Relaxed);
                self.warm.fetch_max(running, Relaxed);
            }
            Err(_) => self.warm.store(0, Relaxed),
        }
        reply
    }
}

/// Does one job after the other: its line, and the bytes of buffers of its job.
struct Runner(Option<Arc<ServerLine>>, u64);

impl Runner {
    async fn run(mut self) {
        let Some(line) = self.0.clone() else { return };
        while let Some(job) = line.take(std::mem::take(&mut self.1)) {
            self.1 = job.buffer_bytes();
            job.run(&line).await;
        }
        self.0 = None;
    }
}

impl Drop for Runner {
    /// A runner that ends early: its job panicked.
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            let mut queue = line.queue();
            queue.running -= 1;
            queue.buffers -= self.1;
        }
    }
}

/// The attempts at one thing.
pub(super) struct Attempts {
    begun: Instant,
    /// Attempts in all.
    number: u32,
    /// The last progress, and attempts since then.
    since: Instant,
    failed: u32,
}

impl Attempts {
    pub(super) fn new(line: &ServerLine) -> Self {
        line.budget.earn();
        let now = Instant::now();
        Self { begun: now, number: 0, since: now, failed: 0 }
    }

    /// The patience of the next attempt.
    pub(super) fn patience(&self, line: &ServerLine) -> Patience {
        Patience { failed: self.failed, left: line.options.network_timeout.saturating_sub(self.since.elapsed()) }
    }

    /// Notes the fault of an attempt, and waits for the time of the next one.
    ///
    /// # Errors
    /// The error of the whole, if there is no further attempt.
    pub(super) async fn again(
        &mut self,
        line: &ServerLine,
        fault: AttemptFault,
        progress: bool,
    ) -> Result<(), PageErrorKind> {
        let passing = match fault {
            AttemptFault::Final(kind) => return Err(kind),
            AttemptFault::Passing(passing) => passing,
        };
        self.number += 1;
        if progress {
            (self.since, self.failed) = (Instant::now(), 0);
        }
        self.failed += 1;
        let given_up = line.given_up().is_some_and(|at| at.elapsed() < GIVEN_UP);
        let limit = match passing.kind {
            _ if given_up && !progress => Duration::ZERO,
            // Nobody was ever there.
            PassingKind::Connect if !line.replied.load(Relaxed) => line.options.connect,
            _ => line.options.network_timeout,
        };
        let wait = backoff(&line.options, self.failed).max(passing.wait.unwrap_or_default());
        let left = limit.saturating_sub(self.since.elapsed());
        let waited = async {
            tokio::time::sleep(wait).await;
            line.budget.spend().await;
        };
        if wait >= left || tokio::time::timeout(left, waited).await.is_err() {
            return Err(self.give_up(line, &passing));
        }
        Ok(())
    }

    fn give_up(&self, line: &ServerLine, last: &Passing) -> PageErrorKind {
        *line.given_up() = Some(Instant::now());
        give_up(&line.server, last, self.number, self.begun.elapsed())
    }
}

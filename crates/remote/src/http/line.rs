//! The requests of a place: which goes next, how many at once, and when a failed one is sent again.

use super::client::Connections;
use super::fault::{give_up, Fault, Passing, PassingKind};
use super::look::LookJob;
use super::meter::Meter;
use super::origin::{Ask, Origin};
use super::read::ReadJob;
use super::retry::{backoff, Budget};
use crate::net;
use crate::options::NetworkOptions;
use pager::error::PageErrorKind;
use reqwest::Response;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Most memory of a connection: hyper's largest read buffer.
const CONNECTION_BYTES: u64 = 408 << 10;
/// Memory of a waiting job: its read, a few buffers, and a share of the queue.
const JOB_BYTES: u64 = 256;

/// Something to do for a place.
pub(super) enum Job {
    Read(ReadJob),
    Look(LookJob),
}

#[derive(Default)]
struct Queue {
    /// Somebody waits for these.
    demand: VecDeque<Job>,
    prefetch: VecDeque<Job>,
    /// Runners, each with one job under way.
    running: usize,
    /// Most runners lately: so many connections may be open.
    connections: usize,
}

/// A place's requests.
pub(super) struct Line {
    /// Its name for messages.
    pub server: String,
    pub origin: Origin,
    pub options: NetworkOptions,
    pub meter: Meter,
    budget: Budget,
    /// Whether it ever replied.
    replied: AtomicBool,
    /// Connections that replied since the last silence.
    warm: AtomicUsize,
    requests: AtomicU64,
    permits: Semaphore,
    queue: Mutex<Queue>,
}

impl Line {
    pub(super) fn new(
        server: String,
        options: NetworkOptions,
        origin: impl FnOnce(Arc<Connections>) -> Origin,
    ) -> Self {
        Self {
            server,
            origin: origin(Arc::new(Connections::new(&options))),
            meter: Meter::new(),
            budget: Budget::new(),
            replied: AtomicBool::new(false),
            warm: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            permits: Semaphore::new(options.connections),
            queue: Mutex::default(),
            options,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> usize {
        self.meter.window().min(self.options.connections)
    }

    /// Further jobs that are welcome.
    pub(super) fn room(&self) -> usize {
        let queue = self.queue();
        let under_way = queue.running + queue.demand.len() + queue.prefetch.len();
        self.window().saturating_sub(under_way).max(usize::from(under_way == 0))
    }

    /// Most bytes that its connections and its queue take.
    pub(super) fn held_bytes(&self) -> u64 {
        let queue = self.queue();
        let jobs = queue.demand.capacity() + queue.prefetch.capacity();
        queue.connections as u64 * CONNECTION_BYTES + jobs as u64 * JOB_BYTES
    }

    /// Requests sent so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Queues jobs and starts as many as may run. `prefetch`: nobody waits for them. Without a network thread the jobs
    /// are dropped, and each answers with an error.
    pub(super) fn add(self: &Arc<Self>, jobs: Vec<Job>, prefetch: bool) {
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

    /// Counts the runners that may start now.
    fn start(&self, queue: &mut Queue) -> usize {
        let most = self.options.connections;
        let demand = queue.demand.len().min(most.saturating_sub(queue.running));
        queue.running += demand;
        let ahead = queue.prefetch.len().min(self.window().saturating_sub(queue.running));
        queue.running += ahead;
        queue.connections = queue.connections.max(queue.running);
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
                tokio::spawn(Runner(Some(line.clone())).run());
            }
        });
    }

    /// The next job of a runner. `None`: it ends. Runners start for what a grown window has room for.
    fn take(self: &Arc<Self>) -> Option<Job> {
        let mut queue = self.queue();
        let job = self.next(&mut queue);
        if job.is_none() {
            queue.running -= 1;
        }
        let started = self.start(&mut queue);
        drop(queue);
        self.spawn(started);
        job
    }

    fn next(&self, queue: &mut Queue) -> Option<Job> {
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
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, Fault> {
        let permit = self.permits.acquire().await;
        let running = self.options.connections - self.permits.available_permits();
        // A connection that has to be made first takes its own time.
        let connect = if running > self.warm.load(Relaxed) { self.options.connect } else { Duration::ZERO };
        self.requests.fetch_add(1, Relaxed);
        let begun = self.meter.begin();
        let reply = self.origin.send(&self.server, ask, connect + self.meter.first_byte(&self.options)).await;
        drop(permit);
        match &reply {
            Ok(_) => {
                self.meter.replied(begun);
                self.replied.store(true, Relaxed);
                self.warm.fetch_max(running, Relaxed);
            }
            Err(_) => self.warm.store(0, Relaxed),
        }
        reply
    }
}

/// Does one job after the other.
struct Runner(Option<Arc<Line>>);

impl Runner {
    async fn run(mut self) {
        let Some(line) = self.0.clone() else { return };
        loop {
            match line.take() {
                Some(Job::Read(job)) => job.run(&line).await,
                Some(Job::Look(job)) => job.run(&line).await,
                None => break,
            }
        }
        self.0 = None;
    }
}

impl Drop for Runner {
    /// A runner that ends early: its job panicked.
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.queue().running -= 1;
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
    pub(super) fn new(line: &Line) -> Self {
        line.budget.earn();
        let now = Instant::now();
        Self { begun: now, number: 0, since: now, failed: 0 }
    }

    /// Notes the fault of an attempt, and waits for the time of the next one.
    ///
    /// # Errors
    /// The error of the whole, if there is no further attempt.
    pub(super) async fn again(&mut self, line: &Line, fault: Fault, progress: bool) -> Result<(), PageErrorKind> {
        let passing = match fault {
            Fault::Final(kind) => return Err(kind),
            Fault::Passing(passing) => passing,
        };
        self.number += 1;
        if progress {
            (self.since, self.failed) = (Instant::now(), 0);
        }
        self.failed += 1;
        let limit = match passing.kind {
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

    fn give_up(&self, line: &Line, last: &Passing) -> PageErrorKind {
        give_up(&line.server, last, self.number, self.begun.elapsed())
    }
}

//! The engine of several servers: takes the steps that the tables ask for, and ticks while something is under way.

use super::super::rendezvous::key_of;
use super::attempt::{Dones, Effect};
use super::copies::{FileTable, SpreadFile};
use super::extents::{ExtentJob, ExtentStep};
use super::looks::{add_copy, Found, LookAnswer, LookJob, Servers};
use super::member::{choose, least_loaded, with_room, Member};
use super::reads::ReadTable;
use pager::place::{ExtentRead, FileKind, FilePin, FileRef, FoundExtent, IndexedExtent, Place};
use pager::source::{Buffer, Completion, Read, ReadClass, ReadNote, ReadStep};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Age at which what is known of connections is asked for again.
const FRESH: Duration = Duration::from_millis(5);
/// Most time that the clock sleeps at once: whatever is asked rings.
const ASLEEP: Duration = Duration::from_secs(60);
/// Time between two looks at checks of names.
const LOOK_TICK: Duration = Duration::from_millis(10);
const STACK_BYTES: usize = 256 << 10;

/// A place that knows whether its server is there.
pub(super) trait ServerPlace: Place {
    /// The last failure, while no connection is up and one has failed.
    fn lost(&self) -> Option<String>;
    /// Whether the server was ever reached.
    fn was_reached(&self) -> bool;
}

/// Deadlines of reads, and what is known of the copies of files.
#[derive(Copy, Clone)]
pub(super) struct SeveralOptions {
    /// Most time of a read without any server.
    pub(super) network_timeout: Duration,
    /// The same if no server was ever reached.
    pub(super) first_timeout: Duration,
    /// Each file is at so many of the servers at least.
    pub(super) replicas: usize,
}

/// Reads that wait until it is known where their file is.
struct WaitingReads {
    file: FileRef,
    reads: Vec<Read>,
    done: Arc<dyn Completion>,
}

/// Reads at a server, with their receiver.
type TokensAt = (usize, Arc<dyn Completion>, Vec<u64>);

/// Results for one receiver.
type Completions = (Arc<dyn Completion>, Vec<(u64, Result<(), PageErrorKind>)>);

/// Reads of a file for a server.
struct Submission {
    server: usize,
    done: Arc<dyn Completion>,
    file: FileRef,
    reads: Vec<Read>,
}

/// See the module.
pub(super) struct Engine {
    pub(super) places: Vec<Arc<dyn ServerPlace>>,
    pub(super) names: Vec<String>,
    pub(super) options: SeveralOptions,
    /// The URL of what a server is asked for to see if it is back.
    root: PathBuf,
    files: FileTable,
    table: Mutex<ReadTable>,
    looks: Mutex<Vec<Arc<LookJob>>>,
    extents: Mutex<Vec<Arc<ExtentJob>>>,
    waiting: Mutex<HashMap<Arc<Path>, Vec<WaitingReads>>>,
    begun: Instant,
    /// Microseconds since then at which connections were last looked at.
    refreshed: AtomicU64,
    clock: Arc<TickClock>,
}

/// Wakes the thread that ticks.
#[derive(Default)]
struct TickClock {
    /// Whether it was rung since the last sleep.
    rung: Mutex<bool>,
    bell: Condvar,
    runs: AtomicBool,
    asleep: AtomicBool,
}

impl Drop for Engine {
    fn drop(&mut self) {
        *lock(&self.clock.rung) = true;
        self.clock.bell.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(super) fn new(places: Vec<Arc<dyn ServerPlace>>, root: PathBuf, options: SeveralOptions) -> Arc<Self> {
        let names: Vec<String> = places.iter().map(|place| place.describe()).collect();
        let now = Instant::now();
        let members = names.iter().map(|name| Member::new(key_of(name), now)).collect();
        Arc::new(Self {
            table: Mutex::new(ReadTable::new(members, names.clone())),
            places,
            names,
            options,
            root,
            files: FileTable::default(),
            looks: Mutex::default(),
            extents: Mutex::default(),
            waiting: Mutex::default(),
            begun: now,
            refreshed: AtomicU64::new(0),
            clock: Arc::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, ReadTable> {
        lock(&self.table)
    }

    /// Takes the state of connections and windows over into the table, if that is older than [`FRESH`].
    fn refresh(&self) {
        let now = self.begun.elapsed().as_micros() as u64 + 1;
        let last = self.refreshed.load(Relaxed);
        if last != 0 && now.saturating_sub(last) < FRESH.as_micros() as u64 {
            return;
        }
        self.refreshed.store(now, Relaxed);
        let states: Vec<_> = self.places.iter().map(|place| (place.lost(), place.room())).collect();
        let mut table = self.table();
        for (member, (lost, room)) in table.members.iter_mut().zip(states) {
            (member.lost, member.room) = (lost, room as i64);
        }
    }

    fn with_servers<T>(&self, look: impl FnOnce(&Servers<'_>) -> T) -> T {
        self.refresh();
        let late = !with_room(&self.table().members, Instant::now());
        look(&Servers { names: &self.names, replicas: self.options.replicas, late })
    }

    /// Servers whose windows count, as places.
    pub(super) fn with_room(&self) -> Vec<&Arc<dyn ServerPlace>> {
        self.refresh();
        let bits = with_room(&self.table().members, Instant::now());
        let counts = |n: &usize| bits == 0 || bits & 1 << n != 0;
        (0..self.places.len()).filter(counts).filter_map(|n| self.places.get(n)).collect()
    }

    /// Bytes of tables and hedges.
    pub(super) fn bytes(&self) -> u64 {
        self.table().bytes() + self.files.bytes(self.places.len())
    }

    /// Starts reads of a file.
    pub(super) fn submit(
        self: &Arc<Self>,
        file: &FileRef,
        reads: Vec<Read>,
        done: &Arc<dyn Completion>,
        dones: &Dones,
    ) {
        if let Some(known) = self.known(file) {
            return self.begin(&known, file, reads, done, dones);
        }
        // Its first read, or one of another version than that which is known.
        let mut waiting = lock(&self.waiting);
        let others = waiting.entry(file.path.clone()).or_default();
        others.push(WaitingReads { file: file.clone(), reads, done: done.clone() });
        if others.len() > 1 {
            return;
        }
        drop(waiting);
        let (this, dones, path) = (self.clone(), dones.clone(), file.path.clone());
        let then = move |found: Vec<Found>| {
            if let Some(found) = found.into_iter().next() {
                this.found(&path, &found, &dones);
            }
        };
        self.look(vec![file.path.to_path_buf()], Box::new(then));
    }

    /// What is known of a file in the version that is wanted.
    fn known(&self, file: &FileRef) -> Option<Arc<SpreadFile>> {
        self.files.get(&file.path).filter(|known| file.pin.digest() == Some(known.digest))
    }

    /// Reads an index with an extent. False if the servers cannot do it.
    pub(super) fn indexed(self: &Arc<Self>, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        self.refresh();
        let known = self.known(file);
        let asked = known.clone().unwrap_or_else(|| Arc::new(SpreadFile::anywhere(&file.path, self.places.len())));
        let mut table = self.table();
        table.budget.earn(1);
        let choice = choose(&mut table.members, &asked, 0, 0, Instant::now()).filter(|choice| choice.usable);
        drop(table);
        let Some((server, pin)) = choice.and_then(|c| Some((c.server, asked.copy(c.server)?))) else { return false };
        let is_known = known.is_some();
        let job = Arc::new(ExtentJob::new(file.clone(), *wanted, known, server, then));
        if !self.ask_for_extent(&job, server, &pin) {
            job.give_up();
            return false;
        }
        lock(&self.extents).push(job.clone());
        if is_known {
            self.wake();
            return true;
        }
        let this = self.clone();
        let told = move |found: Vec<Found>| {
            let found = found.into_iter().next().map(|(answer, known)| answer.map(|_| known));
            let no_file = || PageErrorKind::Io("it is no regular file".into());
            let known = found.unwrap_or(Ok(None)).and_then(|known| known.ok_or_else(no_file));
            this.follow(&job, job.found(known));
        };
        self.look(vec![file.path.to_path_buf()], Box::new(told));
        true
    }

    fn ask_for_extent(self: &Arc<Self>, job: &Arc<ExtentJob>, server: usize, pin: &Arc<FilePin>) -> bool {
        let file = FileRef { pin: pin.clone(), ..job.file.clone() };
        let (this, of, pin) = (self.clone(), job.clone(), pin.clone());
        let told = move |answer: Result<FoundExtent, PageErrorKind>| {
            this.follow(&of, of.replied(server, pin, answer));
        };
        self.places[server].indexed(&file, &job.wanted, Box::new(told))
    }

    /// Takes the step that follows an event of a job.
    fn follow(self: &Arc<Self>, job: &Arc<ExtentJob>, step: ExtentStep) {
        let (then, answer) = match step {
            ExtentStep::Wait => return,
            ExtentStep::End(then, answer) => (then, *answer),
            ExtentStep::Ask(known, tried) => {
                let server = least_loaded(&self.table().members, &known, tried, Instant::now());
                if server.is_some_and(|server| self.ask_also(job, &known, server)) {
                    return;
                }
                let Some((then, kind)) = job.no_other() else { return };
                (then, Err(kind))
            }
        };
        lock(&self.extents).retain(|other| !Arc::ptr_eq(other, job));
        then(answer);
    }

    fn ask_also(self: &Arc<Self>, job: &Arc<ExtentJob>, known: &SpreadFile, server: usize) -> bool {
        let Some(pin) = known.copy(server) else { return false };
        job.asks(server);
        self.ask_for_extent(job, server, &pin)
    }

    /// Asks other servers for late extents, too.
    fn look_at_extents(self: &Arc<Self>) {
        let jobs = lock(&self.extents).clone();
        for job in jobs {
            let mut table = self.table();
            let gone = table.members.iter().enumerate().filter(|(_, member)| member.is_gone());
            let gone = gone.fold(0, |bits, (server, _)| bits | 1 << server);
            let late = table.hedge_after(job.wanted.longest as u64);
            let Some((known, tried)) = job.late(late, gone) else { continue };
            let server = least_loaded(&table.members, &known, tried, Instant::now());
            let may = server.is_some() && (tried & !gone == 0 || table.budget.spend());
            drop(table);
            if let Some(server) = server.filter(|_| may) {
                self.ask_also(&job, &known, server);
            }
        }
    }

    /// Goes on with the reads that waited for a check.
    fn found(self: &Arc<Self>, path: &Path, (answer, known): &Found, dones: &Dones) {
        let waiting = lock(&self.waiting).remove(path).unwrap_or_default();
        for WaitingReads { file, reads, done } in waiting {
            let checked = match (answer, known) {
                (Err(kind), _) => Err(kind.clone()),
                (Ok(stat), Some(known)) => file.pin.check(&stat.version).map(|()| known),
                (Ok(_), None) => Err(PageErrorKind::Io("it is no regular file".into())),
            };
            match checked {
                Ok(known) => self.begin(known, &file, reads, &done, dones),
                Err(kind) => reads.iter().for_each(|read| done.complete(read.token, Err(kind.clone()))),
            }
        }
    }

    fn begin(
        self: &Arc<Self>,
        known: &Arc<SpreadFile>,
        file: &FileRef,
        reads: Vec<Read>,
        done: &Arc<dyn Completion>,
        dones: &Dones,
    ) {
        if let Some(kind) = known.bad() {
            return reads.iter().for_each(|read| done.complete(read.token, Err(kind.clone())));
        }
        self.refresh();
        let mut table = self.table();
        let there = table.members.iter().enumerate().filter(|(_, member)| member.lost.is_none());
        let there = there.fold(0, |bits, (server, _)| bits | 1 << server);
        let steps = table.begin(known, file, reads, done, dones, Instant::now());
        drop(table);
        for server in known.take_unknown(there) {
            self.ask_for_copy(server, known, &file.path);
        }
        self.take(steps);
        self.wake();
    }

    /// Asks a server that did not answer before whether it has a file.
    fn ask_for_copy(&self, server: usize, known: &Arc<SpreadFile>, path: &Path) {
        let (known, name) = (known.clone(), self.names[server].clone());
        let told = move |answers: Vec<LookAnswer>| {
            let lost = Err(PageErrorKind::Io("it gave no answer".into()));
            add_copy(&known, (server, &name), answers.first().unwrap_or(&lost));
        };
        self.places[server].look(vec![path.to_path_buf()], Box::new(told));
    }

    /// A server has ended reads.
    pub(super) fn ended(self: &Arc<Self>, server: usize, results: Vec<(u64, Result<(), PageErrorKind>)>) {
        let mut table = self.table();
        let now = Instant::now();
        let mut steps = Vec::with_capacity(results.len());
        for (token, result) in results {
            table.ended(server, token, result, now, &mut steps);
        }
        drop(table);
        self.take(steps);
    }

    /// A server has a note about a read.
    pub(super) fn note(&self, server: usize, token: u64, note: ReadNote<'_>) {
        // Of withdrawals the table tells itself, with the reason.
        if note.step == ReadStep::Withdrawn {
            return;
        }
        let is_from_server = matches!(note.step, ReadStep::FirstByte { .. });
        let known = self.table().noted(server, token, is_from_server.then(Instant::now));
        if let Some((done, token)) = known {
            done.note(token, note);
        }
    }

    /// A task waits for reads.
    pub(super) fn promote(self: &Arc<Self>, tokens: &[u64], done: &Arc<dyn Completion>) {
        for waiting in lock(&self.waiting).values_mut().flatten().filter(|w| Arc::ptr_eq(&w.done, done)) {
            let promoted = waiting.reads.iter_mut().filter(|read| tokens.contains(&read.token));
            promoted.for_each(|read| read.class = ReadClass::Demand);
        }
        let steps = self.table().promote(tokens, done, Instant::now());
        self.take(steps);
    }

    /// Nobody waits for reads.
    pub(super) fn withdraw(self: &Arc<Self>, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut gone: Vec<Read> = Vec::new();
        for waiting in lock(&self.waiting).values_mut().flatten().filter(|w| Arc::ptr_eq(&w.done, done)) {
            gone.extend(waiting.reads.extract_if(.., |read| tokens.contains(&read.token)));
        }
        gone.iter().for_each(|read| done.complete(read.token, Err(PageErrorKind::Withdrawn)));
        let steps = self.table().withdraw(tokens, done, Instant::now());
        self.take(steps);
    }

    /// Checks names at all servers.
    pub(super) fn look(self: &Arc<Self>, paths: Vec<PathBuf>, then: super::looks::FoundThen) {
        let job = Arc::new(LookJob::new(paths, self.places.len(), then));
        lock(&self.looks).push(job.clone());
        for (server, place) in self.places.iter().enumerate() {
            let (this, job) = (self.clone(), job.clone());
            let asked = job.paths.clone();
            let told = move |mut answers: Vec<LookAnswer>| {
                answers.resize(job.paths.len(), Err(PageErrorKind::Io("it gave no answer".into())));
                let outcome = this.with_servers(|servers| job.answer(server, answers, servers));
                this.tell(&job, outcome);
            };
            place.look(asked, Box::new(told));
        }
        self.wake();
    }

    /// Hands the outcome of a check over.
    fn tell(&self, job: &Arc<LookJob>, outcome: Option<(super::looks::FoundThen, Vec<Found>)>) {
        let Some((then, found)) = outcome else { return };
        lock(&self.looks).retain(|other| !Arc::ptr_eq(other, job));
        for (path, (answer, file)) in job.paths.iter().zip(&found) {
            if let (Ok(stat), Some(file)) = (answer, file) {
                debug_assert_eq!(stat.kind, FileKind::File);
                self.files.put(path, file.clone());
            }
        }
        then(found);
    }

    /// Takes steps. The tables are not locked.
    fn take(self: &Arc<Self>, steps: Vec<Effect>) {
        let mut submissions: Vec<Submission> = Vec::new();
        let mut withdrawals: Vec<TokensAt> = Vec::new();
        let mut promotions: Vec<TokensAt> = Vec::new();
        let mut completions: Vec<Completions> = Vec::new();
        let mut end = |done: Arc<dyn Completion>, token, result| match completions.last_mut() {
            Some((known, results)) if Arc::ptr_eq(known, &done) => results.push((token, result)),
            _ => completions.push((done, vec![(token, result)])),
        };
        for step in steps {
            match step {
                Effect::Complete { done, token, result } => end(done, token, result),
                Effect::Copy { done, token, memory, buffers } => {
                    copy(&memory, &buffers);
                    end(done, token, Ok(()));
                }
                Effect::Promote { server, done, token } => add(&mut promotions, server, done, token),
                Effect::Note { done, token, server, step } => {
                    done.note(token, ReadNote { server: &self.names[server], connection: 0, step });
                }
                Effect::Probe { server } => self.probe(server),
                Effect::Withdraw { server, done, token } => add(&mut withdrawals, server, done, token),
                Effect::Submit { server, done, file, read } => {
                    let same = |of: &FileRef| of.base == file.base && of.path == file.path && same_pin(of, &file);
                    let known = submissions
                        .iter_mut()
                        .find(|known| known.server == server && Arc::ptr_eq(&known.done, &done) && same(&known.file));
                    match known {
                        Some(known) => known.reads.push(read),
                        None => submissions.push(Submission { server, done, file, reads: vec![read] }),
                    }
                }
            }
        }
        completions.into_iter().for_each(|(done, results)| done.complete_all(results));
        for Submission { server, done, file, reads } in submissions {
            self.places[server].submit(&file, reads, &done);
        }
        promotions.into_iter().for_each(|(server, done, tokens)| self.places[server].promote(&tokens, &done));
        withdrawals.into_iter().for_each(|(server, done, tokens)| self.places[server].withdraw(&tokens, &done));
    }

    /// Sees whether a server is back: by any answer.
    fn probe(self: &Arc<Self>, server: usize) {
        let this = Arc::downgrade(self);
        let told = move |answers: Vec<LookAnswer>| {
            let is_back =
                answers.first().is_some_and(|answer| !answer.as_ref().is_err_and(PageErrorKind::is_transient));
            if let Some(this) = this.upgrade() {
                this.table().probed(server, is_back, Instant::now());
            }
        };
        self.places[server].look(vec![self.root.clone()], Box::new(told));
    }

    /// Makes sure that the clock runs.
    fn wake(self: &Arc<Self>) {
        if !self.clock.runs.load(Relaxed) && !self.clock.runs.swap(true, Relaxed) {
            let (this, clock) = (Arc::downgrade(self), self.clock.clone());
            let builder = std::thread::Builder::new().name("farfield-servers".into()).stack_size(STACK_BYTES);
            // Without it nothing is hedged or passed over, until the next submission tries again.
            self.clock.runs.store(builder.spawn(move || run(&this, &clock)).is_ok(), Relaxed);
        }
        if self.clock.asleep.load(Relaxed) {
            *lock(&self.clock.rung) = true;
            self.clock.bell.notify_all();
        }
    }

    /// Looks at all that is under way. Returns the time until the next look; `None` if nothing is.
    fn tick(self: &Arc<Self>) -> Option<Duration> {
        let jobs = lock(&self.looks).clone();
        for job in &jobs {
            let outcome = self.with_servers(|servers| job.tick(servers));
            self.tell(job, outcome);
        }
        if self.is_idle() {
            return None;
        }
        self.refresh();
        self.look_at_extents();
        let was_reached = self.places.iter().any(|place| place.was_reached());
        let patience = if was_reached { self.options.network_timeout } else { self.options.first_timeout };
        let (steps, next) = self.table().tick(Instant::now(), patience);
        self.take(steps);
        next.or(Some(LOOK_TICK))
    }

    fn is_idle(&self) -> bool {
        lock(&self.looks).is_empty() && lock(&self.extents).is_empty() && self.table().is_idle()
    }
}

/// The life of the thread that ticks.
fn run(engine: &Weak<Engine>, clock: &TickClock) {
    loop {
        let Some(this) = engine.upgrade() else { return };
        let next = this.tick();
        let wait = match next {
            Some(wait) => wait,
            None => {
                clock.asleep.store(true, Relaxed);
                // What was submitted before this line is seen here; what comes after it rings.
                if this.is_idle() {
                    ASLEEP
                } else {
                    Duration::ZERO
                }
            }
        };
        // The last one to hold the engine ends it, and rings.
        drop(this);
        let mut rung = lock(&clock.rung);
        if !*rung {
            rung = clock.bell.wait_timeout(rung, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
        clock.asleep.store(false, Relaxed);
    }
}

/// Adds a token to those of its server and receiver.
fn add(to: &mut Vec<TokensAt>, server: usize, done: Arc<dyn Completion>, token: u64) {
    match to.iter_mut().find(|(n, with, _)| *n == server && Arc::ptr_eq(with, &done)) {
        Some((.., tokens)) => tokens.push(token),
        None => to.push((server, done, vec![token])),
    }
}

fn same_pin(one: &FileRef, other: &FileRef) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(&one.pin), Arc::as_ptr(&other.pin))
}

/// Fills the buffers of a read, but for its holes.
fn copy(mut memory: &[u8], buffers: &[Buffer]) {
    for buffer in buffers.iter().filter(|buffer| !buffer.is_hole()) {
        let (part, rest) = memory.split_at(buffer.len);
        // SAFETY: the read is not completed, and no server has it any more: the buffer is this thread's alone. The memory
        // of a hedge has the bytes of all its buffers.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), buffer.ptr, part.len()) };
        memory = rest;
    }
}

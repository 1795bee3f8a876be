//! A simulated source with seeded faults: latency, order, pieces, errors, flipped bits. It tests the pager without a
//! faulty disk.

use super::memory::{scatter, short, there};
use super::{Completion, Read, ReadForm, Source};
use crate::error::PageErrorKind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The behaviour of a simulated source.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The seed of all random choices, which also depend on the order of reads.
    pub seed: u64,
    /// Latency of a read, uniform between the shortest and the longest.
    pub latency: Range<Duration>,
    /// Reads served at a time; others wait. 0: no bound.
    pub depth: usize,
    /// Whether reads due at the same time complete in random order.
    pub shuffle: bool,
    /// Share of reads (0 to 1) that arrive in pieces, each after another latency.
    pub short_reads: f64,
    /// Share of reads (0 to 1) that fail with a transient error, which the next try at that offset does not meet.
    pub transient_errors: f64,
    /// Unreadable bytes.
    pub broken: Vec<Range<u64>>,
    /// Bytes that arrive with their lowest bit flipped.
    pub flipped: Vec<u64>,
    /// The end of the source, if before the end of its bytes.
    pub truncated: Option<u64>,
    /// The reads that suit it.
    pub form: ReadForm,
}

impl Default for Simulation {
    /// No latency, no faults.
    fn default() -> Self {
        Self {
            seed: 1,
            latency: Duration::ZERO..Duration::ZERO,
            depth: 0,
            shuffle: false,
            short_reads: 0.0,
            transient_errors: 0.0,
            broken: Vec::new(),
            flipped: Vec::new(),
            truncated: None,
            form: ReadForm::default(),
        }
    }
}

impl Simulation {
    /// A device with the same time for each read, which serves `depth` at a time.
    pub fn fixed(latency: Duration, depth: usize) -> Self {
        Self { latency: latency..latency, depth, ..Self::default() }
    }
}

enum Content {
    Bytes(Vec<u8>),
    Made(u64, Box<dyn Fn(u64) -> u8 + Send + Sync>),
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(b) => b.len() as u64,
            Self::Made(len, _) => *len,
        }
    }

    fn copy(&self, offset: u64, len: usize) -> Vec<u8> {
        match self {
            Self::Bytes(b) => b[offset as usize..offset as usize + len].to_vec(),
            Self::Made(_, f) => (offset..offset + len as u64).map(f).collect(),
        }
    }
}

/// SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in 0..1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Due {
    read: Read,
    done: Arc<dyn Completion>,
    /// Pieces that arrive after this one.
    pieces: u32,
    transient: bool,
}

struct SimulatedState {
    random: SplitMix64,
    /// Due time, tie-breaker, place in `pending`.
    heap: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    pending: crate::slab::SlotMap<Due>,
    /// The time when each of the `depth` servers is free again.
    servers: BinaryHeap<Reverse<Instant>>,
    submitted: u64,
    /// Offsets whose last read met a transient error.
    troubled: HashSet<u64>,
    closed: bool,
}

struct SimulatedShared {
    content: Content,
    simulation: Simulation,
    inside: Mutex<SimulatedState>,
    bell: Condvar,
}

/// See the module.
pub struct Simulated {
    shared: Arc<SimulatedShared>,
    thread: Option<JoinHandle<()>>,
}

impl Simulated {
    /// A source over `bytes`.
    ///
    /// # Errors
    /// When the thread that keeps the time cannot be started.
    pub fn new(bytes: Vec<u8>, simulation: Simulation) -> std::io::Result<Self> {
        Self::start(Content::Bytes(bytes), simulation)
    }

    /// A source of `len` bytes with `byte(offset)` at `offset`.
    ///
    /// # Errors
    /// As [`Simulated::new`].
    pub fn made(
        len: u64,
        byte: impl Fn(u64) -> u8 + Send + Sync + 'static,
        simulation: Simulation,
    ) -> std::io::Result<Self> {
        Self::start(Content::Made(len, Box::new(byte)), simulation)
    }

    fn start(content: Content, simulation: Simulation) -> std::io::Result<Self> {
        let now = Instant::now();
        let inside = SimulatedState {
            random: SplitMix64(simulation.seed),
            heap: BinaryHeap::new(),
            pending: Default::default(),
            servers: (0..simulation.depth).map(|_| Reverse(now)).collect(),
            submitted: 0,
            troubled: HashSet::new(),
            closed: false,
        };
        let shared =
            Arc::new(SimulatedShared { content, simulation, inside: Mutex::new(inside), bell: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("farfield-sim".into()).spawn(move || theirs.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Reads submitted so far.
    pub fn submitted(&self) -> u64 {
        self.shared.lock().submitted
    }
}

impl SimulatedShared {
    fn lock(&self) -> std::sync::MutexGuard<'_, SimulatedState> {
        self.inside.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn latency(&self, random: &mut SplitMix64) -> Duration {
        let Range { start, end } = self.simulation.latency;
        start + end.saturating_sub(start).mul_f64(random.share())
    }

    fn size(&self) -> u64 {
        self.simulation.truncated.unwrap_or(u64::MAX).min(self.content.len())
    }

    fn schedule(&self, inside: &mut SimulatedState, due: Due) {
        let latency = self.latency(&mut inside.random);
        let now = Instant::now();
        let begin = inside.servers.pop().map_or(now, |Reverse(free)| free.max(now));
        let at = begin + latency;
        if self.simulation.depth > 0 {
            inside.servers.push(Reverse(at));
        }
        let order = if self.simulation.shuffle { inside.random.next() } else { inside.submitted };
        let place = inside.pending.insert(due);
        inside.heap.push(Reverse((at, order, place)));
    }

    fn finish(&self, due: Due) {
        let Due { read, done, transient, .. } = due;
        let s = &self.simulation;
        let range = there(&read, self.size());
        let result = if transient || s.broken.iter().any(|b| b.start < range.end && range.start < b.end) {
            Err(PageErrorKind::Io("simulated".into()))
        } else {
            let mut bytes = self.content.copy(range.start, (range.end - range.start) as usize);
            for at in s.flipped.iter().filter(|at| range.contains(at)) {
                bytes[(at - range.start) as usize] ^= 1;
            }
            // SAFETY: the buffers belong to this read until it is completed.
            unsafe { scatter(&read, &bytes) };
            short(&read, self.size()).map_or(Ok(()), Err)
        };
        done.complete(read.token, result);
    }

    fn run(&self) {
        // The default slack of 50 us is a fortieth of a 2 ms read and would distort measurements.
        // SAFETY: sets a property of this thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        loop {
            self.complete_due();
            let inside = self.lock();
            if inside.closed && inside.heap.is_empty() {
                return;
            }
            // Checked under the lock: a later submission rings.
            match inside.wait(Instant::now()) {
                Some(nap) if nap.is_zero() || inside.closed => {}
                Some(nap) => drop(self.bell.wait_timeout(inside, nap)),
                None => drop(self.bell.wait(inside)),
            }
        }
    }

    /// Completes due reads on this thread.
    fn complete_due(&self) {
        let mut inside = self.lock();
        let now = Instant::now();
        let mut finished = Vec::new();
        while inside.heap.peek().is_some_and(|Reverse((at, ..))| *at <= now || inside.closed) {
            let Some(Reverse((_, order, place))) = inside.heap.pop() else { break };
            let Some(mut due) = inside.pending.remove(place) else { continue };
            if due.pieces > 0 && !inside.closed {
                due.pieces -= 1;
                self.schedule(&mut inside, due);
            } else {
                finished.push((order, due));
            }
        }
        drop(inside);
        if self.simulation.shuffle {
            finished.sort_unstable_by_key(|f| f.0);
        }
        for (_, due) in finished {
            self.finish(due);
        }
    }
}

impl SimulatedState {
    /// Time until the next read is due.
    fn wait(&self, now: Instant) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, ..))| at.saturating_duration_since(now))
    }
}

impl Source for Simulated {
    fn describe(&self) -> String {
        format!("simulated (seed {})", self.shared.simulation.seed)
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        Ok(self.shared.size())
    }

    fn form(&self) -> ReadForm {
        self.shared.simulation.form
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let mut inside = self.shared.lock();
        for read in batch {
            inside.submitted += 1;
            let s = &self.shared.simulation;
            let pieces = if inside.random.share() < s.short_reads { 1 + (inside.random.next() % 3) as u32 } else { 0 };
            let unlucky = inside.random.share() < s.transient_errors;
            let transient = if inside.troubled.remove(&read.offset) { false } else { unlucky };
            if transient {
                inside.troubled.insert(read.offset);
            }
            self.shared.schedule(&mut inside, Due { read, done: done.clone(), pieces, transient });
        }
        drop(inside);
        self.shared.bell.notify_one();
    }

    fn due(&self) -> Option<Duration> {
        self.shared.complete_due();
        self.shared.lock().wait(Instant::now())
    }

    fn timed(&self) -> bool {
        true
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.bell.notify_one();
        if let Some(t) = self.thread.take() {
            // The last owner of the pager can be a completion on that thread.
            if t.thread().id() != std::thread::current().id() {
                // A panic there was reported already.
                let _panicked = t.join();
            }
        }
    }
}

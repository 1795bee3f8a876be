//! A file at an origin in one version: blocks that are here, and reads under way.

use super::super::super::wire::{Range, RemoteStat};
use super::super::memory_cache::{MemoryCache, BLOCK};
use pager::place::{FilePin, FileRef, FileVersion, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads of an origin since the start.
#[derive(Default)]
pub(in super::super) struct OriginCounts {
    /// Reads that were sent.
    pub(in super::super) reads: AtomicU64,
    /// Bytes that came.
    pub(in super::super) bytes: AtomicU64,
    /// Reads that did not succeed.
    pub(in super::super) failed: AtomicU64,
}

impl OriginCounts {
    pub(in super::super) fn named(&self) -> [(&'static str, &'static str, u64); 3] {
        [
            ("origin_reads", "Reads that origins were asked for", self.reads.load(Relaxed)),
            ("origin_bytes", "Bytes that came from origins", self.bytes.load(Relaxed)),
            ("origin_failed", "Reads that origins did not answer", self.failed.load(Relaxed)),
        ]
    }
}

/// Bytes of a file that came for those who waited.
pub(in super::super) struct FetchedRun {
    offset: u64,
    bytes: Vec<u8>,
}

/// What came for one request, by offset.
#[derive(Clone, Default)]
pub(in super::super) struct FetchedRuns(BTreeMap<u64, Arc<FetchedRun>>);

impl FetchedRuns {
    /// Takes more.
    pub(in super::super) fn extend(&mut self, runs: Vec<Arc<FetchedRun>>) {
        self.0.extend(runs.into_iter().map(|run| (run.offset, run)));
    }

    /// The bytes from an offset on, as far as they came together.
    fn from(&self, at: u64) -> Option<&[u8]> {
        let (_, run) = self.0.range(..=at).next_back()?;
        let rest = run.bytes.get(usize::try_from(at - run.offset).ok()?..)?;
        (!rest.is_empty()).then_some(rest)
    }
}

/// What a fetch ends with.
pub(in super::super) type Fetched = Result<Vec<Arc<FetchedRun>>, PageErrorKind>;

/// Invariants:
/// 1. A block is in `flights` from before its read is sent until after it is in the cache.
pub(in super::super) struct OriginFile {
    place: Arc<dyn Place>,
    file: FileRef,
    /// Its state in the words of the protocol.
    pub(in super::super) told: RemoteStat,
    pub(super) version: FileVersion,
    cache: Arc<MemoryCache>,
    counts: Arc<OriginCounts>,
    flights: Mutex<HashMap<u64, Arc<BlockFlight>>>,
    /// When the origin last said that this is its version.
    seen: Mutex<Option<Instant>>,
}

/// One read of absent blocks.
struct BlockFlight {
    first: u64,
    count: u64,
    offset: u64,
    memory: Mutex<Option<Vec<u8>>>,
    waiting: Mutex<Vec<Arc<FlightWaiter>>>,
    urgent: AtomicBool,
    /// Under which completion and token it was sent.
    sent: OnceLock<(Weak<SentReads>, u64)>,
}

impl BlockFlight {
    fn blocks(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

/// Somebody who waits for several flights.
struct FlightWaiter {
    state: Mutex<FlightWaitState>,
}

struct FlightWaitState {
    left: usize,
    came: Vec<Arc<FetchedRun>>,
    failed: Option<PageErrorKind>,
    then: Option<Box<dyn FnOnce(Fetched) + Send>>,
}

impl FlightWaiter {
    fn arrive(&self, result: Result<Option<Arc<FetchedRun>>, PageErrorKind>) {
        let mut state = lock(&self.state);
        state.left -= 1;
        match result {
            Ok(run) => state.came.extend(run),
            Err(kind) => state.failed = state.failed.take().or(Some(kind)),
        }
        if state.left > 0 {
            return;
        }
        let (then, came, failed) = (state.then.take(), std::mem::take(&mut state.came), state.failed.take());
        drop(state);
        if let Some(then) = then {
            then(failed.map_or(Ok(came), Err));
        }
    }
}

/// Reads that were sent together.
struct SentReads {
    file: Arc<OriginFile>,
    flights: Vec<Arc<BlockFlight>>,
}

impl Completion for SentReads {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        if let Some(flight) = self.flights.get(token as usize) {
            self.file.landed(flight, result);
        }
    }
}

impl OriginFile {
    pub(super) fn new(
        place: Arc<dyn Place>,
        path: &str,
        version: FileVersion,
        told: RemoteStat,
        cache: Arc<MemoryCache>,
        counts: Arc<OriginCounts>,
    ) -> Self {
        let pin = Arc::new(FilePin::known(version.clone()));
        let file = FileRef { path: Path::new(path).into(), base: 0, pin };
        let seen = Mutex::new(Some(Instant::now()));
        Self { place, file, told, version, cache, counts, flights: Mutex::default(), seen }
    }

    /// Whether the origin said within this time that this is its version.
    pub(super) fn seen_within(&self, time: Duration) -> bool {
        lock(&self.seen).is_some_and(|seen| seen.elapsed() < time)
    }

    pub(super) fn set_seen(&self, seen: bool) {
        *lock(&self.seen) = seen.then(Instant::now);
    }

    pub(in super::super) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(in super::super) fn place(&self) -> &Arc<dyn Place> {
        &self.place
    }

    /// Appends bytes from what came and from the cache, up to the first that is absent. Returns how many; the error says
    /// that more are wanted.
    pub(in super::super) fn read(
        &self,
        offset: u64,
        len: usize,
        came: &FetchedRuns,
        out: &mut Vec<u8>,
    ) -> Result<usize, usize> {
        let left = usize::try_from(self.told.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = len.min(left);
        let mut done = 0;
        while done < most {
            let at = offset + done as u64;
            let n = match came.from(at) {
                Some(rest) => {
                    let n = rest.len().min(most - done);
                    out.extend_from_slice(&rest[..n]);
                    n
                }
                None => self.cache.read(&self.told.version, at, most - done, out),
            };
            if n == 0 {
                return Err(done);
            }
            done += n;
        }
        Ok(done)
    }

    /// Whether all absent blocks of ranges are under way.
    pub(in super::super) fn is_coming(&self, ranges: &[Range]) -> bool {
        let flights = lock(&self.flights);
        let comes = |block| flights.contains_key(&block) || self.cache.contains(&self.told.version, block);
        !flights.is_empty() && ranges.iter().all(|range| self.blocks(range).all(comes))
    }

    /// The blocks of a range, as far as the file goes.
    fn blocks(&self, range: &Range) -> std::ops::Range<u64> {
        let end = range.offset.saturating_add(range.len.into()).min(self.told.size);
        range.offset / BLOCK as u64..end.div_ceil(BLOCK as u64)
    }

    /// Bytes that a fetch of ranges holds at most.
    pub(in super::super) fn fetch_bytes(&self, ranges: &[Range]) -> usize {
        let blocks = |range| (self.blocks(range).count()) * BLOCK;
        ranges.iter().map(blocks).sum()
    }

    /// Fetches the absent blocks of ranges. `then` is called once, on any thread, with what came for them: blocks that
    /// are here already are not among it.
    pub(in super::super) fn fetch(
        self: &Arc<Self>,
        ranges: &[Range],
        came: &FetchedRuns,
        urgent: bool,
        then: Box<dyn FnOnce(Fetched) + Send>,
    ) {
        let state = FlightWaitState { left: 1, came: Vec::new(), failed: None, then: Some(then) };
        let waiting = Arc::new(FlightWaiter { state: Mutex::new(state) });
        let (mut joined, mut absent) = (BTreeMap::new(), BTreeSet::new());
        let mut flights = lock(&self.flights);
        for block in ranges.iter().flat_map(|range| self.blocks(range)) {
            if came.from(block * BLOCK as u64).is_some() {
                continue;
            }
            // In this order: a block that has landed is in the cache before its flight is gone.
            if let Some(flight) = flights.get(&block) {
                joined.entry(flight.first).or_insert_with(|| flight.clone());
            } else if !self.cache.contains(&self.told.version, block) {
                absent.insert(block);
            }
        }
        let joined: Vec<Arc<BlockFlight>> = joined.into_values().collect();
        let absent: Vec<u64> = absent.into_iter().collect();
        let runs = absent.chunk_by(|a, b| *a + 1 == *b);
        let new: Vec<Arc<BlockFlight>> =
            runs.map(|run| self.flight(run[0], run[0] + run.len() as u64, urgent)).collect();
        for flight in &new {
            for block in flight.blocks() {
                flights.insert(block, flight.clone());
            }
        }
        for flight in joined.iter().chain(&new) {
            lock(&waiting.state).left += 1;
            lock(&flight.waiting).push(waiting.clone());
        }
        drop(flights);
        if urgent {
            joined.iter().for_each(|flight| self.hasten(flight));
        }
        self.send(new);
        waiting.arrive(Ok(None));
    }

    fn flight(&self, from: u64, to: u64, urgent: bool) -> Arc<BlockFlight> {
        let (offset, end) = (from * BLOCK as u64, (to * BLOCK as u64).min(self.told.size));
        Arc::new(BlockFlight {
            first: from,
            count: to - from,
            offset,
            memory: Mutex::new(Some(vec![0; (end - offset) as usize])),
            waiting: Mutex::default(),
            urgent: AtomicBool::new(urgent),
            sent: OnceLock::new(),
        })
    }

    /// A task waits now for a read that was sent ahead of any use.
    fn hasten(&self, flight: &BlockFlight) {
        if flight.urgent.swap(true, SeqCst) {
            return;
        }
        let sent = flight.sent.get().and_then(|(sent, token)| Some((sent.upgrade()?, *token)));
        if let Some((sent, token)) = sent {
            let done: Arc<dyn Completion> = sent;
            self.place.promote(&[token], &done);
        }
    }

    fn send(self: &Arc<Self>, flights: Vec<Arc<BlockFlight>>) {
        if flights.is_empty() {
            return;
        }
        let sent = Arc::new(SentReads { file: self.clone(), flights });
        let reads = sent.flights.iter().zip(0..).map(|(flight, token)| {
            let _first = flight.sent.set((Arc::downgrade(&sent), token));
            // Looked at after that: whoever hastens it from now on finds it sent.
            let class = if flight.urgent.load(SeqCst) { ReadClass::Demand } else { ReadClass::Prefetch };
            let mut memory = lock(&flight.memory);
            // The flight keeps this memory until its completion.
            let buffers = memory.iter_mut().map(|bytes| Buffer { ptr: bytes.as_mut_ptr(), len: bytes.len() }).collect();
            Read { token, offset: flight.offset, buffers, class }
        });
        let reads: Vec<Read> = reads.collect();
        self.counts.reads.fetch_add(reads.len() as u64, Relaxed);
        let done: Arc<dyn Completion> = sent;
        self.place.submit(&self.file, reads, &done);
    }

    fn landed(&self, flight: &Arc<BlockFlight>, result: Result<(), PageErrorKind>) {
        let bytes = lock(&flight.memory).take().unwrap_or_default();
        let result = match result {
            Ok(()) => {
                self.set_seen(true);
                self.counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
                self.cache.insert(&self.told.version, flight.first, &bytes);
                Ok(Some(Arc::new(FetchedRun { offset: flight.offset, bytes })))
            }
            Err(kind) => {
                self.counts.failed.fetch_add(1, Relaxed);
                if matches!(kind, PageErrorKind::Changed { .. } | PageErrorKind::Missing) {
                    self.set_seen(false);
                }
                Err(self.of_pinned(kind))
            }
        };
        let mut flights = lock(&self.flights);
        for block in flight.blocks() {
            flights.remove(&block);
        }
        let waiting = std::mem::take(&mut *lock(&flight.waiting));
        drop(flights);
        for waiting in waiting {
            waiting.arrive(result.clone());
        }
    }

    /// The failure of a read of a file that was there in this version: it is never missing.
    fn of_pinned(&self, kind: PageErrorKind) -> PageErrorKind {
        let was = || self.version.to_string();
        match kind {
            PageErrorKind::Missing => PageErrorKind::Changed { was: was(), is: "deleted".into() },
            PageErrorKind::Short { have, .. } => PageErrorKind::Changed { was: was(), is: format!("{have} bytes") },
            other => other,
        }
    }
}

//! The pager: registered sources and arrays, settings, and counters. The life of a page is in `request`, `pump`,
//! `publish` and `evict`.

use crate::counters::Counters;
use crate::event::{Event, Observer};
use crate::frames::{state, Chunked, Frame};
use crate::id::{ArrayId, PageId, SourceId};
use crate::idle::Idlers;
use crate::ledger::{ChargeKind, Full, Ledger};
use crate::map::PageMap;
use crate::page_state::PageState;
use crate::place::{self, NoSource, PlaceFile};
use crate::policy::PolicyKind;
use crate::pool::Pool;
use crate::residency::Residency;
use crate::source::file::{Backend, FileSet};
use crate::source::folder::{FileNames, Folder};
use crate::source::Source;
use crate::state::PagerState;
use crate::table::Table;
use std::path::Path;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

/// The share of the limit that first reads of remote files may take before their pages have memory.
const FIRST_READS_SHARE: u64 = 16;

/// Smallest limit of a pager: its own tables and a few small pages.
pub const SMALLEST_LIMIT: u64 = 128 << 10;

/// Settings of a pager.
#[derive(Clone)]
pub struct PagerConfig {
    /// Bytes of all charges in the ledger together.
    pub limit: u64,
    /// Replacement.
    pub policy: PolicyKind,
    /// Reads in flight at most, and threads of the fall-back reader. At least 1.
    pub readers: usize,
    /// How local files are read.
    pub backend: Backend,
    /// Receives events.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for PagerConfig {
    /// 256 MiB, clock, 16 readers, the best available backend, no observer.
    fn default() -> Self {
        Self { limit: 256 << 20, policy: PolicyKind::Clock, readers: 16, backend: Backend::Auto, observer: None }
    }
}

/// Why the pager refused a call.
#[derive(Debug, thiserror::Error)]
pub enum PagerError {
    /// The limit does not even hold the pager's own tables.
    #[error("a memory limit of {limit} bytes is too small: {needs} bytes are the least that works")]
    LimitTooSmall {
        /// The requested limit.
        limit: u64,
        /// The smallest sufficient limit.
        needs: u64,
    },
    /// The system gave no address space or no reader.
    #[error("cannot set up the page pool: {0}")]
    Map(#[from] std::io::Error),
    /// A page cannot be read.
    #[error(transparent)]
    Page(#[from] crate::error::PageError),
    /// There is no room, and no release is expected.
    #[error(transparent)]
    Full(#[from] Full),
}

/// Pages under one ledger. One per process as a rule, shared as `Arc<Pager>`.
pub struct Pager {
    pub(crate) me: Weak<Pager>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) readers: usize,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) started: Instant,
    /// 1. Frames and table are read without the lock and written under it; see there.
    pub(crate) frames: Chunked<Frame>,
    pub(crate) table: Table,
    pub(crate) idlers: Idlers,
    /// 2. Grows with every published page. Workers copy it to the pages they use.
    pub(crate) tick: AtomicU64,
    /// 3. Grows when an eviction pass finds only pinned frames. Workers that see it change release their pins.
    pub(crate) pressure: AtomicU64,
    /// See [`Pager::keep_used_since`].
    pub(crate) lately: AtomicU64,
    /// 4. A demand waits for memory: every release must call [`Pager::relieved`]. Set before the eviction pass whose
    ///    failure it reports. So a release that the pass missed sees the flag.
    pub(crate) starved: AtomicBool,
    /// Bytes that a worker may leave pinned from step to step.
    pub(crate) pin_budget: AtomicUsize,
    pub(crate) failed_count: AtomicUsize,
    pub(crate) worker_count: AtomicUsize,
    pub(crate) files: Arc<FileSet>,
    /// Sources with reads that arrive by the clock, which idle workers watch. Only simulated sources so far.
    timed: Mutex<Vec<Arc<dyn Source>>>,
    /// The result of [`reserve_for`] for the limit.
    pub(crate) reserve: AtomicU64,
    /// 5. Locked after nothing and before `idlers`; never held while a source, a decoder or a wake is called.
    pub(crate) state: Mutex<PagerState>,
}

/// Bytes of bookkeeping charged in advance, so that the small amounts of each request cannot fail. The rest is charged
/// as it grows. A small limit has a larger share: at 640 KiB a thirty-second was too small by some hundred bytes.
fn reserve_for(limit: u64) -> u64 {
    (limit / 32).max((limit / 10).min(64 << 10)).clamp(8 << 10, 8 << 20)
}

impl Pager {
    /// Makes a pager.
    ///
    /// # Errors
    /// [`PagerError::LimitTooSmall`]; [`PagerError::Map`] when the system refuses address space.
    pub fn new(config: PagerConfig) -> Result<Arc<Pager>, PagerError> {
        let limit = config.limit;
        if limit < SMALLEST_LIMIT {
            return Err(PagerError::LimitTooSmall { limit, needs: SMALLEST_LIMIT });
        }
        let ledger = Arc::new(Ledger::new(limit));
        let reserve = reserve_for(limit);
        ledger.force(ChargeKind::Tables, reserve + Table::first_bytes());
        let readers = config.readers.max(1);
        let pool = Pool::new(usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 30))?;
        let mut state = PagerState::new(Residency::new(pool, config.policy.build(), ledger.clone()));
        state.sources.set_limit(ledger.limit());
        let frames = Chunked::new()?;
        let idlers = Idlers::new()?;
        let files = FileSet::new(config.backend, readers)?;
        files.first_budget().set(ledger.limit() / FIRST_READS_SHARE);
        Ok(Arc::new_cyclic(|me| Pager {
            me: me.clone(),
            ledger,
            readers,
            observer: config.observer,
            started: Instant::now(),
            frames,
            table: Table::new(),
            idlers,
            tick: AtomicU64::new(1),
            pressure: AtomicU64::new(0),
            lately: AtomicU64::new(u64::MAX),
            starved: AtomicBool::new(false),
            pin_budget: AtomicUsize::new(usize::MAX),
            failed_count: AtomicUsize::new(0),
            worker_count: AtomicUsize::new(0),
            files,
            timed: Mutex::default(),
            reserve: AtomicU64::new(reserve),
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PagerState> {
        // Only a page map's translation can panic under the lock, and that panic is caught. So the state stays
        // consistent.
        crate::spin_lock::lock(&self.state)
    }

    /// The state of a page, from the one place that holds it.
    pub(crate) fn page_state(&self, st: &PagerState, id: PageId) -> PageState {
        if let Some(flight) = st.flights.of(id).and_then(|n| st.flights.get(n)) {
            return flight.state();
        }
        if st.flights.failure(id).is_some() {
            return PageState::Failed;
        }
        let frame = self.table.find(id, &self.frames).and_then(|n| self.frames.get(n));
        match frame.map(|f| f.state.load(Relaxed)) {
            None => PageState::Absent,
            Some(state::EVICTING) => PageState::Evicting,
            Some(_) => PageState::Resident,
        }
    }

    /// Passes an event to the observer and to subscribers of `tracing`.
    #[inline]
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        let subscribed = tracing::enabled!(target: crate::event::TARGET, tracing::Level::TRACE);
        if self.observer.is_some() || subscribed {
            self.deliver(&event(), subscribed);
        }
    }

    /// Passes on several events of the past.
    pub(crate) fn emit_all(&self, events: &[Event]) {
        if let Some(o) = &self.observer {
            o.events(self.now_us(), events);
        }
        if tracing::enabled!(target: crate::event::TARGET, tracing::Level::TRACE) {
            events.iter().for_each(Event::trace);
        }
    }

    #[inline(never)]
    fn deliver(&self, event: &Event, subscribed: bool) {
        if let Some(o) = &self.observer {
            o.event(self.now_us(), event);
        }
        if subscribed {
            event.trace();
        }
    }

    /// Records an event of the layers above. Free without an observer: `event` is not called then.
    #[inline]
    pub fn record(&self, event: impl FnOnce() -> Event) {
        self.emit(event);
    }

    /// Whether an observer receives the events, so that details are worth computing.
    #[inline]
    pub fn observed(&self) -> bool {
        self.observer.is_some() || tracing::enabled!(target: crate::event::TARGET, tracing::Level::TRACE)
    }

    /// Microseconds since the pager was made: the time base of events.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Name of the reader of local files: `io_uring` or `threads`.
    pub fn reader_name(&self) -> &'static str {
        self.files.backend_name()
    }

    /// Sets whether local files are read past the page cache. It applies where offset, lengths and frame are multiples
    /// of a block of the device.
    ///
    /// A page is then in memory once instead of twice, and is not copied. But earlier reads are not found in the page
    /// cache. Off by default.
    pub fn set_direct(&self, on: bool) {
        self.files.set_direct(on);
    }

    /// Reads in flight at most.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Registers a source.
    pub fn add_source(&self, source: Arc<dyn Source>) -> SourceId {
        let name = place::shown(Path::new(&source.describe()));
        if source.timed() {
            self.timed.lock().unwrap_or_else(|e| e.into_inner()).push(source.clone());
        }
        let mut st = self.lock();
        let id = st.sources.add(source);
        drop(st);
        self.emit(|| Event::Source { source: id, name: name.into() });
        id
    }

    /// Registers a file, local or of a place. It is opened at its first read; the number of open files is bounded. The
    /// reads of a URL that names no place fail.
    pub fn add_file(&self, path: &Path) -> SourceId {
        match place::of(path) {
            Ok(None) => self.add_source(FileSet::file(&self.files, path)),
            Ok(Some(place)) => self.add_source(Arc::new(PlaceFile::new(place, path))),
            Err(kind) => self.add_source(Arc::new(NoSource::new(path, kind))),
        }
    }

    /// Makes an unregistered source of many files. Each is opened at its first read.
    ///
    /// # Errors
    /// When there are more files than one source can have.
    pub fn folder(&self, names: Arc<dyn FileNames>) -> std::io::Result<Arc<Folder>> {
        FileSet::folder(&self.files, names)
    }

    /// A registered source.
    pub fn source(&self, id: SourceId) -> Option<Arc<dyn Source>> {
        self.lock().sources.get(id).cloned()
    }

    /// Registers an array.
    pub fn add_array(&self, map: Arc<dyn PageMap>) -> ArrayId {
        let registered = map.clone();
        let mut st = self.lock();
        let id = ArrayId(st.maps.len() as u32);
        st.maps.push(map);
        drop(st);
        self.emit(|| {
            let [pages_i, pages_j, pages_k] = registered.pages_along().unwrap_or_default();
            let (pages, derived, name) = (registered.pages(), registered.derived(), registered.name().into());
            Event::Array { array: id, pages, pages_i, pages_j, pages_k, derived, name }
        });
        id
    }

    /// A registered array.
    ///
    /// # Panics
    /// If `array` was not made by this pager.
    pub fn map(&self, array: ArrayId) -> Arc<dyn PageMap> {
        self.lock().maps[array.0 as usize].clone()
    }

    /// Changes the limit. Lowering it drops unused pages at once, and the others as they are released. Until then the
    /// ledger is above its limit, and nothing new is charged.
    pub fn set_limit(&self, bytes: u64) {
        let mut st = self.lock();
        self.ledger.set_limit(bytes);
        st.sources.set_limit(bytes);
        self.files.first_budget().set(bytes / FIRST_READS_SHARE);
        let reserve = reserve_for(bytes);
        let before = self.reserve.swap(reserve, Relaxed);
        if reserve > before {
            // A share of the added bytes.
            self.ledger.force(ChargeKind::Tables, reserve - before);
        } else {
            self.ledger.release(ChargeKind::Tables, before - reserve);
        }
        self.budget_pins(&st);
        // Pages that were too large for the old limit may fit the new one.
        let fits = st.flights.forget_failures(|e| matches!(e.kind, crate::error::PageErrorKind::TooLarge { .. }));
        self.failed_count.fetch_sub(fits, SeqCst);
        self.emit(|| Event::Limit { bytes });
        st.shrinking = true;
        st.relief += 1;
        drop(st);
        self.pump();
    }

    pub(crate) fn budget_pins(&self, st: &PagerState) {
        let share = self.ledger.limit() / 4 / st.workers.len().max(1) as u64;
        self.pin_budget.store(usize::try_from(share).unwrap_or(usize::MAX), Relaxed);
    }

    /// Asks workers to release their pins between two steps, which may make room.
    pub fn press(&self) {
        self.pressure.fetch_add(1, SeqCst);
    }

    /// Charges the growth of the bookkeeping beyond the reserve, or releases its decrease.
    pub(crate) fn book(&self, st: &mut PagerState) {
        let reserve = self.reserve.load(Relaxed);
        let mut now = st.bookkeeping().saturating_sub(reserve);
        if now > 0 && st.trim() {
            now = st.bookkeeping().saturating_sub(reserve);
        }
        if now > st.booked {
            let more = now - st.booked;
            if !self.ledger.try_charge(ChargeKind::Tables, more) {
                let _ = self.make_room(st, more);
                // If no page can be dropped, this exceeds the limit by the size of a few queue entries. The ledger
                // shows them as overdraft: a request cannot be refused half way.
                self.ledger.force(ChargeKind::Tables, more);
            }
        } else {
            self.ledger.release(ChargeKind::Tables, st.booked - now);
        }
        st.booked = now;
    }

    /// Notes a release: tasks that wait for memory try again.
    pub(crate) fn relieved(&self) {
        fence(SeqCst);
        if self.starved.load(SeqCst) {
            self.lock().relief += 1;
            self.pump();
        }
    }

    /// The failed charge of a demand without memory while no page on its way would free any. It stays set until pins,
    /// holds or charges are released.
    pub fn stalled(&self) -> Option<Full> {
        if !self.starved.load(SeqCst) {
            return None;
        }
        let mut st = self.lock();
        if !st.starved || !st.reads.quiet() {
            return None;
        }
        let flight = st.flights.head(true)?;
        let needs = self.needs(&mut st, flight);
        Some(Full { needs, used: self.ledger.used(), limit: self.ledger.limit() })
    }

    /// Counts never-written pages that were answered without single requests.
    pub fn answered_fills(&self, pages: u64) {
        self.lock().tally.fills += pages;
    }

    /// A snapshot of the counters.
    pub fn counters(&self) -> Counters {
        let mut st = self.lock();
        self.account_prefetched(&mut st);
        let (mut hits, mut misses, mut used) = (st.tally.hits, st.tally.misses, st.tally.prefetched_used);
        for w in &st.workers {
            hits += w.hits.load(Relaxed);
            misses += w.misses.load(Relaxed);
            used += w.prefetched_used.load(Relaxed);
        }
        let t = &st.tally;
        Counters {
            total: st.touched.total,
            touched: st.touched.touched,
            touched_exact: !st.touched.partial,
            faults: t.faults,
            hits,
            misses,
            evictions: t.evictions,
            given_back: t.given_back,
            prefetched: t.prefetched,
            prefetched_used: used,
            prefetch_dropped: t.prefetch_dropped,
            fills: t.fills,
            failed: t.failed,
            published: t.published,
            decoded: t.decoded,
            derived: t.derived,
            given_up: t.given_up,
            index_faults: t.index_faults,
            bytes_read: t.bytes_read,
            reads: t.reads,
            segments: t.segments,
            retries: t.retries,
            full: t.full,
            resident: u64::from(self.table.len()),
            used_bytes: self.ledger.used(),
            peak_bytes: self.ledger.peak(),
            limit_bytes: self.ledger.limit(),
        }
    }

    /// Waits for work ([`Pager::work`]), a notice ([`Pager::notify`]), or the timeout. Release the worker's pins first:
    /// pins of a sleeping worker keep memory from waiting tasks.
    pub fn idle(&self, timeout: std::time::Duration) {
        self.idlers.wait(timeout, &self.files, || {
            self.reap();
            let timed = self.timed.lock().unwrap_or_else(|e| e.into_inner()).clone();
            timed.iter().filter_map(|s| s.due()).min()
        });
    }

    /// Wakes idle threads.
    pub fn notify(&self) {
        self.idlers.notify(self.worker_count.load(Relaxed));
    }
}

//! The pager: what is registered, what it may use, and what it counted. The life of a page is in `request`, `pump`,
//! `publish` and `evict`.

use crate::counters::Counters;
use crate::event::{Event, Observer};
use crate::frames::{Chunked, Frame, FrameNumbers};
use crate::id::{ArrayId, SourceId};
use crate::idle::Idlers;
use crate::ledger::{Charge, ChargeKind, Full, Ledger};
use crate::map::PageMap;
use crate::policy::PolicyKind;
use crate::pool::Pool;
use crate::source::file::{Backend, FileSet};
use crate::source::folder::{FileNames, Folder};
use crate::source::Source;
use crate::state::{LockedCounters, PagerState};
use crate::table::Table;
use std::path::Path;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

/// Smallest limit that a pager can be made with: its own tables, and a handful of small pages.
pub const SMALLEST_LIMIT: u64 = 128 << 10;

/// How a pager is made.
#[derive(Clone)]
pub struct PagerConfig {
    /// Bytes that everything in the ledger may take together.
    pub limit: u64,
    /// Replacement.
    pub policy: PolicyKind,
    /// Reads in flight at most, and threads of the fall-back reader. At least 1.
    pub readers: usize,
    /// How local files are read.
    pub backend: Backend,
    /// Who gets events.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for PagerConfig {
    /// 256 MiB, clock, 16 readers, the best backend there is, nobody observes.
    fn default() -> Self {
        Self { limit: 256 << 20, policy: PolicyKind::Clock, readers: 16, backend: Backend::Auto, observer: None }
    }
}

/// Why the pager could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PagerError {
    /// The limit does not even hold the pager's own tables.
    #[error("a memory limit of {limit} bytes is too small: {needs} bytes are the least that works")]
    LimitTooSmall {
        /// What was asked for.
        limit: u64,
        /// What would do.
        needs: u64,
    },
    /// The system gave no address space or no reader.
    #[error("cannot set up the page pool: {0}")]
    Map(#[from] std::io::Error),
    /// A page cannot be had.
    #[error(transparent)]
    Page(#[from] crate::error::PageError),
    /// There is no room and none is going to be made.
    #[error(transparent)]
    Full(#[from] Full),
}

/// Pages under one ledger. Made once a process; shared as `Arc<Pager>`.
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
    /// 2. Grows with every page published. Workers copy it to the pages they use.
    pub(crate) tick: AtomicU64,
    /// 3. Grows when an eviction pass found only pinned frames: workers that see it change release their pins.
    pub(crate) pressure: AtomicU64,
    /// See [`Pager::keep_used_since`].
    pub(crate) lately: AtomicU64,
    /// 4. Someone waits for memory: whoever releases any must call [`Pager::relieved`]. Set before the eviction pass whose failure
    ///    it stands for, so that a release that the pass did not see sees the flag.
    pub(crate) starved: AtomicBool,
    /// Bytes that a worker may leave pinned from step to step.
    pub(crate) pin_budget: AtomicUsize,
    pub(crate) failed_count: AtomicUsize,
    pub(crate) worker_count: AtomicUsize,
    pub(crate) files: Arc<FileSet>,
    /// Sources for which idle workers watch the clock. Hardly ever any: only simulated ones so far.
    timed: Mutex<Vec<Arc<dyn Source>>>,
    /// What [`reserve_for`] says of the limit.
    pub(crate) reserve: AtomicU64,
    /// 5. Locked after nothing and before `idlers`; never held while a source, a decoder or a wake is called.
    pub(crate) state: Mutex<PagerState>,
}

/// Bookkeeping is charged ahead for the small amounts that every request needs, so that they cannot fail; what goes beyond is
/// charged as it grows. More of a small limit: at 640 KiB a thirty-second was passed by some hundred bytes.
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
        let state = PagerState {
            maps: Vec::new(),
            sources: Vec::new(),
            pool: Pool::new(usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 30))?,
            numbers: FrameNumbers::default(),
            policy: config.policy.build(),
            offered: Default::default(),
            flights: Default::default(),
            flying: Default::default(),
            requests: Default::default(),
            waits: Default::default(),
            tickets: 0,
            demand: Default::default(),
            prefetch: Default::default(),
            active: Default::default(),
            active_bytes: 0,
            making_bytes: 0,
            makings: 0,
            making_serial: 0,
            parked: Default::default(),
            alone: false,
            heap_bytes: 0,
            staged: Default::default(),
            reads: Default::default(),
            serial: 0,
            in_flight: 0,
            arrived: Default::default(),
            backlog: false,
            pumping: false,
            again: false,
            starved: false,
            shrinking: false,
            relief: 0,
            refused_at: None,
            failed: Default::default(),
            first_failure: None,
            held: Default::default(),
            touched: Default::default(),
            workers: Vec::new(),
            worker_serial: 0,
            wakes: Vec::new(),
            tally: LockedCounters::default(),
            booked: 0,
        };
        let frames = Chunked::new()?;
        let idlers = Idlers::new()?;
        let files = FileSet::new(config.backend, readers)?;
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
        // A panic under the lock can only come from a page map's translation, which is caught; the state stays whole.
        crate::spin_lock::lock(&self.state)
    }

    /// Tells the observer, and whoever subscribes to `tracing`, what happened.
    #[inline]
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        let subscribed = tracing::enabled!(target: crate::event::TARGET, tracing::Level::TRACE);
        if self.observer.is_some() || subscribed {
            self.deliver(&event(), subscribed);
        }
    }

    /// Tells of several things that have happened by now.
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

    /// Tells what happened in the layers above. For nothing where nobody observes: `event` is not called then.
    #[inline]
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        self.emit(event);
    }

    /// Whether all events are kept or looked at: then it is worth it to find out more.
    #[inline]
    pub fn observed(&self) -> bool {
        self.observer.is_some() || tracing::enabled!(target: crate::event::TARGET, tracing::Level::TRACE)
    }

    /// Microseconds since the pager was made: the time of events.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Name of the reader of local files that is in use: `io_uring` or `threads`.
    pub fn reader_name(&self) -> &'static str {
        self.files.backend_name()
    }

    /// Whether local files are read past the page cache where offset, lengths and frame are multiples of a block of the device. A page is then
    /// in memory once and not twice, and is not copied; but what was read before is not found there either. Off at first.
    pub fn set_direct(&self, on: bool) {
        self.files.set_direct(on);
    }

    /// Reads in flight at most.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Registers a source.
    pub fn add_source(&self, source: Arc<dyn Source>) -> SourceId {
        let name = source.describe();
        if source.timed() {
            self.timed.lock().unwrap_or_else(|e| e.into_inner()).push(source.clone());
        }
        let mut st = self.lock();
        let id = SourceId(st.sources.len() as u32);
        st.sources.push(source);
        drop(st);
        self.emit(|| Event::Source { source: id, name: name.into() });
        id
    }

    /// Registers a local file. It is opened when it is first read; the number of open files is bounded.
    pub fn add_file(&self, path: &Path) -> SourceId {
        self.add_source(FileSet::file(&self.files, path))
    }

    /// Makes a source of many files, which is yet to be registered: each is opened when it is first read.
    ///
    /// # Errors
    /// When there are more files than one source can have.
    pub fn folder(&self, names: Arc<dyn FileNames>) -> std::io::Result<Arc<Folder>> {
        FileSet::folder(&self.files, names)
    }

    /// A registered source.
    pub fn source(&self, id: SourceId) -> Option<Arc<dyn Source>> {
        self.lock().sources.get(id.0 as usize).cloned()
    }

    /// Registers an array.
    pub fn add_array(&self, map: Arc<dyn PageMap>) -> ArrayId {
        let told = map.clone();
        let mut st = self.lock();
        let id = ArrayId(st.maps.len() as u32);
        st.maps.push(map);
        drop(st);
        self.emit(|| {
            let [pages_i, pages_j, pages_k] = told.pages_along().unwrap_or_default();
            let (pages, derived, name) = (told.pages(), told.derived(), told.name().into());
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

    /// Changes the limit. Lowering it drops pages that are not in use at once, and the rest as they are released; until then
    /// the ledger is above its limit and nothing new is charged.
    pub fn set_limit(&self, bytes: u64) {
        let mut st = self.lock();
        self.ledger.set_limit(bytes);
        let reserve = reserve_for(bytes);
        let before = self.reserve.swap(reserve, Relaxed);
        if reserve > before {
            // A share of what was added.
            self.ledger.force(ChargeKind::Tables, reserve - before);
        } else {
            self.ledger.release(ChargeKind::Tables, before - reserve);
        }
        self.budget_pins(&st);
        // What was too large for the old limit may fit the new one.
        let before = st.failed.len();
        st.failed.retain(|_, e| !matches!(e.kind, crate::error::PageErrorKind::TooLarge { .. }));
        self.failed_count.fetch_sub(before - st.failed.len(), SeqCst);
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

    /// Asks workers to let go of what they have pinned, between two of their steps: then there may be room.
    pub fn press(&self) {
        self.pressure.fetch_add(1, SeqCst);
    }

    /// A charge of nothing, that can grow.
    pub fn no_charge(&self, kind: ChargeKind) -> Charge {
        Charge { ledger: self.ledger.clone(), pager: self.me.clone(), kind, bytes: 0 }
    }

    /// Charges bytes for something outside the pool, dropping clean pages to make room. The charge is taken back when the
    /// returned value is dropped.
    ///
    /// # Errors
    /// [`Full`] when everything else is in use. Not retried here: the caller hands something over, asks workers to let go
    /// ([`Self::press`]), or ends.
    pub fn charge(&self, kind: ChargeKind, bytes: u64) -> Result<Charge, Full> {
        let charged = self.charge_outside(kind, bytes);
        self.emit(|| Event::Charged { bytes, used: self.ledger.used(), ok: charged.is_ok() });
        charged?;
        Ok(Charge { ledger: self.ledger.clone(), pager: self.me.clone(), kind, bytes })
    }

    fn charge_outside(&self, kind: ChargeKind, bytes: u64) -> Result<(), Full> {
        if self.ledger.try_charge(kind, bytes) {
            return Ok(());
        }
        let mut st = self.lock();
        loop {
            self.make_room(&mut st, bytes)?;
            if self.ledger.try_charge(kind, bytes) {
                return Ok(());
            }
        }
    }

    /// Charges what the bookkeeping has grown by, beyond what was charged ahead, or takes back what it has shrunk by.
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
                // If nothing can be dropped this goes over the limit by the size of a few queue entries, which the ledger
                // shows as overdraft: a request cannot be refused half way.
                self.ledger.force(ChargeKind::Tables, more);
            }
        } else {
            self.ledger.release(ChargeKind::Tables, st.booked - now);
        }
        st.booked = now;
    }

    /// Something was released: whoever waits for memory gets another try.
    pub(crate) fn relieved(&self) {
        fence(SeqCst);
        if self.starved.load(SeqCst) {
            self.lock().relief += 1;
            self.pump();
        }
    }

    /// Set if a page that someone waits for cannot get memory and nothing is on its way that would free any: unless someone
    /// releases pins, holds or charges, this stays so.
    pub fn stalled(&self) -> Option<Full> {
        if !self.starved.load(SeqCst) {
            return None;
        }
        let mut st = self.lock();
        if !st.starved || !st.quiet() {
            return None;
        }
        let flight = st.head(true)?;
        let needs = self.needs(&mut st, flight);
        Some(Full { needs, used: self.ledger.used(), limit: self.ledger.limit() })
    }

    /// Counts pages as never written that were answered for without being asked for one by one.
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

    /// Waits until there is something to [`Pager::work`] on, someone calls [`Pager::notify`], or the time is over. Release the
    /// worker's pins first: pins of a sleeping worker keep memory from those who wait for it.
    pub fn idle(&self, timeout: std::time::Duration) {
        self.idlers.wait(timeout, &self.files, || {
            self.reap();
            let timed = self.timed.lock().unwrap_or_else(|e| e.into_inner()).clone();
            timed.iter().filter_map(|s| s.due()).min()
        });
    }

    /// Wakes idlers.
    pub fn notify(&self) {
        self.idlers.notify(self.worker_count.load(Relaxed));
    }
}

//! Pages with reserved memory, and the reads that fill it.
//!
//! A page with memory has an [`Active`] entry until it is published or released. Its extents are *staged* until a
//! reader is free, and then parts of a read of a source. After the last extent the entry has *arrived*, and a worker
//! decodes it.

use crate::error::PageErrorKind;
use crate::id::{PageId, SourceId};
use crate::making::{DerivedInput, Making};
use crate::map::{Extent, ExtentTarget};
use crate::pool::PoolSlot;
use crate::slab::SlotMap;
use crate::source::Buffer;
use crate::translated::{Encoded, TAIL_BYTES};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// A page with this many extents consists of pieces of rows.
const PIECES: usize = 8;

/// A page with reserved memory.
pub(crate) struct Active {
    pub(crate) flight: u32,
    pub(crate) id: PageId,
    pub(crate) frame: u32,
    pub(crate) ptr: *mut u8,
    pub(crate) len: usize,
    pub(crate) encoded: Option<Encoded>,
    /// As in [`Translated`](crate::translated::Translated).
    pub(crate) body: Range<usize>,
    /// As in [`Translated`](crate::translated::Translated).
    pub(crate) moved: Option<(Range<usize>, usize)>,
    pub(crate) scratch: Option<(PoolSlot, usize)>,
    /// As in [`Translated`](crate::translated::Translated).
    pub(crate) found: Box<[u64]>,
    pub(crate) segments: Vec<Extent>,
    pub(crate) fill: bool,
    /// The first read error of the page.
    pub(crate) error: Option<(SourceId, u64, PageErrorKind)>,
    pub(crate) attempts: u8,
    /// The remaining work on a derived page.
    pub(crate) making: Option<Box<Making>>,
    pub(crate) progress: ExtentProgress,
}

/// The progress of a page's extents.
pub(crate) struct ExtentProgress {
    /// Extents that have not arrived. While it is not 0 a source may write to the frame and the encoded buffer. So they
    /// are not freed, cancelled or not.
    left: u32,
    /// Extents that a source has now.
    at_source: u32,
    /// Whether a source had one of them.
    issued: bool,
}

impl ExtentProgress {
    /// Of a page with so many extents.
    pub(crate) fn new(extents: usize) -> Self {
        Self { left: extents as u32, at_source: 0, issued: false }
    }
}

impl Active {
    /// Bytes reserved in the pool.
    fn reserved_bytes(&self) -> u64 {
        let encoded = if let Some(Encoded::Slot(_, len)) = self.encoded { len } else { 0 };
        (self.len + encoded + self.scratch.map_or(0, |s| s.1)) as u64
    }

    /// Bytes of its lists, outside the pool.
    fn heap_bytes(&self) -> u64 {
        let tail = if let Some(Encoded::Tail(..)) = self.encoded { TAIL_BYTES } else { 0 };
        let making =
            self.making.as_ref().map_or(0, |m| size_of::<Making>() + m.wanted.capacity() * size_of::<DerivedInput>());
        (self.segments.capacity() * size_of::<Extent>() + size_of_val(&*self.found) + tail + making) as u64
    }
}

/// An extent that waits for a reader.
#[derive(Copy, Clone)]
pub(crate) struct Staged {
    pub(crate) source: SourceId,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) active: u32,
    pub(crate) segment: u32,
    /// Read alone, after a joined read with it failed: its error must not fail its neighbours.
    pub(crate) solo: bool,
    /// A piece of a row, of a page with many. The bytes between it and the next piece may be read with them.
    pub(crate) piece: bool,
}

impl Staged {
    /// Extent `index` of a page with the extents `all`.
    fn new(active: u32, index: usize, all: &[Extent], solo: bool) -> Option<Self> {
        let s = all.get(index)?;
        let piece = all.len() >= PIECES;
        Some(Self { source: s.source, offset: s.offset, len: s.len, active, segment: index as u32, solo, piece })
    }
}

/// A read that a source works on.
struct ReadUnderway {
    source: SourceId,
    /// Whether the source has a depth of its own.
    own: bool,
    /// Distinguishes this read from earlier ones at the same place, so that a second completion is detected.
    serial: u32,
    /// In the order of the source.
    parts: Vec<ReadPart>,
}

/// The token of a read: its place in the list, and its serial number.
fn token_of(index: u32, read: &ReadUnderway) -> u64 {
    u64::from(read.serial) << 32 | u64::from(index)
}

/// An extent within a read.
#[derive(Copy, Clone)]
pub(crate) struct ReadPart {
    pub(crate) active: u32,
    pub(crate) segment: u32,
    /// Its first bytes, if they are the last ones of the part before it. They are read there and copied.
    pub(crate) shared: u32,
}

/// The state of a page after one of its extents came or failed.
pub(crate) enum AfterExtent {
    /// A source has others.
    Reading,
    /// The remaining extents wait for a reader.
    Staged,
    Arrived,
    /// None is left, and one had an error.
    Failed,
}

/// Pages with memory, and their reads.
#[derive(Default)]
pub(crate) struct Reads {
    active: SlotMap<Active>,
    /// 1. Sums over `active`: bytes of pages that are read, bytes and number of derived pages, bytes of lists. A page
    ///    of a file in another order can have hundreds of extents.
    read_bytes: u64,
    derived_bytes: u64,
    derived: usize,
    heap_bytes: u64,
    /// Derived pages so far.
    derived_serial: u64,
    /// 2. Each extent of an active page is staged, or in one read, or has arrived.
    staged: VecDeque<Staged>,
    /// 3. Of sources without a depth of their own never more than the configured readers.
    reads: SlotMap<ReadUnderway>,
    /// 4. The reads in `reads` of each source with a depth of its own.
    own: HashMap<SourceId, usize>,
    own_total: usize,
    serial: u32,
    /// 5. Active pages whose extents have all arrived, each once, until a worker takes them.
    arrived: VecDeque<u32>,
    /// No reads are started until some of `arrived` are decoded.
    backlog: bool,
}

// SAFETY: raw pointers in entries are addresses in the pool, which lives as long as the pager. `ExtentProgress::left`
// and pins decide who accesses the memory.
unsafe impl Send for Reads {}

impl Reads {
    pub(crate) fn get(&self, active: u32) -> Option<&Active> {
        self.active.get(active)
    }

    pub(crate) fn get_mut(&mut self, active: u32) -> Option<&mut Active> {
        self.active.get_mut(active)
    }

    pub(crate) fn making(&self, active: u32) -> Option<&Making> {
        self.active.get(active)?.making.as_deref()
    }

    pub(crate) fn making_mut(&mut self, active: u32) -> Option<&mut Making> {
        self.active.get_mut(active)?.making.as_deref_mut()
    }

    /// All derived pages with memory: each with its flight.
    pub(crate) fn all_making(&self) -> impl Iterator<Item = (u32, &Making)> {
        self.active.iter().filter_map(|(_, a)| Some((a.flight, a.making.as_deref()?)))
    }

    /// The work on a derived page with these inputs.
    pub(crate) fn new_making(&mut self, inputs: Vec<PageId>) -> Box<Making> {
        self.derived_serial += 1;
        Box::new(Making::new(inputs, self.derived_serial))
    }

    /// Adds a page with reserved memory. Its extents are staged; without any it has arrived.
    pub(crate) fn begin(&mut self, entry: Active) -> u32 {
        self.heap_bytes += entry.heap_bytes();
        if entry.making.is_some() {
            self.derived_bytes += entry.reserved_bytes();
            self.derived += 1;
        } else {
            self.read_bytes += entry.reserved_bytes();
        }
        let active = self.active.insert(entry);
        if let Some(a) = self.active.get(active) {
            let all = &a.segments;
            if all.is_empty() {
                self.arrived.push_back(active);
            }
            self.staged.extend((0..all.len()).filter_map(|i| Staged::new(active, i, all, false)));
        }
        active
    }

    /// Removes an entry. The caller frees its memory.
    pub(crate) fn end(&mut self, active: u32) -> Option<Active> {
        let a = self.active.remove(active)?;
        self.heap_bytes -= a.heap_bytes();
        if a.making.is_some() {
            self.derived_bytes -= a.reserved_bytes();
            self.derived -= 1;
        } else {
            self.read_bytes -= a.reserved_bytes();
        }
        Some(a)
    }

    /// Pages with memory.
    pub(crate) fn count(&self) -> usize {
        self.active.len()
    }

    /// Bytes reserved for pages that are read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Bytes reserved for derived pages.
    pub(crate) fn derived_bytes(&self) -> u64 {
        self.derived_bytes
    }

    /// Derived pages with memory.
    pub(crate) fn derived(&self) -> usize {
        self.derived
    }

    /// Whether nothing on its way would free or publish memory.
    pub(crate) fn quiet(&self) -> bool {
        // A derived page that waits for inputs moves no sooner than they do.
        self.active.iter().all(|(_, a)| a.making.as_ref().is_some_and(|m| !m.busy))
    }

    /// Extents that wait for a reader.
    pub(crate) fn staged(&self) -> &VecDeque<Staged> {
        &self.staged
    }

    /// Puts staged extents in the order of their places in the sources.
    pub(crate) fn sort_staged(&mut self) {
        self.staged.make_contiguous().sort_unstable_by_key(|s| (s.source, s.offset, s.active, s.segment));
    }

    /// Removes the staged extent at a place, for a read.
    pub(crate) fn take_staged(&mut self, at: usize) -> Option<Staged> {
        self.staged.remove(at)
    }

    /// Unstages the extents of pages that no source has seen and whose flight is `unwanted`. Returns the pages.
    pub(crate) fn unstage(&mut self, unwanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut pages = Vec::new();
        let active = &self.active;
        self.staged.retain(|s| match active.get(s.active) {
            Some(a) if !a.progress.issued && unwanted(a.flight) => {
                pages.push(s.active);
                false
            }
            kept => kept.is_some(),
        });
        pages.dedup();
        pages
    }

    /// Stages an extent again after its read failed. False if there is no such extent.
    pub(crate) fn stage_again(&mut self, active: u32, segment: u32) -> bool {
        let Some(a) = self.active.get(active) else { return false };
        let Some(staged) = Staged::new(active, segment as usize, &a.segments, true) else { return false };
        self.staged.push_front(staged);
        true
    }

    /// The buffer of a part's whole extent.
    pub(crate) fn buffer(&self, part: ReadPart) -> Option<Buffer> {
        let a = self.active.get(part.active)?;
        let segment = a.segments.get(part.segment as usize)?;
        let (base, at) = match segment.to {
            ExtentTarget::Frame(at) => (a.ptr, at),
            ExtentTarget::Encoded(at) => (a.encoded.as_ref()?.place().0, at),
        };
        // `sound` has checked that the extent is inside.
        Some(Buffer { ptr: base.wrapping_add(at), len: segment.len })
    }

    /// Notes that a source gets an extent of a page. Returns its flight, if the source has no other extent of it.
    pub(crate) fn issue(&mut self, part: ReadPart) -> Option<u32> {
        let a = self.active.get_mut(part.active)?;
        a.progress.issued = true;
        a.progress.at_source += 1;
        (a.progress.at_source == 1).then_some(a.flight)
    }

    /// Adds a read of these parts. Returns its token.
    pub(crate) fn begin_read(&mut self, source: SourceId, own: bool, parts: Vec<ReadPart>) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        if own {
            *self.own.entry(source).or_default() += 1;
            self.own_total += 1;
        }
        let index = self.reads.insert(ReadUnderway { source, own, serial, parts });
        u64::from(serial) << 32 | u64::from(index)
    }

    /// Ends a read and returns its parts. `None` for a token completed before, whose memory may belong to another read.
    pub(crate) fn end_read(&mut self, token: u64) -> Option<Vec<ReadPart>> {
        let (index, serial) = ((token & u64::from(u32::MAX)) as u32, (token >> 32) as u32);
        self.reads.get(index).filter(|r| r.serial == serial)?;
        let read = self.reads.remove(index)?;
        if let Some(count) = self.own.get_mut(&read.source).filter(|_| read.own) {
            *count -= 1;
            self.own_total -= 1;
            if *count == 0 {
                self.own.remove(&read.source);
            }
        }
        Some(read.parts)
    }

    /// The reads under way with extents of a flight's page, with their sources.
    pub(crate) fn of_flight(&self, flight: u32) -> Vec<(SourceId, u64)> {
        let of_flight = |part: &ReadPart| self.active.get(part.active).is_some_and(|a| a.flight == flight);
        let reads = self.reads.iter().filter(|(_, read)| read.parts.iter().any(of_flight));
        reads.map(|(index, read)| (read.source, token_of(index, read))).collect()
    }

    /// The reads under way whose extents are all of these flights' pages, with their sources.
    pub(crate) fn of_flights_alone(&self, all: impl Fn(u32) -> bool) -> Vec<(SourceId, u64)> {
        let of_flights = |part: &ReadPart| self.active.get(part.active).is_some_and(|a| all(a.flight));
        let reads = self.reads.iter().filter(|(_, read)| read.parts.iter().all(of_flights));
        reads.map(|(index, read)| (read.source, token_of(index, read))).collect()
    }

    /// Reads at all sources.
    pub(crate) fn in_flight(&self) -> usize {
        self.reads.len()
    }

    /// Reads at the sources with a limit of their own.
    pub(crate) fn with_own_limit(&self) -> usize {
        self.own_total
    }

    /// Reads at the sources without a depth of their own.
    pub(crate) fn shared_in_flight(&self) -> usize {
        self.reads.len() - self.own_total
    }

    /// Reads at a source with a depth of its own.
    pub(crate) fn own_in_flight(&self, source: SourceId) -> usize {
        self.own.get(&source).copied().unwrap_or(0)
    }

    /// Notes that a source is finished with an extent of a page. Returns whether it has others of the page.
    pub(crate) fn give_back(&mut self, active: u32) -> Option<bool> {
        let a = self.active.get_mut(active)?;
        a.progress.at_source -= 1;
        Some(a.progress.at_source > 0)
    }

    /// Notes that an extent returned by a source arrived, or never will.
    pub(crate) fn end_extent(&mut self, active: u32) -> Option<AfterExtent> {
        let a = self.active.get_mut(active)?;
        a.progress.left -= 1;
        Some(match a.progress {
            ExtentProgress { left: 0, .. } if a.error.is_some() => AfterExtent::Failed,
            ExtentProgress { left: 0, .. } => {
                self.arrived.push_back(active);
                AfterExtent::Arrived
            }
            ExtentProgress { at_source: 0, .. } => AfterExtent::Staged,
            _ => AfterExtent::Reading,
        })
    }

    /// Hands a derived page to workers again, after an input came.
    pub(crate) fn arrive_again(&mut self, active: u32) {
        self.arrived.push_back(active);
    }

    /// Removes the first arrived page.
    pub(crate) fn take_arrived(&mut self) -> Option<u32> {
        self.arrived.pop_front()
    }

    /// Whether too many pages wait for a worker to start reads: from `most` on, until half of them are left.
    pub(crate) fn has_backlog(&mut self, most: usize) -> bool {
        if self.arrived.len() >= most {
            self.backlog = true;
        } else if self.arrived.len() <= most / 2 {
            self.backlog = false;
        }
        self.backlog
    }

    /// Bytes of lists.
    pub(crate) fn bytes(&self) -> u64 {
        let vectors = self.active.bytes()
            + self.reads.bytes()
            + self.own.capacity() * size_of::<(SourceId, usize)>()
            + self.staged.capacity() * size_of::<Staged>()
            + self.arrived.capacity() * size_of::<u32>();
        vectors as u64 + self.heap_bytes
    }

    /// Frees the memory of the empty list of pages.
    pub(crate) fn trim(&mut self) {
        debug_assert!(self.active.len() == 0);
        self.active = SlotMap::default();
    }
}

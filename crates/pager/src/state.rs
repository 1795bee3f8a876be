//! The data under the pager's lock: flights, reads, residency, and registered sources and arrays.

use crate::flights::Flights;
use crate::id::{PageId, SourceId};
use crate::map::PageMap;
use crate::page_state::PageState;
use crate::pins::Pins;
use crate::priority::Wake;
use crate::reads::{ReadPart, Reads};
use crate::residency::Residency;
use crate::sources::SourceTable;
use crate::touched::Touched;
use std::sync::Arc;

/// Counters that are kept under the lock.
#[derive(Default)]
pub(crate) struct LockedCounters {
    pub(crate) faults: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) prefetched_used: u64,
    pub(crate) evictions: u64,
    pub(crate) given_back: u64,
    pub(crate) prefetched: u64,
    pub(crate) prefetch_dropped: u64,
    pub(crate) fills: u64,
    pub(crate) failed: u64,
    pub(crate) published: u64,
    pub(crate) decoded: u64,
    pub(crate) derived: u64,
    pub(crate) given_up: u64,
    pub(crate) index_faults: u64,
    pub(crate) bytes_read: u64,
    pub(crate) reads: u64,
    pub(crate) segments: u64,
    pub(crate) retries: u64,
    pub(crate) full: u64,
}

/// See the module.
pub(crate) struct PagerState {
    pub(crate) maps: Vec<Arc<dyn PageMap>>,
    pub(crate) sources: SourceTable,
    /// Names of servers, each at the number that events have.
    pub(crate) servers: Vec<Arc<str>>,
    /// Prefetches at a source whose pages are demanded now. Passed on after the lock is released.
    pub(crate) promotions: Vec<(SourceId, u64)>,
    /// Reads at a source that nobody waits for now. Passed on after the lock is released.
    pub(crate) withdrawals: Vec<(SourceId, u64)>,
    pub(crate) workers: Vec<Arc<Pins>>,
    pub(crate) worker_serial: u32,

    pub(crate) flights: Flights,
    pub(crate) reads: Reads,
    pub(crate) residency: Residency,

    /// 1. One thread at a time submits, without the lock. Others set `again`. So a source that completes inside
    ///    `submit` does not recurse.
    pub(crate) pumping: bool,
    pub(crate) again: bool,
    /// A derived page was dropped for lack of memory. Until one is finished, none is started beside another.
    pub(crate) alone: bool,
    /// The first demand waits for memory.
    pub(crate) starved: bool,
    /// Counts events that could make room: published pages, freed memory, released holds.
    pub(crate) relief: u64,
    /// `relief` when the first demand last found memory full. A new try needs another value.
    pub(crate) refused_at: Option<u64>,
    /// The limit was lowered, and the pool still exceeds it.
    pub(crate) shrinking: bool,
    /// 2. Called after the lock is released, by the thread that added them.
    pub(crate) wakes: Vec<(Arc<dyn Wake>, u64)>,

    pub(crate) touched: Touched,
    pub(crate) tally: LockedCounters,
    /// Bytes of bookkeeping charged beyond the reserve.
    pub(crate) booked: u64,
}

impl PagerState {
    pub(crate) fn new(residency: Residency) -> Self {
        Self {
            maps: Vec::new(),
            sources: SourceTable::default(),
            servers: Vec::new(),
            promotions: Vec::new(),
            withdrawals: Vec::new(),
            workers: Vec::new(),
            worker_serial: 0,
            flights: Flights::default(),
            reads: Reads::default(),
            residency,
            pumping: false,
            again: false,
            alone: false,
            starved: false,
            relief: 0,
            refused_at: None,
            shrinking: false,
            wakes: Vec::new(),
            touched: Touched::default(),
            tally: LockedCounters::default(),
            booked: 0,
        }
    }

    /// The page map of a page's array.
    pub(crate) fn map(&self, page: PageId) -> Option<&Arc<dyn PageMap>> {
        self.maps.get(page.array.0 as usize)
    }

    /// Reads that a source may start now. `readers`: at all sources together without another limit.
    fn room(&self, source: SourceId, readers: usize) -> usize {
        self.sources.room(source, &self.reads, readers)
    }

    /// Reads that all sources may start now.
    pub(crate) fn all_room(&self, readers: usize) -> usize {
        self.sources.all_room(&self.reads, readers)
    }

    /// The place of the first staged extent whose source may start a read.
    pub(crate) fn first_with_room(&self, readers: usize) -> Option<usize> {
        let staged = self.reads.staged();
        if !self.sources.any_own_limit() {
            return (!staged.is_empty() && self.reads.in_flight() < readers).then_some(0);
        }
        // Extents are sorted by source.
        let mut full: Option<SourceId> = None;
        staged.iter().position(|s| {
            if full.is_some_and(|full| self.sources.same_limit(full, s.source)) {
                return false;
            }
            let room = self.room(s.source, readers) > 0;
            full = if room { full } else { Some(s.source) };
            room
        })
    }

    pub(crate) fn page_name(&self, page: PageId) -> String {
        match self.map(page) {
            Some(map) => map.page_name(page),
            None => format!("unknown array step {} page {}", page.step, page.page),
        }
    }

    /// The entry in `reads` of a flight whose page is derived and has memory.
    pub(crate) fn making_of(&self, flight: u32) -> Option<u32> {
        self.flights.get(flight).map(|f| f.making).filter(|active| *active != crate::flights::NONE)
    }

    /// Starts a read of these parts. Returns its token.
    pub(crate) fn begin_read(&mut self, source: SourceId, parts: Vec<ReadPart>) -> u64 {
        let own = self.sources.has_own_limit(source);
        self.sources.choose(source);
        for part in &parts {
            if let Some(flight) = self.reads.issue(*part) {
                self.flights.go(flight, PageState::Reading);
            }
        }
        self.reads.begin_read(source, own, parts)
    }

    /// Bytes of queues, lists and maps.
    pub(crate) fn bookkeeping(&mut self) -> u64 {
        let lists = (self.flights.bytes() + self.residency.bytes()) as u64 + self.reads.bytes();
        lists + self.touched.bytes() + self.sources.held_bytes()
    }

    /// Frees the memory of lists that a burst of requests has left, if they are empty now. False if they are not.
    pub(crate) fn trim(&mut self) -> bool {
        if !self.flights.is_empty() || self.reads.count() > 0 {
            return false;
        }
        self.flights.trim();
        self.reads.trim();
        self.residency.trim();
        true
    }
}

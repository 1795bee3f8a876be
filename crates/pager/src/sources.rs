//! Registered sources, and the reads that each may start.

use crate::id::SourceId;
use crate::place::Place;
use crate::reads::Reads;
use crate::source::{ReadForm, Source};
use std::sync::Arc;

/// Sources that are asked for their memory at once.
const ASKED_AT_ONCE: usize = 4;

/// The sources of a pager. A source's reads count against one of three limits: its place's, its own depth, or the
/// pager's readers.
#[derive(Default)]
pub(crate) struct SourceTable {
    sources: Vec<Arc<dyn Source>>,
    /// For each source, the number of its place in `places`.
    place_of: Vec<Option<u32>>,
    /// Places of sources, each once.
    places: Vec<Arc<dyn Place>>,
    /// For each place, reads that were chosen and not yet submitted. The place does not know of them.
    chosen: Vec<usize>,
    /// Sources with a depth of their own.
    own_depth: Vec<SourceId>,
    /// Most bytes of buffers that places have for reads in flight ([`Place::bytes_per_read`]).
    buffers: u64,
    /// Sources with memory of their own ([`Source::held_bytes`]), with the bytes that each had when it was last asked,
    /// and their sum.
    holders: Vec<(SourceId, u64)>,
    held: u64,
    /// The source that is asked next.
    hand: usize,
}

impl SourceTable {
    pub(crate) fn add(&mut self, source: Arc<dyn Source>) -> SourceId {
        let id = SourceId(self.sources.len() as u32);
        let place = source.limited_by().map(|place| {
            let known = self.places.iter().position(|known| Arc::ptr_eq(known, &place));
            let at = known.unwrap_or_else(|| {
                self.places.push(place);
                self.chosen.push(0);
                self.places.len() - 1
            });
            at as u32
        });
        if place.is_none() && source.form().depth.is_some() {
            self.own_depth.push(id);
        }
        if source.held_bytes().is_some() {
            self.holders.push((id, 0));
        }
        self.place_of.push(place);
        self.sources.push(source);
        id
    }

    pub(crate) fn get(&self, source: SourceId) -> Option<&Arc<dyn Source>> {
        self.sources.get(source.0 as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The reads that suit a source.
    pub(crate) fn form(&self, source: SourceId) -> ReadForm {
        self.get(source).map(|s| s.form()).unwrap_or_default()
    }

    fn place_of(&self, source: SourceId) -> Option<usize> {
        self.place_of.get(source.0 as usize).copied().flatten().map(|at| at as usize)
    }

    /// Whether a source is one of a place.
    pub(crate) fn is_limited_by_place(&self, source: SourceId) -> bool {
        self.place_of(source).is_some()
    }

    /// Whether a source's reads do not count against the pager's readers.
    pub(crate) fn has_own_limit(&self, source: SourceId) -> bool {
        self.place_of(source).is_some() || self.form(source).depth.is_some()
    }

    /// Whether some source has a limit beside the pager's readers.
    pub(crate) fn any_own_limit(&self) -> bool {
        !self.own_depth.is_empty() || !self.places.is_empty()
    }

    /// Sets the memory limit. Buffers of places get a sixteenth of it.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.buffers = limit / 16;
    }

    /// Reads that a place may start now. Reads with a limit of their own are all taken for its reads.
    fn place_room(&self, at: usize, reads: &Reads) -> usize {
        let Some(place) = self.places.get(at) else { return 0 };
        let chosen = self.chosen.get(at).copied().unwrap_or(0);
        if chosen == 0 && reads.with_own_limit() == 0 {
            // A place may count a read until after its completion. If that was the last one, nothing would start another.
            return place.room().max(1);
        }
        let room = place.room().saturating_sub(chosen);
        match self.buffers.checked_div(place.bytes_per_read()) {
            // One read is always possible.
            Some(most) => room.min((most.max(1) as usize).saturating_sub(reads.with_own_limit())),
            None => room,
        }
    }

    /// Reads that a source may start now. `readers`: at all sources together without another limit.
    pub(crate) fn room(&self, source: SourceId, reads: &Reads, readers: usize) -> usize {
        if let Some(at) = self.place_of(source) {
            return self.place_room(at, reads);
        }
        match self.form(source).depth {
            None => readers.saturating_sub(reads.shared_in_flight()),
            Some(depth) => depth.max(1).saturating_sub(reads.own_in_flight(source)),
        }
    }

    /// Reads that all sources may start now.
    pub(crate) fn all_room(&self, reads: &Reads, readers: usize) -> usize {
        let shared = readers.saturating_sub(reads.shared_in_flight());
        let own = self.own_depth.iter().map(|source| self.room(*source, reads, readers));
        let places = (0..self.places.len()).map(|at| self.place_room(at, reads));
        own.chain(places).fold(shared, usize::saturating_add)
    }

    /// Counts a read that was chosen for its source.
    pub(crate) fn choose(&mut self, source: SourceId) {
        if let Some(chosen) = self.place_of(source).and_then(|at| self.chosen.get_mut(at)) {
            *chosen += 1;
        }
    }

    /// The chosen reads are submitted, so their places know them.
    pub(crate) fn submitted(&mut self) {
        self.chosen.fill(0);
    }

    /// Whether two sources have one limit of reads.
    pub(crate) fn same_limit(&self, a: SourceId, b: SourceId) -> bool {
        match (self.place_of(a), self.place_of(b)) {
            (None, None) => a == b,
            (a, b) => a == b,
        }
    }

    /// Bytes that sources and places hold themselves. Each call asks some of the sources only: a dataset can have
    /// thousands, and this is called for each read.
    pub(crate) fn held_bytes(&mut self) -> u64 {
        for _ in 0..self.holders.len().min(ASKED_AT_ONCE) {
            self.hand = (self.hand + 1) % self.holders.len();
            let (source, had) = self.holders[self.hand];
            let now = self.get(source).and_then(|source| source.held_bytes()).unwrap_or(0);
            self.held = self.held - had + now;
            self.holders[self.hand].1 = now;
        }
        self.held + self.places.iter().map(|place| place.held_bytes()).sum::<u64>()
    }
}

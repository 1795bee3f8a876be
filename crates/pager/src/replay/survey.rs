//! The facts of a log that a replay needs first.

use crate::event::Event;
use crate::id::PageId;
use crate::page_hash::PageHash;
use crate::priority::Priority;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Most uses whose next uses are remembered, four bytes each and four more while they are found. Belady's optimum of a
/// longer log is omitted.
const MOST_USES: usize = 32 << 20;

/// The page that the event uses, if any: demanded, pinned, or needed for another page.
pub(super) fn used(event: &Event) -> Option<PageId> {
    match event {
        Event::Want { page, priority: Priority::Demand, .. } | Event::Pin { page, .. } | Event::Use { page } => {
            Some(*page)
        }
        _ => None,
    }
}

/// Sizes and uses of a log.
#[derive(Default)]
pub struct Survey {
    /// Bytes of a frame of each array.
    pub(super) bytes: HashMap<u32, u64>,
    /// Pages along i, j and k.
    along: HashMap<u32, [u64; 3]>,
    numbers: HashMap<PageId, u32, PageHash>,
    /// The page of each use, by number; emptied when there are too many.
    sequence: Vec<u32>,
    /// Pages along each axis that become one.
    coarser: u64,
    ordered: bool,
    /// See [`Self::next_uses`].
    next: OnceLock<Option<Arc<[u32]>>>,
    /// Uses of pages.
    pub uses: u64,
    /// Demanded pages that were absent, as the log has it.
    pub faults: u64,
    /// Pages dropped to make room, as the log has it.
    pub evictions: u64,
    /// Pages that became resident, as the log has it.
    pub published: u64,
    /// Bytes of frames of the pages used.
    pub touched_bytes: u64,
    /// Most bytes of frames at a time.
    pub frames_peak: u64,
    /// The limit at the end, where it was changed.
    pub limit: Option<u64>,
}

impl Survey {
    /// A survey of the log as if boxes of this many pages along each axis were one page; 1: as it is.
    pub fn new(coarser: u64) -> Self {
        Self { coarser: coarser.max(1), ordered: true, ..Self::default() }
    }

    /// A survey without the order of uses, which only the optimum needs.
    pub fn without_order() -> Self {
        Self { ordered: false, ..Self::new(1) }
    }

    /// Processes an event. All events must come in their order.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Array { array, pages, pages_i, pages_j, pages_k, .. } => {
                let box_of = pages_i.checked_mul(*pages_j).and_then(|n| n.checked_mul(*pages_k));
                if *pages > 0 && box_of == Some(*pages) {
                    self.along.insert(array.0, [*pages_i, *pages_j, *pages_k]);
                }
            }
            Event::Reserve { page, bytes, frames, .. } => {
                self.bytes.insert(page.array.0, *bytes);
                self.frames_peak = self.frames_peak.max(*frames);
            }
            Event::Fault { .. } => self.faults += 1,
            Event::Evict { .. } => self.evictions += 1,
            Event::Publish { .. } => self.published += 1,
            Event::Limit { bytes } => self.limit = Some(*bytes),
            _ => {}
        }
        let Some(page) = used(event) else { return };
        let page = self.coarse(page);
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(page).or_insert(next);
        if self.ordered && self.uses as usize == self.sequence.len() && self.sequence.len() < MOST_USES {
            self.sequence.push(number);
        }
        self.uses += 1;
    }

    /// The merged page of this one.
    pub(super) fn coarse(&self, page: PageId) -> PageId {
        let Some([i, j, _]) = self.along.get(&page.array.0).filter(|_| self.coarser > 1) else { return page };
        let (x, y, z) = (page.page % i, page.page / i % j, page.page / (i * j));
        let c = self.coarser;
        PageId::new(page.array, page.step, x / c + (y / c) * i.div_ceil(c) + (z / c) * i.div_ceil(c) * j.div_ceil(c))
    }

    /// Bytes of a frame of this page.
    pub(super) fn page_bytes(&self, page: PageId) -> u64 {
        let bytes = self.bytes.get(&page.array.0).copied().unwrap_or(0);
        let Some(along) = self.along.get(&page.array.0).filter(|_| self.coarser > 1) else { return bytes };
        // Boxes at the edges hold fewer pages.
        let c = self.coarser;
        let [i, j] = [along[0].div_ceil(c), along[1].div_ceil(c)];
        let at = [page.page % i, page.page / i % j, page.page / (i * j)];
        let parts: u64 = (0..3).map(|a| c.min(along[a].saturating_sub(at[a] * c)).max(1)).product();
        bytes.saturating_mul(parts)
    }

    /// Completes the sums after the last event.
    pub fn end(&mut self) {
        self.touched_bytes = self.numbers.keys().fold(0, |sum: u64, p| sum.saturating_add(self.page_bytes(*p)));
    }

    /// Different pages used.
    pub fn touched(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// For each use, the number of the next use of the same page (`u32::MAX`: none). `None`: too many uses.
    pub(super) fn next_uses(&self) -> Option<Arc<[u32]>> {
        self.next.get_or_init(|| self.find_next_uses()).clone()
    }

    fn find_next_uses(&self) -> Option<Arc<[u32]>> {
        if self.uses as usize > self.sequence.len() {
            return None;
        }
        let mut last = vec![u32::MAX; self.numbers.len()];
        let mut next = vec![u32::MAX; self.sequence.len()];
        for (n, page) in self.sequence.iter().enumerate().rev() {
            next[n] = std::mem::replace(&mut last[*page as usize], n as u32);
        }
        Some(next.into())
    }
}

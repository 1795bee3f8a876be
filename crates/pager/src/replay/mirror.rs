//! The pager's decisions for a log, repeated under the run's own limit and policy.
//!
//! The log has requests with their times, reservations, the bytes of frames at each, pins, holds, hints and give-backs.
//! It does not say which pages were evicted. The policy finds those from the uses. If it chooses others, later uses
//! meet absent pages, and the faults differ.

use super::ReplayCounts;
use crate::event::Event;
use crate::evict::settling;
use crate::id::PageId;
use crate::page_hash::PageHash;
use crate::policy::{Need, Policy, PolicyKind, Probe};
use crate::priority::Priority;
use crate::residency::HINTS_TRIED;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum PageState {
    Queued { demand: bool },
    Loading { demand: bool, frame: u32 },
    Resident { frame: u32 },
    Failed,
}

#[derive(Copy, Clone, PartialEq, Eq, Default)]
enum Used {
    #[default]
    No,
    Yes,
    Offered,
}

#[derive(Default)]
struct MirrorFrame {
    page: Option<PageId>,
    bytes: u64,
    resident: bool,
    used: Used,
    stamp: u64,
    /// Workers that have it pinned.
    pins: u32,
}

#[derive(Default)]
struct MirrorPool {
    places: HashMap<PageId, PageState, PageHash>,
    holds: HashMap<PageId, u32, PageHash>,
    frames: Vec<MirrorFrame>,
    free: Vec<u32>,
    bytes: u64,
    tick: u64,
    lately: u64,
    settling: u64,
}

impl MirrorPool {
    fn offered(&self, frame: u32, page: PageId) -> bool {
        let f = &self.frames[frame as usize];
        f.used == Used::Offered && f.resident && f.page == Some(page)
    }

    fn take(&mut self, frame: u32) -> bool {
        let f = &mut self.frames[frame as usize];
        let Some(page) = f.page.filter(|_| f.resident && f.pins == 0) else { return false };
        if self.holds.contains_key(&page) {
            return false;
        }
        self.free_frame(frame);
        self.places.remove(&page);
        true
    }

    fn free_frame(&mut self, frame: u32) {
        let f = std::mem::take(&mut self.frames[frame as usize]);
        self.bytes -= f.bytes;
        self.free.push(frame);
    }
}

struct MirrorProbe<'a>(RefCell<&'a mut MirrorPool>);

impl Probe for MirrorProbe<'_> {
    fn referenced(&self, frame: u32) -> bool {
        self.0.borrow().frames[frame as usize].used == Used::Yes
    }
    fn forget(&self, frame: u32) {
        self.0.borrow_mut().frames[frame as usize].used = Used::No;
    }
    fn stamp(&self, frame: u32) -> u64 {
        self.0.borrow().frames[frame as usize].stamp
    }
    fn now(&self) -> u64 {
        self.0.borrow().tick
    }
    fn lately(&self) -> u64 {
        self.0.borrow().lately
    }
    fn settling(&self) -> u64 {
        self.0.borrow().settling
    }
    fn take(&mut self, frame: u32) -> bool {
        self.0.borrow_mut().take(frame)
    }
}

/// See the module.
pub struct Mirror {
    policy: Box<dyn Policy>,
    pool: MirrorPool,
    /// The pinned frames of each worker.
    pinned: HashMap<u32, Vec<u32>>,
    offered: [VecDeque<(u32, PageId)>; 2],
    seen: HashSet<PageId, PageHash>,
    counts: ReplayCounts,
}

impl Mirror {
    /// Nothing resident, with a policy of the run's kind and its number of readers.
    pub fn new(policy: PolicyKind, readers: usize) -> Self {
        Self {
            policy: policy.build(),
            pool: MirrorPool { lately: u64::MAX, tick: 1, settling: settling(readers), ..MirrorPool::default() },
            pinned: HashMap::new(),
            offered: Default::default(),
            seen: HashSet::default(),
            counts: ReplayCounts::default(),
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// Processes an event. All events must come in their order.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Want { page, priority, .. } => {
                self.counts.uses += u64::from(*priority == Priority::Demand);
                self.wanted(*page, *priority == Priority::Demand, true);
            }
            Event::Input { page, priority } => self.wanted(*page, *priority == Priority::Demand, false),
            Event::Use { page } => {
                self.counts.uses += 1;
                if let Some(PageState::Resident { frame }) = self.pool.places.get(page) {
                    self.note_use(*frame);
                }
            }
            Event::Pin { page, worker, fresh, .. } => {
                self.counts.uses += 1;
                if *fresh {
                    self.pin(*page, *worker);
                }
            }
            Event::Release { worker } => self.release(*worker),
            Event::Hold { page } => *self.pool.holds.entry(*page).or_default() += 1,
            Event::Unhold { page } => {
                let holds = self.pool.holds.entry(*page).or_default();
                *holds = holds.saturating_sub(1);
                if *holds == 0 {
                    self.pool.holds.remove(page);
                }
            }
            Event::Reserve { page, priority, bytes, frames, .. } => {
                let need = if *priority == Priority::Demand { Need::Demand } else { Need::Prefetch };
                self.reserve(*page, *bytes, *frames, need);
            }
            Event::Squeeze { frames, full, priority, .. } => {
                let need = if *priority == Priority::Demand { Need::Demand } else { Need::Prefetch };
                self.shrink(*frames, need);
                if *full {
                    // A failed search for a victim changes the policy's view of the pages it inspected.
                    self.evict(need);
                }
            }
            Event::Freed { page } => {
                if let Some(PageState::Loading { demand, frame }) = self.pool.places.get(page).copied() {
                    self.pool.free_frame(frame);
                    self.pool.places.insert(*page, PageState::Queued { demand });
                }
            }
            Event::Dropped { page } => self.settled(*page, None),
            Event::Failed { page, .. } => self.settled(*page, Some(PageState::Failed)),
            Event::Publish { page, .. } => self.publish(*page),
            Event::GiveBack { page } => {
                if let Some(PageState::Resident { frame }) = self.pool.places.get(page).copied() {
                    if self.pool.take(frame) {
                        self.policy.removed(frame);
                    }
                }
            }
            Event::EvictHint { page, again } => {
                if let Some(PageState::Resident { frame }) = self.pool.places.get(page).copied() {
                    self.pool.frames[frame as usize].used = Used::Offered;
                    self.offered[(*again as usize).min(1)].push_back((frame, *page));
                }
            }
            Event::DropStaleHints { .. } => {
                let pool = &self.pool;
                self.offered.iter_mut().for_each(|queue| queue.retain(|(frame, page)| pool.offered(*frame, *page)));
            }
            // The stamp counts published pages, which are the same here.
            Event::Lately { count } => self.pool.lately = *count,
            _ => {}
        }
    }

    fn settled(&mut self, page: PageId, place: Option<PageState>) {
        match (self.pool.places.get(&page), place) {
            // Dropped after it came: it stays resident.
            (Some(PageState::Resident { .. }), _) => {}
            (_, Some(place)) => drop(self.pool.places.insert(page, place)),
            (_, None) => drop(self.pool.places.remove(&page)),
        }
    }

    fn note_use(&mut self, frame: u32) {
        let tick = self.pool.tick;
        let f = &mut self.pool.frames[frame as usize];
        (f.used, f.stamp) = (Used::Yes, tick);
    }

    fn wanted(&mut self, page: PageId, demand: bool, asked: bool) {
        match self.pool.places.get(&page).copied() {
            Some(PageState::Resident { frame }) => {
                if demand && asked {
                    self.note_use(frame);
                }
            }
            Some(PageState::Queued { demand: false }) if demand => {
                self.counts.faults += 1;
                self.pool.places.insert(page, PageState::Queued { demand });
            }
            Some(PageState::Loading { frame, .. }) if demand => {
                self.pool.places.insert(page, PageState::Loading { demand, frame });
            }
            Some(_) => {}
            None => {
                self.counts.faults += u64::from(demand);
                self.pool.places.insert(page, PageState::Queued { demand });
            }
        }
    }

    fn pin(&mut self, page: PageId, worker: u32) {
        let frame = match self.pool.places.get(&page).copied() {
            Some(PageState::Resident { frame }) => frame,
            // Resident in the run and evicted here: it would have been read again.
            Some(PageState::Queued { .. }) | None => {
                self.counts.faults += 1;
                let Some(bytes) = self.pool.frames.iter().map(|f| f.bytes).max() else { return };
                let room = self.pool.bytes;
                self.reserve(page, bytes, room, Need::Demand);
                self.publish(page);
                match self.pool.places.get(&page).copied() {
                    Some(PageState::Resident { frame }) => frame,
                    _ => return,
                }
            }
            Some(_) => return,
        };
        self.note_use(frame);
        self.pool.frames[frame as usize].pins += 1;
        self.pinned.entry(worker).or_default().push(frame);
    }

    fn release(&mut self, worker: u32) {
        for frame in self.pinned.get_mut(&worker).map(std::mem::take).unwrap_or_default() {
            let tick = self.pool.tick;
            let f = &mut self.pool.frames[frame as usize];
            f.pins = f.pins.saturating_sub(1);
            if f.used == Used::No {
                f.used = Used::Yes;
            }
            f.stamp = tick;
        }
    }

    fn reserve(&mut self, page: PageId, bytes: u64, frames: u64, need: Need) {
        let demand = match self.pool.places.get(&page) {
            // Evicted in the run and not here.
            Some(PageState::Resident { .. } | PageState::Loading { .. }) => return,
            Some(PageState::Queued { demand }) => *demand,
            _ => need == Need::Demand,
        };
        self.shrink(frames.saturating_sub(bytes), need);
        let frame = self.pool.free.pop().unwrap_or_else(|| {
            self.pool.frames.push(MirrorFrame::default());
            self.pool.frames.len() as u32 - 1
        });
        self.pool.frames[frame as usize] = MirrorFrame { page: Some(page), bytes, ..MirrorFrame::default() };
        self.pool.bytes += bytes;
        self.pool.places.insert(page, PageState::Loading { demand, frame });
    }

    fn publish(&mut self, page: PageId) {
        let Some(PageState::Loading { frame, .. }) = self.pool.places.get(&page).copied() else { return };
        self.pool.tick += 1;
        self.note_use(frame);
        let f = &mut self.pool.frames[frame as usize];
        f.resident = true;
        self.counts.again += u64::from(!self.seen.insert(page));
        self.counts.bytes += f.bytes;
        self.pool.places.insert(page, PageState::Resident { frame });
        self.policy.inserted(frame, page, self.pool.tick);
    }

    fn shrink(&mut self, to: u64, need: Need) {
        while self.pool.bytes > to && self.evict(need) {}
    }

    fn evict(&mut self, need: Need) -> bool {
        let kinds = if need == Need::Prefetch { 1 } else { 2 };
        for queue in self.offered.iter_mut().take(kinds) {
            for _ in 0..queue.len().min(HINTS_TRIED) {
                let Some((frame, page)) = queue.pop_front() else { break };
                if !self.pool.offered(frame, page) {
                    continue;
                }
                if self.pool.take(frame) {
                    self.policy.removed(frame);
                    self.counts.evictions += 1;
                    return true;
                }
                queue.push_back((frame, page));
            }
        }
        let gone = self.policy.victim(need, &mut MirrorProbe(RefCell::new(&mut self.pool))).is_some();
        self.counts.evictions += u64::from(gone);
        gone
    }
}

//! A reference string against a policy and a size: for other limits, policies and page sizes.

use super::optimal::Optimal;
use super::survey::{used, Survey};
use super::ReplayCounts;
use crate::event::Event;
use crate::id::PageId;
use crate::page_hash::PageHash;
use crate::policy::{Need, Policy, PolicyKind, Probe};
use std::collections::HashMap;

/// The choice of victims.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A policy alone.
    Policy(PolicyKind),
    /// A policy with the executor's knowledge. Pages of past segments are evicted at once, and pages that no task is at
    /// are evicted first.
    Aware(PolicyKind),
    /// The same, and pages that tasks have requested are evicted last, until one of the tasks uses them. The pager does
    /// not do so: in trials runs read as much or 2 % more, since fewer tasks are under way where memory is short.
    Waiting(PolicyKind),
    /// Belady's optimum.
    Optimal,
}

impl Choice {
    /// A name for reports.
    pub fn name(self) -> String {
        match self {
            Self::Policy(kind) => kind.name().to_owned(),
            Self::Aware(kind) => format!("{} + executor", kind.name()),
            Self::Waiting(kind) => format!("{} + waiting", kind.name()),
            Self::Optimal => "optimum".to_owned(),
        }
    }
}

#[derive(Copy, Clone, Default)]
struct StackFrame {
    page: Option<PageId>,
    bytes: u64,
    referenced: bool,
    offered: bool,
    /// Requested by a task that has not used it yet.
    awaited: bool,
    stamp: u64,
}

/// A pool of frames with a limit in bytes. A use of an absent page loads it at once.
pub struct Stack {
    choice: Choice,
    policy: Box<dyn Policy>,
    optimal: Optimal,
    room: u64,
    pool: StackPool,
    offered: [std::collections::VecDeque<(u32, PageId)>; 2],
    seen: std::collections::HashSet<PageId, PageHash>,
    counts: ReplayCounts,
}

#[derive(Default)]
struct StackPool {
    resident: HashMap<PageId, u32, PageHash>,
    frames: Vec<StackFrame>,
    free: Vec<u32>,
    bytes: u64,
    tick: u64,
    /// Every other page is in use: awaited pages may be evicted.
    forced: bool,
}

/// An awaited page is used within this many pools of loaded pages, or its task was dropped.
const AWAITED_TURNS: u64 = 4;

impl StackPool {
    fn awaited(&self, frame: u32) -> bool {
        let f = &self.frames[frame as usize];
        f.awaited && !self.forced && self.tick - f.stamp <= AWAITED_TURNS * self.resident.len() as u64
    }

    fn take(&mut self, frame: u32) -> bool {
        if self.awaited(frame) {
            return false;
        }
        let f = &mut self.frames[frame as usize];
        let Some(page) = f.page.take() else { return false };
        self.bytes -= f.bytes;
        self.resident.remove(&page);
        self.free.push(frame);
        true
    }
}

/// A policy's view. Nothing is pinned: the policy itself keeps a page just used.
struct StackProbe<'a>(std::cell::RefCell<&'a mut StackPool>);

impl Probe for StackProbe<'_> {
    fn referenced(&self, frame: u32) -> bool {
        self.0.borrow().frames[frame as usize].referenced
    }
    fn forget(&self, frame: u32) {
        self.0.borrow_mut().frames[frame as usize].referenced = false;
    }
    fn stamp(&self, frame: u32) -> u64 {
        self.0.borrow().frames[frame as usize].stamp
    }
    fn now(&self) -> u64 {
        self.0.borrow().tick
    }
    fn take(&mut self, frame: u32) -> bool {
        self.0.borrow_mut().take(frame)
    }
}

impl Stack {
    /// A pool of `room` bytes for the pages of a log that `survey` has read. `None` for the optimum of a log that is
    /// too long for it.
    pub fn new(choice: Choice, room: u64, survey: &Survey) -> Option<Self> {
        let (kind, optimal) = match choice {
            Choice::Policy(kind) | Choice::Aware(kind) | Choice::Waiting(kind) => (kind, Optimal::default()),
            Choice::Optimal => (PolicyKind::Lru, Optimal::new(survey.next_uses()?)),
        };
        Some(Self {
            choice,
            policy: kind.build(),
            optimal,
            room,
            pool: StackPool::default(),
            offered: Default::default(),
            seen: Default::default(),
            counts: ReplayCounts::default(),
        })
    }

    /// Bytes of all frames.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// The counts so far.
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// Processes an event. All events must come in their order, after the survey has processed them.
    pub fn event(&mut self, event: &Event, survey: &Survey) {
        if let Some(page) = used(event) {
            let awaited = matches!(self.choice, Choice::Waiting(_)) && matches!(event, Event::Want { .. });
            // A hint on a pinned page stays in force.
            let still = matches!(event, Event::Pin { fresh: false, .. });
            return self.used(survey.coarse(page), survey, awaited, still);
        }
        if !matches!(self.choice, Choice::Aware(_) | Choice::Waiting(_)) {
            return;
        }
        match event {
            Event::GiveBack { page } => {
                if let Some(&frame) = self.pool.resident.get(page) {
                    self.pool.frames[frame as usize].awaited = false;
                    self.policy.removed(frame);
                    self.pool.take(frame);
                }
            }
            Event::EvictHint { page, again } => {
                if let Some(&frame) = self.pool.resident.get(page) {
                    let f = &mut self.pool.frames[frame as usize];
                    (f.referenced, f.offered, f.awaited) = (false, true, false);
                    self.offered[(*again as usize).min(1)].push_back((frame, *page));
                }
            }
            Event::DropStaleHints { .. } => {
                let pool = &self.pool;
                let is = |(frame, page): &(u32, PageId)| {
                    let f = pool.frames[*frame as usize];
                    f.offered && f.page == Some(*page)
                };
                self.offered.iter_mut().for_each(|queue| queue.retain(is));
            }
            _ => {}
        }
    }

    fn used(&mut self, page: PageId, survey: &Survey, awaited: bool, still: bool) {
        let n = self.counts.uses;
        self.counts.uses += 1;
        let frame = match self.pool.resident.get(&page) {
            Some(frame) => *frame,
            None => self.load(page, survey),
        };
        let f = &mut self.pool.frames[frame as usize];
        (f.awaited, f.stamp) = (awaited, self.pool.tick);
        if !(still && f.offered) {
            (f.referenced, f.offered) = (true, false);
        }
        if self.choice == Choice::Optimal {
            self.optimal.used(frame, n);
        }
    }

    fn load(&mut self, page: PageId, survey: &Survey) -> u32 {
        let bytes = survey.page_bytes(page);
        self.counts.faults += 1;
        self.counts.bytes += bytes;
        self.counts.again += u64::from(!self.seen.insert(page));
        while self.pool.bytes + bytes > self.room && self.evict() {}
        let frame = self.pool.free.pop().unwrap_or_else(|| {
            self.pool.frames.push(StackFrame::default());
            self.pool.frames.len() as u32 - 1
        });
        self.pool.tick += 1;
        let stamp = self.pool.tick;
        self.pool.frames[frame as usize] =
            StackFrame { page: Some(page), bytes, referenced: true, stamp, ..StackFrame::default() };
        self.pool.bytes += bytes;
        self.pool.resident.insert(page, frame);
        if self.choice != Choice::Optimal {
            self.policy.inserted(frame, page, stamp);
        }
        frame
    }

    fn evict(&mut self) -> bool {
        let gone = match self.choice {
            Choice::Optimal => self.optimal.victim().is_some_and(|frame| self.pool.take(frame)),
            _ => self.evict_offered() || self.evict_chosen(),
        };
        self.counts.evictions += u64::from(gone);
        gone
    }

    fn evict_chosen(&mut self) -> bool {
        if self.policy.victim(Need::Demand, &mut StackProbe((&mut self.pool).into())).is_some() {
            return true;
        }
        self.pool.forced = true;
        let gone = self.policy.victim(Need::Demand, &mut StackProbe((&mut self.pool).into())).is_some();
        self.pool.forced = false;
        gone
    }

    fn evict_offered(&mut self) -> bool {
        for queue in &mut self.offered {
            while let Some((frame, page)) = queue.pop_front() {
                let f = self.pool.frames[frame as usize];
                if f.offered && f.page == Some(page) && self.pool.take(frame) {
                    self.policy.removed(frame);
                    return true;
                }
            }
        }
        false
    }
}

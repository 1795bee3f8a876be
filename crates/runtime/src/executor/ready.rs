//! Tasks that wait for a thread, in the order in which they are to go on.
//!
//! Tasks of a run through time are in one *window* each: between two steps of a series. Those of the earliest window go first, so that
//! what is resident is what the tasks touch between now and the end of their window, and the segments before it can be given back.
//! Where all tasks of the earliest window wait for pages, those of the next go on; none gets further ahead, so that the pages of
//! three steps are in use at most.
//!
//! Within a window tasks go in the order of where they are, through one window from the low end of the data to the high, through
//! the next from the high end to the low: where memory does not hold what a window takes, each page of it is still read about once for
//! all that is done there, and what is in memory at the end of one window serves the beginning of the next. (10,000 particles at
//! 32 MiB, a third of a time step, had read more than a hundred times what they touch when they were stopped; in the order of places they
//! read it three times, and less since their states are put away.)

use super::located_tasks::Places;
use super::packed_tasks::{Chunk, Records, WaitingTask};
use super::parked::Where;
use super::scheduler::{Gone, TaskSlot};
use std::collections::{BTreeMap, VecDeque};

/// Windows that tasks may be ahead of the earliest.
const AHEAD: u32 = 1;

pub(super) struct ReadyTasks<T> {
    /// Of a run through time.
    windows: BTreeMap<u32, Places<T>>,
    /// Those that were put away.
    pub(super) records: Records,
    /// Of any other run, as they came.
    queue: VecDeque<Box<TaskSlot<T>>>,
    /// Of any other run, whether a thread goes on with its own tasks first. Their places are the numbers of threads.
    pub(super) by_thread: bool,
    /// 1. How many active tasks are in each window, wherever they are: every window of an active task is a key.
    active: BTreeMap<u32, usize>,
    windowed: bool,
    /// 2. Tasks that go through time begin in batches: while one is open tasks begin, in the first window, and nothing is passed. Then
    ///    none does until all of the batch are through: one that began later would want the first segments once more.
    open: bool,
    /// The earliest window when it was last told.
    told: u32,
}

impl<T> ReadyTasks<T> {
    pub(super) fn new(windowed: bool, records: Records) -> Self {
        let (windows, queue, active) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Self { windows, records, queue, by_thread: false, active, windowed, open: true, told: 0 }
    }

    /// The earliest window of an active task, or of one that may begin.
    pub(super) fn earliest(&self) -> u32 {
        let first = self.active.first_key_value().filter(|_| !self.open);
        first.map_or(0, |(window, _)| *window)
    }

    /// Whether a task may begin now: there is none to go on in the first window.
    pub(super) fn may_begin(&self) -> bool {
        !self.windowed || (self.open && !self.windows.contains_key(&0))
    }

    /// No more tasks begin for now: there are no others, or no room.
    pub(super) fn close(&mut self) {
        self.open &= !self.windowed || self.active.is_empty();
    }

    /// A task has begun, in its first window.
    pub(super) fn began(&mut self) {
        *self.active.entry(0).or_insert(0) += 1;
    }

    /// A task is no longer active.
    pub(super) fn ended(&mut self, window: u32) {
        if let Some(n) = self.active.get_mut(&window) {
            *n -= 1;
            if *n == 0 {
                self.active.remove(&window);
            }
        }
        self.open |= self.active.is_empty();
    }

    /// A task came from one window to another.
    pub(super) fn turned(&mut self, from: u32, to: u32) {
        *self.active.entry(to).or_insert(0) += 1;
        self.ended(from);
    }

    /// The earliest window, if it has changed since this was last asked.
    pub(super) fn passed(&mut self) -> Option<u32> {
        let earliest = self.earliest();
        (core::mem::replace(&mut self.told, earliest) != earliest).then_some(earliest)
    }

    /// Behind the others, where no place says otherwise. `shut` says whether others wait for pages where it is.
    pub(super) fn push(&mut self, waiting: WaitingTask<T>, shut: bool) {
        match waiting {
            WaitingTask::Whole(slot) if !self.windowed => self.queue.push_back(slot),
            waiting => {
                let window = waiting.window();
                self.windows.entry(window).or_insert_with(|| Places::new(window % 2 == 0)).push(waiting, shut);
            }
        }
    }

    /// Before the others, where no place says otherwise.
    pub(super) fn push_first(&mut self, waiting: WaitingTask<T>, shut: bool) {
        match waiting {
            WaitingTask::Whole(slot) if !self.windowed => self.queue.push_front(slot),
            waiting => self.push(waiting, shut),
        }
    }

    /// A task waits for pages in a neighbourhood: who has not gone on there in its window waits, too.
    pub(super) fn shut(&mut self, (window, neighbourhood): Where) {
        if let Some(places) = self.windows.get_mut(&window) {
            places.shut(neighbourhood);
        }
    }

    /// None does any more.
    pub(super) fn open(&mut self, (window, neighbourhood): Where) {
        if let Some(places) = self.windows.get_mut(&window) {
            places.open(neighbourhood);
        }
    }

    /// The next that may go on, on a thread.
    pub(super) fn pop_for(&mut self, thread: usize) -> Option<WaitingTask<T>> {
        if self.by_thread && !self.elder_first() {
            if let Some(own) = self.queue.iter().position(|slot| slot.place == thread as u64) {
                return self.queue.remove(own).map(WaitingTask::Whole);
            }
        }
        self.pop()
    }

    /// The next that may go on.
    pub(super) fn pop(&mut self) -> Option<WaitingTask<T>> {
        if !self.windowed {
            return self.queue.pop_front().map(WaitingTask::Whole);
        }
        let last = self.earliest() + AHEAD;
        let (&window, places) = self.windows.range_mut(..=last).find(|(_, places)| places.may_go_on() > 0)?;
        let next = places.pop(window);
        if places.len() == 0 {
            self.windows.remove(&window);
        }
        next
    }

    /// Whether the next of a run without windows is the elder.
    pub(super) fn elder_first(&self) -> bool {
        self.queue.front().is_some_and(|slot| slot.hold.is_some())
    }

    /// Tasks that may go on in the first window where any may.
    pub(super) fn in_first(&self) -> usize {
        self.windows.values().map(Places::may_go_on).find(|tasks| *tasks > 0).unwrap_or(0)
    }

    /// Whether a task may go on in a window before this one.
    pub(super) fn any_before(&self, window: u32) -> bool {
        self.windows.range(..window).any(|(_, places)| places.may_go_on() > 0)
    }

    /// Whether no task may go on.
    pub(super) fn none(&self) -> bool {
        let mut windows = self.windows.range(..=self.earliest() + AHEAD);
        self.queue.is_empty() && windows.all(|(_, places)| places.may_go_on() == 0)
    }

    /// Tasks that wait, and how many of them are held.
    pub(super) fn count(&self) -> (usize, usize) {
        let all = self.windows.values().map(Places::len).sum::<usize>() + self.queue.len();
        let held = self.windows.values().map(Places::held).sum::<usize>();
        (all, held + self.queue.iter().filter(|slot| slot.hold.is_some()).count())
    }

    /// Moves tasks to `gone` until there are `most`, those of the latest window first. Those that are put away go whatever `which` says of
    /// others.
    pub(super) fn drop_those(&mut self, most: usize, which: impl Fn(&TaskSlot<T>) -> bool, gone: &mut Gone<T>) {
        for at in (0..self.queue.len()).rev() {
            if gone.len() < most && which(&self.queue[at]) {
                gone.slots.extend(self.queue.remove(at));
            }
        }
        for (window, places) in self.windows.iter_mut().rev() {
            places.drop_those(*window, most, &which, &mut self.records, gone);
        }
        self.windows.retain(|_, places| places.len() > 0);
    }

    /// Puts records together, and takes out memory in which none is left.
    pub(super) fn gather(&mut self) -> Vec<Chunk> {
        if !self.records.may_gather() {
            return Vec::new();
        }
        self.records.gather(self.windows.values_mut().flat_map(Places::records))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parked::WITHIN;
    use super::*;
    use pager::{ChargeKind, Pager, PagerConfig};

    fn slot(pager: &Pager, number: u64, window: u32) -> WaitingTask<()> {
        let charge = pager.charge(ChargeKind::Tasks, 1).unwrap();
        let (restarts, wanted, behind, hold, place) = (0, Vec::new(), 0, None, number);
        WaitingTask::Whole(Box::new(TaskSlot {
            number,
            task: (),
            charge,
            restarts,
            wanted,
            behind,
            hold,
            window,
            place,
        }))
    }

    fn number(waiting: &WaitingTask<()>) -> u64 {
        match waiting {
            WaitingTask::Whole(slot) => slot.number,
            WaitingTask::Away(away) => away.number,
        }
    }

    #[test]
    fn those_put_away_go_on_among_the_others_and_are_dropped_first_of_the_latest() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = ReadyTasks::new(true, Records::new(100, &pager));
        (0..4).for_each(|_| ready.began());
        ready.close();
        for (n, record) in [(0, None), (1, Some(7)), (2, None), (3, Some(8))] {
            ready.push(record.map_or_else(|| slot(&pager, n, 0), |record| WaitingTask::away(n, 0, n, record)), false);
        }
        assert_eq!(ready.count(), (4, 0));
        assert_eq!(ready.pop().map(|waiting| number(&waiting)), Some(0));
        match ready.pop() {
            Some(WaitingTask::Away(away)) => assert_eq!((away.number, away.place, away.record), (1, 1, 7)),
            _ => panic!("the task at the second place is in a record"),
        }
        let mut gone = Gone::new();
        ready.drop_those(9, |_| false, &mut gone);
        assert_eq!((gone.slots.len(), gone.away.as_slice()), (0, [(3, 0)].as_slice()));
        assert_eq!(ready.count(), (1, 0));
    }

    #[test]
    fn where_some_wait_for_pages_those_that_have_not_gone_on_stay() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        // Three at each of three places: one that is put away, one that is whole, one that is either. The pages of one at the second
        // have come.
        let of = |window: u32, shut: &[u64], late: bool| {
            let mut ready = ReadyTasks::new(true, Records::new(100, &pager));
            (0..9).for_each(|_| ready.began());
            ready.close();
            (0..9).for_each(|_| ready.turned(0, window));
            for n in 0..9 {
                let place = (n / 3) << WITHIN | n;
                let is_shut = late && shut.contains(&(n / 3));
                match slot(&pager, n, window) {
                    WaitingTask::Whole(mut slot) if n == 4 || n % 3 == 1 || n == 8 => {
                        (slot.place, slot.restarts) = (place, u32::from(n == 4));
                        ready.push(WaitingTask::Whole(slot), is_shut);
                    }
                    _ => ready.push(WaitingTask::away(n, window, place, n as u32), is_shut),
                }
            }
            if !late {
                shut.iter().for_each(|place| ready.shut((window, *place)));
            }
            assert_eq!(ready.count(), (9, 0));
            ready
        };
        let all = |ready: &mut ReadyTasks<()>| -> Vec<u64> {
            let order = std::iter::from_fn(|| ready.pop()).map(|waiting| number(&waiting)).collect();
            assert!(ready.none());
            order
        };
        let order = |window, shut: &[u64]| {
            let [mut before, mut after] = [false, true].map(|late| of(window, shut, late));
            let first = all(&mut before);
            assert_eq!(all(&mut after), first, "who comes to a place where others wait stays, too");
            for place in shut {
                before.open((window, *place));
            }
            assert_eq!(first.len() + all(&mut before).len(), 9, "none is lost");
            assert_eq!(before.count(), (0, 0));
            first
        };
        assert_eq!(order(2, &[]), [0, 1, 2, 4, 3, 5, 6, 7, 8], "of a place whose pages have come first");
        let mut elsewhere = of(2, &[], false);
        [0, 1, 2].into_iter().for_each(|place| elsewhere.shut((3, place)));
        assert_eq!(all(&mut elsewhere).len(), 9, "who waits in another window says nothing");
        assert_eq!(order(2, &[0]), [4, 3, 5, 6, 7, 8]);
        assert_eq!(order(2, &[1]), [0, 1, 2, 4, 6, 7, 8], "whose pages have come goes on");
        assert_eq!(order(2, &[0, 2]), [4, 3, 5]);
        assert_eq!(order(2, &[0, 1, 2]), [4]);
        assert_eq!(order(3, &[1]), [8, 7, 6, 4, 2, 1, 0]);
        assert_eq!(order(3, &[0, 1, 2]), [4]);
        // Shares are of those that may go on.
        let mut ready = of(2, &[0, 1], true);
        assert_eq!((ready.in_first(), ready.any_before(3)), (4, true));
        assert_eq!(all(&mut ready), [4, 6, 7, 8]);
        assert_eq!((ready.in_first(), ready.any_before(3), ready.count()), (0, false, (5, 0)));
        // Who comes when some of a crowd have gone on goes next.
        ready.open((2, 0));
        assert_eq!((ready.in_first(), ready.pop().map(|waiting| number(&waiting))), (3, Some(0)));
        ready.push(WaitingTask::away(9, 2, 2, 9), false);
        ready.shut((2, 0));
        assert_eq!(ready.in_first(), 0);
        ready.open((2, 0));
        assert_eq!(all(&mut ready), [9, 1, 2]);
    }

    #[test]
    fn who_is_dropped_is_so_wherever_it_waits() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = ReadyTasks::new(true, Records::new(100, &pager));
        (0..8).for_each(|_| ready.began());
        ready.close();
        for n in 0..8 {
            let (place, is_shut) = ((n / 4) << WITHIN, n >= 4);
            match slot(&pager, n, 0) {
                WaitingTask::Whole(mut slot) if n % 2 == 0 => {
                    slot.place = place;
                    ready.push(WaitingTask::Whole(slot), is_shut);
                }
                _ => ready.push(WaitingTask::away(n, 0, place, n as u32), is_shut),
            }
        }
        let mut gone = Gone::new();
        ready.drop_those(5, |slot| slot.number != 6, &mut gone);
        let mut away: Vec<u64> = gone.away.iter().map(|(number, _)| *number).collect();
        away.sort_unstable();
        assert_eq!(away, [1, 3, 5, 7], "those that are put away first");
        assert_eq!(gone.slots.iter().map(|slot| slot.number).collect::<Vec<_>>(), [4]);
        ready.drop_those(9, |slot| slot.number != 6, &mut gone);
        assert_eq!(gone.slots.iter().map(|slot| slot.number).collect::<Vec<_>>(), [4, 0, 2]);
        assert_eq!(ready.count(), (1, 0));
        assert!(ready.pop().is_none());
        ready.open((0, 1));
        assert_eq!(ready.pop().map(|waiting| number(&waiting)), Some(6));
    }

    #[test]
    fn the_earliest_window_goes_first_and_nobody_far_ahead() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = ReadyTasks::new(true, Records::new(0, &pager));
        (0..4).for_each(|_| ready.began());
        assert!(ready.may_begin() && ready.passed().is_none());
        ready.close();
        assert!(!ready.may_begin(), "a batch that is closed takes nobody");
        for (number, window) in [(0, 1), (1, 2), (2, 1)] {
            ready.turned(0, window);
            ready.push(slot(&pager, number, window), false);
        }
        // One is still in the first window, and waits for pages.
        assert!(ready.passed().is_none());
        let mut order = Vec::new();
        while let Some(waiting) = ready.pop() {
            order.push(number(&waiting));
        }
        assert_eq!(order, [2, 0], "the last place first, and none two windows ahead");
        assert!(ready.none());
        ready.ended(0);
        assert_eq!(ready.passed(), Some(1));
        assert_eq!(ready.pop().map(|slot| number(&slot)), Some(1));
        for window in [1, 1, 2] {
            assert!(!ready.may_begin());
            ready.ended(window);
        }
        assert!(ready.may_begin(), "the next batch");
        assert_eq!(ready.passed(), Some(0));
    }

    #[test]
    fn tasks_without_time_go_on_as_they_came() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = ReadyTasks::new(false, Records::new(0, &pager));
        (0..3).for_each(|n| {
            ready.began();
            ready.push(slot(&pager, n, 0), false);
        });
        ready.push_first(slot(&pager, 9, 0), false);
        ready.close();
        assert!(ready.may_begin());
        let mut gone = Gone::new();
        ready.drop_those(1, |slot| slot.number != 2, &mut gone);
        assert_eq!(gone.slots.iter().map(|slot| slot.number).collect::<Vec<_>>(), [1]);
        let order: Vec<u64> = std::iter::from_fn(|| ready.pop()).map(|slot| number(&slot)).collect();
        assert_eq!(order, [9, 0, 2]);
    }

    #[test]
    fn a_thread_goes_on_with_its_own_tasks_then_with_those_of_others_and_the_elder_before_all() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let of = |number: u64, thread: u64| match slot(&pager, number, 0) {
            WaitingTask::Whole(mut slot) => {
                slot.place = thread;
                WaitingTask::Whole(slot)
            }
            away => away,
        };
        let mut ready = ReadyTasks::new(false, Records::new(0, &pager));
        ready.by_thread = true;
        [(0, 1), (1, 0), (2, 1), (3, 0)].into_iter().for_each(|(n, thread)| ready.push(of(n, thread), false));
        let mut next = |thread| ready.pop_for(thread).map(|slot| number(&slot));
        assert_eq!([next(0), next(0), next(0)], [Some(1), Some(3), Some(0)]);
        assert_eq!([next(1), next(1)], [Some(2), None]);
        if let WaitingTask::Whole(mut elder) = of(4, 1) {
            elder.hold = Some(Box::new(pager.hold(&[])));
            ready.push(of(5, 0), false);
            ready.push_first(WaitingTask::Whole(elder), false);
        }
        assert_eq!([0, 0].map(|thread| ready.pop_for(thread).map(|slot| number(&slot))), [Some(4), Some(5)]);
    }
}

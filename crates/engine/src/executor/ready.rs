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

use super::parked::WITHIN;
use super::records::{Chunk, Records, Waiting};
use super::shared::{Gone, Slot};
use std::collections::{BTreeMap, VecDeque};

/// Windows that tasks may be ahead of the earliest, unless windows are units.
pub(super) const AHEAD: u32 = 1;

/// Tasks of a window by place, and where that is the same by number.
struct Places<T> {
    whole: BTreeMap<(u64, u64), Box<Slot<T>>>,
    /// Those that are put away: the record of each.
    away: BTreeMap<(u64, u64), u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { whole: BTreeMap::new(), away: BTreeMap::new() }
    }
}

impl<T> Places<T> {
    fn len(&self) -> usize {
        self.whole.len() + self.away.len()
    }

    /// The next that goes on, and whether it is put away: from the low end or from the high one. Of those that are put away none does
    /// that is at a place where others wait: it would lack the same pages.
    fn next(&self, low_first: bool, waits: impl Fn(u64) -> bool) -> Option<((u64, u64), bool)> {
        let mut away = if low_first { self.away.first_key_value() } else { self.away.last_key_value() };
        while let Some((key, _)) = away.filter(|((place, _), _)| waits(*place)) {
            let place = key.0 >> WITHIN << WITHIN;
            away = match (low_first, place.checked_add(1 << WITHIN)) {
                (true, Some(next)) => self.away.range((next, 0)..).next(),
                (true, None) => None,
                (false, _) => self.away.range(..(place, 0)).next_back(),
            };
        }
        let whole = if low_first { self.whole.first_key_value() } else { self.whole.last_key_value() };
        match (whole.map(|(key, _)| *key), away.map(|(key, _)| *key)) {
            (Some(whole), Some(away)) if (whole < away) == low_first => Some((whole, false)),
            (Some(whole), None) => Some((whole, false)),
            (_, away) => away.map(|key| (key, true)),
        }
    }
}

pub(super) struct Ready<T> {
    /// Of a run through time.
    windows: BTreeMap<u32, Places<T>>,
    /// Those that were put away.
    pub(super) records: Records,
    /// Of any other run, as they came.
    queue: VecDeque<Box<Slot<T>>>,
    /// 1. How many active tasks are in each window, wherever they are: every window of an active task is a key.
    active: BTreeMap<u32, usize>,
    windowed: bool,
    /// Windows that tasks may be ahead of the earliest.
    ahead: u32,
    /// 2. Tasks that go through time begin in batches: while one is open tasks begin, in the first window, and nothing is passed. Then
    ///    none does until all of the batch are through: one that began later would want the first segments once more.
    open: bool,
    /// The earliest window when it was last told.
    told: u32,
}

impl<T> Ready<T> {
    pub(super) fn new(windowed: bool, ahead: u32, records: Records) -> Self {
        let (windows, queue, active) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Self { windows, records, queue, active, windowed, ahead, open: true, told: 0 }
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

    /// Behind the others, where no place says otherwise.
    pub(super) fn push(&mut self, waiting: Waiting<T>) {
        match waiting {
            Waiting::Whole(slot) if !self.windowed => self.queue.push_back(slot),
            Waiting::Whole(slot) => {
                let (window, key) = (slot.window, (slot.place, slot.number));
                self.windows.entry(window).or_default().whole.insert(key, slot);
            }
            Waiting::Away(away) => {
                let places = self.windows.entry(away.window).or_default();
                places.away.insert((away.place, away.number), away.record);
            }
        }
    }

    /// Before the others, where no place says otherwise.
    pub(super) fn push_first(&mut self, waiting: Waiting<T>) {
        match waiting {
            Waiting::Whole(slot) if !self.windowed => self.queue.push_front(slot),
            waiting => self.push(waiting),
        }
    }

    /// The window and the key of the next task that may go on in time, and whether it is put away; `waits` says whether others wait at
    /// a place in a window.
    fn next(&self, waits: impl Fn(u32, u64) -> bool) -> Option<(u32, (u64, u64), bool)> {
        let mut windows = self.windows.range(..=self.earliest() + self.ahead);
        windows.find_map(|(window, places)| {
            let next = places.next(window % 2 == 0, |place| waits(*window, place));
            next.map(|(key, away)| (*window, key, away))
        })
    }

    /// The next that may go on.
    pub(super) fn pop(&mut self, waits: impl Fn(u32, u64) -> bool) -> Option<Waiting<T>> {
        if !self.windowed {
            return self.queue.pop_front().map(Waiting::Whole);
        }
        let (window, key, away) = self.next(waits)?;
        let places = self.windows.get_mut(&window)?;
        let next = if away {
            places.away.remove(&key).map(|record| Waiting::away(key.1, window, key.0, record))
        } else {
            places.whole.remove(&key).map(Waiting::Whole)
        };
        if places.len() == 0 {
            self.windows.remove(&window);
        }
        next
    }

    /// Tasks that wait in the first window where any does.
    pub(super) fn in_first(&self) -> usize {
        self.windows.first_key_value().map_or(0, |(_, places)| places.len())
    }

    /// Whether a task may go on in a window before this one.
    pub(super) fn any_before(&self, window: u32) -> bool {
        self.windows.range(..window).next().is_some()
    }

    /// Whether no task may go on.
    pub(super) fn none(&self, waits: impl Fn(u32, u64) -> bool) -> bool {
        self.queue.is_empty() && self.next(waits).is_none()
    }

    /// Tasks that wait, and how many of them are held.
    pub(super) fn count(&self) -> (usize, usize) {
        let all = self.windows.values().map(Places::len).sum::<usize>() + self.queue.len();
        let whole = self.windows.values().flat_map(|places| places.whole.values());
        (all, whole.chain(&self.queue).filter(|slot| slot.hold.is_some()).count())
    }

    /// Moves tasks to `gone` until there are `most`, the latest first. Those that are put away go whatever `which` says of others.
    pub(super) fn drop_those(&mut self, most: usize, which: impl Fn(&Slot<T>) -> bool, gone: &mut Gone<T>) {
        for at in (0..self.queue.len()).rev() {
            if gone.len() < most && which(&self.queue[at]) {
                gone.slots.extend(self.queue.remove(at));
            }
        }
        for (window, places) in self.windows.iter_mut().rev() {
            while gone.len() < most {
                let Some(((_, number), record)) = places.away.pop_last() else { break };
                self.records.put_back(record);
                gone.away.push((number, *window));
            }
            let left = most - gone.len().min(most);
            let those = places.whole.iter().rev().filter(|(_, slot)| which(slot)).map(|(key, _)| *key).take(left);
            for key in those.collect::<Vec<_>>() {
                gone.slots.extend(places.whole.remove(&key));
            }
        }
        self.windows.retain(|_, places| places.len() > 0);
    }

    /// Puts records together, and takes out memory in which none is left.
    pub(super) fn gather(&mut self) -> Vec<Chunk> {
        if !self.records.may_gather() {
            return Vec::new();
        }
        self.records.gather(self.windows.values_mut().flat_map(|places| places.away.values_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::{ChargeKind, Pager, PagerConfig};

    fn slot(pager: &Pager, number: u64, window: u32) -> Waiting<()> {
        let charge = pager.charge(ChargeKind::Tasks, 1).unwrap();
        let (restarts, wanted, hold, place) = (0, Vec::new(), None, number);
        Waiting::Whole(Box::new(Slot { number, task: (), charge, restarts, wanted, hold, window, place }))
    }

    /// At no place does anybody wait.
    fn nobody(_window: u32, _place: u64) -> bool {
        false
    }

    fn number(waiting: &Waiting<()>) -> u64 {
        match waiting {
            Waiting::Whole(slot) => slot.number,
            Waiting::Away(away) => away.number,
        }
    }

    #[test]
    fn those_put_away_go_on_among_the_others_and_are_dropped_first_of_the_latest() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = Ready::new(true, AHEAD, Records::new(100, &pager));
        (0..4).for_each(|_| ready.began());
        ready.close();
        for (n, record) in [(0, None), (1, Some(7)), (2, None), (3, Some(8))] {
            ready.push(record.map_or_else(|| slot(&pager, n, 0), |record| Waiting::away(n, 0, n, record)));
        }
        assert_eq!(ready.count(), (4, 0));
        assert_eq!(ready.pop(nobody).map(|waiting| number(&waiting)), Some(0));
        match ready.pop(nobody) {
            Some(Waiting::Away(away)) => assert_eq!((away.number, away.place, away.record), (1, 1, 7)),
            _ => panic!("the task at the second place is in a record"),
        }
        let mut gone = Gone::new();
        ready.drop_those(9, |_| false, &mut gone);
        assert_eq!((gone.slots.len(), gone.away.as_slice()), (0, [(3, 0)].as_slice()));
        assert_eq!(ready.count(), (1, 0));
    }

    #[test]
    fn where_some_wait_for_pages_those_that_are_put_away_stay() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let of = |window: u32| {
            let mut ready = Ready::new(true, AHEAD, Records::new(100, &pager));
            (0..9).for_each(|_| ready.began());
            ready.close();
            (0..9).for_each(|_| ready.turned(0, window));
            // Three at each of three places; of those at the second one is here.
            for n in 0..9 {
                let place = (n / 3) << WITHIN | n;
                match (n == 4, slot(&pager, n, window)) {
                    (true, Waiting::Whole(mut slot)) => {
                        slot.place = place;
                        ready.push(Waiting::Whole(slot));
                    }
                    _ => ready.push(Waiting::away(n, window, place, n as u32)),
                }
            }
            ready
        };
        let all = |mut ready: Ready<()>, waits: &dyn Fn(u32, u64) -> bool| -> Vec<u64> {
            let order = std::iter::from_fn(|| ready.pop(waits)).map(|waiting| number(&waiting)).collect();
            assert!(ready.none(waits));
            order
        };
        let at = |window: u32, places: &'static [u64]| {
            move |w: u32, place: u64| w == window && places.contains(&(place >> WITHIN))
        };
        assert_eq!(all(of(2), &nobody), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            all(of(2), &at(3, &[0, 1, 2])),
            [0, 1, 2, 3, 4, 5, 6, 7, 8],
            "who waits in another window says nothing"
        );
        assert_eq!(all(of(2), &at(2, &[0])), [3, 4, 5, 6, 7, 8]);
        assert_eq!(all(of(2), &at(2, &[1])), [0, 1, 2, 4, 6, 7, 8], "whose pages have come goes on");
        assert_eq!(all(of(2), &at(2, &[0, 2])), [3, 4, 5]);
        assert_eq!(all(of(2), &at(2, &[0, 1, 2])), [4]);
        assert_eq!(all(of(3), &at(3, &[1])), [8, 7, 6, 4, 2, 1, 0]);
        assert_eq!(all(of(3), &at(3, &[0, 1, 2])), [4]);
    }

    #[test]
    fn the_earliest_window_goes_first_and_nobody_far_ahead() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = Ready::new(true, AHEAD, Records::new(0, &pager));
        (0..4).for_each(|_| ready.began());
        assert!(ready.may_begin() && ready.passed().is_none());
        ready.close();
        assert!(!ready.may_begin(), "a batch that is closed takes nobody");
        for (number, window) in [(0, 1), (1, 2), (2, 1)] {
            ready.turned(0, window);
            ready.push(slot(&pager, number, window));
        }
        // One is still in the first window, and waits for pages.
        assert!(ready.passed().is_none());
        let mut order = Vec::new();
        while let Some(waiting) = ready.pop(nobody) {
            order.push(number(&waiting));
        }
        assert_eq!(order, [2, 0], "the last place first, and none two windows ahead");
        assert!(ready.none(nobody));
        ready.ended(0);
        assert_eq!(ready.passed(), Some(1));
        assert_eq!(ready.pop(nobody).map(|slot| number(&slot)), Some(1));
        for window in [1, 1, 2] {
            assert!(!ready.may_begin());
            ready.ended(window);
        }
        assert!(ready.may_begin(), "the next batch");
        assert_eq!(ready.passed(), Some(0));
    }

    #[test]
    fn of_units_none_is_begun_before_the_one_before_it_is_done() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = Ready::new(true, 0, Records::new(0, &pager));
        (0..2).for_each(|_| ready.began());
        ready.close();
        ready.turned(0, 1);
        ready.push(slot(&pager, 0, 1));
        assert!(ready.none(nobody) && ready.pop(nobody).is_none());
        assert!(ready.any_before(2) && !ready.any_before(1));
        ready.turned(0, 1);
        ready.push(slot(&pager, 1, 1));
        assert_eq!(ready.earliest(), 1);
        assert_eq!(ready.pop(nobody).map(|slot| number(&slot)), Some(1));
    }

    #[test]
    fn tasks_without_time_go_on_as_they_came() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let mut ready = Ready::new(false, AHEAD, Records::new(0, &pager));
        (0..3).for_each(|n| {
            ready.began();
            ready.push(slot(&pager, n, 0));
        });
        ready.push_first(slot(&pager, 9, 0));
        ready.close();
        assert!(ready.may_begin());
        let mut gone = Gone::new();
        ready.drop_those(1, |slot| slot.number != 2, &mut gone);
        assert_eq!(gone.slots.iter().map(|slot| slot.number).collect::<Vec<_>>(), [1]);
        let order: Vec<u64> = std::iter::from_fn(|| ready.pop(nobody)).map(|slot| number(&slot)).collect();
        assert_eq!(order, [9, 0, 2]);
    }
}

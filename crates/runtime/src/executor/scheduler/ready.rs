//! Tasks that wait for a thread, in the order in which they continue.
//!
//! Each task of a run through time is in one *window*: between two steps of a series. Those of the earliest window go
//! first. So pages are resident that tasks use between now and the end of their window, and earlier time steps can be
//! given back. If all tasks of the earliest window wait for pages, those of the next continue. None gets further ahead,
//! so at most the pages of three steps are in use.
//!
//! Within a window tasks go in the order of their places: in one window from the low end of the data to the high, in
//! the next back. If memory does not hold the pages of a window, each is still read about once for all tasks there.
//! Pages resident at the end of one window serve the beginning of the next.
//!
//! 10,000 particles at 32 MiB, a third of a time step, once read more than a hundred times what they touch, until they
//! were stopped. In the order of places they read it three times, and less since their states are packed.

use super::crowds::Crowds;
use super::task::{ActiveTask, Gone, WaitingTask, Where};
use std::collections::{BTreeMap, VecDeque};

/// Windows that tasks may be ahead of the earliest.
const AHEAD: u32 = 1;

pub(crate) struct Ready<T> {
    /// Tasks of a run through time.
    windows: BTreeMap<u32, Crowds<T>>,
    /// Tasks of any other run, in order of arrival.
    queue: VecDeque<Box<ActiveTask<T>>>,
    windowed: bool,
    /// In a run without windows, whether a thread continues its own tasks first. Their places are the numbers of
    /// threads.
    by_thread: bool,
}

impl<T> Ready<T> {
    pub(crate) fn new(windowed: bool, by_thread: bool) -> Self {
        Self { windows: BTreeMap::new(), queue: VecDeque::new(), windowed, by_thread }
    }

    /// Adds a task, behind the others unless it has a place. `shut`: others wait for pages in its neighbourhood.
    pub(crate) fn push(&mut self, waiting: WaitingTask<T>, shut: bool) {
        match waiting {
            WaitingTask::Whole(task) if !self.windowed => self.queue.push_back(task),
            waiting => {
                let window = waiting.window();
                self.windows.entry(window).or_insert_with(|| Crowds::new(window % 2 == 0)).push(waiting, shut);
            }
        }
    }

    /// Adds a task, before the others unless it has a place.
    pub(crate) fn push_first(&mut self, waiting: WaitingTask<T>, shut: bool) {
        match waiting {
            WaitingTask::Whole(task) if !self.windowed => self.queue.push_front(task),
            waiting => self.push(waiting, shut),
        }
    }

    /// A task waits for pages in a neighbourhood: tasks there that have not started their window wait, too.
    pub(crate) fn shut(&mut self, (window, neighbourhood): Where) {
        if let Some(crowds) = self.windows.get_mut(&window) {
            crowds.shut(neighbourhood);
        }
    }

    /// No task waits for pages there any more.
    pub(crate) fn open(&mut self, (window, neighbourhood): Where) {
        if let Some(crowds) = self.windows.get_mut(&window) {
            crowds.open(neighbourhood);
        }
    }

    /// The next ready task for a thread, while `earliest` is the earliest window. In a run without windows the elder
    /// goes before a thread's own.
    pub(crate) fn pop_for(&mut self, thread: usize, earliest: u32, elder: Option<u64>) -> Option<WaitingTask<T>> {
        if self.by_thread && !self.is_first(elder) {
            if let Some(own) = self.queue.iter().position(|task| task.place == thread as u64) {
                return self.queue.remove(own).map(WaitingTask::Whole);
            }
        }
        self.pop(earliest)
    }

    /// The next ready task for any thread.
    pub(crate) fn pop(&mut self, earliest: u32) -> Option<WaitingTask<T>> {
        if !self.windowed {
            return self.queue.pop_front().map(WaitingTask::Whole);
        }
        let mut windows = self.windows.range_mut(..=earliest + AHEAD);
        let (&window, crowds) = windows.find(|(_, crowds)| crowds.may_go_on() > 0)?;
        let next = crowds.pop(window);
        if crowds.len() == 0 {
            self.windows.remove(&window);
        }
        next
    }

    /// Whether a task is the next of a run without windows.
    pub(crate) fn is_first(&self, number: Option<u64>) -> bool {
        number.is_some_and(|number| self.queue.front().is_some_and(|task| task.number == number))
    }

    /// Whether a task waits in the first window.
    pub(crate) fn any_in_first(&self) -> bool {
        self.windows.contains_key(&0)
    }

    /// Number of ready tasks in the first window that has any.
    pub(crate) fn in_first(&self) -> usize {
        self.windows.values().map(Crowds::may_go_on).find(|tasks| *tasks > 0).unwrap_or(0)
    }

    /// Whether a task is ready in a window before this one.
    pub(crate) fn any_before(&self, window: u32) -> bool {
        self.windows.range(..window).any(|(_, crowds)| crowds.may_go_on() > 0)
    }

    /// Whether no task is ready while `earliest` is the earliest window.
    pub(crate) fn none(&self, earliest: u32) -> bool {
        let mut windows = self.windows.range(..=earliest + AHEAD);
        self.queue.is_empty() && windows.all(|(_, crowds)| crowds.may_go_on() == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.windows.values().map(Crowds::len).sum::<usize>() + self.queue.len()
    }

    /// Whether a task waits that has started its window, or belongs to a run without windows.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.queue.iter().any(|task| task.number == number) || self.windows.values().any(|c| c.has_woken(number))
    }

    /// Moves tasks to `gone` until it has `most`, the latest window first. `which` chooses among tasks that are not
    /// packed; packed ones always go.
    pub(crate) fn drop_those(&mut self, most: usize, which: impl Fn(&ActiveTask<T>) -> bool, gone: &mut Gone<T>) {
        for at in (0..self.queue.len()).rev() {
            if gone.len() < most && which(&self.queue[at]) {
                gone.tasks.extend(self.queue.remove(at));
            }
        }
        for (window, crowds) in self.windows.iter_mut().rev() {
            crowds.drop_those(*window, most, &which, gone);
        }
        self.windows.retain(|_, crowds| crowds.len() > 0);
    }

    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        self.windows.values_mut().flat_map(Crowds::records)
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::WITHIN;
    use super::*;

    fn task(number: u64, window: u32) -> Box<ActiveTask<()>> {
        Box::new(ActiveTask { number, body: (), restarts: 0, window, place: number })
    }

    fn number(waiting: &WaitingTask<()>) -> u64 {
        waiting.number()
    }

    #[test]
    fn those_packed_go_on_among_the_others_and_are_dropped_first_of_the_latest() {
        let mut ready = Ready::new(true, false);
        for (n, record) in [(0, None), (1, Some(7)), (2, None), (3, Some(8))] {
            ready.push(
                record.map_or_else(|| WaitingTask::Whole(task(n, 0)), |record| WaitingTask::packed(n, 0, n, record)),
                false,
            );
        }
        assert_eq!(ready.len(), 4);
        assert_eq!(ready.pop(0).map(|waiting| number(&waiting)), Some(0));
        match ready.pop(0) {
            Some(WaitingTask::Packed(packed)) => assert_eq!((packed.number, packed.place, packed.record), (1, 1, 7)),
            _ => panic!("the task at the second place is in a record"),
        }
        let mut gone = Gone::default();
        ready.drop_those(9, |_| false, &mut gone);
        assert_eq!((gone.tasks.len(), gone.names()), (0, vec![(3, 0)]));
        assert_eq!(ready.len(), 1);
    }

    #[test]
    fn where_some_wait_for_pages_those_that_have_not_gone_on_stay() {
        // Three at each of three places: one packed, one whole, one either. The pages of one at the second have come.
        let of = |window: u32, shut: &[u64], late: bool| {
            let mut ready = Ready::new(true, false);
            for n in 0..9 {
                let place = (n / 3) << WITHIN | n;
                let is_shut = late && shut.contains(&(n / 3));
                if n == 4 || n % 3 == 1 || n == 8 {
                    let mut task = task(n, window);
                    (task.place, task.restarts) = (place, u32::from(n == 4));
                    ready.push(WaitingTask::Whole(task), is_shut);
                } else {
                    ready.push(WaitingTask::packed(n, window, place, n as u32), is_shut);
                }
            }
            if !late {
                shut.iter().for_each(|place| ready.shut((window, *place)));
            }
            assert_eq!(ready.len(), 9);
            ready
        };
        let all = |ready: &mut Ready<()>| -> Vec<u64> {
            let order = std::iter::from_fn(|| ready.pop(2)).map(|waiting| number(&waiting)).collect();
            assert!(ready.none(2));
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
            assert_eq!(before.len(), 0);
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
        // Only ready tasks are counted.
        let mut ready = of(2, &[0, 1], true);
        assert_eq!((ready.in_first(), ready.any_before(3)), (4, true));
        assert_eq!(all(&mut ready), [4, 6, 7, 8]);
        assert_eq!((ready.in_first(), ready.any_before(3), ready.len()), (0, false, 5));
        // A task that joins a crowd that has begun goes next.
        ready.open((2, 0));
        assert_eq!((ready.in_first(), ready.pop(2).map(|waiting| number(&waiting))), (3, Some(0)));
        ready.push(WaitingTask::packed(9, 2, 2, 9), false);
        ready.shut((2, 0));
        assert_eq!(ready.in_first(), 0);
        ready.open((2, 0));
        assert_eq!(all(&mut ready), [9, 1, 2]);
    }

    #[test]
    fn who_is_dropped_is_so_wherever_it_waits() {
        let mut ready = Ready::new(true, false);
        for n in 0..8 {
            let (place, is_shut) = ((n / 4) << WITHIN, n >= 4);
            if n % 2 == 0 {
                let mut task = task(n, 0);
                task.place = place;
                ready.push(WaitingTask::Whole(task), is_shut);
            } else {
                ready.push(WaitingTask::packed(n, 0, place, n as u32), is_shut);
            }
        }
        let mut gone = Gone::default();
        ready.drop_those(5, |task| task.number != 6, &mut gone);
        let mut packed: Vec<u64> = gone.packed.iter().map(|packed| packed.number).collect();
        packed.sort_unstable();
        assert_eq!(packed, [1, 3, 5, 7], "those that are packed first");
        assert_eq!(gone.tasks.iter().map(|task| task.number).collect::<Vec<_>>(), [4]);
        ready.drop_those(9, |task| task.number != 6, &mut gone);
        assert_eq!(gone.tasks.iter().map(|task| task.number).collect::<Vec<_>>(), [4, 0, 2]);
        assert_eq!(ready.len(), 1);
        assert!(ready.pop(0).is_none());
        ready.open((0, 1));
        assert_eq!(ready.pop(0).map(|waiting| number(&waiting)), Some(6));
    }

    #[test]
    fn tasks_without_time_go_on_as_they_came() {
        let mut ready = Ready::new(false, false);
        (0..3).for_each(|n| ready.push(WaitingTask::Whole(task(n, 0)), false));
        ready.push_first(WaitingTask::Whole(task(9, 0)), false);
        assert!(ready.is_first(Some(9)) && !ready.is_first(Some(0)) && !ready.is_first(None));
        let mut gone = Gone::default();
        ready.drop_those(1, |task| task.number != 2, &mut gone);
        assert_eq!(gone.tasks.iter().map(|task| task.number).collect::<Vec<_>>(), [1]);
        let order: Vec<u64> = std::iter::from_fn(|| ready.pop(0)).map(|waiting| number(&waiting)).collect();
        assert_eq!(order, [9, 0, 2]);
    }

    #[test]
    fn a_thread_goes_on_with_its_own_tasks_then_with_those_of_others_and_the_elder_before_all() {
        let of = |number: u64, thread: u64| {
            let mut task = task(number, 0);
            task.place = thread;
            WaitingTask::Whole(task)
        };
        let mut ready = Ready::new(false, true);
        [(0, 1), (1, 0), (2, 1), (3, 0)].into_iter().for_each(|(n, thread)| ready.push(of(n, thread), false));
        let mut next = |thread| ready.pop_for(thread, 0, Some(4)).map(|waiting| number(&waiting));
        assert_eq!([next(0), next(0), next(0)], [Some(1), Some(3), Some(0)]);
        assert_eq!([next(1), next(1)], [Some(2), None]);
        ready.push(of(5, 0), false);
        ready.push_first(of(4, 1), false);
        assert_eq!(
            [0, 0].map(|thread| ready.pop_for(thread, 0, Some(4)).map(|waiting| number(&waiting))),
            [Some(4), Some(5)]
        );
    }
}

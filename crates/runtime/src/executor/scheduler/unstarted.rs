//! Tasks that never began.
//!
//! They begin one after the other, on whichever thread is next, or in *runs*, if consecutive tasks share a thread's own
//! state. Each thread has one run. At its end it takes the next `each` tasks. If none are left, it takes the latter
//! half of the longest remaining run.

use std::ops::Range;

/// Numbers of tasks.
#[derive(Debug)]
pub(crate) struct Unstarted {
    /// 1. No number is in two runs, or in a run and in `rest`.
    runs: Vec<Range<u64>>,
    /// Tasks in no run yet.
    rest: Range<u64>,
    /// Most tasks of a run.
    each: u64,
}

impl Unstarted {
    /// All of `tasks`, for `threads` threads, in runs of `each`. If there are too few for these, one run a thread.
    pub(crate) fn new(tasks: u64, threads: usize, each: u64) -> Self {
        let threads = threads.max(1);
        let each = each.min(tasks.div_ceil(threads as u64)).max(1);
        Self { runs: vec![0..0; threads], rest: 0..tasks, each }
    }

    pub(crate) fn next(&mut self, thread: usize) -> Option<u64> {
        let own = thread % self.runs.len();
        if self.runs[own].is_empty() && !self.rest.is_empty() {
            let end = self.rest.start.saturating_add(self.each).min(self.rest.end);
            self.runs[own] = core::mem::replace(&mut self.rest.start, end)..end;
        }
        if self.runs[own].is_empty() {
            let longest = self.runs.iter_mut().max_by_key(|run| run.end - run.start)?;
            let middle = longest.start + (longest.end - longest.start) / 2;
            self.runs[own] = middle..core::mem::replace(&mut longest.end, middle);
        }
        self.runs[own].next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once_in_runs_and_in_order_where_there_is_one() {
        let mut one = Unstarted::new(5, 2, 1);
        assert_eq!((0..7).map_while(|thread| one.next(thread)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        for (tasks, runs, each) in [(0u64, 2, u64::MAX), (1, 4, 3), (10, 3, u64::MAX), (100, 2, u64::MAX), (100, 2, 16)]
        {
            let mut unstarted = Unstarted::new(tasks, runs, each);
            // The first thread takes three times as many as any other.
            let turns = (0..).map(|n: usize| if n.is_multiple_of(2) { 0 } else { n / 2 % runs });
            let order: Vec<u64> = turns.map_while(|thread| unstarted.next(thread)).collect();
            let mut all = order.clone();
            all.sort_unstable();
            assert_eq!(all, (0..tasks).collect::<Vec<_>>(), "{runs} runs");
        }
    }

    #[test]
    fn a_thread_goes_on_where_it_was_and_then_takes_half_of_what_is_left_to_another() {
        let mut unstarted = Unstarted::new(16, 2, u64::MAX);
        assert_eq!(
            [unstarted.next(0), unstarted.next(1), unstarted.next(0), unstarted.next(1)],
            [Some(0), Some(8), Some(1), Some(9)]
        );
        let rest: Vec<_> = (0..6).filter_map(|_| unstarted.next(0)).collect();
        assert_eq!(rest, [2, 3, 4, 5, 6, 7]);
        assert_eq!([unstarted.next(0), unstarted.next(0), unstarted.next(1)], [Some(13), Some(14), Some(10)]);
    }

    #[test]
    fn a_thread_takes_the_next_run_when_its_own_is_through() {
        let mut unstarted = Unstarted::new(7, 2, 2);
        let order: Vec<_> = [0, 1, 0, 0, 0, 1, 1, 1].iter().map(|thread| unstarted.next(*thread)).collect();
        assert_eq!(order, [Some(0), Some(2), Some(1), Some(4), Some(5), Some(3), Some(6), None]);
    }
}

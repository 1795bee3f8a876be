//! Tasks as the scheduler has them: their number, and their place in time and in the data.

/// Low bits of a [place](crate::executor::Windowed::place), within its neighbourhood.
pub(crate) const WITHIN: u32 = 12;

/// A window, and a neighbourhood in it.
pub(crate) type Where = (u32, u64);

/// A task that has begun, with the data of its steps.
#[derive(Debug)]
pub(crate) struct ActiveTask<T> {
    pub(crate) number: u64,
    pub(crate) body: T,
    /// Restarts of the present step.
    pub(crate) restarts: u32,
    /// The window when it was last recorded.
    pub(crate) window: u32,
    /// Its place then. In a run without windows the number of the thread that stepped it.
    pub(crate) place: u64,
}

impl<T> ActiveTask<T> {
    /// Its neighbourhood when it was last recorded.
    pub(crate) fn neighbourhood(&self) -> Where {
        (self.window, self.place >> WITHIN)
    }
}

/// A task packed into a record until its turn.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) number: u64,
    pub(crate) window: u32,
    pub(crate) place: u64,
    pub(crate) record: u32,
    /// Where its bytes begin in the cache of its thread; 0 while no thread has it.
    pub(crate) from: usize,
}

#[derive(Debug)]
pub(crate) enum WaitingTask<T> {
    Whole(Box<ActiveTask<T>>),
    Packed(Packed),
}

impl<T> WaitingTask<T> {
    /// A task whose bytes are in its record.
    pub(crate) fn packed(number: u64, window: u32, place: u64, record: u32) -> Self {
        Self::Packed(Packed { number, window, place, record, from: 0 })
    }

    #[cfg(test)]
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Whole(task) => task.number,
            Self::Packed(packed) => packed.number,
        }
    }

    pub(crate) fn window(&self) -> u32 {
        match self {
            Self::Whole(task) => task.window,
            Self::Packed(packed) => packed.window,
        }
    }

    pub(crate) fn place(&self) -> u64 {
        match self {
            Self::Whole(task) => task.place,
            Self::Packed(packed) => packed.place,
        }
    }

    pub(crate) fn neighbourhood(&self) -> Where {
        (self.window(), self.place() >> WITHIN)
    }

    pub(crate) fn record(&self) -> Option<u32> {
        match self {
            Self::Whole(_) => None,
            Self::Packed(packed) => Some(packed.record),
        }
    }

    /// Whether it is in this neighbourhood and has not started its window.
    pub(crate) fn is_fresh_at(&self, at: Where) -> bool {
        let went_on = matches!(self, Self::Whole(task) if task.restarts > 0);
        !went_on && self.neighbourhood() == at
    }
}

#[derive(Debug)]
pub(crate) enum Next<T> {
    Ready(WaitingTask<T>),
    Begin(u64),
}

/// Dropped tasks, which begin again. They count as active until [`super::Scheduler::freed`] is called for them.
#[derive(Debug)]
pub(crate) struct Gone<T> {
    pub(crate) tasks: Vec<Box<ActiveTask<T>>>,
    pub(crate) packed: Vec<Packed>,
}

impl<T> Default for Gone<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), packed: Vec::new() }
    }
}

impl<T> Gone<T> {
    pub(crate) fn len(&self) -> usize {
        self.tasks.len() + self.packed.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their numbers and windows.
    pub(crate) fn names(&self) -> Vec<(u64, u32)> {
        let packed = self.packed.iter().map(|packed| (packed.number, packed.window));
        packed.chain(self.tasks.iter().map(|task| (task.number, task.window))).collect()
    }
}

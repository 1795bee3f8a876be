//! Tasks as the scheduler knows them: their number, and where in time and in the data they are.

/// Bits of a [place](crate::executor::Windowed::place) that say where in a neighbourhood it is.
pub(crate) const WITHIN: u32 = 12;

/// A window, and a neighbourhood in it.
pub(crate) type Where = (u32, u64);

/// A task that has begun, with whatever its steps need.
#[derive(Debug)]
pub(crate) struct ActiveTask<T> {
    pub(crate) number: u64,
    pub(crate) body: T,
    /// Restarts of the present step.
    pub(crate) restarts: u32,
    /// The window that the task was in when it was last looked at.
    pub(crate) window: u32,
    /// And where it was then; of a run without windows the number of the thread that stepped it.
    pub(crate) place: u64,
}

impl<T> ActiveTask<T> {
    /// The neighbourhood in which it was when it was last looked at.
    pub(crate) fn neighbourhood(&self) -> Where {
        (self.window, self.place >> WITHIN)
    }
}

/// A task that is packed into a record until it is its turn.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) number: u64,
    pub(crate) window: u32,
    pub(crate) place: u64,
    pub(crate) record: u32,
    /// Where its bytes begin in the cache of the thread that has it; 0 while no thread has it.
    pub(crate) from: usize,
}

/// A task that waits for a thread.
#[derive(Debug)]
pub(crate) enum Waiting<T> {
    Whole(Box<ActiveTask<T>>),
    Packed(Packed),
}

impl<T> Waiting<T> {
    /// One whose bytes are in its record.
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

    /// The record in which it waits.
    pub(crate) fn record(&self) -> Option<u32> {
        match self {
            Self::Whole(_) => None,
            Self::Packed(packed) => Some(packed.record),
        }
    }

    /// Whether it has not gone on in a window yet, in a neighbourhood.
    pub(crate) fn is_fresh_at(&self, at: Where) -> bool {
        let went_on = matches!(self, Self::Whole(task) if task.restarts > 0);
        !went_on && self.neighbourhood() == at
    }
}

/// What a thread takes up.
#[derive(Debug)]
pub(crate) enum Next<T> {
    Ready(Waiting<T>),
    Begin(u64),
}

/// Tasks that are dropped, to begin again. They count as active until the scheduler hears that their memory is free
/// ([`super::Scheduler::freed`]).
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

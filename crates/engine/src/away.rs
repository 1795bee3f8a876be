//! Lines that wait for their turn, put away in fewer bytes than they take while they go on: of ten thousand particles most wait at any time.

use crate::tracers::Tracer;
use kernels::saved::Saver;

/// A line, or what it takes to go on with it.
pub(crate) enum Held<L> {
    /// As it goes on.
    Here(Box<L>),
    /// As [`Tracer::put_away`] wrote it, with room for more: blocks of one size take each other's places in memory.
    Away(Vec<u8>),
}

impl<L> Held<L> {
    pub(crate) fn new(line: L) -> Self {
        Self::Here(Box::new(line))
    }

    /// The line, unless it is away.
    #[inline(always)]
    pub(crate) fn here(&self) -> Option<&L> {
        match self {
            Self::Here(line) => Some(line),
            Self::Away(_) => None,
        }
    }

    /// The line, taken up again if it was away.
    #[inline(always)]
    pub(crate) fn take_up<T: Tracer<Line = L>>(&mut self, tracer: &T) -> &mut L {
        if let Self::Away(bytes) = self {
            *self = Self::new(taken_up(tracer, bytes));
        }
        match self {
            Self::Here(line) => line,
            Self::Away(_) => unreachable!("it was taken up"),
        }
    }

    pub(crate) fn into_line<T: Tracer<Line = L>>(self, tracer: &T) -> L {
        match self {
            Self::Here(line) => *line,
            Self::Away(bytes) => taken_up(tracer, &bytes),
        }
    }

    /// Puts the line away, if its kind can be, in so many bytes as a rule.
    pub(crate) fn put_away<T: Tracer<Line = L>>(&mut self, bytes: usize) {
        let mut to = Saver(Vec::with_capacity(bytes));
        if self.here().is_some_and(|line| T::put_away(line, &mut to)) {
            *self = Self::Away(to.0);
        }
    }
}

/// Nobody else has had the bytes: there is no one to tell that they are damaged.
fn taken_up<T: Tracer>(tracer: &T, bytes: &[u8]) -> T::Line {
    tracer.take_up(bytes).expect("a line that was put away in this process comes back")
}

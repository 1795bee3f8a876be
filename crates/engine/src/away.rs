//! Lines that wait for their turn, put away in fewer bytes than they take while they go on: of ten thousand particles most wait at any time.

use crate::tracers::Tracer;
use kernels::saved::Saver;

/// A line, or what it takes to go on with it.
pub(crate) struct Held<L> {
    /// The line as it goes on.
    here: Option<Box<L>>,
    /// Where it is not here, what [`Tracer::put_away`] wrote. Its room is taken once: thousands that came and went with the lines left
    /// the allocator with as much again in pieces between them.
    away: Vec<u8>,
}

impl<L> Held<L> {
    pub(crate) fn new(line: L) -> Self {
        Self { here: Some(Box::new(line)), away: Vec::new() }
    }

    /// The line, unless it is away.
    #[inline(always)]
    pub(crate) fn here(&self) -> Option<&L> {
        self.here.as_deref()
    }

    /// The line, unless it is away.
    #[inline(always)]
    pub(crate) fn here_mut(&mut self) -> Option<&mut L> {
        self.here.as_deref_mut()
    }

    /// Bytes of room for it when it is away.
    #[inline(always)]
    pub(crate) fn away_bytes(&self) -> usize {
        self.away.capacity()
    }

    /// The line, taken up again if it was away.
    #[inline(always)]
    pub(crate) fn take_up<T: Tracer<Line = L>>(&mut self, tracer: &T) -> &mut L {
        self.here.get_or_insert_with(|| Box::new(taken_up(tracer, &self.away)))
    }

    pub(crate) fn into_line<T: Tracer<Line = L>>(self, tracer: &T) -> L {
        self.here.map_or_else(|| taken_up(tracer, &self.away), |line| *line)
    }

    /// Puts the line away, if its kind can be, in so many bytes as a rule.
    pub(crate) fn put_away<T: Tracer<Line = L>>(&mut self, bytes: usize) {
        let Some(line) = &self.here else { return };
        let mut to = Saver(core::mem::take(&mut self.away));
        to.0.clear();
        to.0.reserve_exact(bytes);
        if T::put_away(line, &mut to) {
            self.here = None;
        }
        self.away = to.0;
    }
}

/// Nobody else has had the bytes: there is no one to tell that they are damaged.
fn taken_up<T: Tracer>(tracer: &T, bytes: &[u8]) -> T::Line {
    tracer.take_up(bytes).expect("a line that was put away in this process comes back")
}

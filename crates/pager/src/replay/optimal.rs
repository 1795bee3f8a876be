//! Belady's optimum evicts the page with the farthest next use. Only a trace has this future.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Frames by their next use. For pages of one size no policy has fewer misses. For several sizes it is the customary
/// approximation.
#[derive(Default)]
pub(super) struct Optimal {
    next: Arc<[u32]>,
    order: BTreeSet<(u32, u32)>,
    /// The next use of each frame's page, as in the order.
    of: Vec<u32>,
}

impl Optimal {
    pub(super) fn new(next: Arc<[u32]>) -> Self {
        Self { next, ..Self::default() }
    }

    /// Records that use number `n` of the trace is of a frame's page.
    pub(super) fn used(&mut self, frame: u32, n: u64) {
        let place = frame as usize;
        if self.of.len() <= place {
            self.of.resize(place + 1, u32::MAX);
        }
        self.order.remove(&(self.of[place], frame));
        self.of[place] = self.next.get(n as usize).copied().unwrap_or(u32::MAX);
        self.order.insert((self.of[place], frame));
    }

    /// Removes the frame whose page is used last.
    pub(super) fn victim(&mut self) -> Option<u32> {
        self.order.pop_last().map(|(_, frame)| frame)
    }
}

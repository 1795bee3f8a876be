//! Second chance.

use super::replacement::{Need, Policy, Probe};
use crate::id::PageId;

/// A hand over frame numbers. Frames are visited by number, an arbitrary but fixed order. A ring in order of arrival
/// gains nothing, since second chance ignores age beyond one turn.
#[derive(Debug, Default)]
pub struct Clock {
    /// One bit a frame: whether it holds a page.
    present: Vec<u64>,
    count: usize,
    hand: usize,
}

impl Clock {
    /// The name in messages and on the command line.
    pub(super) const NAME: &'static str = "clock";

    /// The next present frame at or after the hand. The hand moves behind it.
    fn next(&mut self) -> Option<u32> {
        let words = self.present.len();
        let (mut word, bit) = (self.hand / 64, self.hand % 64);
        if word >= words {
            word = 0;
        }
        let mut bits = self.present.get(word)? & (u64::MAX << if word == self.hand / 64 { bit } else { 0 });
        for _ in 0..=words {
            if bits != 0 {
                let frame = word * 64 + bits.trailing_zeros() as usize;
                self.hand = frame + 1;
                return u32::try_from(frame).ok();
            }
            word = if word + 1 == words { 0 } else { word + 1 };
            bits = self.present[word];
        }
        None
    }

    fn clear(&mut self, frame: u32) {
        let bit = 1u64 << (frame % 64);
        if let Some(word) = self.present.get_mut(frame as usize / 64) {
            if *word & bit != 0 {
                *word &= !bit;
                self.count -= 1;
            }
        }
    }
}

impl Policy for Clock {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn inserted(&mut self, frame: u32, _page: PageId, _stamp: u64) {
        let word = frame as usize / 64;
        if self.present.len() <= word {
            self.present.resize(word + 1, 0);
        }
        let bit = 1u64 << (frame % 64);
        if self.present[word] & bit == 0 {
            self.present[word] |= bit;
            self.count += 1;
        }
    }

    fn removed(&mut self, frame: u32) {
        self.clear(frame);
    }

    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32> {
        // Two turns: the first clears uses, the second picks a page unused since. A page still pinned then is in use.
        let turns = if need == Need::Demand { 2 } else { 1 };
        for _ in 0..self.count * turns {
            let frame = self.next()?;
            if probe.referenced(frame) {
                if need == Need::Demand {
                    probe.forget(frame);
                }
            } else if (need == Need::Demand || probe.stamp(frame) < probe.lately()) && probe.take(frame) {
                self.clear(frame);
                return Some(frame);
            }
        }
        None
    }

    fn bytes_per_frame(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::super::{conformance, PolicyKind};

    #[test]
    fn conforms() {
        conformance::check(PolicyKind::Clock);
    }
}

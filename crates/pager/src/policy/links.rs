//! Queues of frames, linked by arrays over frame numbers.
//!
//! A frame is in one queue at most, so all queues of a policy share one array of links. Insertion at the front, removal
//! from the middle and a step from the end are a few loads and stores. Only a record number of frames allocates.

/// No frame.
const NONE: u32 = u32::MAX;
/// A link value: this frame is in no queue. There are at most 2^26 frames.
const OUT: u32 = u32::MAX - 1;

/// Lengthens a vector so that it has a place `i`, by a quarter at a time. A policy's memory for each frame is charged
/// whether it is used or not: see [`grown`].
pub(super) fn reach<T: Clone>(places: &mut Vec<T>, i: u32, empty: T) {
    let wanted = i as usize + 1;
    if places.len() < wanted {
        if places.capacity() < wanted {
            places.reserve_exact(wanted + wanted / 4 + 16 - places.len());
        }
        places.resize(wanted, empty);
    }
}

/// Bytes for each frame of a vector with `bytes` a place that [`reach`] grows. A quarter is added for the growth. One
/// in 16 is added for the extra 16 places, since 256 frames are charged at once.
pub(super) const fn grown(bytes: usize) -> usize {
    bytes + (bytes * 5).div_ceil(16)
}

#[derive(Copy, Clone, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

/// One queue, in order of arrival.
#[derive(Debug)]
pub(super) struct LinkedQueue {
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Default for LinkedQueue {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }
}

impl LinkedQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

/// The links of all queues.
#[derive(Debug, Default)]
pub(super) struct Links(
    /// 1. By frame: its neighbours in its queue, each of which has it as the neighbour on the other side. `NONE` at the
    ///    ends, `OUT` for a frame in no queue. The policy must name the right queue.
    Vec<Link>,
);

impl Links {
    /// Bytes for each frame.
    pub(super) const BYTES: usize = grown(size_of::<Link>());

    /// Places for frames, in a queue or not.
    pub(super) fn places(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, i: u32) -> bool {
        self.0.get(i as usize).is_some_and(|l| l.older != OUT)
    }

    /// The frame that came after `i`.
    pub(super) fn newer(&self, i: u32) -> Option<u32> {
        self.0.get(i as usize).map(|l| l.newer).filter(|n| *n < OUT)
    }

    /// Inserts `i`, which is in no queue, into `queue` as its newest.
    pub(super) fn push(&mut self, queue: &mut LinkedQueue, i: u32) {
        reach(&mut self.0, i, Link { newer: OUT, older: OUT });
        self.0[i as usize] = Link { newer: NONE, older: queue.newest };
        match self.0.get_mut(queue.newest as usize) {
            Some(before) => before.newer = i,
            None => queue.oldest = i,
        }
        queue.newest = i;
        queue.len += 1;
    }

    /// Removes `i` from `queue`.
    pub(super) fn remove(&mut self, queue: &mut LinkedQueue, i: u32) {
        if !self.contains(i) {
            return;
        }
        let Link { newer, older } = std::mem::replace(&mut self.0[i as usize], Link { newer: OUT, older: OUT });
        match self.0.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => queue.newest = older,
        }
        match self.0.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => queue.oldest = newer,
        }
        queue.len -= 1;
    }

    /// Moves `i` to the front of its own queue.
    pub(super) fn renew(&mut self, queue: &mut LinkedQueue, i: u32) {
        self.remove(queue, i);
        self.push(queue, i);
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_keep_their_order() {
        let (mut links, mut a, mut b) = (Links::default(), LinkedQueue::default(), LinkedQueue::default());
        let order = |links: &Links, q: &LinkedQueue| {
            let mut all = Vec::new();
            let mut at = q.oldest();
            while let Some(i) = at {
                all.push(i);
                at = links.newer(i);
            }
            assert_eq!(all.len(), q.len());
            all
        };
        (0..5).for_each(|i| links.push(&mut a, i));
        (7..9).for_each(|i| links.push(&mut b, i));
        links.remove(&mut a, 2);
        links.remove(&mut a, 2);
        links.remove(&mut a, 5);
        links.renew(&mut a, 0);
        links.renew(&mut a, 4);
        assert_eq!((order(&links, &a), order(&links, &b)), (vec![1, 3, 0, 4], vec![7, 8]));
        assert!(links.contains(7) && !links.contains(2) && !links.contains(6) && !links.contains(99));
        for i in [4, 1, 0, 3] {
            links.remove(&mut a, i);
        }
        assert_eq!((order(&links, &a), a.oldest()), (vec![], None));
        links.push(&mut a, 3);
        assert_eq!(order(&links, &a), [3]);
    }
}

//! The states of a page, and the one table of their transitions.
//!
//! A page is in one state at a time, and each state is kept in one place. A page on its way, from queued to making, has a
//! *flight* that holds its state ([`Flights`](crate::flights::Flights)). The frame of a resident page holds `RESIDENT` or
//! `EVICTING`, and the page table finds that frame. A failed page has its error in `Flights`. Any other page is absent:
//! nothing is kept of it. [`Pager::page_state`](crate::Pager) reads the state from these places.
//!
//! The pager's lock guards every transition. Lookups and pins take no lock: they read the table and the frame, and a pin
//! makes the evictor turn back.
//!
//! # States and transitions
//!
//! - **Absent.** No memory holds the page. The first request makes it *queued*; so does another page that needs it.
//! - **Queued.** The page waits in the queue of demands or of prefetches. [`PageMap::locate`](crate::PageMap::locate)
//!   translates it, and its memory is reserved in one charge. Then it is *staged*, or *arrived* if nothing is read
//!   (fill and derived pages). It *needs its index* first, or is *parked* (a derived page without room). It is *failed*
//!   if the translation fails or the page is larger than the limit. It is *absent* again when it is cancelled, or when
//!   a prefetch finds no memory. A demand without memory stays queued.
//! - **Needs index.** The translation needs another page, which is held meanwhile. When that page is published, this one is
//!   *queued* again, at the front. It fails or is dropped with it: *failed*, *absent*.
//! - **Parked.** A derived page that others in the making left no room for. It is *queued* again when one of them ends or
//!   when one needs it, and *absent* when it is cancelled.
//! - **Staged.** Its memory is reserved, and none of its extents is with a source. It is *reading* as soon as a source has
//!   one, and *absent* when it is cancelled before.
//! - **Reading.** A source has at least one of its extents. After the last extent it is *arrived*. If the others wait
//!   for a reader, or after a transient error, it is *staged* again. A permanent error makes it *failed*. It is *absent* when it was
//!   cancelled and its source withdrew the read.
//! - **Arrived.** It waits for a free worker ([`Pager::work`](crate::Pager::work)), or is decoded by one. It becomes
//!   *resident* or *failed*, and a derived page *making*.
//! - **Making.** A derived page reads its inputs. It waits for those that are absent, and an input that comes makes it
//!   *arrived* again. After the last input it is *resident*. It is *failed* if an input fails, *queued* if its memory
//!   is needed for another page, and *absent* if no task waits for it.
//! - **Resident.** Lookups find it. The policy, an eviction hint or a passed step picks it: *evicting*. Held pages are
//!   never picked.
//! - **Evicting.** The evictor checks for pins. With one the page is *resident* again, without one *absent*. This state
//!   never outlasts the lock.
//! - **Failed.** Each lookup returns the error, until failures are forgotten or a raised limit lets the page fit: *absent*.

#[cfg(test)]
mod tests;

/// The state of a page: see the module.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PageState {
    Absent,
    Queued,
    NeedsIndex,
    Parked,
    Staged,
    Reading,
    Arrived,
    Making,
    Resident,
    Evicting,
    Failed,
}

use PageState::*;

impl PageState {
    /// The states that may follow: the table of transitions.
    pub(crate) const fn next(self) -> &'static [Self] {
        match self {
            Absent => &[Queued],
            Queued => &[NeedsIndex, Parked, Staged, Arrived, Failed, Absent],
            NeedsIndex => &[Queued, Failed, Absent],
            Parked => &[Queued, Absent],
            Staged => &[Reading, Absent],
            Reading => &[Arrived, Staged, Failed, Absent],
            Arrived => &[Resident, Making, Failed],
            Making => &[Arrived, Resident, Queued, Failed, Absent],
            Resident => &[Evicting],
            Evicting => &[Resident, Absent],
            Failed => &[Absent],
        }
    }

    /// Whether a page on its way has its memory.
    pub(crate) const fn has_memory(self) -> bool {
        matches!(self, Staged | Reading | Arrived | Making)
    }
}

/// Checks transitions against the table in builds with debug assertions and in tests. Otherwise empty and free.
#[derive(Default)]
pub(crate) struct Transitions {
    /// The transitions so far.
    #[cfg(test)]
    pub(crate) seen: std::collections::HashSet<(PageState, PageState)>,
}

impl Transitions {
    #[inline]
    pub(crate) fn go(&mut self, from: PageState, to: PageState) {
        if cfg!(any(test, debug_assertions)) {
            assert!(from.next().contains(&to), "no page goes from {from:?} to {to:?}");
        }
        #[cfg(test)]
        self.seen.insert((from, to));
    }
}

//! The interface of every replacement policy, and of its view of frames.

use crate::id::PageId;

/// The allowed cost of a victim.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A demanded page needs the room: any unpinned frame may be evicted.
    Demand,
    /// Only frames without a recent use ([`Probe::lately`]) may be evicted, and their order must not change.
    Prefetch,
}

/// A policy's view of frames.
pub trait Probe {
    /// Whether the frame was used since [`Probe::forget`]. Publication counts as a use.
    fn referenced(&self, frame: u32) -> bool;
    /// Clears the use of the frame.
    fn forget(&self, frame: u32);
    /// The stamp of the frame's last pin, release or publication. Stamps count published pages; the first page has 1.
    fn stamp(&self, frame: u32) -> u64;
    /// The stamp of the present.
    fn now(&self) -> u64;
    /// Frames used at this stamp or later are recent, whatever the policy's order.
    fn lately(&self) -> u64 {
        u64::MAX
    }
    /// Publications after its own during which the uses of a page count as its first use.
    ///
    /// A task starts with a page when all its pages are resident, and other pages are published meanwhile. Stamps alone
    /// do not show this. Policies that distinguish pages used once would count every page as used again. 0: each use
    /// after another publication counts as another use.
    fn settling(&self) -> u64 {
        0
    }
    /// Evicts the frame's page if nothing pins or holds it. After `true` the frame is free.
    fn take(&mut self, frame: u32) -> bool;
}

/// An order of replacement.
pub trait Policy: Send {
    /// For messages.
    fn name(&self) -> &'static str;
    /// A frame holds a new page, published at `stamp`.
    fn inserted(&mut self, frame: u32, page: PageId, stamp: u64);
    /// A frame's page was dropped without [`Policy::victim`].
    fn removed(&mut self, frame: u32);
    /// Evicts one frame through [`Probe::take`] and returns it. `None`: *full*. After a bounded number of probes every
    /// frame was pinned, or too recent for this need.
    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32>;
    /// Bytes that the policy needs for each frame, for the ledger. They include remembered evicted pages, which are
    /// never more than the frames.
    fn bytes_per_frame(&self) -> usize;
}

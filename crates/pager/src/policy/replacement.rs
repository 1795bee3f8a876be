//! What a replacement policy is, and what it may ask: the seam that every policy implements.

use crate::id::PageId;

/// How much a victim may cost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A page that someone waits for needs the room: any frame that is not pinned may go.
    Demand,
    /// Only frames that were not used lately may go ([`Probe::lately`]), and their standing must not be touched.
    Prefetch,
}

/// What a policy may ask about a frame.
pub trait Probe {
    /// Whether the frame was used since [`Probe::forget`]. That its page was published counts as a use.
    fn referenced(&self, frame: u32) -> bool;
    /// Forgets that the frame was used.
    fn forget(&self, frame: u32);
    /// When the frame was last pinned or released, or its page published: a count that grows with every page published, by which
    /// the first page has 1.
    fn stamp(&self, frame: u32) -> u64;
    /// The count now.
    fn now(&self) -> u64;
    /// What was used at this count or later was used lately, whatever else says so.
    fn lately(&self) -> u64 {
        u64::MAX
    }
    /// For so many publications after its own the uses of a page are those that it was read for: a task takes it up when all that it
    /// waits for is here, and others come meanwhile. Stamps alone do not say that, and policies that tell what is used once from what is
    /// used again would take every page for the latter. 0: whatever is used after another page came was used again.
    fn settling(&self) -> u64 {
        0
    }
    /// Takes the frame's page away if nothing pins or holds it. After `true` the frame is gone.
    fn take(&mut self, frame: u32) -> bool;
}

/// An order of replacement.
pub trait Policy: Send {
    /// For messages.
    fn name(&self) -> &'static str;
    /// A frame holds a new page, published at `stamp`.
    fn inserted(&mut self, frame: u32, page: PageId, stamp: u64);
    /// A frame's page went away, other than through [`Policy::victim`].
    fn removed(&mut self, frame: u32);
    /// Takes one frame through [`Probe::take`] and returns it. `None` says *full*: after a bounded number of probes every frame
    /// turned out pinned, or too much in use for this need.
    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32>;
    /// Bytes that the policy needs for each frame, for the ledger: with what it remembers of pages that are gone, which are never
    /// more than the frames.
    fn bytes_per_frame(&self) -> usize;
}

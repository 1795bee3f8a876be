//! The second half of translation: from a page to the bytes that hold it. One trait hides every format from the pager.

use crate::error::{PageError, PageErrorKind};
use crate::id::{PageId, SourceId};

/// Where the bytes of a segment go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtentTarget {
    /// Straight into the frame at this byte offset.
    Frame(usize),
    /// Into the encoded buffer at this byte offset.
    Encoded(usize),
}

/// One run of bytes of a source and where it goes. Segments that follow each other in a source are read together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The source.
    pub source: SourceId,
    /// First byte in the source.
    pub offset: u64,
    /// Number of bytes, never 0.
    pub len: usize,
    /// Where they go.
    pub to: ExtentTarget,
}

/// How to obtain one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Read these segments, then call [`PageMap::decode`] with an encoded buffer of `encoded_len` bytes and a scratch
    /// buffer of `scratch_len` bytes.
    Extents {
        /// What is read.
        segments: Vec<Extent>,
        /// Size of the encoded buffer, 0 if everything goes straight into the frame.
        encoded_len: usize,
        /// Bytes that `decode` needs beside frame and encoded buffer.
        scratch_len: usize,
        /// Numbers for `decode`, which it gets as they are: what `locate` found out about the page beside its extents. Most
        /// formats have none.
        found: Box<[u64]>,
    },
    /// No bytes hold the page, which was never written or follows from a rule: [`PageMap::fill`] writes its numbers.
    Fill,
    /// Made of other pages: each is shown to [`PageMap::take`] once, in any order, then [`PageMap::decode`] makes the page of what
    /// was kept of them in the scratch buffer. Whoever computes does that, never a reader.
    Derived {
        /// The pages, each once. They may be derived themselves, but not, by whatever way, of this page.
        inputs: Vec<PageId>,
        /// Bytes that `take` and `decode` have in common. What they are at first is not said.
        scratch_len: usize,
    },
    /// Another page (an index) is needed first.
    Need(PageId),
    /// The page cannot be had.
    Failed(PageError),
}

/// How the pages of one array lie in sources and how they are decoded.
///
/// What a frame holds is between the map and whoever reads it; native byte order, at least 64-byte aligned.
pub trait PageMap: Send + Sync {
    /// What errors, events and `info` call this array, e.g. `zone1/momentum`.
    fn name(&self) -> &str;
    /// Number of pages a step.
    fn pages(&self) -> u64;
    /// Pages along i, j and k where they lie in a box, i running fastest. For reports and estimates; nothing else rests on it.
    fn pages_along(&self) -> Option<[u64; 3]> {
        None
    }
    /// Decoded size of a page in bytes. Known without reading anything, never 0.
    fn page_bytes(&self, page: PageId) -> usize;
    /// Translates a page to segments. `index` gives the bytes of an index page that is resident; if it gives `None`,
    /// answer [`Located::Need`] with that page, and `locate` is called again when it is resident.
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located;
    /// Completes a page in `frame` (`page_bytes` long; segments with [`ExtentTarget::Frame`] are already in place): checks the
    /// checksum where the format has one, decodes, swaps bytes. Writes at most `frame`. `found` is that of [`Located::Extents`],
    /// and empty for a derived page.
    ///
    /// # Errors
    /// [`PageError`] when a checksum or length does not hold or the bytes do not decode to exactly the page.
    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError>;
    /// Whether pages are made of other pages: they are counted apart from those that are read.
    fn derived(&self) -> bool {
        false
    }
    /// One restartable step of a derived page: keeps in `scratch` what it needs of the page that stands at `input` in
    /// [`Located::Derived`]. Only that page is pinned meanwhile. A page whose memory others need more is begun again from nothing.
    ///
    /// # Errors
    /// [`PageError`] where the page is not what it is said to be.
    fn take(&self, page: PageId, input: usize, bytes: &[u8], scratch: &mut [u8]) -> Result<(), PageError> {
        let _ = (input, bytes, scratch);
        let what = format!("{} page {}", self.name(), page.page);
        Err(PageError::new(what, PageErrorKind::Decode("it is not made of other pages".into())))
    }
    /// Writes the fill value, or the numbers of a rule. Only called after [`Located::Fill`].
    fn fill(&self, page: PageId, frame: &mut [u8]);
    /// Whether pages carry a checksum that `decode` verifies.
    fn checked(&self) -> bool;
    /// What errors call a page.
    fn page_name(&self, page: PageId) -> String {
        format!("{} step {} page {}", self.name(), page.step, page.page)
    }
}

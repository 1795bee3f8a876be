//! The second half of translation: from a page to its bytes. One trait hides every format from the pager.

use crate::error::{PageError, PageErrorKind};
use crate::id::{PageId, SourceId};

/// The destination of a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtentTarget {
    /// The frame, from this byte offset.
    Frame(usize),
    /// The encoded buffer, from this byte offset.
    Encoded(usize),
}

/// A run of bytes of a source and its destination. Segments that follow each other in a source are read together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The source.
    pub source: SourceId,
    /// First byte in the source.
    pub offset: u64,
    /// Number of bytes, never 0.
    pub len: usize,
    /// Their destination.
    pub to: ExtentTarget,
}

/// The way to obtain one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Read these segments, then call [`PageMap::decode`] with an encoded buffer of `encoded_len` bytes and a scratch
    /// buffer of `scratch_len` bytes.
    Extents {
        /// The segments.
        segments: Vec<Extent>,
        /// Size of the encoded buffer, 0 if all bytes go straight into the frame.
        encoded_len: usize,
        /// Bytes that `decode` needs beside the frame and the encoded buffer.
        scratch_len: usize,
        /// Numbers that `locate` passes to `decode` unchanged. Most formats have none.
        found: Box<[u64]>,
    },
    /// No bytes hold the page, which was never written or follows from a rule: [`PageMap::fill`] writes its numbers.
    Fill,
    /// The page is computed from other pages. Each is passed to [`PageMap::take`] once, in any order. Then
    /// [`PageMap::decode`] computes the page from the scratch buffer. Workers do this, never readers.
    Derived {
        /// The pages, each once. They may be derived themselves, but not from this page, directly or not.
        inputs: Vec<PageId>,
        /// Bytes that `take` and `decode` share. Their first values are undefined.
        scratch_len: usize,
    },
    /// Another page (an index) is needed first.
    Need(PageId),
    /// The page cannot be read.
    Failed(PageError),
}

/// The places of one array's pages in sources, and their decoding.
///
/// The map and the users of its pages agree on the content of a frame. It is in native byte order and at least 64-byte
/// aligned.
pub trait PageMap: Send + Sync {
    /// The name of this array in errors, events and `info`, e.g. `zone1/momentum`.
    fn name(&self) -> &str;
    /// Number of pages a step.
    fn pages(&self) -> u64;
    /// Pages along i, j and k if they form a box, i running fastest. Used in reports and estimates only.
    fn pages_along(&self) -> Option<[u64; 3]> {
        None
    }
    /// Decoded size of a page in bytes, never 0. Known without any read.
    fn page_bytes(&self, page: PageId) -> usize;
    /// Translates a page to segments. `index` gives the bytes of a resident index page. If it gives `None`, the answer
    /// is [`Located::Need`] with that page, and `locate` is called again when it is resident.
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located;
    /// Completes a page in `frame` (`page_bytes` long). Segments with [`ExtentTarget::Frame`] are already in place.
    /// Verifies the checksum if the format has one, decodes, and swaps bytes. Writes at most `frame`. `found` is that
    /// of [`Located::Extents`], and empty for a derived page.
    ///
    /// # Errors
    /// [`PageError`] when a checksum or length does not hold, or the bytes do not decode to exactly the page.
    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError>;
    /// Whether pages are derived. They are counted apart from pages that are read.
    fn derived(&self) -> bool {
        false
    }
    /// One restartable step of a derived page. Keeps in `scratch` the needed part of input number `input` of
    /// [`Located::Derived`]. Only that input is pinned meanwhile. A page dropped for lack of memory starts again from
    /// its first input.
    ///
    /// # Errors
    /// [`PageError`] when the input is not as its format says.
    fn take(&self, page: PageId, input: usize, bytes: &[u8], scratch: &mut [u8]) -> Result<(), PageError> {
        let _ = (input, bytes, scratch);
        let what = format!("{} page {}", self.name(), page.page);
        Err(PageError::new(what, PageErrorKind::Decode("it is not made of other pages".into())))
    }
    /// Writes the fill value, or the numbers of a rule. Called only after [`Located::Fill`].
    fn fill(&self, page: PageId, frame: &mut [u8]);
    /// Whether pages carry a checksum that `decode` verifies.
    fn checked(&self) -> bool;
    /// The name of a page in errors.
    fn page_name(&self, page: PageId) -> String {
        format!("{} step {} page {}", self.name(), page.step, page.page)
    }
}

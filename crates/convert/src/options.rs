//! Options of a conversion of a dataset.

use crate::spans::Spans;
use field::paging::Layout;
use field::store::codec::Codec;

/// Default codec of new stores; chosen by the measurements in `docs/benchmarks.md`.
pub const DEFAULT_CODEC: &str = "none";

/// Options of a conversion of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertOptions {
    /// Requested page edge, by default 16.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// Encoding of pages.
    pub codec: Codec,
    /// Whether to continue an interrupted conversion.
    pub resume: bool,
    /// Whether to replace an existing store.
    pub overwrite: bool,
    /// Whether steps may appear meanwhile: an interrupted run with fewer steps is started again without a question.
    pub append: bool,
    /// Most bytes of the conversion.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Receives the threads' spans of work.
    pub spans: Spans,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            page: 16,
            layout: Layout::Cubed,
            codec: Codec::None,
            resume: false,
            overwrite: false,
            append: false,
            memory_limit: 256 << 20,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            spans: Spans::default(),
        }
    }
}

//! How a dataset is converted.

use crate::spans::Spans;
use field::paging::Layout;
use field::store::codec::Codec;

/// Codec of new stores unless the user says otherwise; chosen by the measurements in `docs/benchmarks.md`.
pub const DEFAULT_CODEC: &str = "none";

/// How it is converted.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertOptions {
    /// Asked page edge, 16 unless the user says otherwise.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// How pages are encoded.
    pub codec: Codec,
    /// Goes on with what an interrupted conversion left.
    pub resume: bool,
    /// Replaces a store that is there.
    pub overwrite: bool,
    /// Whether steps may come meanwhile: what an interrupted run left of fewer steps is begun anew without asking.
    pub append: bool,
    /// Bytes that the conversion may hold.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Who is told what the threads do.
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

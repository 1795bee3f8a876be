//! Options of a conversion of a volume.

use crate::spans::Spans;
use field::paging::Layout;
use field::store::codec::Codec;
use field::volume::store::Downsample;

/// Options of a conversion of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeOptions {
    /// Requested page edge, by default 32.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// Encoding of pages.
    pub codec: Codec,
    /// The rule for levels; by default the one for the kind of volume.
    pub downsample: Option<Downsample>,
    /// Most levels; by default down to a longest side of at most 64 voxels.
    pub levels: Option<usize>,
    /// Whether to continue an interrupted conversion.
    pub resume: bool,
    /// Whether to replace an existing store.
    pub overwrite: bool,
    /// Most bytes of the conversion.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Receives the threads' spans of work.
    pub spans: Spans,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            page: 32,
            layout: Layout::Cubed,
            codec: Codec::None,
            downsample: None,
            levels: None,
            resume: false,
            overwrite: false,
            memory_limit: 64 << 20,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            spans: Spans::default(),
        }
    }
}

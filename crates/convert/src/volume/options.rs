//! How a volume is converted.

use crate::spans::Spans;
use field::paging::Layout;
use field::store::codec::Codec;
use field::volume::store::Downsample;

/// How a volume is converted.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeOptions {
    /// Asked page edge, 32 unless the user says otherwise.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// How pages are encoded.
    pub codec: Codec,
    /// How levels are made; what suits the kind of volume where nothing is said.
    pub downsample: Option<Downsample>,
    /// Levels at most; down to where the longest side has at most 64 voxels where nothing is said.
    pub levels: Option<usize>,
    /// Goes on with what an interrupted conversion left.
    pub resume: bool,
    /// Replaces a store that is there.
    pub overwrite: bool,
    /// Bytes that the conversion may hold.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Who is told what the threads do.
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

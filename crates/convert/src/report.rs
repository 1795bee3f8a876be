//! Progress and result of a conversion.

/// Progress.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PieceProgress {
    /// Converted bytes of the source.
    pub done: u64,
    /// Bytes of the source in all; 0 during the wait for another run with the same result.
    pub total: u64,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertReport {
    /// Bytes of the source's values.
    pub source_bytes: u64,
    /// Bytes of the store's shards.
    pub store_bytes: u64,
    /// Pages of the data.
    pub pages: u64,
    /// Units finished by an earlier run.
    pub resumed_units: u64,
    /// Units in all: shards of the data.
    pub units: u64,
    /// Charged bytes.
    pub memory: u64,
    /// Bytes of all pages, edge pages in full, before encoding.
    pub padded_bytes: u64,
    /// Bytes of frames when all pages are resident.
    pub resident_bytes: u64,
    /// Page box (i, j, k) of each zone.
    pub page_boxes: Vec<[usize; 3]>,
}

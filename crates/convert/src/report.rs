//! How far a conversion is, and what came of it.

/// How far it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PieceProgress {
    /// Bytes of the source that are converted.
    pub done: u64,
    /// Bytes of the source in all; 0 while it waits for another run that makes the same.
    pub total: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertReport {
    /// Bytes of the source's values.
    pub source_bytes: u64,
    /// Bytes of the store's shards.
    pub store_bytes: u64,
    /// Pages of the data.
    pub pages: u64,
    /// Units that an earlier run had finished.
    pub resumed_units: u64,
    /// Units in all: shards of the data.
    pub units: u64,
    /// Bytes that were charged.
    pub memory: u64,
    /// Bytes of all pages, edge pages in full, before encoding.
    pub padded_bytes: u64,
    /// Bytes of frames when all pages are resident.
    pub resident_bytes: u64,
    /// Page box (i, j, k) of each zone.
    pub page_boxes: Vec<[usize; 3]>,
}

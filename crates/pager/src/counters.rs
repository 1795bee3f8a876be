//! What the pager counted. Always on.

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that exist in the (array, step) pairs of which any page was touched.
    pub total: u64,
    /// Different pages that were asked for, or prefetched and then used.
    pub touched: u64,
    /// Whether `touched` is exact. It is a lower bound if the bitmaps behind it outgrew their share of the limit.
    pub touched_exact: bool,
    /// Pages asked for by someone who waits, that had to be read.
    pub faults: u64,
    /// Look-ups by workers that found their page. What asks again while the page is pinned need not look it up.
    pub hits: u64,
    /// Look-ups by workers that did not.
    pub misses: u64,
    /// Pages dropped to make room.
    pub evictions: u64,
    /// Pages given back because the run had passed their segments.
    pub given_back: u64,
    /// Pages whose read was started ahead of their use.
    pub prefetched: u64,
    /// Of those, pages that were used before they were dropped.
    pub prefetched_used: u64,
    /// Prefetches that found no room.
    pub prefetch_dropped: u64,
    /// Pages that the format defines as never written.
    pub fills: u64,
    /// Pages that became failed.
    pub failed: u64,
    /// Pages that became resident.
    pub published: u64,
    /// Calls of a decoder.
    pub decoded: u64,
    /// Pages made of other pages.
    pub derived: u64,
    /// Pages whose making was given up, and begun again, because their memory was needed to finish others.
    pub given_up: u64,
    /// Index pages that a translation needed and that were absent.
    pub index_faults: u64,
    /// Bytes asked of sources.
    pub bytes_read: u64,
    /// Reads handed to sources.
    pub reads: u64,
    /// Segments that those reads joined.
    pub segments: u64,
    /// Reads that failed and were tried again.
    pub retries: u64,
    /// Times that a page with someone waiting found memory full.
    pub full: u64,
    /// Pages resident now.
    pub resident: u64,
    /// Bytes in the ledger now.
    pub used_bytes: u64,
    /// Most bytes ever in the ledger.
    pub peak_bytes: u64,
    /// The limit now.
    pub limit_bytes: u64,
}

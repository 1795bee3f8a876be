//! The numbers that every run reports.

use serde::Serialize;

/// What a run took, and what its pager did. Sizes are in bytes, times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Wall time since the dataset was opened, with that of reading its headers.
    pub wall_s: f64,
    /// Processor time of all threads in the same time.
    pub cpu_s: f64,
    /// Time in which threads waited for pages.
    pub wait_s: f64,
    /// Resident memory before the first page.
    pub base_bytes: u64,
    /// The most that was charged at a time.
    pub peak_bytes: u64,
    /// The memory limit.
    pub limit_bytes: u64,
    /// The most resident memory of the process.
    pub resident_peak_bytes: u64,
    /// Pages.
    pub pages: PageStats,
    /// Bytes read, with those that passed the pager by.
    pub bytes_read: u64,
    /// Reads, likewise.
    pub reads: u64,
    /// Threads that compute.
    pub workers: usize,
    /// Reads in flight at most.
    pub readers: usize,
    /// Replacement policy.
    pub replacement: &'static str,
    /// How files are read.
    pub transport: &'static str,
    /// Remarks about numbers that the run used.
    pub warnings: Vec<String>,
    /// The first page of a volume that could not be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Counts of pages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageStats {
    /// Of the whole dataset.
    pub total: u64,
    /// Asked for at least once.
    pub touched: u64,
    /// Whether `touched` is exact.
    pub touched_exact: bool,
    /// First demands for an absent page.
    pub faults: u64,
    /// Lookups that found the page resident.
    pub hits: u64,
    /// Evicted to make room.
    pub evictions: u64,
    /// Given back since nobody was to use them again.
    pub given_back: u64,
    /// Read ahead.
    pub prefetched: u64,
    /// Of these, used.
    pub prefetched_used: u64,
    /// Requests for reading ahead that were dropped.
    pub prefetch_dropped: u64,
    /// That could not be had.
    pub failed: u64,
    /// Filled without a read: the format defines them as never written.
    pub fills: u64,
    /// Made of other pages.
    pub derived: u64,
    /// Chunks of a volume that were found never written; none for flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_written: Option<u64>,
}

//! The numbers that every run reports.

use serde::Serialize;

/// Resources that a run used, and counters of its pager. Sizes are in bytes, times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Wall time since the dataset was opened, with the reading of its headers.
    pub wall_s: f64,
    /// Processor time of all threads in that time.
    pub cpu_s: f64,
    /// Time in which threads waited for pages.
    pub wait_s: f64,
    /// Resident memory before the first page.
    pub base_bytes: u64,
    /// Most bytes charged at a time.
    pub peak_bytes: u64,
    /// The memory limit.
    pub limit_bytes: u64,
    /// Most resident memory of the process.
    pub resident_peak_bytes: u64,
    /// Pages.
    pub pages: PageStats,
    /// Bytes read, also those that did not pass through the pager.
    pub bytes_read: u64,
    /// Reads, likewise.
    pub reads: u64,
    /// Threads that compute.
    pub workers: usize,
    /// Most reads in flight.
    pub readers: usize,
    /// Replacement policy.
    pub replacement: &'static str,
    /// How files are read.
    pub transport: &'static str,
    /// Remarks about numbers that the run used.
    pub warnings: Vec<String>,
    /// The first page of a volume that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Counts of pages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageStats {
    /// Pages of the whole dataset.
    pub total: u64,
    /// Requested at least once.
    pub touched: u64,
    /// Whether `touched` is exact.
    pub touched_exact: bool,
    /// First demands for an absent page.
    pub faults: u64,
    /// Lookups that found the page resident.
    pub hits: u64,
    /// Evicted to make room.
    pub evictions: u64,
    /// Dropped because the run had passed them.
    pub given_back: u64,
    /// Prefetched.
    pub prefetched: u64,
    /// Prefetched and then used.
    pub prefetched_used: u64,
    /// Prefetches that were dropped.
    pub prefetch_dropped: u64,
    /// Pages that became failed.
    pub failed: u64,
    /// Filled without a read: the format defines them as never written.
    pub fills: u64,
    /// Computed from other pages.
    pub derived: u64,
    /// Chunks of a volume found never written; `None` for flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_written: Option<u64>,
}

//! Counters of the pager. They are always on.

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages of all (array, step) pairs with a touched page.
    pub total: u64,
    /// Different pages that were demanded, or prefetched and then used.
    pub touched: u64,
    /// Whether `touched` is exact. It is a lower bound if its bitmaps outgrew their share of the limit.
    pub touched_exact: bool,
    /// Pages that a task waited for and that had to be read.
    pub faults: u64,
    /// Lookups by workers that found their page. A page that is already pinned needs no lookup.
    pub hits: u64,
    /// Lookups by workers that found no page.
    pub misses: u64,
    /// Pages dropped to make room.
    pub evictions: u64,
    /// Pages dropped because the run had passed their segments.
    pub given_back: u64,
    /// Pages read ahead of their use.
    pub prefetched: u64,
    /// Prefetched pages that were used before they were dropped.
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
    /// Derived pages that were computed.
    pub derived: u64,
    /// Derived pages dropped unfinished and queued again, because others needed their memory.
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
    /// Times that a demanded page found memory full.
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

impl Counters {
    /// All counters in the text format that Prometheus collects (version 0.0.4), each with its help and type. Names
    /// begin with `farfield_`. `labels` is added to every value, as in `dataset="wing"`; it may be empty.
    ///
    /// ```
    /// let text = pager::Counters { faults: 7, ..Default::default() }.prometheus("dataset=\"wing\"");
    /// assert!(text.contains("# TYPE farfield_page_faults_total counter\nfarfield_page_faults_total{dataset=\"wing\"} 7\n"));
    /// ```
    pub fn prometheus(&self, labels: &str) -> String {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let counters = [
            ("page_faults", self.faults, "Pages asked for by someone who waits, that had to be read."),
            ("page_hits", self.hits, "Look-ups by workers that found their page."),
            ("page_misses", self.misses, "Look-ups by workers that did not."),
            ("page_evictions", self.evictions, "Pages dropped to make room."),
            ("pages_given_back", self.given_back, "Pages given back because the run had passed them."),
            ("pages_prefetched", self.prefetched, "Pages whose read was started ahead of their use."),
            ("pages_prefetched_used", self.prefetched_used, "Of those, pages that were used before they were dropped."),
            ("prefetches_dropped", self.prefetch_dropped, "Prefetches that found no room."),
            ("pages_filled", self.fills, "Pages that the format defines as never written."),
            ("pages_failed", self.failed, "Pages that could not be read."),
            ("pages_published", self.published, "Pages that became resident."),
            ("pages_derived", self.derived, "Pages made of other pages."),
            ("reads", self.reads, "Reads handed to sources."),
            ("read_bytes", self.bytes_read, "Bytes asked of sources."),
            ("read_retries", self.retries, "Reads that failed and were tried again."),
            ("memory_full", self.full, "Times that a page with someone waiting found memory full."),
        ];
        let gauges = [
            ("pages_resident", self.resident, "Pages resident now."),
            ("memory_used_bytes", self.used_bytes, "Bytes in the ledger now."),
            ("memory_peak_bytes", self.peak_bytes, "Most bytes ever in the ledger."),
            ("memory_limit_bytes", self.limit_bytes, "The limit now."),
        ];
        let row = |name: String, kind: &str, value: u64, help: &str| {
            format!("# HELP farfield_{name} {help}\n# TYPE farfield_{name} {kind}\nfarfield_{name}{labels} {value}\n")
        };
        let counters = counters.iter().map(|(name, value, help)| row(format!("{name}_total"), "counter", *value, help));
        let gauges = gauges.iter().map(|(name, value, help)| row((*name).to_owned(), "gauge", *value, help));
        counters.chain(gauges).collect()
    }
}

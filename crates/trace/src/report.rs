//! What came of a trace.

use runtime::executor::RunStats;

/// What came of a trace.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// Seeds.
    pub lines: u64,
    /// Points of all lines.
    pub points: u64,
    /// Lines by reason, names as in the outputs.
    pub reasons: Vec<(&'static str, u64)>,
    /// Seeds that lie in no zone; of timelines, curves of which no seed lies in one.
    pub outside: u64,
    /// Other lines of which there is no point, by reason.
    pub empty: Vec<(&'static str, u64)>,
    /// Lines that met a page that cannot be read.
    pub failed: u64,
    /// The first such page, in words.
    pub failure: Option<String>,
    /// Whether the state that was to be kept is: that of lines that met such a page would hide for good that they did.
    pub state_saved: Option<bool>,
    /// What the run took.
    pub run: RunStats,
    /// Bytes of lines that went through a temporary file.
    pub spilled_bytes: u64,
}

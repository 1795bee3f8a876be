//! The result of a trace.

use runtime::executor::RunStats;

/// The result of a trace, beside its lines.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// Number of seeds.
    pub lines: u64,
    /// Points of all lines.
    pub points: u64,
    /// Lines by reason, with the names of the outputs.
    pub reasons: Vec<(&'static str, u64)>,
    /// Seeds that lie in no zone. For timelines: curves without a seed in a zone.
    pub outside: u64,
    /// Other lines without a point, by reason.
    pub empty: Vec<(&'static str, u64)>,
    /// Lines that met a failed page.
    pub failed: u64,
    /// The first such page, in words.
    pub failure: Option<String>,
    /// Whether the requested state was saved. It is not if a line met a failed page, because a state would hide that
    /// for good.
    pub state_saved: Option<bool>,
    /// Times and counts of the run.
    pub run: RunStats,
    /// Bytes of lines that went through a temporary file.
    pub spilled_bytes: u64,
}

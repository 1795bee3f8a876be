//! Streamlines of many seeds: seeds to tasks, tasks to the executor, lines to the spool.

pub mod admission;
pub mod advect;
mod finished_lines;
pub mod flowmap;
mod identity;
mod job;
mod line_fields;
pub mod line_kinds;
mod line_task;
pub mod options;
pub mod pathlines;
mod report;
mod resume;
mod run;
mod seed_condition;
mod seed_importance;
pub mod seeds;
mod spec;
mod time_options;
mod timelines;
pub mod trace_times;

pub use crate::admission::SeedRule;
pub use crate::finished_lines::{line_layout, provenance};
pub use crate::line_kinds::ReadAhead;
pub use crate::report::TraceReport;
pub use crate::run::trace;
pub use crate::seed_condition::seeded;
pub use crate::spec::{OutputTimes, OverTime, PathSpec, Releases, TraceSpec};
pub use crate::timelines::{Curves, Refine, TimelineSpec};

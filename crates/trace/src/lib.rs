//! Lines of many seeds: streamlines, pathlines, streaklines, timelines, particles and flow maps.
//!
//! # Theory
//! The kernels have one step of one line. This crate makes lines out of a dataset: seeds become tasks, the executor
//! steps the tasks, and finished lines go to the spool. A line depends on its seed and the data alone. So results are
//! equal bit for bit under any memory limit and in any order of tasks.
//!
//! Lines through time wait for each other: none is more than a window ahead of the last. So each time step is read
//! about once for a batch of them.
//!
//! # Practice
//! [`trace()`] runs a [`TraceSpec`]:
//!
//! | module | work |
//! |---|---|
//! | `options`, `time_options` | a [`TraceSpec`] from JSON |
//! | [`seeds`], `seed_condition`, `seed_importance` | where lines begin |
//! | `run` | checks the spec and chooses the kind of line |
//! | `job` | runs the tasks of one kind |
//! | `memory` | divides the memory among lines |
//! | [`line_kinds`] | what a thread needs to step a kind of line |
//! | `line_task` | lines as tasks of the executor |
//! | [`admission`] | the order in which lines begin |
//! | `finished_lines` | results to the spool |
//! | `resume`, `identity` | particles that continue in a longer series |
//!
//! [`advect`] moves many particles from one time to the next, and [`flowmap`] is built on it.

pub mod admission;
pub mod advect;
mod finished_lines;
pub mod flowmap;
mod identity;
mod job;
mod line_fields;
pub mod line_kinds;
mod line_task;
mod memory;
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

//! Native arms of the experiments. An arm is one way to do the measured work in this process: flat arrays, mapped
//! files, resident pages, a reader of known latency, pages at random.
//!
//! [`run`] parses an arm's options, runs it, and returns its report, both as JSON. `farfield-bench` chooses the options
//! and explains the reports.

mod counters;
mod crossings;
mod device;
mod extents;
mod later;
mod lines;
mod link;
mod mmap;
mod options;
mod overlap;
mod pages;
mod plain;
mod remote_reads;
mod trace;
mod turns;
mod volume;
mod volume_contour;
mod volume_mapped;
mod volume_rays;
mod watcher;
mod ways;
mod windows;

pub use options::run;

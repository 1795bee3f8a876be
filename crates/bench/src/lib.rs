//! Arms of the experiments that need the kernel in this process: flat arrays, mapped files, resident pages, a reader of known
//! latency, pages at random. What they report is JSON; what they mean is said by `farfield-bench`.

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

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

pub use counters::counters;
pub use crossings::crossings;
pub use extents::{recorded, replayed};
pub use mmap::Whole;
pub use overlap::{overlap, overlap_disk, Overlap, OverlapDisk};
pub use pages::{page_reads, PageReads};
pub use plain::{pathlines, plain, PathlinesArm};
pub use trace::{trace, Arm, TraceArm};
pub use turns::turns;
pub use volume::VolumeArm;
pub use volume_contour::{volume_contour, VolumeSurface};
pub use volume_mapped::{volume_mapped, VolumeMapped};
pub use volume_rays::{volume_rays, VolumeRays};
pub use ways::whole_pathlines;
pub use windows::{windows, Way, Windows};

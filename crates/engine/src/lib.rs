//! Executor, admission, conversion, outputs, pictures: what a command does, without CPython.

mod admission;
#[cfg(target_os = "linux")]
pub mod allocator;
pub mod bench;
mod blocking;
pub mod chosen;
pub mod contour;
pub mod convert;
pub mod cores;
mod derived;
pub mod events;
pub mod executor;
pub mod flowmap;
pub mod gridface;
mod gridkind;
mod handover;
mod hatch;
mod identity;
pub mod info;
mod interest;
mod leaving;
mod likely;
pub mod limits;
mod linetask;
mod march;
pub mod output;
mod overtime;
mod pathlines;
pub mod picture;
pub mod process;
pub mod raycast;
mod resume;
pub mod scene;
pub mod seeds;
mod seeking;
pub mod session;
mod share;
pub mod sliceimage;
mod stop;
pub mod surfaces;
mod survey;
mod timelines;
pub mod trace;
pub mod tracers;
pub mod validate;
pub mod values;
pub mod volume;
pub mod walls;

/// Codec of new stores unless the user says otherwise; chosen by the measurements in `docs/benchmarks.md`.
pub const DEFAULT_CODEC: &str = "none";

//! Results of a run: lines, surfaces and meshes in files, and lines read back from files.
//!
//! # Theory
//! Tasks finish in any order, and results are written in seed order. Together they can be larger than memory. So
//! finished lines are appended to a log ([`ByteLog`]), which holds a fixed number of bytes in memory and the rest in an
//! anonymous file. Sixteen bytes a seed index the log. Lines in pieces are sorted first (`gather`).
//!
//! At the end of the run every length is known, and so is the byte position of every array of the output file. One pass
//! over the seeds in order copies each line from the log to all arrays at once, through one small buffer an array.
//! Memory is bounded by the budget, whatever the size of the result. The bytes written depend on the lines alone, not
//! on the order of arrival nor on the budget.
//!
//! # Practice
//! Call [`OutputFile::create`] before the run, so that an unusable path or a full directory fails at once. Then
//! [`LineSpool::new`], [`LineSpool::add`] for each line, and [`LineSpool::write`] at the end. An output file appears
//! under its name only when it is complete and on disk. [`LineFile`] reads `.vtp` and `.npz` lines back in bounded
//! chunks. [`SurfaceWriter`] writes rows of grid points, and [`MeshWriter`] pieces of triangle meshes.
//!
//! ```
//! use output::{FinishedLine, FixedBudget, LineFile, LineLayout, LineSpool, Moments, OutputFile, Provenance, Reason};
//! use output::SpoolOptions;
//! use std::ops::ControlFlow;
//!
//! let path = std::env::temp_dir().join(format!("farfield-example-{}.vtp", std::process::id()));
//! let output = OutputFile::create(&path)?;
//! let options = SpoolOptions {
//!     seeds: 2,
//!     layout: LineLayout { fields: vec![], both: false, moments: Moments::One },
//!     budget_bytes: 1 << 20,
//!     directory: SpoolOptions::spill_directory(Some(&output)),
//! };
//! let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(1 << 20)))?;
//! for seed in [1, 0] {
//!     spool.add(&FinishedLine {
//!         seed,
//!         points: &[[0.0, seed as f64, 0.0], [1.0, seed as f64, 0.0]],
//!         time: &[0.0, 0.5],
//!         zone: &[1, 1],
//!         fields: &[],
//!         reason: Reason::Left,
//!         reason_backward: Reason::Unfinished,
//!     })?;
//! }
//! spool.write(output, &Provenance::default(), false, &mut |_done, _of| ControlFlow::Continue(()))?;
//! let lines = LineFile::open(&path)?;
//! assert_eq!((lines.line_count(), lines.point_count()), (2, 4));
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrays;
mod columns;
mod csv;
mod error;
mod frame_folder;
pub(crate) mod frames;
mod gather;
mod index;
mod line;
mod line_formats;
mod log;
mod log_window;
mod mesh;
mod moments;
mod new_file;
pub mod npy;
mod npz;
pub(crate) mod number;
mod output_file;
pub mod parquet;
pub mod partial_file;
pub mod png_rows;
mod raster;
pub mod read;
mod spool;
mod spooled_line;
mod surface;
mod totals;
mod vtp;
mod zip;

#[cfg(test)]
mod tests;

pub use arrays::{LineArrays, LineColumn};
pub use error::OutputError;
pub use kernels::line::Reason;
pub use line::{FinishedLine, LineLayout};
pub use log::{ByteLog, HeldMemory};
pub use mesh::{MeshLayout, MeshPiece, MeshPoints, MeshRows, MeshStats, MeshWriter};
pub use moments::Moments;
pub use new_file::{anonymous, directory_of, NewFile};
pub use output_file::{OutputFile, OutputFormat};
pub use raster::{RasterLayout, RasterWriter};
pub use read::{fuzz_lines, LineArrayInfo, LineArrayOn, LineChunk, LineFile, ReadError};
pub use spool::{LineSpool, SpoolOptions, SpoolStats};
pub use surface::{Patch, SurfaceLayout, SurfaceStats, SurfaceWriter};

/// Charges memory before it is held, and releases it.
///
/// The engine implements it over the ledger; [`FixedBudget`] is a fixed number of bytes.
pub trait MemoryAccount: Send {
    /// Charges `bytes`. False, with no charge, if they are not available.
    fn try_charge(&mut self, bytes: usize) -> bool;
    /// Releases `bytes` of an earlier charge.
    fn release(&mut self, bytes: usize);
}

/// A [`MemoryAccount`] with a fixed number of bytes.
#[derive(Clone, Debug)]
pub struct FixedBudget {
    limit_bytes: usize,
    used_bytes: usize,
}

impl FixedBudget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: 0 }
    }
}

impl MemoryAccount for FixedBudget {
    fn try_charge(&mut self, bytes: usize) -> bool {
        match self.used_bytes.checked_add(bytes) {
            Some(total) if total <= self.limit_bytes => {
                self.used_bytes = total;
                true
            }
            _ => false,
        }
    }

    fn release(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }
}

/// The number type of a field in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
}

impl FieldType {
    /// Bytes a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// A field that is sampled along the lines or on the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// Its name, as the user has it.
    pub name: String,
    /// Numbers a point: 1 for a scalar, 3 for a vector (1 to 9).
    pub components: usize,
    /// How each number is stored.
    pub dtype: FieldType,
    /// Its unit for people (`rho_inf`, `m/s`); empty without one.
    pub unit: String,
}

impl FieldSpec {
    /// A scalar of 64-bit numbers.
    pub fn scalar(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), components: 1, dtype: FieldType::F64, unit: unit.into() }
    }

    /// A vector of three 64-bit numbers.
    pub fn vector(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), components: 3, dtype: FieldType::F64, unit: unit.into() }
    }

    /// Bytes a point.
    pub(crate) fn bytes(&self) -> u64 {
        (self.components * self.dtype.bytes()) as u64
    }
}

/// Values of one field at consecutive points, the components of a point adjacent.
#[derive(Clone, Copy, Debug)]
pub enum FieldValues<'a> {
    /// 32-bit values, `points * components` of them.
    F32(&'a [f32]),
    /// 64-bit values, `points * components` of them.
    F64(&'a [f64]),
}

impl FieldValues<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The origin of the data, written beside the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Name and version of the program, such as `farfield 0.1.0`.
    pub program: String,
    /// The dataset as the user named it. If it is empty, no source is written.
    pub source: String,
    /// The unit of positions; empty when unknown.
    pub length_unit: String,
    /// The unit of time; empty when unknown.
    pub time_unit: String,
    /// Further (name, value) pairs: the traced field, tolerance, zone names, ...
    pub notes: Vec<(String, String)>,
}

/// Checks the fields of an output and returns the names of its arrays. A field with the name of one of our own arrays
/// (`points`, `time`, ...) is written as `field_NAME`, so that no array hides another.
pub(crate) fn array_names(fields: &[FieldSpec], reserved: &[&str]) -> Result<Vec<String>, OutputError> {
    let mut names: Vec<String> = Vec::with_capacity(fields.len());
    for field in fields {
        if !(1..=9).contains(&field.components) {
            return Err(OutputError::Layout(format!(
                "field '{}' has {} components; an output takes 1 to 9",
                field.name, field.components
            )));
        }
        // 1,000 bytes: far below the limit of a zip entry's name (65,535), and far above any readable name.
        if field.name.is_empty() || field.name.len() > 1000 || field.name.chars().any(char::is_control) {
            return Err(OutputError::Layout(format!(
                "{:?} cannot be the name of an array: it must have 1 to 1000 bytes and no control characters",
                field.name.chars().take(60).collect::<String>()
            )));
        }
        let name =
            if reserved.contains(&field.name.as_str()) { format!("field_{}", field.name) } else { field.name.clone() };
        if names.contains(&name) {
            return Err(OutputError::Layout(format!("field '{}' is asked for twice", field.name)));
        }
        names.push(name);
    }
    Ok(names)
}

/// The destination of results.
pub enum Destination<'a> {
    /// Memory of the caller.
    Memory,
    /// A file; the format follows from its name.
    File(&'a std::path::Path),
}

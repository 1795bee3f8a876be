//! PLOT3D, read as it is found.
//!
//! **Theory.** PLOT3D names a family of layouts, and its files do not say which one they have. The variants:
//!
//! - text, Fortran records or plain binary;
//! - either byte order, 32 or 64 bits;
//! - with or without a zone count, iblank, a third dimension;
//! - WHOLE or PLANES order;
//! - OVERFLOW's longer q files.
//!
//! Each layout implies a file's size to the byte. So a file is tested under all layouts, and it has the one that adds
//! up ([`FileReading`], [`fuzz_sniff`]). Sources: the PLOT3D User's Manual (Walatka, Buning, Pierce, Elson, NASA
//! TM-101067); appendix A of the OVERFLOW users' manual; files of VTK, NASA's tools and OpenFOAM users.
//!
//! **Practice.** [`Plot3d::open`] reads only headers and record marks. It gives a [`crate::catalog::Catalog`] and an
//! [`crate::array_layout::ArrayLayout`] for each array, which locates its rows in the files. Pages are then read in
//! place. Text is converted once into a plain binary file in a cache folder.
//!
//! 1. No allocation follows from a header alone. A zone gets memory only if its data fit in the file, zones and
//!    variables are capped, and all size arithmetic is checked. A file of 1 KB costs kilobytes.
//! 2. A reading holds only if it ends at the file's last byte and, in Fortran files, every record mark agrees. The one
//!    exception is data that OVERFLOW itself appends; a remark names it.
//! 3. Decisions by content are listed in [`crate::catalog::Catalog::guessed`]. If the content cannot decide, opening
//!    fails with an error that lists the readings.

mod ascii;
mod assemble;
mod blocks;
mod bytes;
mod cache;
mod dataset;
mod evidence;
mod flowsample;
mod fuzz;
mod headers;
pub mod iblank;
mod input;
mod measure;
mod meta;
mod names;
mod open;
mod options;
mod ordering;
mod parts;
mod reading;
mod records;
mod settings;
mod sniff;
#[cfg(test)]
mod tests;
mod walk;
pub mod write;

pub use ascii::ConversionProgress;
pub use bytes::ByteSource;
pub use cache::fuzz_note;
pub use dataset::Plot3d;
pub use fuzz::fuzz_sniff;
pub use input::Plot3dInput;
pub(crate) use measure::DENSITY_UNITS;
pub use meta::MetaFile;
pub use options::{ByteOrder, Dimension, Format, Kind, Order, Plot3dOptions, Precision, ZoneCount};
pub use reading::{Encoding, Expected, FileReading, ZoneReading};
pub use records::Records;
pub use settings::{Plot3dSettings, Reference, VelocityScale};

use crate::error::FieldError;
use std::path::{Path, PathBuf};

impl Plot3d {
    /// Opens a grid with its q and function files, one a step or one for all steps. A VTK `.p3d` file may stand for the
    /// grid; it names all files itself. Text is converted into `cache_dir`.
    ///
    /// # Errors
    /// [`FieldError::Io`] if a file cannot be read or the cache not written. [`FieldError::Format`] if a file is not of
    /// its kind. [`FieldError::Ambiguous`] if it can be read in several ways. [`FieldError::Usage`] for numbers of
    /// files that do not match.
    pub fn open(
        grid: &Path,
        q: &[PathBuf],
        function: &[PathBuf],
        options: &Plot3dOptions,
        cache_dir: &Path,
    ) -> Result<Self, FieldError> {
        let given = Plot3dInput { grids: &[grid.to_owned()], q, function, times: &[], dt: None, untimed: "" };
        Self::open_with_progress(given, options, cache_dir, &mut |_, _| true)
    }

    /// [`Self::open`] with progress of the conversion of text, as (bytes done, bytes in all) of each file. False from
    /// `progress` cancels.
    ///
    /// # Errors
    /// As [`Self::open`], and [`FieldError::Interrupted`].
    pub fn open_with_progress(
        given: Plot3dInput<'_>,
        options: &Plot3dOptions,
        cache_dir: &Path,
        progress: ConversionProgress<'_>,
    ) -> Result<Self, FieldError> {
        open::open(given, options, cache_dir, progress)
    }
}

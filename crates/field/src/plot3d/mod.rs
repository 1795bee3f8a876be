//! PLOT3D, read as it is found.
//!
//! **Theory.** PLOT3D names a family of layouts, and its files do not say which of them they are: text, Fortran records
//! or plain binary; either byte order; 32 or 64 bits; with or without a zone count, iblank, a third dimension; WHOLE or
//! PLANES; OVERFLOW's longer q files. Each layout implies a file's size to the byte, so a file is tried under all of them
//! and what adds up is what it is ([`FileReading`], [`fuzz_sniff`]). Sources: the PLOT3D User's Manual (Walatka, Buning,
//! Pierce, Elson, NASA TM-101067), appendix A of the OVERFLOW users' manual, and files as VTK, NASA's tools and OpenFOAM
//! users have them.
//!
//! **Practice.** [`Plot3d::open`] reads headers and record marks only and gives a [`Catalog`] and, for each array, an
//! [`ArrayLayout`]: where in which file its rows lie. Pages are then read in place. Text is converted once into a plain
//! binary file in a cache folder.
//!
//! 1. No allocation follows from a header alone: a zone gets memory when its data fit in the file, zones and variables
//!    are capped, and all size arithmetic is checked. A file of 1 KB costs kilobytes.
//! 2. A reading holds only if it ends at the file's last byte and, in Fortran files, every record mark agrees. The one
//!    exception is what OVERFLOW itself appends, which is named.
//! 3. What the content decided is said in [`Catalog::guessed`]; what it cannot decide is an error that lists the readings.

mod ascii;
mod assemble;
mod bytes;
mod cache;
mod evidence;
mod flowsample;
mod headers;
pub mod iblank;
mod layout;
mod measure;
mod meta;
mod names;
mod open;
mod options;
mod ordering;
mod reading;
mod records;
mod settings;
mod sniff;
mod spans;
#[cfg(test)]
mod tests;
mod walk;
pub mod write;

pub use ascii::ConversionProgress;
pub use bytes::ByteSource;
pub use cache::fuzz_note;
pub use layout::{Affine, ArrayLayout, DataFiles};
pub(crate) use measure::DENSITY_UNITS;
pub use meta::MetaFile;
pub use options::{ByteOrder, Dimension, Format, Kind, Order, Plot3dOptions, Precision, ZoneCount};
pub use reading::{Encoding, Expected, FileReading, ZoneReading};
pub use records::Records;
pub use settings::{Plot3dSettings, Reference, VelocityScale};
pub use spans::{ByteRun, Spans};

use crate::catalog::Catalog;
use crate::error::FieldError;
use crate::heap_size;
use crate::series::SeriesFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open PLOT3D dataset: what there is and where it lies. No data are read.
#[derive(Clone, Debug)]
pub struct Plot3d {
    /// Zones, arrays, times, and what was guessed.
    pub catalog: Catalog,
    /// What `NAME.p3d.json` and the `.p3d` file said.
    pub settings: Plot3dSettings,
    /// Which files the user gave for which step.
    pub series: SeriesFiles,
    files: Arc<DataFiles>,
    layouts: Vec<Vec<Arc<ArrayLayout>>>,
}

/// The files of a dataset.
#[derive(Copy, Clone, Debug)]
pub struct Plot3dInput<'a> {
    /// Grids: one, or one a step.
    pub grids: &'a [PathBuf],
    /// Solutions: none, one, or one a step.
    pub q: &'a [PathBuf],
    /// Function files: none, one, or one a step.
    pub function: &'a [PathBuf],
    /// When the steps are, where whoever names the files knows it: rising, one a step, or none.
    pub times: &'a [f64],
    /// Why times that files give are not used, where whoever names them knows it; else empty.
    pub untimed: &'a str,
    /// How far apart the steps are, where the files' times are not to be used: the first is at 0.
    pub dt: Option<f64>,
}

impl Plot3d {
    /// Opens a grid (or a VTK `.p3d` file, which names everything itself) with its q and function files, one a step or
    /// one for all steps. Text is converted into `cache_dir`.
    ///
    /// # Errors
    /// [`FieldError::Io`] if a file cannot be read or the cache not written, [`FieldError::Format`] if a file is not what
    /// it should be, [`FieldError::Ambiguous`] if it can be read in several ways, [`FieldError::Usage`] for numbers of
    /// files that do not go together.
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

    /// [`Self::open`], reporting the conversion of text as (bytes done, bytes in all) of each file; false from `progress`
    /// cancels.
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

    /// All files that hold pages, in the order of [`ArrayLayout::file`]. Converted text stands here as its binary file.
    pub fn files(&self) -> &Arc<DataFiles> {
        &self.files
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        let layouts = self.layouts.iter().map(|z| heap_size::list(z) + z.iter().map(|l| l.held()).sum::<u64>());
        let texts = heap_size::texts(&self.settings.zone_names) + heap_size::texts(&self.settings.names);
        let scales = heap_size::list(&self.settings.scales)
            + self.settings.scales.iter().map(|s| heap_size::text(&s.0)).sum::<u64>();
        heap_size::catalog(&self.catalog)
            + heap_size::list(&self.layouts)
            + layouts.sum::<u64>()
            + texts
            + scales
            + self.series.held()
    }

    /// Where array `array` of zone `zone` lies, by their positions in [`Self::catalog`].
    pub fn layout(&self, zone: usize, array: usize) -> Option<Arc<ArrayLayout>> {
        self.layouts.get(zone).and_then(|z| z.get(array)).cloned()
    }
}

/// Puts bytes through every parser of this module, as a fuzzer does: they may be refused, but nothing may panic, and
/// memory stays within some thousand times their number.
pub fn fuzz_sniff(bytes: &[u8]) {
    let path = Path::new("fuzz");
    let mut free = |_, _| true;
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        for format in [None, Some(Format::Ascii), Some(Format::Binary)] {
            let options = Plot3dOptions { format, ..Plot3dOptions::default() };
            let asked = reading::ReadRequest { kind, options: &options, expected: None };
            let Ok((fits, not)) = sniff::candidates(&bytes, path, asked, &mut free) else { continue };
            if fits.is_empty() {
                let _said = sniff::nothing_fits(&bytes, path, asked, &not, &mut free);
                continue;
            }
            let Ok(sniff::Sniffed { reading, .. }) = sniff::choose(&bytes, path, &options, fits) else { continue };
            if reading.encoding.format == Format::Ascii {
                // Text that adds up is converted as it would be, into nothing.
                let _ = ascii::convert(&bytes, path, &reading, path, &mut std::io::sink(), &mut free);
                continue;
            }
            let _ = ordering::order(&bytes, &reading);
            for n in 0..reading.zones.len().min(4) {
                if kind == Kind::Q {
                    let _ = reading.header(&bytes, n);
                }
                let data = &reading.zones[n].data;
                let mut seen = 0;
                data.runs(0, data.len(), &mut |run| seen += run.len);
                assert_eq!(seen, data.len(), "runs cover the payload");
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Plot3dSettings::parse(path, text);
        let _ = MetaFile::parse(path, text);
        let _ = names::group(&names::lines(text), 5, 3);
    }
}

//! An open PLOT3D dataset.

use super::settings::Plot3dSettings;
use crate::array_layout::ArrayLayout;
use crate::catalog::{Catalog, RowReader};
use crate::data_files::DataFiles;
use crate::error::FieldError;
use crate::format::{files_of_layouts, Format, Storage};
use crate::heap_size;
use crate::series::SeriesFiles;
use std::path::PathBuf;
use std::sync::Arc;

/// An open PLOT3D dataset: its contents and their places, without data.
#[derive(Clone, Debug)]
pub struct Plot3d {
    /// Zones, arrays, times, and guesses.
    pub catalog: Catalog,
    /// The contents of `NAME.p3d.json` and the `.p3d` file.
    pub settings: Plot3dSettings,
    /// The user's files by step.
    pub series: SeriesFiles,
    pub(super) files: Arc<DataFiles>,
    pub(super) layouts: Vec<Vec<Arc<ArrayLayout>>>,
}

impl Plot3d {
    /// All files that hold pages, in the order of [`ArrayLayout::file`]. Converted text is represented by its binary
    /// file.
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

    /// The layout of array `array` of zone `zone`, by their positions in [`Self::catalog`].
    pub fn layout(&self, zone: usize, array: usize) -> Option<Arc<ArrayLayout>> {
        self.layouts.get(zone).and_then(|z| z.get(array)).cloned()
    }
}

impl Format for Plot3d {
    fn files(&self) -> Vec<PathBuf> {
        self.files.paths().to_vec()
    }

    fn files_by_step(&self, steps: usize) -> Vec<Vec<usize>> {
        files_of_layouts(self.layouts.iter().flatten(), steps)
    }

    fn series(&self) -> SeriesFiles {
        self.series.clone()
    }

    fn layout(&self, zone: usize, array: usize) -> Option<Arc<ArrayLayout>> {
        Self::layout(self, zone, array)
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn rows(&self, zone: usize, array: usize) -> Result<Arc<dyn RowReader>, FieldError> {
        let layout = Self::layout(self, zone, array);
        let rows = layout.ok_or_else(|| FieldError::Usage(format!("no array {array} in zone {zone}")))?;
        Ok(rows)
    }

    fn storage(&self) -> Storage {
        Storage { layout: "in place", ..Storage::default() }
    }
}

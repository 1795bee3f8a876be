//! The files of a flow that a session opens.

use field::dataset::Dataset;
use field::described_zones::{DescribedZones, ZonesSpec};
use field::error::FieldError;
use field::plot3d::{Plot3d, Plot3dInput, Plot3dOptions};
use field::store::Store;
use pager::place::{self, FileKind};
use pager::Pager;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As a session's: a phase, how much is done, and how much there is. False cancels.
type Watch<'a> = dyn FnMut(&str, f64, f64) -> bool + 'a;

/// The source of a flow.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// A store's folder, a PLOT3D grid, or VTK's `.p3d` file.
    pub path: PathBuf,
    /// The grids of the steps after the first, if the grid moves.
    pub grids: Vec<PathBuf>,
    /// q files, one a step.
    pub q: Vec<PathBuf>,
    /// Function files, one a step.
    pub function: Vec<PathBuf>,
    /// The zones of files of a foreign format, as its reader describes them. There are no grids, q or function files
    /// then. A session does not keep it.
    pub zones: Option<Box<ZonesSpec>>,
    /// Times of the steps, if the caller gives them: rising, one a step. Else empty.
    pub times: Vec<f64>,
    /// Why times in the files are not used, if the caller gives a reason. Else empty.
    pub untimed: String,
    /// The interval between steps, if the times in the files are not to be used.
    pub dt: Option<f64>,
    /// How to read PLOT3D files.
    pub plot3d: Plot3dOptions,
    /// Folder for converted text and for indexes of foreign data.
    pub cache_dir: PathBuf,
    /// Names of zones in the order in which they are searched.
    pub zone_order: Vec<String>,
    /// The user's definitions of fields, `NAME = EXPRESSION`.
    pub define: Vec<String>,
    /// Definitions of fields in files of settings. One holds if the dataset has its inputs and no field of its name.
    pub settled: Vec<SettingsField>,
    /// Wall and processor seconds that reading headers or converting files took before the run. The run's times include
    /// them.
    pub read_s: [f64; 2],
}

/// A field that a file of settings defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsField {
    /// Name of the field.
    pub name: String,
    /// Its expression.
    pub expression: String,
    /// The file of settings.
    pub file: String,
}

impl SourceSpec {
    /// Whether the source is a store, which is a folder.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a store with q or function files.
    pub fn is_store(&self) -> Result<bool, FieldError> {
        let store = self.zones.is_none() && is_folder(&self.path)?;
        if store && !(self.grids.is_empty() && self.q.is_empty() && self.function.is_empty()) {
            return Err(FieldError::Usage(format!(
                "{}: a store holds its grid and fields; it takes no grid, q or function files",
                self.path.display()
            )));
        }
        if store && self.dt.is_some() {
            return Err(FieldError::Usage(format!(
                "{}: a store holds its times; --dt is for the files that it is made of",
                self.path.display()
            )));
        }
        Ok(store)
    }
}

/// Whether a path is a folder. A name that does not exist is none.
fn is_folder(path: &Path) -> Result<bool, FieldError> {
    match field::file::stat(path) {
        Ok(stat) => Ok(stat.kind == FileKind::Folder),
        Err(e) if place::is_remote(path) && e.kind() != ErrorKind::NotFound => Err(FieldError::io(path, e)),
        Err(_) => Ok(false),
    }
}

fn open_plot3d(spec: &SourceSpec, watch: &mut Watch<'_>) -> Result<Plot3d, FieldError> {
    let folder = spec.cache_dir.join("data");
    let mut progress = |done: u64, total: u64| watch("converting text", done as f64, total as f64);
    let grids: Vec<PathBuf> = std::iter::once(&spec.path).chain(&spec.grids).cloned().collect();
    let given = Plot3dInput {
        grids: &grids,
        q: &spec.q,
        function: &spec.function,
        times: &spec.times,
        dt: spec.dt,
        untimed: &spec.untimed,
    };
    Plot3d::open_with_progress(given, &spec.plot3d, &folder, &mut progress)
}

pub(crate) fn open_described(zones: ZonesSpec, spec: &SourceSpec, pager: &Pager) -> Result<Dataset, FieldError> {
    if spec.plot3d != Plot3dOptions::default() {
        let path = spec.path.display();
        let message =
            format!("{path}: this is not PLOT3D, and says itself how it is read; leave the options of PLOT3D away");
        return Err(FieldError::Usage(message));
    }
    Dataset::from_described(DescribedZones::open(zones, spec.dt)?, pager)
}

pub(crate) fn open_flow(spec: &SourceSpec, pager: &Arc<Pager>, watch: &mut Watch<'_>) -> Result<Dataset, FieldError> {
    if spec.is_store()? {
        return Dataset::from_store(Store::open(&spec.path)?, pager);
    }
    Dataset::from_plot3d(open_plot3d(spec, watch)?, pager)
}

//! Contents of a dataset, in terms that every format shares: what `info` prints. They are read at once, and do not grow
//! with the number of points.

use crate::error::FieldError;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Element type of an array in frames (native byte order).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 8-bit unsigned integer.
    Uint8,
    /// 32-bit signed integer.
    Int32,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Int32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }
    /// The name in NumPy and Zarr.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }
}

/// The purpose of an array.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Node positions: 3 components, or 2 in 2-D datasets, which store no zeros.
    Coordinates,
    /// PLOT3D iblank, one int32 component.
    Iblank,
    /// A field at the nodes.
    Field,
}

/// One array of one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayInfo {
    /// `xyz`, `iblank`, `density`, `momentum`, `energy`, ...
    pub name: String,
    /// The purpose.
    pub role: Role,
    /// 1 for scalars, 2 or 3 for vectors.
    pub components: usize,
    /// Element type.
    pub dtype: DType,
    /// UDUNITS spelling; `1` if non-dimensional.
    pub units: String,
    /// CF standard name, or empty.
    pub standard_name: String,
    /// A few words for a label.
    pub long_name: String,
}

/// Numbers of a q file's header, one set per zone. NaN if not given.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowHeader {
    /// Free-stream Mach number.
    pub mach: f64,
    /// Angle of attack, degrees.
    pub alpha: f64,
    /// Reynolds number.
    pub reynolds: f64,
    /// Time in L / a_inf, or in the catalog's unit of time if that is a second. For single precision, the shortest
    /// decimal number.
    pub time: f64,
    /// Ratio of specific heats; 1.4 by default.
    pub gamma: f64,
}

/// One zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneInfo {
    /// `zone1`, `zone2`, ... unless the file names it.
    pub name: String,
    /// Points along i, j, k; 1 along a collapsed direction.
    pub dims: [usize; 3],
    /// Coordinates first, then iblank, then fields in file order.
    pub arrays: Vec<ArrayInfo>,
    /// Header numbers by step.
    pub headers: Vec<FlowHeader>,
}

/// All data about a dataset besides its pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// e.g. `PLOT3D, Fortran unformatted, little-endian, float32` or `Farfield store (Zarr v3)`.
    pub format: String,
    /// Guesses from content, one sentence each.
    pub guessed: Vec<String>,
    /// Files whose numbers may be in PLANES order as well as in WHOLE order, which was assumed.
    pub order_assumed: Vec<String>,
    /// Coordinates of a position: 2 or 3.
    pub dimension: usize,
    /// The zones in file order.
    pub zones: Vec<ZoneInfo>,
    /// Time of each step.
    pub times: Vec<f64>,
    /// Whether the times only number the steps.
    pub times_counted: bool,
    /// Unit of the times.
    pub time_units: String,
    /// The `NAME.p3d.json` that applies (null if none): reference values, scales.
    pub settings: serde_json::Value,
}

/// Remark: a file's sizes add up, but its values make no sense.
pub(crate) const DOUBT: &str = "most of its numbers do not look like";
/// Remark: a file's records may be planes as well as arrays.
pub(crate) const EITHER: &str = "has as many records as planes and as arrays";
/// Remarks on numbers that only some runs use: the Mach number, ...
pub(crate) const OF_FREE_STREAM: &str = "What is made of the free stream (pressure_coefficient)";
/// ... energy or the ratio of specific heats, ...
pub(crate) const OF_ENERGY: &str = "What is made of energy (pressure, mach, temperature, ...)";
/// ... and times.
pub(crate) const OF_TIME: &str = "The times of the steps are those of";
/// Remark: steps without times.
pub(crate) const NUMBERED: &str = "are numbered from 0";
/// The advice for them.
pub(crate) const SAY_DT: &str = "--dt says how far apart they are";
/// Remark: steps not in the order of their names.
pub(crate) const SORTED: &str = "are sorted by the times in the q headers";
/// Remark: some of the counted steps are missing.
pub(crate) const COUNTED: &str = "--dt counts files";

/// The remark on steps without times. `why`: why times in the files are not used; empty if there are none.
pub(crate) fn untimed_steps(steps: usize, why: &str) -> String {
    if why.is_empty() {
        format!("No file gives the times of the {steps} steps; they {NUMBERED}. {SAY_DT}.")
    } else {
        format!("The times that files give are not used, as {why}: the {steps} steps {NUMBERED}. {SAY_DT}.")
    }
}

/// Refuses a distance between steps that is not positive and finite.
///
/// # Errors
/// [`FieldError::Usage`].
pub(crate) fn check_dt(dt: Option<f64>) -> Result<(), FieldError> {
    match dt.filter(|dt| !(*dt > 0.0 && dt.is_finite())) {
        Some(dt) => Err(FieldError::Usage(format!("the steps cannot be {dt} apart; --dt is a positive number"))),
        None => Ok(()),
    }
}

/// Refuses times that are not one per step, or do not rise.
///
/// # Errors
/// [`FieldError::Usage`].
pub(crate) fn check_times(times: &[f64], steps: usize) -> Result<(), FieldError> {
    let rises = times.windows(2).all(|w| w[0] < w[1]) && times.iter().all(|t| t.is_finite());
    if times.is_empty() || times.len() == steps && rises {
        return Ok(());
    }
    let message = format!("{} times for {steps} steps, and they should rise from one to the next", times.len());
    Err(FieldError::Usage(message))
}

impl Catalog {
    /// The first array of that name in any zone.
    pub(crate) fn array_named(&self, name: &str) -> Option<&ArrayInfo> {
        self.zones.iter().flat_map(|z| &z.arrays).find(|a| a.name == name)
    }

    /// The remarks for every user of the data.
    pub fn doubts(&self) -> impl Iterator<Item = &str> {
        self.guessed.iter().map(String::as_str).filter(|s| s.contains(DOUBT) || s.contains(EITHER))
    }

    /// The remarks on the order of files and on missing ones.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.guessed.iter().map(String::as_str).filter(|s| s.contains(SORTED) || s.contains(COUNTED))
    }

    /// Why the steps have no times, and what to do.
    pub fn untimed(&self) -> Option<String> {
        if !self.times_counted {
            return None;
        }
        let said = self.guessed.iter().find(|s| s.contains(NUMBERED)).cloned();
        let steps = self.times.len();
        Some(said.unwrap_or_else(|| format!("The {steps} time steps {NUMBERED}; --dt says how far apart they are.")))
    }
}

/// Reads whole rows of one array from its file in order, for converters and index builders. Such large sequential reads
/// bypass the pager. The caller charges `out`.
pub trait RowReader: Send + Sync {
    /// Fills `out` with rows `j0..j1` (all i) of plane `k` of component `c` at `step`, native byte order.
    ///
    /// # Errors
    /// Names the file and the fault.
    fn read_rows(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: std::ops::Range<usize>,
        out: &mut [u8],
    ) -> Result<(), FieldError>;

    /// Whether [`Self::read_box`] reads less than rows would, because a row lies in several pages.
    fn by_boxes(&self) -> bool {
        false
    }

    /// Fills `out` with the points `[i, j, k]` of all components at `step`: per component, `[k, j, i]`.
    ///
    /// # Errors
    /// As [`Self::read_rows`]; [`FieldError::Internal`] unless [`Self::by_boxes`].
    fn read_box(&self, _step: usize, _points: &[std::ops::Range<usize>; 3], _out: &mut [u8]) -> Result<(), FieldError> {
        Err(FieldError::Internal("an array without boxes was read by boxes"))
    }

    /// The reads so far.
    fn tally(&self) -> &ReadCounter;
}

/// Reads from files without the pager.
#[derive(Debug, Default)]
pub struct ReadCounter {
    bytes: AtomicU64,
    reads: AtomicU64,
}

impl ReadCounter {
    /// Counts one read.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.reads.fetch_add(1, Relaxed);
    }
    /// Bytes, and reads.
    pub fn get(&self) -> [u64; 2] {
        [self.bytes.load(Relaxed), self.reads.load(Relaxed)]
    }
}

//! The document that describes zones.

use crate::catalog::{DType, Role};
use crate::volume::VoxelType;
use serde::Deserialize;
use std::path::PathBuf;

/// A dataset of zones in files of a foreign format.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesSpec {
    /// A description in words, for `info`.
    pub format: String,
    /// Coordinates of a position: 2 or 3.
    pub dimension: usize,
    /// The files with numbers, as arrays count them.
    pub files: Vec<PathBuf>,
    /// The files that identify the dataset.
    pub sources: SourcesSpec,
    /// Time of each step; empty if no file gives times.
    #[serde(default)]
    pub times: Vec<f64>,
    /// Why times in the files are not used, if so.
    #[serde(default)]
    pub untimed: String,
    /// Zones in the order of the files.
    pub zones: Vec<ZoneSpec>,
}

/// The files that a user named and those that they name, by step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcesSpec {
    /// The files of all steps.
    #[serde(default)]
    pub steady: Vec<PathBuf>,
    /// The files of each step; at least one step.
    pub steps: Vec<Vec<PathBuf>>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// Empty: named by its number.
    #[serde(default)]
    pub name: String,
    /// Points along i, j, k.
    pub dims: [u64; 3],
    /// Coordinates first, then iblank if there is one, then fields.
    pub arrays: Vec<ArraySpec>,
}

/// An array of a zone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// The spelling in the files.
    pub name: String,
    /// A few words for a label; empty: its name.
    #[serde(default)]
    pub long_name: String,
    /// The purpose.
    pub role: Role,
    /// Type of the dataset's numbers.
    pub dtype: DType,
    /// Numbers per point.
    pub components: usize,
    /// UDUNITS spelling.
    #[serde(default = "no_unit")]
    pub units: String,
    /// The place at each step, or one for all.
    pub steps: Vec<Place>,
}

fn no_unit() -> String {
    "1".into()
}

/// The place of an array's numbers at a step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In files: one for all components together, or one each.
    Stored(Vec<StoredSpec>),
    /// One rule per component.
    Computed(Vec<RuleSpec>),
}

/// Numbers in a file, in runs that follow one another. Element (c, k, j, i) begins at this byte of the runs:
///
/// `c * component_bytes + k * plane_bytes + j * row_bytes + i * point_bytes`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSpec {
    /// Number of the file.
    pub file: usize,
    /// First byte and length of each run.
    pub runs: Vec<[u64; 2]>,
    /// Type of the stored numbers.
    pub number: VoxelType,
    /// Whether they are big-endian.
    #[serde(default)]
    pub big_endian: bool,
    /// Default: components are contiguous, each with all its points.
    pub component_bytes: Option<u64>,
    /// Default: the size of a number.
    pub point_bytes: Option<u64>,
    /// Default: rows are contiguous.
    pub row_bytes: Option<u64>,
    /// Default: planes are contiguous.
    pub plane_bytes: Option<u64>,
}

/// The numbers of a component by the indices of a point.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleSpec {
    /// One value at all points; null is NaN.
    Constant(Option<f64>),
    /// One number per point along an axis.
    Line {
        /// 0, 1 or 2.
        axis: usize,
        /// One per point.
        values: Vec<f64>,
    },
    /// `origin + steps[0] * i + steps[1] * j + steps[2] * k`.
    Uniform {
        /// At point (0, 0, 0).
        origin: f64,
        /// The steps along i, j and k.
        steps: [f64; 3],
    },
}

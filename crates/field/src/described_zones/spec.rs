//! The document that describes zones.

use crate::catalog::{DType, Role};
use crate::volume::VoxelType;
use serde::Deserialize;
use std::path::PathBuf;

/// A dataset of zones in files of a foreign format.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesSpec {
    /// What it is in words, as `info` says it.
    pub format: String,
    /// Coordinates of a position: 2 or 3.
    pub dimension: usize,
    /// The files that hold numbers, in the order in which arrays number them.
    pub files: Vec<PathBuf>,
    /// The files that say which dataset it is.
    pub sources: SourcesSpec,
    /// Time of each step; none where no file says it.
    #[serde(default)]
    pub times: Vec<f64>,
    /// Why times that files give are not used, if so.
    #[serde(default)]
    pub untimed: String,
    /// Zones in the order of the files.
    pub zones: Vec<ZoneSpec>,
}

/// The files that a user named and those that they name, by step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcesSpec {
    /// Those of all steps.
    #[serde(default)]
    pub steady: Vec<PathBuf>,
    /// The places of each step; at least one step.
    pub steps: Vec<Vec<PathBuf>>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// Empty: by its number.
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
    /// As the files spell it.
    pub name: String,
    /// A few words for a label; empty: its name.
    #[serde(default)]
    pub long_name: String,
    /// What it is for.
    pub role: Role,
    /// Type of its numbers in the dataset.
    pub dtype: DType,
    /// Numbers a point.
    pub components: usize,
    /// UDUNITS spelling.
    #[serde(default = "no_unit")]
    pub units: String,
    /// Where it is at each step, or at all.
    pub steps: Vec<Place>,
}

fn no_unit() -> String {
    "1".into()
}

/// Where the numbers of an array are at a step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In files: of all components together, or of one each.
    Stored(Vec<StoredSpec>),
    /// A rule a component.
    Computed(Vec<RuleSpec>),
}

/// Numbers in a file. Element (c, k, j, i) begins at byte `c * component_bytes + k * plane_bytes + j * row_bytes + i *
/// point_bytes` of its runs, one run behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSpec {
    /// Number of the file.
    pub file: usize,
    /// First byte and length of each run.
    pub runs: Vec<[u64; 2]>,
    /// Type of the numbers there.
    pub number: VoxelType,
    /// Whether their first byte is the highest.
    #[serde(default)]
    pub big_endian: bool,
    /// Not said: components one after the other, each with all its points.
    pub component_bytes: Option<u64>,
    /// Not said: a number.
    pub point_bytes: Option<u64>,
    /// Not said: rows one after the other.
    pub row_bytes: Option<u64>,
    /// Not said: planes one after the other.
    pub plane_bytes: Option<u64>,
}

/// The numbers of a component by the indices of a point.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleSpec {
    /// One value at all points; null: not a number.
    Constant(Option<f64>),
    /// One number a point along an axis.
    Line {
        /// 0, 1 or 2.
        axis: usize,
        /// As many as there are points.
        values: Vec<f64>,
    },
    /// `origin + steps[0] * i + steps[1] * j + steps[2] * k`.
    Uniform {
        /// At point (0, 0, 0).
        origin: f64,
        /// From a point to the next along i, j and k.
        steps: [f64; 3],
    },
}

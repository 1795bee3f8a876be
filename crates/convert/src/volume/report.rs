//! The result of a conversion of a volume.

use super::plan::VolumePlan;

/// One level as written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// Voxels along i, j, k.
    pub dims: [usize; 3],
    /// Voxels of a page along i, j, k.
    pub page: [usize; 3],
    /// Pages of all steps and channels.
    pub pages: u64,
    /// Shards of all steps and channels.
    pub shards: u64,
}

/// The result of a conversion, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeReport {
    /// Bytes of the finest level's values.
    pub source_bytes: u64,
    /// Bytes of the store's shards. For a dry run, of the whole store: exact with codec none except for ranges,
    /// otherwise by a sample.
    pub store_bytes: u64,
    /// Units finished by an earlier run.
    pub resumed_units: u64,
    /// Units in all: shards of all levels.
    pub units: u64,
    /// Charged bytes.
    pub memory: u64,
    /// Bytes of all pages, edge pages in full, before encoding.
    pub padded_bytes: u64,
    /// Bytes of values of all levels.
    pub value_bytes: u64,
    /// Most bytes of the files of waiting levels, which are removed in the end.
    pub spool_bytes: u64,
    /// Levels, finest first.
    pub levels: Vec<LevelReport>,
    /// Estimated seconds; for a dry run only.
    pub seconds: Option<f64>,
}

impl VolumeReport {
    pub(super) fn of(plan: &VolumePlan<'_>) -> Self {
        let level = |n: usize| {
            let grid = &plan.layout.levels[n].grid;
            let (pages, shards) = (plan.layout.page_count(n), plan.layout.shard_count(n));
            LevelReport { dims: grid.paging.dims, page: grid.paging.page, pages, shards }
        };
        Self {
            source_bytes: plan.layout.value_bytes(0),
            units: plan.unit_count() as u64,
            memory: plan.memory,
            padded_bytes: plan.padded_bytes(),
            value_bytes: plan.value_bytes(),
            spool_bytes: plan.spool_bytes(),
            levels: (0..plan.layout.levels.len()).map(level).collect(),
            ..Self::default()
        }
    }
}

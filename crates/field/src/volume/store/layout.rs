//! Places of everything in a stored volume. They follow from the root document, so writer and reader agree without
//! further data.

use super::pyramid::{pyramid, LevelShape};
use super::root::VolumeRoot;
use crate::error::FieldError;
use crate::paging::Paging;
use crate::store::codec::Codec;
use crate::store::layout::{ArrayLayout, ShardForm, ShardGrid};
use crate::volume::{VolumeKind, VoxelType};
use serde_json::{json, Value};
use std::path::Path;

/// Limit of a level's bytes. Keeps all arithmetic below within 64 bits.
const MAX_BYTES: usize = 1 << 62;
/// Limit of a page's bytes. Larger ones would fit neither blosc's lengths nor any limit.
const MAX_PAGE_BYTES: usize = 1 << 30;
/// Most channels, and most time steps.
const MAX_CHANNELS: usize = 4096;
const MAX_STEPS: usize = 1 << 31;
/// Entries of a level of ranges in one entry of the next, along each axis.
pub const RANGE_STEP: usize = 8;

/// All arrays of a stored volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeLayout {
    /// Time steps.
    pub steps: usize,
    /// Type of the voxels.
    pub voxel: VoxelType,
    /// Arrays of pages of a level: one for each channel, or one for all components of a colour.
    pub groups: usize,
    /// Numbers of a voxel in each array.
    pub components: usize,
    /// Encoding of pages.
    pub codec: Codec,
    /// Levels, finest first.
    pub levels: Vec<LevelLayout>,
}

/// One level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelLayout {
    /// Its size.
    pub shape: LevelShape,
    /// Pages and shards, the same for each step and group.
    pub grid: ShardGrid,
    /// Ranges of its pages: by group, finest first.
    pub ranges: Vec<Vec<ArrayLayout>>,
}

/// Number of groups of a volume's channels, and of components in each.
pub const fn grouped(kind: VolumeKind, channels: usize) -> (usize, usize) {
    match kind {
        VolumeKind::Rgb => (1, 3),
        VolumeKind::Rgba => (1, 4),
        VolumeKind::Scalar | VolumeKind::Labels | VolumeKind::Channels => (channels, 1),
    }
}

impl VolumeLayout {
    /// Lays out the volume that `root` describes.
    ///
    /// # Errors
    /// [`FieldError::Format`] about `path` for sizes that no store can hold, and for invalid page boxes.
    pub fn new(path: &Path, root: &VolumeRoot) -> Result<Self, FieldError> {
        let bad = |m: String| FieldError::format(path, m);
        let about = &root.about;
        let [level] = &about.levels[..] else { return Err(bad("it does not say how large the volume is".into())) };
        let channels = about.channels.len();
        let (groups, components) = grouped(about.kind, channels);
        if channels == 0 || channels > MAX_CHANNELS || groups * components != channels {
            return Err(bad(format!("{channels} channels do not make a volume of kind {:?}", about.kind)));
        }
        let integer = !matches!(root.voxel, VoxelType::Float32 | VoxelType::Float64);
        if matches!(about.kind, VolumeKind::Labels) && !integer {
            return Err(bad(format!("labels are whole numbers, not {}", root.voxel.name())));
        }
        let steps = about.times.len().max(1);
        if steps > MAX_STEPS || about.times.iter().any(|t| !t.is_finite()) {
            return Err(bad("its time steps make no sense".into()));
        }
        if level.dims.iter().any(|&n| n == 0 || n > i32::MAX as u64) {
            return Err(bad(format!("{:?} voxels are none or too many", level.dims)));
        }
        if level.spacing.iter().any(|s| !(s.is_finite() && *s > 0.0)) || level.origin.iter().any(|x| !x.is_finite()) {
            return Err(bad(format!("voxels that are {:?} apart from {:?} on", level.spacing, level.origin)));
        }
        let shapes = pyramid(level.dims.map(|n| n as usize), level.spacing, Some(root.pages.len()));
        if shapes.len() != root.pages.len() {
            return Err(bad(format!("{} levels where there can be {}", root.pages.len(), shapes.len())));
        }
        let mut levels = Vec::with_capacity(shapes.len());
        for (number, (shape, page)) in shapes.into_iter().zip(&root.pages).enumerate() {
            let paging = Paging::new(shape.dims, *page);
            if paging.page != *page {
                return Err(bad(format!("level {number}: pages of {page:?} voxels do not cut {:?}", shape.dims)));
            }
            let voxel_bytes = components * root.voxel.size();
            let page_bytes = paging.page.iter().try_fold(voxel_bytes, |n, &edge| n.checked_mul(edge));
            let page_bytes = page_bytes.filter(|n| *n <= MAX_PAGE_BYTES);
            let page_bytes = page_bytes.ok_or_else(|| bad(format!("pages of {page:?} voxels are too large")))?;
            let all = (0..3).try_fold(steps * channels * 8 * 64, |n, a| n.checked_mul(paging.pages[a] * page[a]));
            if all.is_none_or(|n| n > MAX_BYTES) {
                return Err(bad(format!("{:?} voxels are too many", shape.dims)));
            }
            let grid = ShardGrid::new(paging, page_bytes);
            let ranges = (0..groups).map(|g| range_layouts(number, g, steps, components, paging.pages)).collect();
            levels.push(LevelLayout { shape, grid, ranges });
        }
        Ok(Self { steps, voxel: root.voxel, groups, components, codec: root.codec, levels })
    }

    /// Bytes of a voxel in a page.
    pub const fn voxel_bytes(&self) -> usize {
        self.components * self.voxel.size()
    }

    /// Bytes of a decoded page of a level, without a reader's ranges after it.
    pub fn page_bytes(&self, level: usize) -> usize {
        self.voxel_bytes() * self.levels[level].grid.paging.page_points()
    }

    /// The form of a level's shards.
    pub fn form(&self, level: usize) -> ShardForm<'_> {
        let grid = &self.levels[level].grid;
        ShardForm { grid, codec: self.codec, page_bytes: self.page_bytes(level), typesize: self.voxel.size() }
    }

    /// File of a shard below the root.
    pub fn shard_path(&self, level: usize, step: usize, group: usize, shard: u64) -> String {
        let [i, j, k] = self.levels[level].grid.coords(shard);
        format!("{level}/c.{step}.{group}.{k}.{j}.{i}")
    }

    /// Shards of a level: all steps and groups.
    pub fn shard_count(&self, level: usize) -> u64 {
        (self.steps * self.groups) as u64 * self.levels[level].grid.count()
    }

    /// Pages of a level: all steps and groups.
    pub fn page_count(&self, level: usize) -> u64 {
        (self.steps * self.groups) as u64 * self.levels[level].grid.paging.count()
    }

    /// Bytes of a level's values, without padding.
    pub fn value_bytes(&self, level: usize) -> u64 {
        (self.steps * self.groups * self.voxel_bytes()) as u64 * self.levels[level].grid.paging.points()
    }

    /// All arrays of ranges: by level, group, and level of ranges.
    pub fn ranges(&self) -> impl Iterator<Item = &ArrayLayout> {
        self.levels.iter().flat_map(|l| l.ranges.iter().flatten())
    }

    /// All `zarr.json` except the root's, with their paths below the root.
    pub fn documents(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let about = json!({"zarr_format": 3, "node_type": "group", "attributes": {
            "ranges": "ranges_LEVEL_GROUP_N: lowest and highest stored number of each component, rounded outward, of all cells whose low corner lies in \
                       a page (N = 0), then of 8x8x8 entries; lowest above highest where there is no number"}});
        std::iter::once(("_farfield/zarr.json".into(), about.to_string().into_bytes()))
            .chain((0..self.levels.len()).map(|n| (format!("{n}/zarr.json"), self.document(n))))
            .chain(self.ranges().map(|a| (format!("{}/zarr.json", a.path), a.document())))
    }

    /// A level's `zarr.json`.
    fn document(&self, level: usize) -> Vec<u8> {
        let grid = &self.levels[level].grid;
        let p = &grid.paging;
        let shape = |t: usize, c: usize, along: [usize; 3]| json!([t, c, along[2], along[1], along[0]]);
        let outer: [usize; 3] = std::array::from_fn(|a| grid.shard[a] * p.page[a]);
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape(self.steps, self.groups * self.components, p.dims),
            "data_type": self.voxel.name(),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape(1, self.components, outer)}},
            // All shards of a level in one folder, so that only one folder has to be made durable.
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": fill(self.voxel),
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": shape(1, self.components, p.page),
                "codecs": self.codec.metadata(self.voxel.size()),
                "index_codecs": [little, {"name": "crc32c"}],
                "index_location": "start"}}],
            "dimension_names": ["t", "c", "z", "y", "x"],
        })
        .to_string()
        .into_bytes()
    }
}

/// Never a plausible zero. A reader that does not recognize a deleted shard shows these values.
fn fill(voxel: VoxelType) -> Value {
    match voxel {
        VoxelType::Uint8 => json!(u8::MAX),
        VoxelType::Int8 => json!(i8::MIN),
        VoxelType::Uint16 => json!(u16::MAX),
        VoxelType::Int16 => json!(i16::MIN),
        VoxelType::Uint32 => json!(u32::MAX),
        VoxelType::Int32 => json!(i32::MIN),
        VoxelType::Uint64 => json!(u64::MAX),
        VoxelType::Int64 => json!(i64::MIN),
        VoxelType::Float32 | VoxelType::Float64 => json!("NaN"),
    }
}

/// The ranges of `pages` pages along i, j, k of a level's array, and their pyramid, finest first. Ranges of data that
/// are paged in place have the same form in the cache.
pub fn range_layouts(
    level: usize,
    group: usize,
    steps: usize,
    components: usize,
    pages: [usize; 3],
) -> Vec<ArrayLayout> {
    let mut dims = pages;
    let mut out = Vec::new();
    loop {
        let path = format!("_farfield/ranges_{level}_{group}_{}", out.len());
        out.push(ArrayLayout::limits(path, steps, components, dims));
        if dims == [1; 3] {
            return out;
        }
        dims = dims.map(|n| n.div_ceil(RANGE_STEP));
    }
}

//! Volumes in files with missing voxels: a stored number marks them, of any type, or NaN.

use field::volume::{
    ArraySpec, ChannelSpec, LevelSpec, PlaceSpec, Volume, VolumeKind, VolumeLevel, VolumeSpec, VoxelType,
};
use field::with_voxel;
use pager::source::simulated::{Simulated, Simulation};
use pager::{Pager, PagerConfig};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use testing::volumes::Formula;

/// The value of a voxel's component, if present, by (i, j, k).
pub type VoxelValues = fn([usize; 3], usize) -> Option<f64>;

/// A volume.
#[derive(Copy, Clone)]
pub struct Holed {
    pub dims: [usize; 3],
    pub components: usize,
    pub kind: VolumeKind,
    pub values: VoxelValues,
}

/// The type of its numbers, and the number for a missing value. NaN is not named in the file.
pub type StoredNumbers = (VoxelType, f64);

/// The layout in its file, and the reading conditions.
#[derive(Copy, Clone, Debug)]
pub struct HoleSetup {
    /// Voxels of a chunk along k, j, i; `None`: contiguous.
    pub chunk: Option<[usize; 3]>,
    pub limit: u64,
    /// Pages arrive late, in an order that follows from this.
    pub late: Option<u64>,
    /// Ranges of pages are known.
    pub ranges: bool,
}

pub struct OpenedVolume {
    pub pager: Arc<Pager>,
    pub level: VolumeLevel,
    folder: PathBuf,
}

impl Drop for OpenedVolume {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Holed {
    fn number(&self, (_, missing): StoredNumbers, at: [usize; 3], c: usize) -> f64 {
        (self.values)(at, c).unwrap_or(missing)
    }

    /// The bytes of a box of voxels, possibly beyond the end, big-endian.
    fn put(&self, stored: StoredNumbers, [low, high]: [[usize; 3]; 2], to: &mut Vec<u8>) {
        for k in low[2]..high[2] {
            for j in low[1]..high[1] {
                for i in low[0]..high[0] {
                    for c in 0..self.components {
                        let at = [i, j, k];
                        let inside = (0..3).all(|a| at[a] < self.dims[a]);
                        let v = if inside { self.number(stored, at, c) } else { 77.0 };
                        with_voxel!(stored.0, T => to.extend((v as T).to_be_bytes()));
                    }
                }
            }
        }
    }

    pub fn open(&self, stored: StoredNumbers, means: HoleSetup) -> OpenedVolume {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("farfield-holes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("volume.raw");
        let name = file.display().to_string();
        let (mut all, mut table) = (Vec::new(), Vec::new());
        let place = match means.chunk {
            None => {
                self.put(stored, [[0; 3], self.dims], &mut all);
                PlaceSpec::Contiguous { file: name.clone(), offset: 0 }
            }
            Some([ck, cj, ci]) => {
                let chunk = [ci, cj, ck];
                let n: [usize; 3] = std::array::from_fn(|a| self.dims[a].div_ceil(chunk[a]));
                for c in 0..n[0] * n[1] * n[2] {
                    let at = [c % n[0], c / n[0] % n[1], c / n[0] / n[1]];
                    let low: [usize; 3] = std::array::from_fn(|a| at[a] * chunk[a]);
                    let begun = all.len();
                    self.put(stored, [low, std::array::from_fn(|a| low[a] + chunk[a])], &mut all);
                    for word in [0, begun as u64, (all.len() - begun) as u64] {
                        table.extend_from_slice(&word.to_le_bytes());
                    }
                }
                PlaceSpec::Table { files: vec![name.clone()], table: 0 }
            }
        };
        std::fs::write(&file, &all).unwrap();
        let last = usize::from(self.components > 1);
        let with_components = |[i, j, k]: [usize; 3]| {
            let all = [k, j, i, self.components].map(|n| n as u64);
            all[..3 + last].to_vec()
        };
        let array = ArraySpec {
            name: "volume".into(),
            dtype: stored.0.name().into(),
            big_endian: true,
            shape: with_components(self.dims),
            axes: "zyxc"[..3 + last].into(),
            chunk: means.chunk.map(|[k, j, i]| with_components([i, j, k])),
            order: None,
            channels: (0..self.components).collect(),
            fill: None,
            codecs: Vec::new(),
            place,
        };
        let channel = |n: usize| ChannelSpec {
            missing: field::volume::Missing::one(stored.1),
            ..ChannelSpec::named(format!("c{n}"))
        };
        let spec = VolumeSpec {
            path: name,
            format: "test".into(),
            guessed: Vec::new(),
            kind: self.kind,
            channels: (0..self.components).map(channel).collect(),
            length_unit: "mm".into(),
            anatomy: None,
            direction: [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]],
            times: Vec::new(),
            time_units: "1".into(),
            levels: vec![LevelSpec {
                dims: self.dims.map(|n| n as u64),
                origin: [1.0, -2.0, 0.5],
                spacing: [0.5, 0.75, 0.6],
                arrays: vec![array],
            }],
            ranges: None,
            label_colors: Default::default(),
        };
        let pager = Pager::new(PagerConfig { limit: means.limit, ..PagerConfig::default() }).unwrap();
        let tables = if table.is_empty() { Vec::new() } else { vec![table] };
        let volume = Volume::open_through(spec, tables, &pager, &|source| match means.late {
            None => source,
            Some(seed) => {
                let latency = Duration::from_micros(20)..Duration::from_micros(900);
                let simulation = Simulation { seed, latency, depth: 3, shuffle: true, ..Simulation::default() };
                Arc::new(Simulated::new(std::fs::read(&file).unwrap(), simulation).unwrap())
            }
        });
        let mut level = volume.unwrap().levels[0].clone();
        if means.ranges {
            let array = &mut level.arrays[0];
            array.ranges = self.ranges(stored, &pager, array.brick.page);
            if let Some(valued) = &mut array.valued {
                valued.ranges.clone_from(&array.ranges);
            }
        }
        OpenedVolume { pager, level, folder }
    }

    /// Ranges of pages as known of files: of all stored numbers.
    fn ranges(&self, stored: StoredNumbers, pager: &Pager, page: [u32; 3]) -> Vec<field::volume::RangeLevel> {
        assert_eq!(self.components, 1);
        let own = *self;
        let value = move |x: [u32; 3]| own.number(stored, x.map(|n| n as usize), 0);
        let dims = self.dims.map(|n| n as u32);
        let f = Formula { name: "volume".into(), dims, page, voxel: stored.0, value: Arc::new(value) };
        f.level(pager, None, Some(f.ranges())).arrays[0].ranges.clone()
    }
}

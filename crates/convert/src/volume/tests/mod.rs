//! The expected values are computed voxel by voxel from the definition, by independent code.

mod wholes;

use super::*;
use crate::disk::Disk;
use field::catalog::ReadCounter;
use field::error::FieldError;
use field::store::codec::Codec;
use field::store::layout::ENTRY_BYTES;
use field::store::{Buffers, Validation};
use field::volume::store::{Downsample, VolumeLayout, VolumeRoot, VolumeStore};
use field::volume::{ChannelSpec, LevelSpec, Missing, VolumeKind, VolumeSpec, VoxelType};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::Arc;

/// A volume in memory: `[step][group][k][j][i][component]`.
struct MemoryVolume {
    dims: [usize; 3],
    groups: usize,
    voxel_bytes: usize,
    bytes: Vec<u8>,
    tally: ReadCounter,
}

impl VoxelRows for MemoryVolume {
    fn read_box(
        &self,
        step: usize,
        group: usize,
        points: &[Range<usize>; 3],
        out: &mut [u8],
    ) -> Result<(), FieldError> {
        let volume = self.dims.iter().product::<usize>() * self.voxel_bytes;
        let of = &self.bytes[(step * self.groups + group) * volume..][..volume];
        let mut n = 0;
        for k in points[2].clone() {
            for j in points[1].clone() {
                let at = ((k * self.dims[1] + j) * self.dims[0] + points[0].start) * self.voxel_bytes;
                let len = points[0].len() * self.voxel_bytes;
                out[n..n + len].copy_from_slice(&of[at..at + len]);
                n += len;
            }
        }
        assert_eq!(n, out.len());
        self.tally.add(out.len() as u64);
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

struct VolumeCase {
    kind: VolumeKind,
    voxel: VoxelType,
    dims: [usize; 3],
    spacing: [f64; 3],
    steps: usize,
    channels: usize,
    missing: Option<f64>,
    smooth: bool,
}

impl Default for VolumeCase {
    fn default() -> Self {
        Self {
            kind: VolumeKind::Scalar,
            voxel: VoxelType::Uint8,
            dims: [37, 29, 23],
            spacing: [1.0; 3],
            steps: 1,
            channels: 1,
            missing: None,
            smooth: false,
        }
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

impl VolumeCase {
    /// Numbers of every size that the type has, some NaN and infinite ones, some missing ones; or labels in lumps.
    fn input(&self) -> VolumeInput {
        let (groups, components) = field::volume::store::grouped(self.kind, self.channels);
        let count = self.steps * self.channels * self.dims.iter().product::<usize>();
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        let size = self.voxel.size();
        let mut bytes = Vec::with_capacity(count * size);
        for n in 0..count {
            let r = random(&mut seed);
            let word = match self.voxel {
                VoxelType::Float32 => {
                    let x = match r % 50 {
                        0 => f32::NAN,
                        1 => -0.0,
                        2 if n.is_multiple_of(7) => f32::INFINITY,
                        3 => self.missing.map_or(1.5, |m| m as f32),
                        _ => ((r >> 20) as f32 / 1e11 - 50.0) * if n < count / 2 { 1.0 } else { 1e30 },
                    };
                    u64::from(x.to_bits())
                }
                VoxelType::Float64 => {
                    let x = match r % 50 {
                        0 => f64::NAN,
                        1 => f64::MAX,
                        2 if n.is_multiple_of(7) => f64::NEG_INFINITY,
                        3 => self.missing.unwrap_or(1.5),
                        // Whole regions of NaN, and some with sums that overflow.
                        _ if n < count / 4 => f64::NAN,
                        _ if n < count / 2 => f64::MAX,
                        _ => (r >> 11) as f64 / 3.0,
                    };
                    x.to_bits()
                }
                _ if matches!(self.kind, VolumeKind::Labels) => {
                    if r.is_multiple_of(3) {
                        u64::MAX - r % 5
                    } else {
                        (n / 6 % 4) as u64
                    }
                }
                _ if self.smooth => (n / 100) as u64 % 100,
                _ => match (r % 9, self.missing) {
                    (0 | 1, Some(m)) => m as i64 as u64,
                    _ => r >> 3,
                },
            };
            bytes.extend_from_slice(&word.to_le_bytes()[..size]);
        }
        let channel = |n: usize| ChannelSpec {
            scale: (n == 0).then_some([0.5, -3.0]),
            missing: self.missing.map_or(Missing::none(), Missing::one),
            ..ChannelSpec::named(format!("c{n}"))
        };
        let spec = VolumeSpec {
            path: "memory".into(),
            format: "test".into(),
            guessed: vec!["nothing".into()],
            kind: self.kind,
            channels: (0..self.channels).map(channel).collect(),
            length_unit: "mm".into(),
            anatomy: Some("LPS".into()),
            direction: [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
            times: if self.steps == 1 { Vec::new() } else { (0..self.steps).map(|t| t as f64 * 0.1).collect() },
            time_units: "s".into(),
            levels: vec![LevelSpec {
                dims: self.dims.map(|n| n as u64),
                origin: [10.0, 20.0, 0.1],
                spacing: self.spacing,
                arrays: Vec::new(),
            }],
            ranges: None,
            label_colors: Default::default(),
        };
        let rows = MemoryVolume {
            dims: self.dims,
            groups,
            voxel_bytes: components * size,
            bytes,
            tally: ReadCounter::default(),
        };
        VolumeInput { rows: Arc::new(rows), spec, voxel: self.voxel, files: Vec::new(), folders: Vec::new() }
    }

    fn bytes(&self, input: &VolumeInput) -> Vec<u8> {
        let (groups, components) = field::volume::store::grouped(self.kind, self.channels);
        let volume = self.dims.iter().product::<usize>() * components * self.voxel.size();
        let mut bytes = vec![0; volume * groups * self.steps];
        for (n, out) in bytes.chunks_exact_mut(volume).enumerate() {
            input.rows.read_box(n / groups, n % groups, &self.dims.map(|d| 0..d), out).unwrap();
        }
        bytes
    }
}

/// With the limit of the options, or the least sufficient one.
fn convert_within(input: &VolumeInput, path: &Path, options: &VolumeOptions) -> VolumeReport {
    match convert(input, path, options, &free(), &mut |_| true) {
        Err(FieldError::LimitTooSmall { needs, .. }) => {
            let options = VolumeOptions { memory_limit: needs, ..options.clone() };
            convert(input, path, &options, &free(), &mut |_| true).unwrap()
        }
        done => done.unwrap(),
    }
}

fn free() -> impl Fn(u64) -> Result<Box<dyn Any>, FieldError> {
    |_| Ok(Box::new(()))
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("ff-volume-{name}-{}", std::process::id()));
    let _gone = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A level of a group at a step as stored: `[k][j][i][component]`.
fn stored(store: &VolumeStore, level: usize, step: usize, group: usize) -> Vec<u8> {
    let l = &store.layout;
    let grid = &l.levels[level].grid;
    let p = &grid.paging;
    let (nc, size) = (l.components, l.voxel.size());
    let mut out = vec![0u8; p.dims.iter().product::<usize>() * nc * size];
    for shard in 0..grid.count() {
        let file = std::fs::read(store.path.join(l.shard_path(level, step, group, shard))).unwrap();
        for slot in 0..grid.slots() {
            let Some(at) = grid.page_at(shard, slot) else { continue };
            let word = |n: usize| u64::from_le_bytes(file[slot * ENTRY_BYTES + n..][..8].try_into().unwrap()) as usize;
            let mut page = vec![0; l.page_bytes(level)];
            l.codec.decode(size, &file[word(0)..word(0) + word(8)], &mut page).unwrap();
            let e = p.extent(at);
            for c in 0..nc {
                for (k, z) in e[2].clone().enumerate() {
                    for (j, y) in e[1].clone().enumerate() {
                        for (i, x) in e[0].clone().enumerate() {
                            let from = (((c * p.page[2] + k) * p.page[1] + j) * p.page[0] + i) * size;
                            let to = (((z * p.dims[1] + y) * p.dims[0] + x) * nc + c) * size;
                            out[to..to + size].copy_from_slice(&page[from..from + size]);
                        }
                    }
                }
            }
        }
    }
    out
}

/// A number in the test's arithmetic: integers exactly.
#[derive(Copy, Clone, PartialEq, PartialOrd, Debug)]
enum Exact {
    Whole(i128),
    Real(f64),
}

fn exact(voxel: VoxelType, b: &[u8]) -> Exact {
    let mut w = [0; 8];
    w[..b.len()].copy_from_slice(b);
    let u = u64::from_le_bytes(w);
    match voxel {
        VoxelType::Float32 => Exact::Real(f64::from(f32::from_bits(u as u32))),
        VoxelType::Float64 => Exact::Real(f64::from_bits(u)),
        VoxelType::Int8 => Exact::Whole(i128::from(u as i8)),
        VoxelType::Int16 => Exact::Whole(i128::from(u as i16)),
        VoxelType::Int32 => Exact::Whole(i128::from(u as i32)),
        VoxelType::Int64 => Exact::Whole(i128::from(u as i64)),
        _ => Exact::Whole(i128::from(u)),
    }
}

fn back(voxel: VoxelType, x: Exact) -> Vec<u8> {
    match (voxel, x) {
        (VoxelType::Float32, Exact::Real(x)) => (x as f32).to_le_bytes().to_vec(),
        (_, Exact::Real(x)) => x.to_le_bytes().to_vec(),
        (v, Exact::Whole(n)) => (n as u64).to_le_bytes()[..v.size()].to_vec(),
    }
}

/// The coarse voxel of some voxels in the order i, j, k.
fn one(how: Downsample, missing: Option<f64>, all: &[Exact]) -> Exact {
    let first = all[0];
    let is_missing = |x: &Exact| match (x, missing) {
        (Exact::Real(x), Some(m)) => *x == m,
        (Exact::Whole(n), Some(m)) => *n as f64 == m,
        _ => false,
    };
    let number = |x: &&Exact| !matches!(x, Exact::Real(x) if x.is_nan());
    match how {
        Downsample::Nearest => first,
        Downsample::Majority => {
            let there: Vec<Exact> = all.iter().filter(number).copied().collect();
            let count = |x: &Exact| there.iter().filter(|y| *y == x).count();
            let most = there.iter().map(count).max().unwrap_or(0);
            let best = there.iter().filter(|x| count(x) == most).copied();
            best.fold(None, |b: Option<Exact>, x| Some(b.map_or(x, |b| if x < b { x } else { b }))).unwrap_or(first)
        }
        Downsample::Mean => {
            let there: Vec<Exact> = all.iter().filter(number).filter(|x| !is_missing(x)).copied().collect();
            let n = there.len() as i128;
            match there.first() {
                None => first,
                Some(Exact::Whole(_)) => {
                    let sum: i128 = there.iter().map(|x| if let Exact::Whole(n) = x { *n } else { 0 }).sum();
                    let (q, r) = (sum.div_euclid(n), sum.rem_euclid(n));
                    let up = 2 * r > n || (2 * r == n && q.rem_euclid(2) == 1);
                    Exact::Whole(q + i128::from(up))
                }
                Some(Exact::Real(_)) => {
                    let real = |x: &Exact| if let Exact::Real(x) = x { *x } else { 0.0 };
                    let sum: f64 = there.iter().map(real).sum();
                    let mean = sum / n as f64;
                    let eighths = || there.iter().map(|x| real(x) / 8.0).sum::<f64>() * (8.0 / n as f64);
                    let mean = if mean.is_finite() { mean } else { eighths() };
                    Exact::Real(mean)
                }
            }
        }
    }
}

/// The next level of one group.
fn coarser(
    c: &VolumeCase,
    how: Downsample,
    nc: usize,
    fine: &[u8],
    from: &[usize; 3],
    to: &[usize; 3],
    step: &[usize; 3],
) -> Vec<Exact> {
    let size = c.voxel.size();
    let mut out = Vec::new();
    for z in 0..to[2] {
        for y in 0..to[1] {
            for x in 0..to[0] {
                for comp in 0..nc {
                    let mut all = Vec::new();
                    for k in z * step[2]..((z + 1) * step[2]).min(from[2]) {
                        for j in y * step[1]..((y + 1) * step[1]).min(from[1]) {
                            for i in x * step[0]..((x + 1) * step[0]).min(from[0]) {
                                let at = (((k * from[1] + j) * from[0] + i) * nc + comp) * size;
                                all.push(exact(c.voxel, &fine[at..at + size]));
                            }
                        }
                    }
                    out.push(one(how, c.missing, &all));
                }
            }
        }
    }
    out
}

/// Integers and medians to the bit; other means up to the order of summation.
fn near(voxel: VoxelType, have: Exact, want: Exact) -> bool {
    match (have, want) {
        (Exact::Real(a), Exact::Real(b)) => {
            let eps = if matches!(voxel, VoxelType::Float32) { 1e-7 } else { 1e-15 };
            a == b
                || a.is_nan() && b.is_nan()
                || (a - b).abs() <= eps * b.abs().max(a.abs()) * 4.0
                || cancelled(voxel, a, b)
        }
        (a, b) => a == b,
    }
}

/// A sum of numbers of unlike signs may cancel.
fn cancelled(voxel: VoxelType, a: f64, b: f64) -> bool {
    matches!(voxel, VoxelType::Float32) && (a - b).abs() < 1e-12
        || matches!(voxel, VoxelType::Float64) && (a - b).abs() < 8.0
}

fn check_levels(c: &VolumeCase, options: &VolumeOptions, name: &str) -> VolumeStore {
    let dir = folder(name);
    let input = c.input();
    let path = dir.join("v.zarr");
    convert_within(&input, &path, options);
    assert!(VolumeStore::is_volume(&path));
    let store = VolumeStore::open(&path).unwrap();
    let how = options.downsample.unwrap_or(Downsample::of(c.kind));
    let bytes = c.bytes(&input);
    let (groups, nc) = (store.layout.groups, store.layout.components);
    let volume = bytes.len() / groups / c.steps;
    for step in 0..c.steps {
        for group in 0..groups {
            let mut fine = bytes[(step * groups + group) * volume..][..volume].to_vec();
            assert!(stored(&store, 0, step, group) == fine, "{name}: the finest level");
            for n in 1..store.layout.levels.len() {
                let (a, b) = (&store.layout.levels[n - 1].shape, &store.layout.levels[n].shape);
                let want = coarser(c, how, nc, &fine, &a.dims, &b.dims, &a.step_to(b));
                let have = stored(&store, n, step, group);
                let size = c.voxel.size();
                assert_eq!(have.len(), want.len() * size);
                for (at, (h, w)) in have.chunks_exact(size).zip(&want).enumerate() {
                    let got = exact(c.voxel, h);
                    assert!(near(c.voxel, got, *w), "{name}: level {n}, {at}: {got:?}, not {w:?}");
                    if let Exact::Whole(_) = w {
                        assert_eq!(h, back(c.voxel, *w));
                    }
                }
                // The stored level is the input of the next check.
                fine = have;
            }
            check_ranges(c, &store, step, group);
        }
    }
    let found = validate(&store);
    assert!(found.is_ok(), "{name}: {:?}", found.problems);
    let _gone = std::fs::remove_dir_all(&dir);
    store
}

fn validate(store: &VolumeStore) -> Validation {
    let checked = store.checked();
    let (mut found, mut seals) = (Validation::default(), Vec::new());
    for id in checked.shards() {
        let (of, seal) = checked.check_shard(id, &mut Buffers::new(1 << 16), &mut |_| true).unwrap();
        found.add(of);
        seals.push(seal);
    }
    checked.conclude(&seals, &mut found).unwrap();
    found
}

/// Ranges are those of the pages and of the layer behind them, as tight as single precision allows, and of 8x8x8 of
/// them.
fn check_ranges(c: &VolumeCase, store: &VolumeStore, step: usize, group: usize) {
    let nc = store.layout.components;
    for (number, level) in store.layout.levels.iter().enumerate() {
        let values = stored(store, number, step, group);
        let p = &level.grid.paging;
        let size = c.voxel.size();
        let mut before: Option<([usize; 3], Vec<f32>)> = None;
        for layout in &level.ranges[group] {
            let dims = layout.grid.paging.dims;
            let have = read_ranges(store, layout, step);
            let mut want = Vec::new();
            for z in 0..dims[2] {
                for y in 0..dims[1] {
                    for x in 0..dims[0] {
                        for comp in 0..nc {
                            let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
                            if let Some((d, before)) = &before {
                                let part = |n: usize, a: usize| n * 8..(n * 8 + 8).min(d[a]);
                                for k in part(z, 2) {
                                    for j in part(y, 1) {
                                        for i in part(x, 0) {
                                            let at = (((k * d[1] + j) * d[0] + i) * nc + comp) * 2;
                                            low = low.min(before[at]);
                                            high = high.max(before[at + 1]);
                                        }
                                    }
                                }
                            } else {
                                let part =
                                    |n: usize, a: usize| n * p.page[a]..(n * p.page[a] + p.page[a] + 1).min(p.dims[a]);
                                for k in part(z, 2) {
                                    for j in part(y, 1) {
                                        for i in part(x, 0) {
                                            let at = (((k * p.dims[1] + j) * p.dims[0] + i) * nc + comp) * size;
                                            let (a, b) = outward(exact(c.voxel, &values[at..at + size]));
                                            if a <= b {
                                                low = low.min(a);
                                                high = high.max(b);
                                            }
                                        }
                                    }
                                }
                            }
                            want.extend([low, high]);
                        }
                    }
                }
            }
            assert_eq!(have, want, "level {number}, {}", layout.path);
            before = Some((dims, have));
        }
    }
}

/// The tightest limits in single precision; NaN: none.
fn outward(x: Exact) -> (f32, f32) {
    match x {
        Exact::Real(x) if x.is_nan() => (1.0, 0.0),
        Exact::Real(x) => {
            let n = x as f32;
            let (low, high) =
                (if f64::from(n) > x { n.next_down() } else { n }, if f64::from(n) < x { n.next_up() } else { n });
            (low, high)
        }
        Exact::Whole(x) => {
            let n = x as f32;
            (if n as i128 > x { n.next_down() } else { n }, if (n as i128) < x { n.next_up() } else { n })
        }
    }
}

fn read_ranges(store: &VolumeStore, layout: &field::store::layout::ArrayLayout, step: usize) -> Vec<f32> {
    let p = &layout.grid.paging;
    let nc = layout.components();
    let mut out = vec![f32::NAN; p.dims.iter().product::<usize>() * nc];
    for shard in 0..layout.grid.count() {
        let file = std::fs::read(store.path.join(layout.shard_path(step, shard))).unwrap();
        for slot in 0..layout.grid.slots() {
            let Some(at) = layout.grid.page_at(shard, slot) else { continue };
            let word = |n: usize| u64::from_le_bytes(file[slot * ENTRY_BYTES + n..][..8].try_into().unwrap()) as usize;
            let mut page = vec![0; layout.page_bytes()];
            layout.codec.decode(4, &file[word(0)..word(0) + word(8)], &mut page).unwrap();
            let e = p.extent(at);
            for c in 0..nc {
                for (k, z) in e[2].clone().enumerate() {
                    for (j, y) in e[1].clone().enumerate() {
                        for (i, x) in e[0].clone().enumerate() {
                            let from = (((c * p.page[2] + k) * p.page[1] + j) * p.page[0] + i) * 4;
                            out[((z * p.dims[1] + y) * p.dims[0] + x) * nc + c] =
                                f32::from_le_bytes(page[from..from + 4].try_into().unwrap());
                        }
                    }
                }
            }
        }
    }
    out
}

fn all_files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                out.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    out
}

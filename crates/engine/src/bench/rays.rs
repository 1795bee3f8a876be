//! Volumes in memory for experiments with rays: a made one like a tomogram, and any array cut in pages.

use field::translate::Translation;
use field::volume::{Brick, Placement, RangeLevel, VolumeArray, VolumeLevel, Voxel, VoxelType, BLOCK};
use field::with_voxel;
use pager::{Located, PageError, PageErrorKind, PageId, PageMap, Pager};
use std::sync::Arc;

/// A volume as one array in memory, `[k][j][i][component]`.
#[derive(Clone, Debug)]
pub struct WholeVolume {
    /// Voxels along i, j, k.
    pub dims: [u32; 3],
    /// Numbers a voxel.
    pub components: usize,
    /// Their type.
    pub voxel: VoxelType,
    /// Native byte order.
    pub bytes: Vec<u8>,
}

impl WholeVolume {
    /// Of numbers of any type.
    pub fn of<T: Voxel>(dims: [u32; 3], components: usize, values: &[T]) -> Self {
        // SAFETY: numbers without padding, read as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        Self { dims, components, voxel: T::TYPE, bytes: bytes.to_vec() }
    }

    /// Something like a tomogram of `n`^3 bytes: a body with soft parts, hard shells, speckle, and air with noise around it. About two
    /// fifths of the voxels are above 75.
    pub fn tomogram(n: u32) -> Self {
        let count = n as usize;
        let mut bytes = vec![0u8; count * count * count];
        let scale = 2.0 / (n as f32 - 1.0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let planes = count.div_ceil(threads);
        std::thread::scope(|scope| {
            for (part, chunk) in bytes.chunks_mut(planes * count * count).enumerate() {
                scope.spawn(move || {
                    for (n, row) in chunk.chunks_exact_mut(count).enumerate() {
                        let (k, j) = (part * planes + n / count, n % count);
                        tomogram_row(row, j, k, scale);
                    }
                });
            }
        });
        Self { dims: [n; 3], components: 1, voxel: VoxelType::Uint8, bytes }
    }

    /// The frame of a page of this volume.
    pub fn frame(&self, t: &Translation, brick: &Brick, page: u64, frame: &mut [u8]) {
        let (first, inside) = t.extent(page);
        let size = brick.voxel.size() * brick.components;
        let [ni, nj, _] = self.dims.map(|n| n as usize);
        let p = brick.page.map(|n| n as usize);
        for k in 0..inside[2] as usize {
            for j in 0..inside[1] as usize {
                let from = ((first[2] as usize + k) * nj + first[1] as usize + j) * ni + first[0] as usize;
                let to = ((k * p[1]) + j) * p[0];
                let len = inside[0] as usize * size;
                frame[to * size..to * size + len].copy_from_slice(&self.bytes[from * size..from * size + len]);
            }
        }
        with_voxel!(brick.voxel, T => block_ranges::<T>(brick, inside, frame));
    }

    /// A level of pages of it, each made when it is asked for. Lies at the origin with voxels one apart.
    pub fn level(self: &Arc<Self>, pager: &Arc<Pager>, page: [u32; 3]) -> VolumeLevel {
        let pager_of = |map: InMemory| pager.add_array(Arc::new(map));
        self.level_of(page, &mut |frames| pager_of(InMemory { frames }))
    }

    /// The same with arrays added by `add`.
    pub fn level_of(
        self: &Arc<Self>,
        page: [u32; 3],
        add: &mut dyn FnMut(Frames) -> pager::id::ArrayId,
    ) -> VolumeLevel {
        let page: [u32; 3] = core::array::from_fn(|a| page[a].min(self.dims[a]));
        let translation = Translation::new(self.dims.map(|n| n as usize), page.map(|n| n as usize));
        let brick = Brick { page, components: self.components, voxel: self.voxel };
        let voxels = Frames::Voxels(self.clone(), translation, brick);
        let mut ranges = Vec::new();
        let (mut along, mut table) = (translation.pages, self.page_ranges(&translation));
        loop {
            let cut: [u32; 3] = core::array::from_fn(|a| along[a].min(8));
            let t = Translation::new(along.map(|n| n as usize), cut.map(|n| n as usize));
            let id = add(Frames::Ranges(t, self.components, Arc::new(table.clone())));
            ranges.push(RangeLevel { id, translation: t });
            if along == [1; 3] {
                break;
            }
            (along, table) = coarser(along, self.components, &table);
        }
        let array = VolumeArray {
            name: "made".into(),
            id: add(voxels),
            translation,
            brick,
            channels: (0..self.components).collect(),
            steady: true,
            ranges,
        };
        let placement = Placement { origin: [0.0; 3], axes: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] };
        VolumeLevel { dims: self.dims, placement, arrays: vec![array] }
    }

    /// Of each page and component, lowest and highest of its voxels and of the layer that follows.
    fn page_ranges(&self, t: &Translation) -> Vec<[f32; 2]> {
        with_voxel!(self.voxel, T => {
            let mut out = Vec::new();
            for page in 0..t.count() {
                let (first, inside) = t.extent(page);
                let last: [u32; 3] = core::array::from_fn(|a| (first[a] + inside[a]).min(self.dims[a] - 1));
                let mut of = vec![[f32::INFINITY, f32::NEG_INFINITY]; self.components];
                for k in first[2]..=last[2] {
                    for j in first[1]..=last[1] {
                        let row = (k as usize * self.dims[1] as usize + j as usize) * self.dims[0] as usize;
                        let (a, b) = ((row + first[0] as usize) * self.components, (row + last[0] as usize + 1) * self.components);
                        // SAFETY: a row of the array, which holds numbers of this type.
                        let row = unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast::<T>().add(a), b - a) };
                        for (n, v) in row.iter().enumerate() {
                            let r = &mut of[n % self.components];
                            let (low, high) = outward(v.to_f64());
                            *r = [r[0].min(low), r[1].max(high)];
                        }
                    }
                }
                out.append(&mut of);
            }
            out
        })
    }
}

/// Single precision at or below, and at or above.
fn outward(v: f64) -> (f32, f32) {
    let near = v as f32;
    let (low, high) = (f64::from(near) > v, f64::from(near) < v);
    (if low { near.next_down() } else { near }, if high { near.next_up() } else { near })
}

fn coarser(along: [u32; 3], components: usize, fine: &[[f32; 2]]) -> ([u32; 3], Vec<[f32; 2]>) {
    let to = along.map(|n| n.div_ceil(8));
    let mut out = vec![[f32::INFINITY, f32::NEG_INFINITY]; to.iter().product::<u32>() as usize * components];
    for (n, r) in fine.iter().enumerate() {
        let (c, n) = (n % components, (n / components) as u32);
        let at = [n % along[0] / 8, n / along[0] % along[1] / 8, n / along[0] / along[1] / 8];
        let o = &mut out[((at[2] * to[1] + at[1]) * to[0] + at[0]) as usize * components + c];
        *o = [o[0].min(r[0]), o[1].max(r[1])];
    }
    (to, out)
}

fn block_ranges<T: Voxel>(brick: &Brick, inside: [u32; 3], frame: &mut [u8]) {
    let (voxels, ranges) = frame.split_at_mut(brick.ranges_at());
    // SAFETY: frames are aligned for every type, and have what the brick says.
    let (v, r) = unsafe {
        (
            core::slice::from_raw_parts(voxels.as_ptr().cast::<T>(), brick.voxels() * brick.components),
            core::slice::from_raw_parts_mut(ranges.as_mut_ptr().cast::<T>(), ranges.len() / size_of::<T>()),
        )
    };
    let blocks = brick.blocks();
    let p = brick.page.map(|n| n as usize);
    let n = inside.map(|n| n as usize);
    let mut at = 0;
    for bk in 0..blocks[2] {
        for bj in 0..blocks[1] {
            for bi in 0..blocks[0] {
                let ends: [core::ops::Range<usize>; 3] = core::array::from_fn(|a| {
                    let b = [bi, bj, bk][a] * BLOCK;
                    b..(b + BLOCK + 1).min(n[a])
                });
                for c in 0..brick.components {
                    let mut of: Option<(T, T)> = None;
                    for k in ends[2].clone() {
                        for j in ends[1].clone() {
                            for i in ends[0].clone() {
                                let x = v[((k * p[1] + j) * p[0] + i) * brick.components + c];
                                if x.partial_cmp(&x).is_some() {
                                    let (low, high) = of.unwrap_or((x, x));
                                    of = Some((if x < low { x } else { low }, if x > high { x } else { high }));
                                }
                            }
                        }
                    }
                    // Only floating point has blocks without numbers; padding has them too, and is never asked of.
                    if let Some(ends) = of {
                        (r[at], r[at + 1]) = ends;
                    } else {
                        nothing(brick.voxel, &mut r[at..at + 2]);
                    }
                    at += 2;
                }
            }
        }
    }
}

/// A range without numbers: infinite from above to below; 1 to 0 for integers.
fn nothing<T: Voxel>(voxel: VoxelType, of: &mut [T]) {
    let size = size_of::<T>();
    // SAFETY: two numbers without padding.
    let bytes = unsafe { core::slice::from_raw_parts_mut(of.as_mut_ptr().cast::<u8>(), 2 * size) };
    match voxel {
        VoxelType::Float32 => {
            bytes[..4].copy_from_slice(&f32::INFINITY.to_ne_bytes());
            bytes[4..].copy_from_slice(&f32::NEG_INFINITY.to_ne_bytes());
        }
        VoxelType::Float64 => {
            bytes[..8].copy_from_slice(&f64::INFINITY.to_ne_bytes());
            bytes[8..].copy_from_slice(&f64::NEG_INFINITY.to_ne_bytes());
        }
        _ => {
            bytes.fill(0);
            bytes[if cfg!(target_endian = "little") { 0 } else { size - 1 }] = 1;
        }
    }
}

/// What the pages of an array are made of.
#[derive(Clone)]
pub enum Frames {
    /// Voxels of a volume and ranges of blocks.
    Voxels(Arc<WholeVolume>, Translation, Brick),
    /// Ranges of pages.
    Ranges(Translation, usize, Arc<Vec<[f32; 2]>>),
}

impl Frames {
    /// Pages.
    pub fn count(&self) -> u64 {
        match self {
            Self::Voxels(_, t, _) | Self::Ranges(t, ..) => t.count(),
        }
    }

    /// Bytes of a page.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Voxels(_, _, brick) => brick.bytes(),
            Self::Ranges(t, components, _) => t.component * components * 8,
        }
    }

    /// Makes a page.
    pub fn make(&self, page: u64, frame: &mut [u8]) {
        match self {
            Self::Voxels(whole, t, brick) => whole.frame(t, brick, page, frame),
            Self::Ranges(t, components, table) => {
                let (first, inside) = t.extent(page);
                for k in 0..inside[2] {
                    for j in 0..inside[1] {
                        for i in 0..inside[0] {
                            let at = [first[0] + i, first[1] + j, first[2] + k];
                            let n = (at[2] * t.dims[1] + at[1]) * t.dims[0] + at[0];
                            let to = t.node(at).element;
                            for c in 0..*components {
                                let r = table[n as usize * components + c];
                                let b = (to * components + c) * 8;
                                frame[b..b + 4].copy_from_slice(&r[0].to_ne_bytes());
                                frame[b + 4..b + 8].copy_from_slice(&r[1].to_ne_bytes());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Pages that are made of what is in memory.
struct InMemory {
    frames: Frames,
}

impl PageMap for InMemory {
    fn name(&self) -> &str {
        "made"
    }
    fn pages(&self) -> u64 {
        self.frames.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.frames.bytes()
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Fill
    }
    fn decode(&self, page: PageId, _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        let what = format!("made page {}", page.page);
        Err(PageError::new(what, PageErrorKind::Decode("nothing of it is read".into())))
    }
    fn fill(&self, page: PageId, frame: &mut [u8]) {
        self.frames.make(page.page, frame);
    }
    fn checked(&self) -> bool {
        true
    }
}

fn tomogram_row(row: &mut [u8], j: usize, k: usize, scale: f32) {
    let (y, z) = (j as f32 * scale - 1.0, k as f32 * scale - 1.0);
    let mut random = ((j as u64) << 32 | k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let (sy, sz) = ((9.0 * y).sin(), (8.0 * z + 1.0).sin());
    for (i, v) in row.iter_mut().enumerate() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Two of them, so that noise is near a bell.
        let noise = ((random >> 40) as u8 as f32 + (random >> 48) as u8 as f32) / 255.0 - 1.0;
        let x = i as f32 * scale - 1.0;
        let r = (x * x * 1.0 + y * y * 1.25 + z * z * 1.05).sqrt();
        let mut value = 18.0 + 14.0 * noise;
        if r < 0.97 {
            let soft = (7.0 * x + 2.0 * sy).sin() * sz + 0.5 * (15.0 * x * y + 6.0 * z).sin();
            value = 80.0 + 24.0 * soft + 9.0 * noise;
            // Hard shells within, with holes.
            let hard = (r - 0.72).abs() < 0.02 || ((x.abs() - 0.35).powi(2) + y * y + z * z * 0.3).sqrt() - 0.18 < 0.03;
            let hole = (5.0 * x).sin() * (6.0 * z).cos() > 0.35;
            let cave = ((x.abs() - 0.35).powi(2) + y * y + z * z * 0.3).sqrt() < 0.17;
            if cave {
                value = 40.0 + 12.0 * noise;
            } else if hard && !hole {
                value = 205.0 + 22.0 * noise;
            }
            if r > 0.955 {
                value = 96.0 + 12.0 * noise;
            }
        }
        *v = value.clamp(0.0, 255.0) as u8;
    }
}

//! Volumes from formulas, made page by page on request.

use field::error::FieldError;
use field::translate::Translation;
use field::volume::{Brick, Placement, RangeLevel, VolumeArray, VolumeLevel, Voxel, VoxelType, BLOCK};
use field::with_voxel;
use pager::error::PageError;
use pager::id::{PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use pager::Pager;
use std::sync::Arc;

/// The value at a voxel.
pub type Value = dyn Fn([u32; 3]) -> f64 + Send + Sync;

/// A scalar volume from a formula.
#[derive(Clone)]
pub struct Formula {
    /// Its name in errors.
    pub name: String,
    /// Voxels along i, j, k.
    pub dims: [u32; 3],
    /// Voxels of a page along i, j, k.
    pub page: [u32; 3],
    /// Their type. Values are cast to it.
    pub voxel: VoxelType,
    /// The formula.
    pub value: Arc<Value>,
}

/// A number of a type, as its bytes, from the nearest double.
fn to_bytes(voxel: VoxelType, v: f64, out: &mut [u8]) {
    match voxel {
        VoxelType::Uint8 => out.copy_from_slice(&(v as u8).to_ne_bytes()),
        VoxelType::Int8 => out.copy_from_slice(&(v as i8).to_ne_bytes()),
        VoxelType::Uint16 => out.copy_from_slice(&(v as u16).to_ne_bytes()),
        VoxelType::Int16 => out.copy_from_slice(&(v as i16).to_ne_bytes()),
        VoxelType::Uint32 => out.copy_from_slice(&(v as u32).to_ne_bytes()),
        VoxelType::Int32 => out.copy_from_slice(&(v as i32).to_ne_bytes()),
        VoxelType::Uint64 => out.copy_from_slice(&(v as u64).to_ne_bytes()),
        VoxelType::Int64 => out.copy_from_slice(&(v as i64).to_ne_bytes()),
        VoxelType::Float32 => out.copy_from_slice(&(v as f32).to_ne_bytes()),
        VoxelType::Float64 => out.copy_from_slice(&v.to_ne_bytes()),
    }
}

/// A number of a type as the nearest double.
fn from_bytes(voxel: VoxelType, bytes: &[u8]) -> f64 {
    fn read<T: Voxel>(bytes: &[u8]) -> f64 {
        // SAFETY: every bit pattern is a number, and the slice has the length of one.
        unsafe { core::ptr::read_unaligned(bytes[..size_of::<T>()].as_ptr().cast::<T>()) }.to_f64()
    }
    with_voxel!(voxel, T => read::<T>(bytes))
}

impl Formula {
    /// Its division into pages.
    pub fn translation(&self) -> Translation {
        Translation::new(self.dims.map(|n| n as usize), self.page.map(|n| n as usize))
    }

    /// The layout of its frames.
    pub fn brick(&self) -> Brick {
        Brick { page: self.page, components: 1, voxel: self.voxel }
    }

    /// Writes the frame of a page.
    pub fn frame(&self, page: u64, frame: &mut [u8]) {
        let (t, brick, size) = (self.translation(), self.brick(), self.voxel.size());
        let (first, inside) = t.extent(page);
        let [pi, pj, _] = self.page.map(|n| n as usize);
        for k in 0..inside[2] {
            for j in 0..inside[1] {
                let row = (k as usize * pj + j as usize) * pi;
                for i in 0..inside[0] {
                    let v = (self.value)([first[0] + i, first[1] + j, first[2] + k]);
                    to_bytes(self.voxel, v, &mut frame[(row + i as usize) * size..][..size]);
                }
            }
        }
        let blocks = brick.blocks();
        let mut at = brick.ranges_at();
        for bk in 0..blocks[2] {
            for bj in 0..blocks[1] {
                for bi in 0..blocks[0] {
                    let lo = [bi, bj, bk].map(|b| b * BLOCK);
                    let hi: [usize; 3] = core::array::from_fn(|a| (lo[a] + BLOCK + 1).min(inside[a] as usize));
                    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
                    for k in lo[2]..hi[2] {
                        for j in lo[1]..hi[1] {
                            for i in lo[0]..hi[0] {
                                let v = from_bytes(self.voxel, &frame[((k * pj + j) * pi + i) * size..]);
                                (low, high) = (low.min(v), high.max(v));
                            }
                        }
                    }
                    for v in [low, high] {
                        to_bytes(self.voxel, v, &mut frame[at..at + size]);
                        at += size;
                    }
                }
            }
        }
    }

    /// Lowest and highest values of all pages, as [`RangeLevel`] stores them.
    pub fn ranges(&self) -> Vec<[f32; 2]> {
        let t = self.translation();
        let size = self.voxel.size();
        let mut number = [0u8; 8];
        let each = (0..t.count()).map(|page| {
            let (first, inside) = t.extent(page);
            let end: [u32; 3] = core::array::from_fn(|a| (first[a] + inside[a] + 1).min(self.dims[a]));
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            for k in first[2]..end[2] {
                for j in first[1]..end[1] {
                    for i in first[0]..end[0] {
                        to_bytes(self.voxel, (self.value)([i, j, k]), &mut number[..size]);
                        let v = from_bytes(self.voxel, &number);
                        (low, high) = (low.min(v), high.max(v));
                    }
                }
            }
            let (mut range, outward) = ([low as f32, high as f32], [f64::from(low as f32), f64::from(high as f32)]);
            if outward[0] > low {
                range[0] = range[0].next_down();
            }
            if outward[1] < high {
                range[1] = range[1].next_up();
            }
            range
        });
        each.collect()
    }

    /// A level with frames made on request, or stored consecutively in a source, and with ranges if given.
    pub fn level(&self, pager: &Pager, source: Option<SourceId>, ranges: Option<Vec<[f32; 2]>>) -> VolumeLevel {
        let t = self.translation();
        let ranges = ranges.map(|of| {
            let entries = Translation::new(t.pages.map(|n| n as usize), t.pages.map(|n| n.min(16) as usize));
            let map = RangePages { name: format!("{}/ranges", self.name), entries, ranges: of };
            RangeLevel { id: pager.add_array(Arc::new(map)), translation: entries }
        });
        let pages = BrickPages { formula: self.clone(), translation: t, source };
        let array = VolumeArray {
            name: self.name.clone(),
            id: pager.add_array(Arc::new(pages)),
            translation: t,
            brick: self.brick(),
            channels: vec![0],
            steady: true,
            ranges: ranges.into_iter().collect(),
            missing: Vec::new(),
            valued: None,
            vacant: None,
            shards: None,
            row_group: None,
        };
        let axes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        VolumeLevel { dims: self.dims, placement: Placement { origin: [0.0; 3], axes }, arrays: vec![array] }
    }
}

/// The volume of a scene: `balls`, a small one every 64 voxels, so that every page is crossed; `ball`, a large one.
///
/// # Errors
/// [`FieldError::Usage`] for an unknown scene.
pub fn scene(name: &str, edge: u32, page: u32, voxel: VoxelType) -> Result<Formula, FieldError> {
    let scale = match voxel {
        VoxelType::Uint16 => 256.0,
        _ => 1.0,
    };
    let round = move |v: f64| if voxel == VoxelType::Float32 { v } else { v.round() };
    let value: Arc<Value> = match name {
        "balls" => {
            let wave = |n: u32| 28.0 * (f64::from(n) * std::f64::consts::TAU / 64.0 + 0.3).cos();
            let rows: Arc<[f64]> = (0..edge).map(|n| wave(n) + 14.0 * (f64::from(n) * 0.0123).sin()).collect();
            Arc::new(move |[i, j, k]| round(scale * (127.0 + rows[i as usize] + rows[j as usize] + rows[k as usize])))
        }
        "ball" => {
            let middle = f64::from(edge) * 0.47;
            let squares: Arc<[f64]> = (0..edge).map(|n| (f64::from(n) - middle).powi(2)).collect();
            let most = f64::from(edge);
            Arc::new(move |[i, j, k]| {
                let r = (squares[i as usize] + squares[j as usize] + squares[k as usize]).sqrt();
                round(scale * 255.0 * (1.0 - r / most).max(0.0))
            })
        }
        _ => return Err(FieldError::Usage(format!("there is no scene '{name}'; there are balls and ball"))),
    };
    Ok(Formula { name: name.to_owned(), dims: [edge; 3], page: [page; 3], voxel, value })
}

struct BrickPages {
    formula: Formula,
    translation: Translation,
    source: Option<SourceId>,
}

impl PageMap for BrickPages {
    fn name(&self) -> &str {
        &self.formula.name
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.formula.brick().bytes()
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let Some(source) = self.source else { return Located::Fill };
        let len = self.page_bytes(id);
        let segment = Extent { source, offset: id.page * len as u64, len, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![segment], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, id: PageId, frame: &mut [u8]) {
        self.formula.frame(id.page, frame);
    }
    fn checked(&self) -> bool {
        false
    }
}

struct RangePages {
    name: String,
    entries: Translation,
    ranges: Vec<[f32; 2]>,
}

impl PageMap for RangePages {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.entries.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.entries.component * 8
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Fill
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, id: PageId, frame: &mut [u8]) {
        let t = &self.entries;
        let (first, inside) = t.extent(id.page);
        for k in 0..inside[2] {
            for j in 0..inside[1] {
                for i in 0..inside[0] {
                    let at = [first[0] + i, first[1] + j, first[2] + k].map(|n| n as usize);
                    let [ni, nj, _] = t.dims.map(|n| n as usize);
                    let range = self.ranges[(at[2] * nj + at[1]) * ni + at[0]];
                    let place = t.node(at.map(|n| n as u32)).element * 8;
                    frame[place..place + 4].copy_from_slice(&range[0].to_ne_bytes());
                    frame[place + 4..place + 8].copy_from_slice(&range[1].to_ne_bytes());
                }
            }
        }
    }
    fn checked(&self) -> bool {
        false
    }
}

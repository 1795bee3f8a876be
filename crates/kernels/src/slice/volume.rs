//! Slices of volumes.

use super::plane::PixelPlane;
use super::tile::{Pixel, Tile};
use crate::streamline::StepProgress;
use field::translate::Translation;
use field::volume::{Brick, Missing, Voxel, VoxelType};
use pager::error::PageError;
use pager::id::ArrayId;
use pager::{Lookup, PageId, Worker};

/// The value between voxels.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Interpolated between the eight centres around.
    Trilinear,
    /// That of the voxel with the nearest centre; halfway between two, that of the higher index.
    Nearest,
}

/// A place within this part of a voxel of a centre counts as the centre: positions are rounded when they become
/// indices.
pub const SNAP: f64 = 1e-9;

/// Most bytes of pages that a step requests, unless one pixel needs more: enough to keep readers busy from a few dozen
/// tiles.
const ASK_BYTES: usize = 256 << 10;

/// A number of a voxel, and its place in the pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Which component of the array.
    pub component: usize,
    /// Which number of the pixel.
    pub to: usize,
    /// Factor of stored numbers, and the offset added then.
    pub scale: [f64; 2],
    /// The stored numbers that mark a missing value.
    pub missing: Missing,
    /// The stored 64-bit integers are labels. A pixel has their bits as those of a double, since a double does not
    /// represent all of them. Only for the nearest voxel.
    pub names: bool,
}

/// An array of the shown level.
#[derive(Clone, Debug)]
pub struct SliceArray {
    /// The pager's number for it.
    pub id: ArrayId,
    /// The time step of the pages: 0 for a steady array.
    pub step: u32,
    /// Its division into pages.
    pub translation: Translation,
    /// The layout of a frame.
    pub brick: Brick,
    /// The numbers used.
    pub picks: Vec<Pick>,
    /// Whether they are red, green, blue and opacity. Between voxels each colour then counts by its opacity, so
    /// transparent voxels have no colour.
    pub by_opacity: bool,
}

/// The common data of the tiles of a slice of a volume.
#[derive(Clone, Debug)]
pub struct VolumeSlice {
    /// The pixels, in indices of voxels of the shown level.
    pub plane: PixelPlane,
    /// Voxels of that level.
    pub dims: [u32; 3],
    /// The arrays, with all numbers of a pixel among them.
    pub arrays: Vec<SliceArray>,
    /// The interpolation.
    pub filter: Filter,
}

/// The place of a pixel: its cell's low corner, and the fraction from there to the high one along each axis. If that is
/// 0, there need be no high one.
struct PixelPosition {
    low: [u32; 3],
    part: [f64; 3],
}

/// A corner with weight: its page, its place there, and its weight.
#[derive(Copy, Clone, Default)]
struct WeightedCorner {
    page: u64,
    element: usize,
    weight: f64,
}

impl VolumeSlice {
    /// Most bytes of pages that a step uses and requests.
    pub fn step_bytes(&self) -> u64 {
        let corners = if self.filter == Filter::Nearest { 1 } else { 8 };
        let pixel: usize = self.arrays.iter().map(|a| corners * a.brick.bytes()).sum();
        // The list ends with the first pixel that reaches the bound.
        (pixel + ASK_BYTES) as u64
    }

    /// Bytes of the largest page.
    pub fn page_bytes(&self) -> u64 {
        self.arrays.iter().map(|a| a.brick.bytes()).max().unwrap_or(0) as u64
    }

    /// One step of a tile. It computes pixels with resident pages, and lists the absent pages if it can compute none.
    /// The first error of a page is stored in `failure`.
    pub fn step(
        &self,
        worker: &Worker,
        tile: &mut Tile,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> StepProgress {
        let Some(first) = tile.open() else { return StepProgress::Done };
        let (mut done, mut asked) = (false, 0);
        for number in first..tile.pixels.len() {
            if tile.pixels[number] != Pixel::Open {
                continue;
            }
            let before = missing.len();
            match self.at(self.plane.position(tile.place(number))) {
                None => tile.without(number, Pixel::Outside),
                Some(at) => match self.pixel(worker, &at, tile.numbers(number), missing) {
                    Ok(true) => tile.pixels[number] = Pixel::Value,
                    Ok(false) => {
                        asked += missing[before..].iter().map(|id| self.bytes_of(*id)).sum::<usize>();
                        if asked >= ASK_BYTES {
                            break;
                        }
                        continue;
                    }
                    Err(error) => {
                        missing.truncate(before);
                        failure.get_or_insert(error);
                        tile.without(number, Pixel::Failed);
                    }
                },
            }
            done = true;
        }
        if tile.open().is_none() {
            missing.clear();
            StepProgress::Done
        } else if done {
            // A step was made. The next one lists the absent pages, if none has come.
            missing.clear();
            StepProgress::Yield
        } else {
            StepProgress::Need
        }
    }

    fn bytes_of(&self, id: PageId) -> usize {
        self.arrays.iter().find(|a| a.id == id.array).map_or(0, |a| a.brick.bytes())
    }

    /// The cell of a place given in indices of voxels; `None` beyond the outermost voxels.
    fn at(&self, place: [f64; 3]) -> Option<PixelPosition> {
        let mut at = PixelPosition { low: [0; 3], part: [0.0; 3] };
        #[allow(clippy::needless_range_loop)] // several arrays by the same axis
        for a in 0..3 {
            let last = f64::from(self.dims[a] - 1);
            let mut x = place[a];
            // NaN is outside, too.
            if !(x >= -0.5 - SNAP && x <= last + 0.5 + SNAP) {
                return None;
            }
            x = x.clamp(0.0, last);
            if self.filter == Filter::Nearest {
                at.low[a] = (x + 0.5 + SNAP).floor().min(last) as u32;
                continue;
            }
            let low = x.floor();
            let part = x - low;
            let (low, part) = match part {
                part if part <= SNAP => (low, 0.0),
                part if part >= 1.0 - SNAP => (low + 1.0, 0.0),
                part => (low, part),
            };
            (at.low[a], at.part[a]) = (low as u32, part);
        }
        Some(at)
    }

    /// The numbers of a pixel. False if pages are absent, which are listed.
    fn pixel(
        &self,
        worker: &Worker,
        at: &PixelPosition,
        numbers: &mut [f64],
        missing: &mut Vec<PageId>,
    ) -> Result<bool, PageError> {
        let mut here = true;
        for array in &self.arrays {
            let mut corners = [WeightedCorner::default(); 8];
            let count = corners_of(&array.translation, at, &mut corners);
            let corners = &corners[..count];
            for pick in &array.picks {
                numbers[pick.to] = 0.0;
            }
            let mut page: (u64, Option<&[u8]>) = (u64::MAX, None);
            let mut colours = [[0.0; 4]; 8];
            for (n, corner) in corners.iter().enumerate() {
                if page.0 != corner.page {
                    let id = PageId::new(array.id, array.step, corner.page);
                    page = (corner.page, None);
                    match worker.page(id) {
                        Lookup::Here(bytes) => page.1 = Some(bytes),
                        Lookup::Absent => {
                            here = false;
                            if !missing.contains(&id) {
                                missing.push(id);
                            }
                        }
                        Lookup::Failed(error) => return Err(error),
                    }
                }
                let (Some(bytes), true) = (page.1, here) else { continue };
                for (c, pick) in array.picks.iter().enumerate() {
                    let element = corner.element * array.brick.components + pick.component;
                    if pick.names {
                        numbers[pick.to] = word(bytes, element);
                        continue;
                    }
                    let stored = number(array.brick.voxel, bytes, element, &pick.missing);
                    numbers[pick.to] += corner.weight * stored;
                    if let Some(to) = colours[n].get_mut(c) {
                        *to = stored;
                    }
                }
            }
            if let (true, true, [r, g, b, _]) = (array.by_opacity, here, &array.picks[..]) {
                if let Some(mixed) = premultiplied(corners, &colours) {
                    [r, g, b].into_iter().zip(mixed).for_each(|(pick, v)| numbers[pick.to] = v);
                }
            }
        }
        if here {
            for pick in self.arrays.iter().flat_map(|a| &a.picks).filter(|p| p.scale != [1.0, 0.0]) {
                numbers[pick.to] = numbers[pick.to] * pick.scale[0] + pick.scale[1];
            }
        }
        Ok(here)
    }
}

/// Red, green and blue between corners that count by their opacity, too (Porter and Duff 1984). `None` if all have one
/// opacity, or are transparent: the plain interpolation holds then.
fn premultiplied(corners: &[WeightedCorner], colours: &[[f64; 4]; 8]) -> Option<[f64; 3]> {
    let of = || corners.iter().zip(colours);
    if of().all(|(_, colour)| colour[3] == colours[0][3]) {
        return None;
    }
    let (mut sum, mut all) = ([0.0; 3], 0.0);
    for (corner, colour) in of() {
        let weight = corner.weight * colour[3].max(0.0);
        all += weight;
        // A transparent corner has no weight, whatever its colour.
        if weight > 0.0 {
            (0..3).for_each(|c| sum[c] += weight * colour[c]);
        }
    }
    (all > 0.0).then(|| sum.map(|v| v / all))
}

/// The corners of a place with weight, i fastest. Returns their number.
fn corners_of(translation: &Translation, at: &PixelPosition, corners: &mut [WeightedCorner; 8]) -> usize {
    let mut count = 0;
    for c in 0..8u32 {
        let mut weight = 1.0;
        let mut ijk = at.low;
        let mut has_part = true;
        #[allow(clippy::needless_range_loop)] // several arrays by the same axis
        for a in 0..3 {
            let high = c >> a & 1;
            has_part &= high == 0 || at.part[a] > 0.0;
            weight *= if high == 1 { at.part[a] } else { 1.0 - at.part[a] };
            ijk[a] += high;
        }
        if has_part {
            let place = translation.node(ijk);
            corners[count] = WeightedCorner { page: place.page, element: place.element, weight };
            count += 1;
        }
    }
    count
}

/// The bits of an element of eight bytes.
#[inline]
fn word(bytes: &[u8], element: usize) -> f64 {
    let own = bytes.as_chunks::<8>().0.get(element);
    own.map_or(f64::NAN, |own| f64::from_ne_bytes(*own))
}

/// An element of a frame; NaN for a missing number.
#[inline]
fn number(voxel: VoxelType, bytes: &[u8], element: usize, missing: &Missing) -> f64 {
    field::with_voxel!(voxel, T => {
        const SIZE: usize = size_of::<T>();
        let at = element * SIZE;
        let own = bytes.get(at..at + SIZE).and_then(|own| <[u8; SIZE]>::try_from(own).ok());
        // A frame has all elements of its page. An element beyond it would be NaN and not 0.
        let stored = own.map(T::from_ne_bytes).filter(|stored| !missing.holds(*stored));
        stored.map_or(f64::NAN, Voxel::to_f64)
    })
}

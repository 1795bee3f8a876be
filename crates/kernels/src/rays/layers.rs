//! Layers of a volume's pages, and the order of tiles in which these share them.
//!
//! # Theory
//! Pages of a file that is read by rows are long along the axis of its rows. Rays in one plane with the eye and that axis come to the same
//! rows, one behind the other. So tiles are cast in strips along such planes: a page is of use to one strip, or to two neighbours, and what
//! strips come to in a few layers of the volume is little, however many layers there are. Where rays go along the rows, all over a picture,
//! those that stand in one layer share the rows that lie at one place across it.

use super::scene::{RaySource, Scene};
use super::tile::TILE;
use field::volume::VolumeArray;
use pager::PageId;
use std::collections::BTreeSet;

/// A volume's pages in layers, of which one after the other may be gone through.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Layers {
    /// The axis along which they follow each other.
    pub axis: usize,
    /// How many there are.
    pub count: u32,
    /// Voxels of each along the axis.
    pub edge: u32,
    /// Bytes of all pages of one.
    pub bytes: u64,
}

/// In which order tiles share pages.
#[derive(Copy, Clone, Debug)]
pub struct Strips {
    /// The layers of which they come to few pages: of those across which pages are not longest, the ones of which rays come to most.
    pub layers: Layers,
    /// The axis along which pages are longest, and the other two: across layers the last.
    long: usize,
    across: [usize; 2],
    /// The direction of the middle ray along both, and on the plane across it where rays are compared; `None` where some ray of the picture
    /// goes along the rows.
    forward: Option<[f64; 2]>,
    center: [f64; 2],
    /// How far along the middle ray that plane is.
    distance: f64,
    /// Voxels from one strip to the next on that plane.
    height: f64,
    /// How many pages of an array a strip comes to across itself: where it stands still in a layer, and for each layer.
    pages: [f64; 2],
    /// At most.
    most: f64,
    /// Bytes of a row of pages in its whole length.
    row: u64,
}

/// A ray in voxels, whether it meets the volume or not.
pub(super) struct VoxelRay {
    pub(super) origin: [f64; 3],
    pub(super) step: [f64; 3],
}

impl VoxelRay {
    fn at(&self, t: f64) -> [f64; 3] {
        core::array::from_fn(|a| self.step[a].mul_add(t, self.origin[a]))
    }

    fn length(&self) -> f64 {
        self.step.iter().map(|s| s * s).sum::<f64>().sqrt()
    }
}

/// Rays that go less than this share of their way along the middle one go along the rows.
const LEAST: f64 = 0.1;

impl Scene {
    /// The first of the sources, if all are cut in the same pages in the same place, and bytes of a page of all of them.
    fn alike(&self) -> Option<(&RaySource, u64)> {
        let (first, others) = self.sources.split_first()?;
        let cut = |s: &RaySource| (s.array.translation.dims, s.array.translation.page);
        let alike = |s: &RaySource| cut(s) == cut(first) && self.have_one_place(s, first);
        let mut arrays: Vec<_> = self.sources.iter().map(|s| (s.array.id, s.array.brick.bytes() as u64)).collect();
        arrays.sort_unstable();
        arrays.dedup();
        others.iter().all(alike).then(|| (first, arrays.iter().map(|(_, bytes)| bytes).sum()))
    }

    /// The layers of what is shown, if all of it is cut in the same, and there are several: those across the last axis along which there are,
    /// which in most files is the slowest.
    pub fn layers(&self) -> Option<Layers> {
        let (source, page_bytes) = self.alike()?;
        Layers::across((0..3).rev().find(|a| source.array.translation.pages[*a] > 1)?, source, page_bytes)
    }

    /// The strips of a picture of what is cut in the same layers; `None` where there are none.
    pub fn strips(&self) -> Option<Strips> {
        let (source, page_bytes) = self.alike()?;
        let t = &source.array.translation;
        let long = (0..3).rev().max_by_key(|a| t.page[*a])?;
        let [x, y] = self.setting.size.map(|n| f64::from(n) / 2.0);
        let line = self.line(source, x, y);
        // Of equal ones the slowest of the file.
        let crossed = |a: usize| line.step[a].abs() / f64::from(t.page[a]);
        let of = (0..3).filter(|a| *a != long && t.pages[*a] > 1);
        let layers = Layers::across(of.max_by(|a, b| crossed(*a).total_cmp(&crossed(*b)))?, source, page_bytes)?;
        let across = [3 - long - layers.axis, layers.axis];
        let middle: [f64; 3] = source.cells.map(|n| f64::from(n) / 2.0);
        let length = line.length();
        let to = (0..3).map(|a| (middle[a] - line.origin[a]) * line.step[a]).sum::<f64>() / (length * length);
        // Of an eye in the volume, or beyond it, some place before it.
        let size = source.cells.iter().map(|n| f64::from(*n).powi(2)).sum::<f64>().sqrt();
        let distance = to.max(size / 8.0 / length);
        let at = line.at(distance);
        let mut strips = Strips {
            layers,
            long,
            across,
            forward: self.forward_across(source, across),
            center: across.map(|a| at[a]),
            distance,
            height: 1.0,
            pages: [1.0; 2],
            most: f64::from(t.pages[across[0]]),
            row: u64::from(t.pages[long]) * page_bytes,
        };
        let of = |x: f64, y: f64| strips.place_of(&self.line(source, x, y)).0;
        let tile = f64::from(TILE);
        let height = (of(x + tile, y) - of(x, y)).abs().max((of(x, y + tile) - of(x, y)).abs());
        if !(height.is_finite() && height > 0.0) {
            return None;
        }
        strips.height = height;
        let page = f64::from(t.page[across[0]]);
        strips.pages = match strips.forward {
            // A layer is crossed while a ray goes so far across strips; where it is not crossed, all pages are those of a strip.
            Some([u, v]) => {
                let slope = (u / v).abs();
                let still = height * (1.0 + slope * slope).sqrt() / page + 1.0;
                [still, slope * f64::from(layers.edge) / page].map(|n| if n.is_finite() { n } else { f64::MAX })
            }
            // Rays drift apart while they are in a layer: a guess that stays within what there is.
            None => [height / page + 1.0; 2],
        };
        Some(strips)
    }

    /// The direction of the middle ray along two axes, of length 1; `None` where some ray of the picture hardly goes that way.
    fn forward_across(&self, source: &RaySource, across: [usize; 2]) -> Option<[f64; 2]> {
        let [width, height] = self.setting.size.map(f64::from);
        let middle = self.line(source, width / 2.0, height / 2.0);
        let [u, v] = across.map(|a| middle.step[a]);
        let forward = [u, v].map(|step| step / u.hypot(v));
        let share = |(x, y): (f64, f64)| {
            let line = self.line(source, x, y);
            let [u, v] = across.map(|a| line.step[a]);
            forward[0].mul_add(u, forward[1] * v) / line.length()
        };
        let ends = [(width / 2.0, height / 2.0), (0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
        ends.into_iter().all(|at| share(at) > LEAST).then_some(forward)
    }

    /// Adds the pages that are read with those that rays came to, as long as all together are no more than `bytes`.
    pub fn read_with(&self, missing: &mut Vec<PageId>, bytes: u64) {
        // Where ranges of pages are known, or which were never written, few of those beside may be of use.
        let groups = |a: &VolumeArray| a.row_group.is_some() && a.ranges.is_empty() && a.vacant.is_none();
        if !self.sources.iter().any(|s| groups(&s.array)) {
            return;
        }
        let most = bytes / self.largest_page() as u64;
        let mut all: BTreeSet<PageId> = missing.iter().copied().collect();
        for id in missing.iter() {
            let Some(source) = self.sources.iter().find(|s| s.array.id == id.array && groups(&s.array)) else {
                continue;
            };
            let beside = source.array.read_with(id.page).map(|page| PageId::new(id.array, id.step, page));
            let beside: Vec<PageId> = beside.filter(|page| !all.contains(page)).collect();
            if (all.len() + beside.len()) as u64 > most {
                break;
            }
            all.extend(beside);
        }
        missing.clear();
        missing.extend(all);
    }
}

impl Layers {
    fn across(axis: usize, source: &RaySource, page_bytes: u64) -> Option<Self> {
        let t = &source.array.translation;
        let (count, edge) = (t.pages[axis], t.page[axis]);
        let bytes = t.count() / u64::from(count) * page_bytes;
        (count > 1).then_some(Self { axis, count, edge, bytes })
    }
}

impl Strips {
    /// The strip of a tile by its upper left pixel, and how far along it the tile is.
    pub fn place(&self, scene: &Scene, tile: [u32; 2]) -> (i64, f64) {
        let Some(source) = scene.sources.first() else { return (0, 0.0) };
        let [x, y] = tile.map(|n| f64::from(n) + f64::from(TILE) / 2.0);
        let (height, along) = self.place_of(&scene.line(source, x, y));
        ((height / self.height).floor() as i64, along)
    }

    fn place_of(&self, line: &VoxelRay) -> (f64, f64) {
        let of = |at: [f64; 3]| [0, 1].map(|n| at[self.across[n]] - self.center[n]);
        let Some([f, g]) = self.forward else {
            let at = line.at(self.distance);
            return (of(at)[0], at[self.across[1]]);
        };
        let [u, v] = self.across.map(|a| line.step[a]);
        let [p, q] = of(line.origin);
        let at = line.at(-f.mul_add(p, g * q) / f.mul_add(u, g * v));
        let [p, q] = of(at);
        (p.mul_add(g, -q * f), at[self.long])
    }

    /// Bytes of pages that so many strips side by side come to in so many layers.
    pub fn bytes(&self, strips: f64, layers: u32) -> u64 {
        let [still, more] = self.pages;
        let pages = (still - 1.0).mul_add(strips, more.mul_add(f64::from(layers), 1.0)).min(self.most);
        (pages * f64::from(layers) * self.row as f64) as u64
    }
}

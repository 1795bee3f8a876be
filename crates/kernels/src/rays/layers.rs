//! Layers of a volume's pages, and an order of tiles in which they share pages.
//!
//! # Theory
//! Pages of a file that is read by rows are long along the axis of its rows. Rays in one plane with the eye and that
//! axis reach the same rows, one behind the other. So tiles are cast in strips along such planes. A page is used by one
//! strip, or by two neighbours. A strip uses few pages in a few layers of the volume, however many layers there are. If
//! rays run along the rows, all rays of a picture in one layer share the rows at one place across it.

use super::ray::VoxelRay;
use super::scene::Scene;
use super::source::RaySource;
use super::tile::TILE;
use field::volume::VolumeArray;
use pager::PageId;
use std::collections::BTreeSet;

/// A volume's pages in layers, which can be passed one after the other.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Layers {
    /// The axis across the layers.
    pub axis: usize,
    /// Number of layers.
    pub count: u32,
    /// Voxels of each along the axis.
    pub edge: u32,
    /// Bytes of all pages of one layer.
    pub bytes: u64,
}

/// An order in which tiles share pages.
#[derive(Copy, Clone, Debug)]
pub struct Strips {
    /// The layers in which a strip uses few pages: not across the longest axis of pages, and those that rays cross
    /// most.
    pub layers: Layers,
    /// The axis along which pages are longest, and the other two: the one across layers is last.
    long: usize,
    across: [usize; 2],
    /// The direction of the middle ray along both, and the centre of the plane across it where rays are compared.
    /// `None` if a ray of the picture runs along the rows.
    forward: Option<[f64; 2]>,
    center: [f64; 2],
    /// Distance of that plane along the middle ray.
    distance: f64,
    /// Voxels from one strip to the next on that plane.
    height: f64,
    /// Pages of an array across a strip: for a strip within a layer, and in addition for each layer.
    pages: [f64; 2],
    /// Upper bound of pages.
    most: f64,
    /// Bytes of a whole row of pages.
    row: u64,
}

/// Rays with a smaller share of their direction along the middle one run along the rows.
const LEAST: f64 = 0.1;

impl Scene {
    /// The first source and the bytes of a page of all of them, if all have the same pages in the same place.
    fn alike(&self) -> Option<(&RaySource, u64)> {
        let (first, others) = self.sources.split_first()?;
        let cut = |s: &RaySource| (s.array.translation.dims, s.array.translation.page);
        let alike = |s: &RaySource| cut(s) == cut(first) && self.have_one_place(s, first);
        let mut arrays: Vec<_> = self.sources.iter().map(|s| (s.array.id, s.array.brick.bytes() as u64)).collect();
        arrays.sort_unstable();
        arrays.dedup();
        others.iter().all(alike).then(|| (first, arrays.iter().map(|(_, bytes)| bytes).sum()))
    }

    /// The layers of the shown sources, if all have the same layers and there are several. They are across the last
    /// possible axis, which is the slowest in most files.
    pub fn layers(&self) -> Option<Layers> {
        let (source, page_bytes) = self.alike()?;
        Layers::across((0..3).rev().find(|a| source.array.translation.pages[*a] > 1)?, source, page_bytes)
    }

    /// The strips of a picture of sources with the same layers; `None` if there are none.
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
        // For an eye in the volume, or beyond it, some place in front.
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
            // A ray crosses a layer while it advances that far across strips. If it does not cross it, all pages of the
            // layer belong to the strip.
            Some([u, v]) => {
                let slope = (u / v).abs();
                let still = height * (1.0 + slope * slope).sqrt() / page + 1.0;
                [still, slope * f64::from(layers.edge) / page].map(|n| if n.is_finite() { n } else { f64::MAX })
            }
            // Rays diverge within a layer: a guess, bounded by the existing pages.
            None => [height / page + 1.0; 2],
        };
        Some(strips)
    }

    /// The direction of the middle ray along two axes, of length 1. `None` if a ray of the picture hardly advances
    /// along them.
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

    /// Adds the pages that are read together with the requested ones, while all together have at most `bytes`.
    pub fn read_with(&self, missing: &mut Vec<PageId>, bytes: u64) {
        // If the ranges of pages are known, or vacant pages, few of the neighbours may be needed.
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
    /// The strip of a tile by its upper left pixel, and the tile's place along it.
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

    /// Bytes of the pages of this many adjacent strips in this many layers.
    pub fn bytes(&self, strips: f64, layers: u32) -> u64 {
        let [still, more] = self.pages;
        let pages = (still - 1.0).mul_add(strips, more.mul_add(f64::from(layers), 1.0)).min(self.most);
        (pages * f64::from(layers) * self.row as f64) as u64
    }
}

//! Levels of volumes.

use super::grid::{is_left_handed, meet, numbers, BlockSigns, Candidates, Grid, IndexBox, Reads};
use field::derive::stencil::metrics;
use field::error::FieldError;
use field::volume::{Brick, VolumeArray, VolumeLevel, Voxel, BLOCK};
use field::with_voxel;
use kernels::surface::{
    each_bit, row_signs, strided_signs, Compared, Level, NodePositions, NodeSet, Normals, Plane, Threshold, LEAST,
};
use pager::{Lookup, PageId, Pager, Worker};
use runtime::gridface::AXES;
use runtime::limits::fetch_error;
use std::sync::Arc;

/// The surface of a level of a volume.
#[derive(Clone, Debug)]
pub(crate) enum Sought {
    /// Stored values of a channel.
    Values(usize, Vec<f64>),
    Plane(Plane),
}

/// A level of a volume with a surface.
#[derive(Debug)]
pub(crate) struct VolumeGrid<'a> {
    level: &'a VolumeLevel,
    sought: Sought,
    /// The array of the surface's channel, its component, and its reads.
    own: Option<(&'a VolumeArray, usize, Reads)>,
    /// Arrays for values of vertices: the components of each and their columns.
    arrays: Vec<(&'a VolumeArray, Vec<(usize, usize)>)>,
    reads: Vec<Reads>,
    fields: Vec<[usize; 2]>,
    columns: usize,
    normals: Normals,
    step: u32,
}

fn reads(array: &VolumeArray, step: u32) -> Reads {
    let step = if array.steady { 0 } else { step };
    Reads {
        translation: array.translation,
        arrays: vec![(array.id, step)],
        bytes: array.brick.bytes() as u64,
        making: 0,
    }
}

/// Whether positions need double precision. The volume may be so far from the origin, or have so many voxels, that in
/// single precision vertices of different edges could coincide.
pub(crate) fn is_far(level: &VolumeLevel) -> bool {
    let corners = (0..8).map(|c| {
        let at =
            core::array::from_fn(|a| if c >> a & 1 == 1 { f64::from(level.dims[a].saturating_sub(1)) } else { 0.0 });
        level.placement.position(at)
    });
    let farthest = corners.flatten().fold(0.0, |most: f64, x| most.max(x.abs()));
    let length = |axis: &[f64; 3]| axis.iter().map(|v| v * v).sum::<f64>().sqrt();
    let shortest = level.placement.axes.iter().map(length).fold(f64::INFINITY, f64::min);
    farthest * f64::from(f32::EPSILON) > LEAST * shortest
}

impl<'a> VolumeGrid<'a> {
    /// For a surface, with channels as fields.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an unknown channel, or a level that is one voxel thick.
    pub fn new(
        level: &'a VolumeLevel,
        sought: Sought,
        channels: &[usize],
        step: u32,
        normals: bool,
    ) -> Result<Self, FieldError> {
        if let Some(a) = level.dims.iter().position(|n| *n < 2) {
            let axis = AXES[a];
            return Err(FieldError::Usage(format!(
                "the volume is one voxel thick along {axis}: it has no surfaces, only lines; 'farfield extract slice' \
                 makes a picture (.png) or an array (.npy) of it"
            )));
        }
        let find = |channel: usize| {
            let unknown = || FieldError::Usage(format!("the volume has no channel {channel}"));
            level.valued(channel).ok_or_else(unknown)
        };
        let own = match &sought {
            Sought::Values(channel, _) => {
                let (array, component) = find(*channel)?;
                Some((array, component, reads(array, step)))
            }
            Sought::Plane(_) => None,
        };
        let mut arrays: Vec<(&VolumeArray, Vec<(usize, usize)>)> = Vec::new();
        let mut columns = 0;
        let mut fields = Vec::new();
        let wanted = own.iter().map(|(a, c, _)| Ok((*a, *c)));
        for (n, found) in wanted.chain(channels.iter().map(|c| find(*c))).enumerate() {
            let (array, component) = found?;
            if n >= usize::from(own.is_some()) {
                fields.push([columns, columns + 1]);
            }
            match arrays.iter_mut().find(|(a, _)| a.id == array.id) {
                Some((_, of)) => of.push((component, columns)),
                None => arrays.push((array, vec![(component, columns)])),
            }
            columns += 1;
        }
        let normals = if normals { Normals::Gradient { iblank: None } } else { Normals::None };
        let all = arrays.iter().map(|(a, _)| reads(a, step)).collect();
        Ok(Self { level, sought, own, arrays, reads: all, fields, columns, normals, step })
    }

    /// Whether some value is between the lowest and the highest of cells.
    fn may_cross(&self, low: f32, high: f32) -> bool {
        let Sought::Values(_, values) = &self.sought else { return true };
        // Low above high if there is no number: no cell there counts.
        values.iter().any(|v| f64::from(low) < *v && f64::from(high) >= *v)
    }

    fn page_signs<T: Compared>(
        &self,
        bytes: &[u8],
        brick: &Brick,
        component: usize,
        nodes: IndexBox,
        out: &mut BlockSigns,
    ) {
        let Sought::Values(_, values) = &self.sought else { return };
        let page = ChannelPage::<T> { voxels: numbers(bytes), brick, component };
        for (v, value) in values.iter().enumerate() {
            let cut = T::cut(*value);
            match cut {
                Threshold::From(from) if !T::HAS_NAN => {
                    page.brick_signs(numbers(&bytes[brick.ranges_at()..]), from, nodes, v, out);
                }
                _ => page.row_by_row(cut, nodes, v, out),
            }
        }
    }

    fn plane_signs(&self, plane: &Plane, nodes: IndexBox, out: &mut BlockSigns) {
        let [lo, hi] = nodes;
        let depth = |i, j, k| plane.depth(self.level.placement.position([i, j, k].map(f64::from)));
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                let [_, b, c] = out.place([lo[0], j, k]);
                // Along a row depths only rise, or only fall.
                let ends = [depth(lo[0], j, k), depth(hi[0] - 1, j, k)];
                if ends[0] < 0.0 && ends[1] < 0.0 {
                    continue;
                }
                let all_inside = ends[0] > 0.0 && ends[1] > 0.0;
                for i in lo[0]..hi[0] {
                    let d = if all_inside { 1.0 } else { depth(i, j, k) };
                    let a = (i - out.origin[0]) as usize;
                    out.inside[0].set(a, b, c, u64::from(d >= 0.0));
                    if let Some(hits) = out.hits.as_mut().filter(|_| d == 0.0) {
                        hits.set(a, b, c, 1);
                    }
                }
            }
        }
    }
}

impl Grid for VolumeGrid<'_> {
    fn zone(&self) -> usize {
        0
    }
    fn dims(&self) -> [u32; 3] {
        self.level.dims
    }
    fn values(&self) -> usize {
        match &self.sought {
            Sought::Values(_, v) => v.len(),
            Sought::Plane(_) => 1,
        }
    }
    fn is_plane(&self) -> bool {
        matches!(self.sought, Sought::Plane(_))
    }
    fn is_double(&self) -> bool {
        is_far(self.level)
    }

    fn candidates(&self, worker: &Worker, cells: IndexBox, missing: &mut Vec<PageId>) -> Option<Candidates> {
        let Some((array, component, own)) = &self.own else {
            let Sought::Plane(plane) = &self.sought else { return Some(Candidates::All) };
            let depths = (0..8).map(|c| {
                // The last node of the last cell, too.
                let at = core::array::from_fn(|a| f64::from(if c >> a & 1 == 1 { cells[1][a] } else { cells[0][a] }));
                plane.depth(self.level.placement.position(at))
            });
            let (low, high) = depths.fold((f64::MAX, f64::MIN), |(l, h), d| (l.min(d), h.max(d)));
            let crossed = low <= 0.0 && high >= 0.0;
            return Some(if crossed { Candidates::All } else { Candidates::In(Vec::new()) });
        };
        let Some(ranges) = array.ranges.first() else { return Some(Candidates::All) };
        let t = &own.translation;
        let lo: [u32; 3] = core::array::from_fn(|a| cells[0][a] / t.page[a]);
        let hi: [u32; 3] = core::array::from_fn(|a| (cells[1][a] - 1) / t.page[a] + 1);
        let n = array.brick.components;
        let step = if array.steady { 0 } else { self.step };
        let (mut boxes, mut all) = (Vec::new(), true);
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                for i in lo[0]..hi[0] {
                    let at = ranges.translation.node([i, j, k]);
                    let id = PageId::new(ranges.id, step, at.page);
                    let crossed = match worker.page(id) {
                        Lookup::Here(page) => {
                            let of: &[f32] = numbers(page);
                            let entry = (at.element * n + component) * 2;
                            // A missing range rules nothing out.
                            of.get(entry..entry + 2).is_none_or(|r| self.may_cross(r[0], r[1]))
                        }
                        Lookup::Failed(_) => true,
                        Lookup::Absent => {
                            if !missing.contains(&id) {
                                missing.push(id);
                            }
                            continue;
                        }
                    };
                    let page: [u32; 3] = core::array::from_fn(|a| [i, j, k][a] * t.page[a]);
                    let of_page = [page, core::array::from_fn(|a| page[a] + t.page[a])];
                    match meet(of_page, cells).filter(|_| crossed) {
                        Some(cells) => boxes.push(cells),
                        None => all = false,
                    }
                }
            }
        }
        if !missing.is_empty() {
            return None;
        }
        Some(if all { Candidates::All } else { Candidates::In(boxes) })
    }

    fn sign_reads(&self) -> Option<&Reads> {
        self.own.as_ref().map(|(_, _, reads)| reads)
    }

    fn signs(&self, pages: &[&[u8]], _page: u64, nodes: IndexBox, out: &mut BlockSigns) {
        match (&self.own, &self.sought, pages) {
            (Some((array, component, _)), _, [bytes]) => {
                with_voxel!(array.brick.voxel, T => self.page_signs::<T>(bytes, &array.brick, *component, nodes, out));
            }
            (_, Sought::Plane(plane), _) => self.plane_signs(plane, nodes, out),
            _ => {}
        }
    }

    fn value_reads(&self) -> &[Reads] {
        &self.reads
    }
    fn columns(&self) -> usize {
        self.columns
    }

    fn take(&self, read: usize, pages: &[&[u8]], page: u64, needed: &NodeSet, values: &mut [f64]) {
        let (Some((array, of)), [bytes]) = (self.arrays.get(read), pages) else { return };
        let [lo, hi] = self.reads[read].nodes(page);
        with_voxel!(array.brick.voxel, T => take::<T>(bytes, &array.brick, of, lo, hi, needed, values));
    }

    fn shape(&self) -> NodePositions<'_> {
        NodePositions::Regular(&self.level.placement)
    }
    fn level(&self, value: usize) -> Level {
        match &self.sought {
            Sought::Values(_, v) => Level::Value(0, v[value]),
            Sought::Plane(plane) => Level::Plane(*plane),
        }
    }
    fn normals(&self) -> Normals {
        self.normals
    }
    fn fields(&self) -> &[[usize; 2]] {
        &self.fields
    }
    fn turned(&self) -> Option<bool> {
        Some(is_left_handed(&self.level.placement))
    }
}

/// The places of rows of a page, and their places in a block.
struct BlockRows {
    /// Of the first node in the page, and in the block.
    first: [usize; 3],
    to: [usize; 3],
    /// Nodes along i, j, k.
    count: [usize; 3],
    page: [usize; 3],
}

impl BlockRows {
    fn new(brick: &Brick, [lo, hi]: IndexBox, out: &BlockSigns) -> Self {
        Self {
            first: core::array::from_fn(|a| (lo[a] % brick.page[a]) as usize),
            to: out.place(lo),
            count: core::array::from_fn(|a| (hi[a] - lo[a]) as usize),
            page: brick.page.map(|n| n as usize),
        }
    }

    /// The begin of the row with number (j, k) of these in the page.
    #[inline(always)]
    fn at(&self, j: usize, k: usize) -> usize {
        ((self.first[2] + k) * self.page[1] + self.first[1] + j) * self.page[0] + self.first[0]
    }
}

/// A channel's numbers in one page.
struct ChannelPage<'a, T> {
    voxels: &'a [T],
    brick: &'a Brick,
    component: usize,
}

impl<T: Compared> ChannelPage<'_, T> {
    /// Signs of the nodes of a box, row by row.
    fn row_by_row(&self, cut: Threshold<T>, nodes: IndexBox, value: usize, out: &mut BlockSigns) {
        let Self { voxels, brick, component } = *self;
        let (rows, c) = (BlockRows::new(brick, nodes, out), brick.components);
        for k in 0..rows.count[2] {
            for j in 0..rows.count[1] {
                // A block is 65 nodes long, possibly in one page: 64 at a time.
                for i in (0..rows.count[0]).step_by(64) {
                    let n = (rows.count[0] - i).min(64);
                    let from = (rows.at(j, k) + i) * c + component;
                    let (inside, none) = match c {
                        1 => row_signs(&voxels[from..from + n], cut),
                        _ => strided_signs(&voxels[from..], c, n, cut),
                    };
                    out.inside[value].set(rows.to[0] + i, rows.to[1] + j, rows.to[2] + k, inside);
                    let [lo, _] = nodes;
                    out.add_bad([lo[0] + i as u32, lo[1] + j as u32, lo[2] + k as u32], none);
                }
            }
        }
    }

    /// The same for integers by the ranges of a page's blocks ([`Brick`]). If all adjacent blocks along i are entirely on
    /// one side, the bits follow without any voxel. In a foam with a bubble in every page these are nine of ten; row by row
    /// the comparisons took half of all time.
    fn brick_signs(&self, ranges: &[T], from: T, nodes: IndexBox, value: usize, out: &mut BlockSigns) {
        let Self { voxels, brick, component } = *self;
        let (rows, c) = (BlockRows::new(brick, nodes, out), brick.components);
        let [bi, bj, _] = brick.blocks();
        let end: [usize; 3] = core::array::from_fn(|a| rows.first[a] + rows.count[a]);
        let signs = &mut out.inside[value];
        // A block is 65 nodes long, possibly in one page: 64 at a time.
        for start in (rows.first[0]..end[0]).step_by(64) {
            let width = (end[0] - start).min(64);
            let mask = u64::MAX >> (64 - width);
            let (first_block, last_block) = (start / BLOCK, (start + width - 1) / BLOCK);
            for kb in rows.first[2] / BLOCK..=(end[2] - 1) / BLOCK {
                let ks = (kb * BLOCK).max(rows.first[2])..(kb * BLOCK + BLOCK).min(end[2]);
                for jb in rows.first[1] / BLOCK..=(end[1] - 1) / BLOCK {
                    let js = (jb * BLOCK).max(rows.first[1])..(jb * BLOCK + BLOCK).min(end[1]);
                    let row = (kb * bj + jb) * bi;
                    let (mut inside, mut crossed) = (0u128, false);
                    for b in first_block..=last_block {
                        let at = ((row + b) * c + component) * 2;
                        let [low, high] = [ranges[at], ranges[at + 1]];
                        crossed |= low < from && high >= from;
                        inside |= (u128::from(low >= from) * 0b1111) << ((b - first_block) * BLOCK);
                    }
                    let same = (inside >> (start % BLOCK)) as u64 & mask;
                    if !crossed && same == 0 {
                        continue;
                    }
                    let to = rows.to[0] + start - rows.first[0];
                    for k in ks.clone() {
                        let layer = signs.layer_mut(rows.to[2] + k - rows.first[2]);
                        for j in js.clone() {
                            let bits = if crossed {
                                let at = (rows.at(j - rows.first[1], k - rows.first[2]) + start - rows.first[0]) * c;
                                match c {
                                    1 => row_signs(&voxels[at..at + width], Threshold::From(from)).0,
                                    _ => strided_signs(&voxels[at + component..], c, width, Threshold::From(from)).0,
                                }
                            } else {
                                same
                            };
                            layer[rows.to[1] + j - rows.first[1]] |= u128::from(bits) << to;
                        }
                    }
                }
            }
        }
    }
}

/// Values of the needed nodes in a page, a column for each of some components.
fn take<T: Voxel>(
    bytes: &[u8],
    brick: &Brick,
    of: &[(usize, usize)],
    lo: [u32; 3],
    hi: [u32; 3],
    needed: &NodeSet,
    values: &mut [f64],
) {
    let voxels: &[T] = numbers(bytes);
    let (count, c) = (needed.count(), brick.components);
    let [pi, pj, _] = brick.page.map(|n| n as usize);
    needed.rows_in(lo, hi, |first, bits, number| {
        let at: [usize; 3] = core::array::from_fn(|a| (first[a] - lo[a]) as usize);
        let row = &voxels[((at[2] * pj + at[1]) * pi + at[0]) * c..];
        for (component, column) in of {
            let to = &mut values[column * count + number..(column + 1) * count];
            let mut n = 0;
            each_bit(bits, |i| {
                to[n] = row[i as usize * c + component].to_f64();
                n += 1;
            });
        }
    });
}

/// The place of a point in voxel indices.
///
/// # Errors
/// [`FieldError::Usage`] outside of the volume.
pub(crate) fn place(level: &VolumeLevel, x: [f64; 3]) -> Result<[f64; 3], FieldError> {
    let p = &level.placement;
    let rows = metrics(p.axes, [false; 3]);
    let at: [f64; 3] = core::array::from_fn(|a| (0..3).map(|c| rows[a][c] * (x[c] - p.origin[c])).sum());
    if (0..3).all(|a| at[a] >= 0.0 && at[a] <= f64::from(level.dims[a] - 1)) {
        return Ok(at);
    }
    Err(FieldError::Usage(format!("the point ({}, {}, {}) lies outside of the volume", x[0], x[1], x[2])))
}

/// The value of a channel at a place, interpolated between voxels.
///
/// # Errors
/// An unreadable page; [`FieldError::Usage`] for an unknown channel, or a missing value.
pub(crate) fn value_at(
    pager: &Arc<Pager>,
    level: &VolumeLevel,
    channel: usize,
    place: [f64; 3],
    step: u32,
) -> Result<f64, FieldError> {
    let unknown = || FieldError::Usage(format!("the volume has no channel {channel}"));
    let (array, component) = level.valued(channel).ok_or_else(unknown)?;
    let reads = reads(array, step);
    let low: [u32; 3] = core::array::from_fn(|a| (place[a].floor() as u32).min(level.dims[a].saturating_sub(2)));
    let worker = pager.worker();
    let mut sum = 0.0;
    for c in 0..8u32 {
        let node = core::array::from_fn(|a| low[a] + (c >> a & 1));
        let at = array.translation.node(node);
        let ids: Vec<PageId> = reads.ids(at.page).collect();
        let _hold = pager.fetch(&ids).map_err(|e| fetch_error(pager, e, reads.bytes, 0))?;
        let value = match worker.page(ids[0]) {
            Lookup::Here(bytes) => {
                let n = at.element * array.brick.components + component;
                with_voxel!(array.brick.voxel, T => numbers::<T>(bytes)[n].to_f64())
            }
            Lookup::Failed(e) => return Err(e.into()),
            // Held, so it is resident.
            Lookup::Absent => return Err(FieldError::Internal("a held page is absent")),
        };
        let part = |a: usize| {
            let over = place[a] - f64::from(low[a]);
            if c >> a & 1 == 1 {
                over
            } else {
                1.0 - over
            }
        };
        sum += part(0) * part(1) * part(2) * value;
    }
    if sum.is_nan() {
        let m = "a voxel beside the point has no value, so that there is none at the point: say a value".into();
        return Err(FieldError::Usage(m));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use field::volume::{write_ranges, VoxelType};

    /// Bits by the ranges of blocks equal those of rows, for any part of a page.
    fn agree<T: Compared>(voxel: VoxelType, page: [u32; 3], components: usize, number: impl Fn(usize) -> T) {
        let brick = Brick { page, components, voxel };
        // Aligned for any type.
        let mut words = vec![0u64; brick.bytes().div_ceil(8)];
        // SAFETY: plain memory, as bytes.
        let frame = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), brick.bytes()) };
        let count = brick.voxels() * components;
        // SAFETY: the frame is aligned for it and has room for that many.
        let voxels = unsafe { core::slice::from_raw_parts_mut(frame.as_mut_ptr().cast::<T>(), count) };
        for (n, v) in voxels.iter_mut().enumerate() {
            // Balls of the higher numbers in the lower ones, others in each component.
            let (at, c) = (n / components, n % components);
            let [i, j, k] =
                [at % page[0] as usize, at / page[0] as usize % page[1] as usize, at / (page[0] * page[1]) as usize];
            let far = [(i, 9), (j, 6), (k, 4)].iter().map(|(x, of)| x.abs_diff(*of + 3 * c).pow(2)).sum::<usize>();
            *v = number(200usize.saturating_sub(far));
        }
        write_ranges(&brick, page, frame);
        let frame = &*frame;
        let voxels: &[T] = numbers(frame);
        for lo in [[0, 0, 0], [1, 3, 2], [5, 4, 0]] {
            for hi in [page, page.map(|n| n - 1), [6, 5, 3]] {
                for from in [0, 1, 120, 185, 199, 200].map(&number) {
                    for component in 0..components {
                        let nodes = [lo, core::array::from_fn(|a| hi[a].min(lo[a] + 65))];
                        let count = core::array::from_fn(|a| nodes[1][a] - lo[a] + 1);
                        let new =
                            || BlockSigns::new(lo.map(|n| n.saturating_sub(1)), count.map(|n: u32| n + 1), 1, false);
                        let (mut a, mut b) = (new(), new());
                        let page = ChannelPage { voxels, brick: &brick, component };
                        page.row_by_row(Threshold::From(from), nodes, 0, &mut a);
                        let ranges = numbers(&frame[brick.ranges_at()..]);
                        page.brick_signs(ranges, from, nodes, 0, &mut b);
                        assert_eq!(a.inside[0].rows(), b.inside[0].rows(), "{lo:?} {hi:?} {component}");
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_of_blocks_say_the_same_as_voxels() {
        agree(VoxelType::Uint8, [32, 32, 32], 1, |n| n as u8);
        agree(VoxelType::Uint8, [13, 7, 9], 3, |n| n as u8);
        agree(VoxelType::Int16, [70, 9, 5], 1, |n| n as i16 * 100 - 9000);
        agree(VoxelType::Uint16, [33, 18, 6], 2, |n| n as u16 * 300);
    }
}

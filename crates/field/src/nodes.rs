//! Access by node and by 2x2x2 cell: one interface over pages, which may be absent, and over flat arrays.

use crate::boxes::{merge, Bounds, EMPTY};
use crate::catalog::DType;
use crate::cell::FACE_TOLERANCE;
use crate::simd::{prefetch, V4};
use crate::translate::Translation;
use crate::uniform::Uniform;
use pager::error::PageError;
use pager::id::{ArrayId, PageId};

/// Why a value is missing. The [`Nodes`] has the pages or the error.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Pages are absent; they are listed in [`Nodes::missing`].
    Absent,
    /// A page failed; [`Nodes::failure`] has the error.
    Failed,
}

impl Miss {
    /// The worst of several: a failure outranks an absence.
    #[inline]
    pub fn worst(of: [Option<Self>; 3]) -> Self {
        if of.contains(&Some(Self::Failed)) {
            Self::Failed
        } else {
            Self::Absent
        }
    }
}

/// One array of a zone, for the accessors.
#[derive(Clone, Debug)]
pub struct ArraySlot {
    /// Name within the zone.
    pub name: String,
    /// The pager's id.
    pub id: ArrayId,
    /// Components; the accessors read 1 to 3.
    pub components: usize,
    /// Element type in the frame.
    pub dtype: DType,
    /// Whether it is the same at every time step.
    pub steady: bool,
    /// Whether its pages are derived.
    pub derived: bool,
    /// Bytes for making one of its derived pages, beside its frame.
    pub making: u64,
}

impl ArraySlot {
    /// A component of consecutive points, from point `n` of `bytes` on. Values past the end of `bytes` stay unchanged.
    pub fn elements(&self, bytes: &[u8], component: usize, n: usize, to: &mut [f64]) {
        let (c, size) = (self.components, self.dtype.size());
        let from = bytes.get((n * c + component) * size..).unwrap_or(&[]);
        macro_rules! read {
            ($t:ty, $n:literal) => {
                // The last point may end after its own component.
                for (to, b) in to.iter_mut().zip(from.chunks($n * c)) {
                    if let Some(b) = b.first_chunk::<$n>() {
                        *to = f64::from(<$t>::from_ne_bytes(*b));
                    }
                }
            };
        }
        match self.dtype {
            DType::Float32 => read!(f32, 4),
            DType::Float64 => read!(f64, 8),
            DType::Int32 => read!(i32, 4),
            DType::Uint8 => read!(u8, 1),
        }
    }
}

/// One level of boxes: of blocks of 4x4x4 cells at level 0, of blocks twice as large at each further level.
#[derive(Clone, Debug)]
pub struct BoxLevel {
    /// The pager's id.
    pub id: ArrayId,
    /// Blocks along i, j, k, and their pages; six float32 components.
    pub translation: Translation,
    /// Whether it is the same at every time step.
    pub steady: bool,
}

/// A zone, for the accessors.
#[derive(Clone, Debug)]
pub struct Zone {
    /// `zone1`, ...
    pub name: String,
    /// The pages of the zone's nodes.
    pub translation: Translation,
    /// Arrays in catalog order.
    pub arrays: Vec<ArraySlot>,
    /// Index of the coordinates in `arrays`.
    pub xyz: usize,
    /// Index of iblank in `arrays`.
    pub iblank: Option<usize>,
    /// Boxes, finest first; empty if none were made.
    pub boxes: Vec<BoxLevel>,
    /// The uniform grid that equals the coordinates to the last bit of every point. `None` also if the grid moves, or
    /// was not examined. Files paged in place are examined when their boxes are made.
    pub uniform: Option<Uniform>,
}

impl Zone {
    /// Points along i, j, k.
    #[inline]
    pub fn dims(&self) -> [u32; 3] {
        self.translation.dims
    }
    /// Cells along i, j, k; one layer along a direction of one point.
    #[inline]
    pub fn cells(&self) -> [u32; 3] {
        self.dims().map(|n| n.max(2) - 1)
    }
    /// The directions with one point.
    #[inline]
    pub fn thin(&self) -> [bool; 3] {
        self.dims().map(|n| n == 1)
    }
    /// A component of point `n` of an array, from one of its pages.
    pub fn element(&self, array: usize, page: &[u8], component: usize, n: usize) -> f64 {
        let a = &self.arrays[array];
        let size = a.dtype.size();
        let at = (n * a.components + component) * size;
        let Some(b) = page.get(at..at + size) else { return f64::NAN };
        match (a.dtype, b) {
            (DType::Float32, &[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
            (DType::Int32, &[a, b, c, d]) => f64::from(i32::from_ne_bytes([a, b, c, d])),
            (DType::Float64, &[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            (DType::Uint8, &[a]) => f64::from(a),
            // The slice has the length of the type.
            _ => f64::NAN,
        }
    }
    /// A component of consecutive points of an array, from point `n` of a page on. Values past the page's end stay
    /// unchanged.
    pub fn elements(&self, array: usize, page: &[u8], component: usize, n: usize, to: &mut [f64]) {
        self.arrays[array].elements(page, component, n, to);
    }
    /// The array of that name.
    pub fn array(&self, name: &str) -> Option<usize> {
        self.arrays.iter().position(|a| a.name == name)
    }
}

/// Whether a block's box holds a point, with the tolerance of cell faces.
#[inline(always)]
pub fn box_holds(b: &[f32; 6], p: V4) -> bool {
    // SAFETY: six values.
    let [lo, hi] = unsafe { V4::pair_f32(b.as_ptr()) };
    // Boxes without a finite node are inverted, and hold nothing.
    beyond(lo, hi, p).either(hi.below(lo)).bits() & 7 == 0
}

/// Smallest and largest of points. NaN are skipped (the comparisons then give their second operand), except in the
/// first.
#[inline(always)]
pub(crate) fn bounds_of(points: &[V4]) -> (V4, V4) {
    let first = points.first().copied().unwrap_or(V4::zero());
    points.iter().skip(1).fold((first, first), |(lo, hi), p| (p.min(lo), p.max(hi)))
}

/// Axes along which a point lies beyond bounds, with the tolerance of cell faces.
#[inline(always)]
pub(crate) fn beyond(lo: V4, hi: V4, p: V4) -> V4 {
    let pad = (hi - lo) * V4::splat(2.0 * FACE_TOLERANCE);
    p.below(lo - pad).either((hi + pad).below(p))
}

#[inline(always)]
pub(crate) fn within((lo, hi): (V4, V4), p: V4) -> bool {
    beyond(lo, hi, p).bits() & 7 == 0
}

/// The arrays of a zone at the corners of one cell, which is translated once for all of them.
pub trait Corners {
    /// As [`Nodes::vector`].
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the cell is listed.
    fn vector(&mut self, array: usize, out: &mut [V4; 8]) -> Result<(), Miss>;
    /// As [`Nodes::scalar`].
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the cell is listed.
    fn scalar(&mut self, array: usize, component: usize, out: &mut [f64; 8]) -> Result<(), Miss>;
}

/// [`Corners`] for nodes where arrays of a cell cost the same together or apart.
pub struct Each<'a, N> {
    nodes: &'a mut N,
    zone: usize,
    cell: [u32; 3],
}

impl<'a, N: Nodes> Each<'a, N> {
    /// The corners of a cell.
    #[inline(always)]
    pub fn new(nodes: &'a mut N, zone: usize, cell: [u32; 3]) -> Self {
        Self { nodes, zone, cell }
    }
}

impl<N: Nodes> Corners for Each<'_, N> {
    #[inline(always)]
    fn vector(&mut self, array: usize, out: &mut [V4; 8]) -> Result<(), Miss> {
        self.nodes.vector(self.zone, array, self.cell, out)
    }
    #[inline(always)]
    fn scalar(&mut self, array: usize, component: usize, out: &mut [f64; 8]) -> Result<(), Miss> {
        self.nodes.scalar(self.zone, array, component, self.cell, out)
    }
}

/// Access to the nodes of a dataset.
pub trait Nodes {
    /// A cell's corners: [`Each`], unless several arrays together cost less.
    type At<'a>: Corners
    where
        Self: 'a;
    /// The zones in file order.
    fn zones(&self) -> &[Zone];
    /// A cell, for reading several arrays.
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Self::At<'_>;
    /// A vector array (2 or 3 components; a missing third is 0) at the corners of a cell. Bit 0 of the index is i, bit
    /// 1 j, bit 2 k. In directions of one point both corners are the same node.
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the cell is listed.
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss>;
    /// One component at the corners of a cell.
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the cell is listed.
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss>;
    /// Smallest and largest vectors over the corners of `count` cells along i, from `cell` on. `None` if they lie in
    /// several pages, or have fewer than eight corners. NaN are skipped, or make the bounds NaN.
    ///
    /// # Errors
    /// [`Miss`]; the absent page is listed.
    fn row_bounds(
        &mut self,
        _zone: usize,
        _array: usize,
        _cell: [u32; 3],
        _count: u32,
    ) -> Result<Option<(V4, V4)>, Miss> {
        Ok(None)
    }
    /// Box (x, y, z low, x, y, z high) of a block at a level.
    ///
    /// # Errors
    /// [`Miss`].
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss>;
    /// The box of all boxes of a level.
    ///
    /// # Errors
    /// [`Miss`].
    fn bounds(&mut self, zone: usize, level: usize) -> Result<Bounds, Miss> {
        let dims = self.zones()[zone].boxes[level].translation.dims;
        let mut bounds = EMPTY;
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    merge(&mut bounds, &self.block(zone, level, [i, j, k])?);
                }
            }
        }
        Ok(bounds)
    }
    /// Adds the blocks of a level whose boxes hold a point to `out`.
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the level is listed.
    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        look_through(self, zone, level, p, out)
    }
    /// Boxes of the blocks of a level under a block of the next level, in the order of a cell's corners. Returns a bit
    /// for each resident one, and the miss of others. All their absent pages are listed.
    fn children(&mut self, zone: usize, level: usize, parent: [u32; 3], out: &mut [Bounds; 8]) -> (u8, Option<Miss>) {
        let dims = self.zones()[zone].boxes[level].translation.dims;
        let (mut here, mut miss) = (0, None);
        for (c, out) in out.iter_mut().enumerate() {
            let child = child(parent, c);
            if (0..3).all(|a| child[a] < dims[a]) {
                match self.block(zone, level, child) {
                    Ok(b) => (*out, here) = (b, here | 1 << c),
                    Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
                }
            }
        }
        (here, miss)
    }
    /// Adds those of [`Self::children`] that hold a point to `out`.
    ///
    /// # Errors
    /// [`Miss`], after all resident ones were examined.
    fn children_that_hold(
        &mut self,
        zone: usize,
        level: usize,
        parent: [u32; 3],
        p: V4,
        out: &mut Vec<[u32; 3]>,
    ) -> Result<(), Miss> {
        let mut boxes = [EMPTY; 8];
        let (here, miss) = self.children(zone, level, parent, &mut boxes);
        let holds = |c: &usize| here >> c & 1 == 1 && box_holds(&boxes[*c], p);
        out.extend((0..8).filter(holds).map(|c| child(parent, c)));
        miss.map_or(Ok(()), Err)
    }
    /// Pages found absent since the list was last cleared.
    fn missing(&mut self) -> &mut Vec<PageId>;
    /// The error behind [`Miss::Failed`].
    fn failure(&mut self) -> Option<PageError>;
    /// Prefetches arrays at the corners of a cell, if resident. Only a hint: no result depends on it.
    fn prefetch(&self, _zone: usize, _arrays: &[usize], _cell: [u32; 3]) {}
    /// Whether a zone's points never move.
    fn stands(&self, _zone: usize) -> bool {
        true
    }
    /// Whether a zone's points move between the two steps around the moment.
    #[inline(always)]
    fn moves(&self, _zone: usize) -> bool {
        false
    }
    /// The moment, from 0 at the earlier step to 1 at the later.
    #[inline(always)]
    fn weight(&self) -> f64 {
        0.0
    }
    /// A cell's points at the two steps around the moment: equal, unless the zone [`Self::moves`].
    ///
    /// # Errors
    /// [`Miss`]; every absent page of the cell is listed, for both steps.
    fn ends(&mut self, zone: usize, cell: [u32; 3], out: &mut [[V4; 8]; 2]) -> Result<(), Miss> {
        let xyz = self.zones()[zone].xyz;
        self.vector(zone, xyz, cell, &mut out[0])?;
        out[1] = out[0];
        Ok(())
    }
    /// Goes to another time step, if there are several.
    fn set_step(&mut self, _step: u32) {}
    /// Called before a restartable step: no result of earlier calls is still referenced.
    fn begin_step(&mut self) {}
}

/// One of the eight blocks under a block of the next level, as a cell's corners.
#[inline(always)]
pub(crate) fn child(parent: [u32; 3], corner: usize) -> [u32; 3] {
    core::array::from_fn(|a| 2 * parent[a] + (corner >> a & 1) as u32)
}

/// [`Nodes::blocks_that_hold`], block by block.
pub(crate) fn look_through<N: Nodes + ?Sized>(
    nodes: &mut N,
    zone: usize,
    level: usize,
    p: V4,
    out: &mut Vec<[u32; 3]>,
) -> Result<(), Miss> {
    let parents = nodes.zones()[zone].boxes[level].translation.dims.map(|n| n.div_ceil(2));
    let mut miss = None;
    for k in 0..parents[2] {
        for j in 0..parents[1] {
            for i in 0..parents[0] {
                match nodes.children_that_hold(zone, level, [i, j, k], p, out) {
                    Ok(()) => {}
                    Err(Miss::Failed) => return Err(Miss::Failed),
                    Err(m) => miss = Some(m),
                }
            }
        }
    }
    miss.map_or(Ok(()), Err)
}

/// A page or a whole zone as the loaders see it: interleaved components, i fastest.
///
/// A cell of a vector array lies in about five cache lines; the next one in j or k needs half of them anew. With a
/// plane per component these were twelve and six. A trace over resident data mostly waits for cache lines.
#[derive(Copy, Clone)]
pub(crate) struct Grain {
    pub base: *const u8,
    pub dtype: DType,
    /// Elements from one point to the next in i (the number of components), in j and in k.
    pub stride: [usize; 3],
}

impl Grain {
    /// For points in rows of `row` and planes of `plane` points.
    #[inline(always)]
    pub fn new(base: *const u8, dtype: DType, components: usize, (row, plane): (usize, usize)) -> Self {
        Self { base, dtype, stride: [components, row * components, plane * components] }
    }

    /// One element as a double.
    ///
    /// # Safety
    /// The element lies within the memory behind `base`.
    #[inline(always)]
    pub unsafe fn element(&self, n: usize) -> f64 {
        // SAFETY: the caller promises that the element lies in memory; pages hold elements at multiples of their size.
        unsafe {
            match self.dtype {
                DType::Float32 => f64::from(*self.base.cast::<f32>().add(n)),
                DType::Float64 => *self.base.cast::<f64>().add(n),
                DType::Int32 => f64::from(*self.base.cast::<i32>().add(n)),
                DType::Uint8 => f64::from(*self.base.add(n)),
            }
        }
    }

    /// The first three components of the point whose first element is `n`; 0 for missing ones.
    ///
    /// # Safety
    /// As [`Self::element`].
    #[inline(always)]
    pub unsafe fn node(&self, n: usize) -> V4 {
        // SAFETY: a point has `stride[0]` elements, and no more of them are read.
        unsafe {
            if self.dtype == DType::Float32 && self.stride[0] == 3 {
                return V4::point_f32(self.base.cast::<f32>().add(n));
            }
            V4::new(
                self.element(n),
                if self.stride[0] > 1 { self.element(n + 1) } else { 0.0 },
                if self.stride[0] > 2 { self.element(n + 2) } else { 0.0 },
                0.0,
            )
        }
    }

    /// Two consecutive points of a vector array in i.
    ///
    /// # Safety
    /// As [`Self::element`].
    #[inline(always)]
    pub unsafe fn pair(&self, point: usize) -> [V4; 2] {
        let n = point * self.stride[0];
        // SAFETY: six elements of the grain.
        unsafe {
            if self.dtype == DType::Float32 && self.stride[0] == 3 {
                return V4::pair_f32(self.base.cast::<f32>().add(n));
            }
            [self.node(n), self.node(n + self.stride[0])]
        }
    }

    /// All corners of a cell within this grain, from its first point. `step` is 0 along directions of one point.
    ///
    /// # Safety
    /// As [`Self::element`] for the cell's eight corners.
    #[inline(always)]
    pub unsafe fn vector(&self, point: usize, step: [usize; 3], out: &mut [V4; 8]) {
        let n = point * self.stride[0];
        if self.dtype == DType::Float32 && self.stride[0] == 3 && step[0] == 1 {
            let p = self.base.cast::<f32>();
            for (row, pair) in out.chunks_exact_mut(2).enumerate() {
                let at = n + (row & 1) * step[1] * self.stride[1] + (row >> 1) * step[2] * self.stride[2];
                // SAFETY: the pair is two corners of the cell, six elements.
                let [a, b] = unsafe { V4::pair_f32(p.add(at)) };
                pair[0] = a;
                pair[1] = b;
            }
        } else {
            for (c, v) in out.iter_mut().enumerate() {
                // SAFETY: a corner of the cell.
                *v = unsafe { self.node(n + self.corner(c, step)) };
            }
        }
    }

    /// One component at all corners, from the cell's first point.
    ///
    /// # Safety
    /// As [`Self::vector`]; the component is one of the array's.
    #[inline(always)]
    pub unsafe fn scalar(&self, point: usize, component: usize, step: [usize; 3], out: &mut [f64; 8]) {
        let n = point * self.stride[0] + component;
        if self.dtype == DType::Float32 && self.stride[0] == 1 && step[0] == 1 {
            let p = self.base.cast::<f32>();
            for (k, out) in out.chunks_exact_mut(4).enumerate() {
                let at = n + k * step[2] * self.stride[2];
                // SAFETY: four corners of the cell.
                let v = unsafe { V4::pairs_f32(p.add(at), p.add(at + step[1] * self.stride[1])) };
                out.copy_from_slice(&v.to_array());
            }
            return;
        }
        for (c, v) in out.iter_mut().enumerate() {
            // SAFETY: a corner of the cell.
            *v = unsafe { self.element(n + self.corner(c, step)) };
        }
    }

    /// Smallest and largest points of `count` cells in a row, from the first cell's first `point` on. There are no
    /// directions of one point.
    ///
    /// # Safety
    /// As [`Self::element`] for all corners of the cells.
    #[inline(always)]
    pub unsafe fn row_bounds(&self, point: usize, count: usize) -> (V4, V4) {
        if self.dtype == DType::Float32 && self.stride[0] == 3 {
            let p = self.base.cast::<f32>().wrapping_add(point * 3);
            let rows = [0, self.stride[1], self.stride[2], self.stride[1] + self.stride[2]];
            // SAFETY: the points of the cells, in each row one more than cells.
            let [lo, hi] = unsafe { V4::bounds_f32(rows.map(|r| p.wrapping_add(r)), count + 1) };
            return (lo, hi);
        }
        let at = |row: usize, n: usize| {
            let from = (row & 1) * self.stride[1] + (row >> 1) * self.stride[2];
            // SAFETY: a corner of the cells.
            unsafe { self.node((point + n) * self.stride[0] + from) }
        };
        let (mut lo, mut hi) = (at(0, 0), at(0, 0));
        for row in 0..4 {
            for n in 0..=count {
                let p = at(row, n);
                (lo, hi) = (p.min(lo), p.max(hi));
            }
        }
        (lo, hi)
    }

    /// Prefetches the corners of a cell. Only a hint.
    #[inline(always)]
    pub fn prefetch(&self, point: usize, step: [usize; 3]) {
        for row in 0..4 {
            let at =
                point * self.stride[0] + (row & 1) * step[1] * self.stride[1] + (row >> 1) * step[2] * self.stride[2];
            let first = self.base.wrapping_add(at * self.dtype.size());
            prefetch(first);
            // Pairs may straddle two lines.
            prefetch(first.wrapping_add(2 * self.stride[0] * self.dtype.size() - 1));
        }
    }

    /// Prefetches a point. Only a hint.
    #[inline(always)]
    pub fn prefetch_point(&self, point: usize) {
        prefetch(self.base.wrapping_add(point * self.stride[0] * self.dtype.size()));
    }

    #[inline(always)]
    fn corner(&self, c: usize, step: [usize; 3]) -> usize {
        (c & 1) * step[0] * self.stride[0]
            + ((c >> 1) & 1) * step[1] * self.stride[1]
            + (c >> 2) * step[2] * self.stride[2]
    }
}

/// 1 along directions with a second corner, 0 along those of one point.
#[inline(always)]
pub(crate) fn corner_steps(dims: [u32; 3]) -> [usize; 3] {
    dims.map(|n| usize::from(n > 1))
}

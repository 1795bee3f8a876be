//! Zones of datasets.

use super::grid::{meet, numbers, BlockSigns, Candidates, Grid, IndexBox, Reads};
use super::sampler::Sampler;
use field::boxes::BLOCK;
use field::catalog::DType;
use field::dataset::Dataset;
use field::derive::Definitions;
use field::error::FieldError;
use field::expression::bounds::Interval;
use field::nodes::Zone;
use field::plot3d::iblank::hides_cell;
use field::quantity::Quantity;
use field::store::LevelId;
use kernels::surface::{row_signs, strided_signs, Compared, Level, NodePositions, NodeSet, Normals, Plane};
use pager::{Lookup, PageId, Pager, Worker};
use std::sync::Arc;

/// The surface of a dataset.
#[derive(Clone, Debug)]
pub(crate) enum Sought {
    /// Values of a scalar field.
    Values(String, Vec<f64>),
    Plane(Plane),
}

/// The common data of all zones of a run.
#[derive(Clone)]
pub(crate) struct ZoneRun<'a> {
    pub dataset: &'a Dataset,
    pub definitions: &'a Definitions,
    pub pager: &'a Arc<Pager>,
    pub sought: &'a Sought,
    pub step: usize,
}

/// A zone with a surface.
pub(crate) struct ZoneGrid<'a> {
    common: ZoneRun<'a>,
    zone: usize,
    z: &'a Zone,
    /// The reads of the first pass: the field, or the coordinates for a plane; with iblank.
    signs: Sampler,
    sign_reads: Reads,
    /// The reads of vertices.
    values: Sampler,
    value_reads: [Reads; 1],
    fields: Vec<[usize; 2]>,
    columns: usize,
    /// First column of the coordinates.
    xyz: usize,
    normals: Normals,
}

impl<'a> ZoneGrid<'a> {
    /// For a zone at least two points thick with the field and the scalars.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] and [`FieldError::Lacking`] for names, [`FieldError::Usage`] for values of a vector.
    pub fn new(common: ZoneRun<'a>, zone: usize, scalars: &[String], normals: bool) -> Result<Self, FieldError> {
        let dataset = common.dataset;
        let z = &dataset.zones[zone];
        let position = z.arrays[z.xyz].components.min(3);
        let coordinates = Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components };
        let iblank = z.iblank.map(|array| Quantity::Stored { array, components: 1 });
        let mut own = Vec::new();
        let mut wanted = Vec::new();
        match common.sought {
            Sought::Values(field, _) => {
                let q = dataset.quantity(zone, field)?;
                if q.components() != 1 {
                    return Err(FieldError::Usage(format!(
                        "'{field}' is a vector: an isosurface is of a scalar; use {field}_x or a magnitude"
                    )));
                }
                own.push(q);
                wanted.push(q);
            }
            Sought::Plane(_) => own.push(coordinates),
        }
        own.extend(iblank);
        let xyz = wanted.len();
        wanted.push(coordinates);
        let mut columns = xyz + coordinates.components();
        let is_plane = matches!(common.sought, Sought::Plane(_));
        let normals = match (normals, is_plane) {
            (false, _) => Normals::None,
            (true, true) => Normals::Gradient { iblank: None },
            (true, false) => {
                let column = iblank.map(|q| {
                    wanted.push(q);
                    columns += 1;
                    columns - 1
                });
                Normals::Gradient { iblank: column }
            }
        };
        let mut fields = Vec::new();
        for name in scalars {
            let q = dataset.quantity(zone, name)?;
            wanted.push(q);
            fields.push([columns, columns + q.components()]);
            columns += q.components();
        }
        debug_assert!(position >= 2);
        let signs = Sampler::new(dataset, zone, common.step, own)?;
        let values = Sampler::new(dataset, zone, common.step, wanted)?;
        let (sign_reads, value_reads) = (signs.reads(z, common.pager), [values.reads(z, common.pager)]);
        Ok(Self { common, zone, z, signs, sign_reads, values, value_reads, fields, columns, xyz, normals })
    }

    fn step_of(&self, steady: bool) -> u32 {
        if steady {
            0
        } else {
            self.common.step as u32
        }
    }

    /// The pages with cells that may be crossed, by stored ranges of pages.
    fn by_ranges(
        &self,
        (field, values): (&str, &[f64]),
        worker: &Worker,
        cells: IndexBox,
        missing: &mut Vec<PageId>,
    ) -> Option<Candidates> {
        let t = &self.z.translation;
        let ranges = self.common.dataset.ranges.get(self.zone).map_or(&[][..], |r| &r[..]);
        let whole = t.pages.map(|n| n as usize);
        // A stored field's own ranges; for other fields those of all their inputs.
        let own = match self.common.dataset.quantity(self.zone, field) {
            Ok(Quantity::Stored { array, .. } | Quantity::Component { array, .. }) if !self.z.arrays[array].derived => {
                array..array + 1
            }
            _ => 0..ranges.len(),
        };
        let level = |a: usize| ranges.get(a)?.first().filter(|l| l.paging.dims == whole).map(|l| (a, l));
        let levels: Vec<(usize, &LevelId)> = own.filter_map(level).collect();
        if levels.is_empty() {
            return Some(Candidates::All);
        }
        let lo: [u32; 3] = core::array::from_fn(|a| cells[0][a] / t.page[a]);
        let hi: [u32; 3] = core::array::from_fn(|a| (cells[1][a] - 1) / t.page[a] + 1);
        // Intervals of all arrays' components for each page, in order.
        let components: Vec<usize> = levels.iter().map(|(a, _)| self.z.arrays[*a].components).collect();
        let mut of_pages: Vec<([u32; 3], Vec<Interval>)> = Vec::new();
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                for i in lo[0]..hi[0] {
                    let mut known = Vec::new();
                    for ((a, level), c) in levels.iter().zip(&components) {
                        let (number, element) = level.paging.locate([i, j, k].map(|n| n as usize));
                        let id = PageId::new(level.id, self.step_of(self.z.arrays[*a].steady), number);
                        let entry: &[f64] = match worker.page(id) {
                            Lookup::Here(page) => numbers(page),
                            // Nothing is known then.
                            Lookup::Failed(_) => &[],
                            Lookup::Absent => {
                                if !missing.contains(&id) {
                                    missing.push(id);
                                }
                                &[]
                            }
                        };
                        let entry = entry.get(element * 2 * c..(element + 1) * 2 * c);
                        known.extend((0..*c).map(|n| entry.map_or(Interval::ALL, |e| Interval::of(e[n], e[c + n]))));
                    }
                    of_pages.push(([i, j, k], known));
                }
            }
        }
        if !missing.is_empty() {
            return None;
        }
        let crosses = |known: &[Interval]| {
            let input = |array: usize, component: usize| {
                let mut at = 0;
                for ((a, _), c) in levels.iter().zip(&components) {
                    if *a == array && component < *c {
                        return known[at + component];
                    }
                    at += c;
                }
                Interval::ALL
            };
            let step = self.common.step;
            let with = (self.common.definitions, &**self.common.pager);
            let bounds = self.common.dataset.bounds(self.zone, field, step, with, input);
            let bounds = bounds.and_then(|b| b.first().copied()).unwrap_or(Interval::ALL);
            values.iter().any(|v| bounds.lo < *v && *v <= bounds.hi)
        };
        // The bounds of the whole block take one check if nothing is crossed, as is usual.
        let mut all = of_pages.first().map_or(Vec::new(), |p| p.1.clone());
        for (_, known) in &of_pages {
            for (all, one) in all.iter_mut().zip(known) {
                *all = Interval { lo: all.lo.min(one.lo), hi: all.hi.max(one.hi), nan: all.nan || one.nan };
            }
        }
        if !crosses(&all) {
            return Some(Candidates::In(Vec::new()));
        }
        let mut boxes = Vec::new();
        for (at, known) in &of_pages {
            let first: [u32; 3] = core::array::from_fn(|a| at[a] * t.page[a]);
            let page = [first, core::array::from_fn(|a| first[a] + t.page[a])];
            if let Some(cells) = meet(page, cells).filter(|_| crosses(known)) {
                boxes.push(cells);
            }
        }
        Some(if boxes.len() == of_pages.len() { Candidates::All } else { Candidates::In(boxes) })
    }

    /// The blocks of cells that a plane may cut, by their boxes.
    fn by_boxes(
        &self,
        plane: &Plane,
        worker: &Worker,
        cells: IndexBox,
        missing: &mut Vec<PageId>,
    ) -> Option<Candidates> {
        // The whole block first, then boxes of 16^3 cells.
        let levels = [4usize, 2].map(|l| l.min(self.z.boxes.len().saturating_sub(1)));
        let mut candidates = Candidates::All;
        for level in levels {
            let Some(of) = self.z.boxes.get(level) else { return Some(Candidates::All) };
            let edge = (BLOCK as u32) << level;
            let lo = cells[0].map(|n| n / edge);
            let hi = cells[1].map(|n| (n - 1) / edge + 1);
            let mut boxes = Vec::new();
            for k in lo[2]..hi[2] {
                for j in lo[1]..hi[1] {
                    for i in lo[0]..hi[0] {
                        let at = of.translation.node([i, j, k]);
                        let id = PageId::new(of.id, self.step_of(of.steady), at.page);
                        let cut = match worker.page(id) {
                            Lookup::Here(page) => {
                                let b: &[f32] = numbers(page);
                                b.get(at.element * 6..at.element * 6 + 6).is_none_or(|b| cuts(plane, b))
                            }
                            Lookup::Failed(_) => true,
                            Lookup::Absent => {
                                if !missing.contains(&id) {
                                    missing.push(id);
                                }
                                continue;
                            }
                        };
                        let first = [i, j, k].map(|n| n * edge);
                        boxes.extend(meet([first, first.map(|n| n + edge)], cells).filter(|_| cut));
                    }
                }
            }
            if !missing.is_empty() {
                return None;
            }
            if boxes.is_empty() {
                return Some(Candidates::In(boxes));
            }
            candidates = Candidates::In(boxes);
        }
        Some(candidates)
    }

    /// Signs of rows of stored numbers in a page.
    fn stored_signs<T: Compared>(
        &self,
        bytes: &[u8],
        (c, component): (usize, usize),
        values: &[f64],
        rows: &NodeRows,
        out: &mut BlockSigns,
    ) {
        let all: &[T] = numbers(bytes);
        let cuts: Vec<_> = values.iter().map(|v| T::cut(*v)).collect();
        rows.each(|node, element, n| {
            let from = element * c + component;
            let [i, j, k] = out.place(node);
            for (v, cut) in cuts.iter().enumerate() {
                let (inside, none) = match c {
                    1 => row_signs(&all[from..from + n], *cut),
                    _ => strided_signs(&all[from..], c, n, *cut),
                };
                out.inside[v].set(i, j, k, inside);
                out.add_bad(node, none);
            }
        });
    }
}

/// Rows of a box of nodes within a page.
struct NodeRows {
    /// First node, and the one past the last.
    nodes: IndexBox,
    /// First node of the page, and points of a full one.
    first: [u32; 3],
    page: [u32; 3],
}

impl NodeRows {
    /// Passes on each row, at most 64 nodes at a time: the first node, its point number in the page, and the number of
    /// nodes.
    fn each(&self, mut row: impl FnMut([u32; 3], usize, usize)) {
        let [lo, hi] = self.nodes;
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                let mut i = lo[0];
                while i < hi[0] {
                    let n = (hi[0] - i).min(64);
                    let at: [usize; 3] = core::array::from_fn(|a| ([i, j, k][a] - self.first[a]) as usize);
                    let element = (at[2] * self.page[1] as usize + at[1]) * self.page[0] as usize + at[0];
                    row([i, j, k], element, n as usize);
                    i += n;
                }
            }
        }
    }
}

/// Whether a plane may cut a box. An empty box has low above high.
fn cuts(plane: &Plane, b: &[f32]) -> bool {
    if b[0] > b[3] {
        return false;
    }
    let corner = |c: usize| core::array::from_fn(|a| f64::from(b[a + 3 * (c >> a & 1)]));
    let depths = (0..8).map(|c| plane.depth(corner(c)));
    let (low, high) = depths.fold((f64::MAX, f64::MIN), |(l, h), d| (l.min(d), h.max(d)));
    // A depth of NaN rules nothing out.
    !(low > 0.0) && !(high < 0.0)
}

impl Grid for ZoneGrid<'_> {
    fn zone(&self) -> usize {
        self.zone
    }
    fn dims(&self) -> [u32; 3] {
        self.z.dims()
    }
    fn values(&self) -> usize {
        match self.common.sought {
            Sought::Values(_, v) => v.len(),
            Sought::Plane(_) => 1,
        }
    }
    fn is_plane(&self) -> bool {
        matches!(self.common.sought, Sought::Plane(_))
    }
    fn is_double(&self) -> bool {
        self.z.arrays[self.z.xyz].dtype == DType::Float64
    }

    fn candidates(&self, worker: &Worker, cells: IndexBox, missing: &mut Vec<PageId>) -> Option<Candidates> {
        match self.common.sought {
            Sought::Values(field, values) => self.by_ranges((field, values), worker, cells, missing),
            Sought::Plane(plane) => self.by_boxes(plane, worker, cells, missing),
        }
    }

    fn sign_reads(&self) -> Option<&Reads> {
        Some(&self.sign_reads)
    }

    fn signs(&self, pages: &[&[u8]], page: u64, nodes: IndexBox, out: &mut BlockSigns) {
        let rows = NodeRows { nodes, first: self.sign_reads.nodes(page)[0], page: self.z.translation.page };
        let quantity = self.signs.quantities[0];
        match (self.common.sought, quantity) {
            (Sought::Values(_, values), Quantity::Stored { array, .. } | Quantity::Component { array, .. }) => {
                let a = &self.z.arrays[array];
                let component = if let Quantity::Component { component, .. } = quantity { component } else { 0 };
                let (bytes, of) = (self.signs.page(pages, array), (a.components, component));
                match a.dtype {
                    DType::Float32 => self.stored_signs::<f32>(bytes, of, values, &rows, out),
                    DType::Float64 => self.stored_signs::<f64>(bytes, of, values, &rows, out),
                    DType::Int32 => self.stored_signs::<i32>(bytes, of, values, &rows, out),
                    DType::Uint8 => self.stored_signs::<u8>(bytes, of, values, &rows, out),
                }
            }
            (Sought::Values(_, values), Quantity::Derived(_)) => {
                let cuts: Vec<_> = values.iter().map(|v| f64::cut(*v)).collect();
                let mut scratch = self.signs.scratch();
                rows.each(|node, element, n| {
                    let numbers = self.signs.row(self.z, pages, element, n, 1, &mut scratch);
                    let [i, j, k] = out.place(node);
                    for (v, cut) in cuts.iter().enumerate() {
                        let (inside, none) = row_signs(&numbers[..n], *cut);
                        out.inside[v].set(i, j, k, inside);
                        out.add_bad(node, none);
                    }
                });
            }
            (Sought::Plane(plane), _) => {
                let c = quantity.components();
                let mut scratch = self.signs.scratch();
                rows.each(|node, element, n| {
                    let x = self.signs.row(self.z, pages, element, n, 1, &mut scratch);
                    let [i, j, k] = out.place(node);
                    let (mut inside, mut hits, mut none) = (0u64, 0u64, 0u64);
                    for m in 0..n {
                        let d = plane.depth(core::array::from_fn(|a| if a < c { x[a * n + m] } else { 0.0 }));
                        inside |= u64::from(d >= 0.0) << m;
                        hits |= u64::from(d == 0.0) << m;
                        none |= u64::from(!d.is_finite()) << m;
                    }
                    out.inside[0].set(i, j, k, inside);
                    if let Some(h) = &mut out.hits {
                        h.set(i, j, k, hits);
                    }
                    out.add_bad(node, none);
                });
            }
        }
        if let Some(array) = self.z.iblank {
            let bytes = self.signs.page(pages, array);
            let mut blank = [0.0; 64];
            rows.each(|node, element, n| {
                self.z.elements(array, bytes, 0, element, &mut blank[..n]);
                let none = blank[..n].iter().enumerate().fold(0, |b, (m, v)| b | u64::from(*v == 0.0) << m);
                out.add_bad(node, none);
                let hidden = blank[..n].iter().enumerate();
                out.add_hidden(node, hidden.fold(0, |b, (m, v)| b | u64::from(hides_cell(*v)) << m));
            });
        }
    }

    fn value_reads(&self) -> &[Reads] {
        &self.value_reads
    }
    fn columns(&self) -> usize {
        self.columns
    }

    fn take(&self, _read: usize, pages: &[&[u8]], page: u64, needed: &NodeSet, values: &mut [f64]) {
        self.values.take(self.z, pages, self.value_reads[0].nodes(page), needed, values);
    }

    fn unusable(&self, needed: &NodeSet, values: &[f64], each: &mut dyn FnMut([u32; 3])) {
        let n = needed.count();
        let columns = &values[self.xyz * n..(self.xyz + self.z.arrays[self.z.xyz].components) * n];
        if columns.iter().all(|x| x.is_finite()) {
            return;
        }
        needed.each(|node, number| {
            if columns.iter().skip(number).step_by(n).any(|x| !x.is_finite()) {
                each(node);
            }
        });
    }

    fn shape(&self) -> NodePositions<'_> {
        NodePositions::Columns(self.xyz, self.z.arrays[self.z.xyz].components)
    }
    fn level(&self, value: usize) -> Level {
        match self.common.sought {
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
        None
    }
}

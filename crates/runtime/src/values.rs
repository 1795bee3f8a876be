//! Values at nodes: boxes of a zone as arrays, and probes.

use crate::blocking::BlockingFlow;
use crate::gridface::AXES;
use crate::limits::{fetch_error, held_together};
use crate::session::{ProgressWatch, Session};
use field::dataset::Dataset;
use field::domain::{Domains, Locator};
use field::error::FieldError;
use field::locator::{Blank, CellPoint, ZoneFields};
use field::nodes::{ArraySlot, Zone};
use field::quantity::{Columns, Derived, Quantity};
use pager::{Lookup, PageId, PagerError};

/// A box of nodes of a zone: 0-based, half open, along i, j, k.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeBox {
    /// Zone number.
    pub zone: usize,
    /// Time step.
    pub step: usize,
    /// First node.
    pub lo: [u32; 3],
    /// One past the last.
    pub hi: [u32; 3],
}

impl NodeBox {
    /// Number of nodes.
    pub fn count(&self) -> usize {
        (0..3).map(|a| (self.hi[a] - self.lo[a]) as usize).product()
    }
}

/// Reads fields at the nodes of a box into the caller's memory, `[component of all fields][k][j][i]`. Only pages that
/// the box meets are read, some at a time.
///
/// # Errors
/// [`FieldError`]: a box that leaves the zone, a failed page.
pub fn read_box(
    session: &Session,
    dataset: &Dataset,
    at: NodeBox,
    fields: &[Quantity],
    watch: &mut ProgressWatch<'_>,
) -> Result<Vec<f64>, FieldError> {
    dataset.check_step(at.step)?;
    let z = &dataset.zones[at.zone];
    let dims = z.dims();
    if (0..3).any(|a| at.lo[a] >= at.hi[a] || at.hi[a] > dims[a]) {
        return Err(FieldError::Usage(format!(
            "{}: nodes {:?} to {:?} are not within {:?}",
            z.name, at.lo, at.hi, dims
        )));
    }
    let components: usize = fields.iter().map(|q| q.components()).sum();
    let n = at.count();
    let mut out = vec![0.0; components.checked_mul(n).ok_or_else(|| FieldError::Usage("too many values".into()))?];
    visit_box(session, dataset, at, fields, watch, &mut |ijk, values| {
        let o: [usize; 3] = core::array::from_fn(|a| (ijk[a] - at.lo[a]) as usize);
        let (ni, nj) = ((at.hi[0] - at.lo[0]) as usize, (at.hi[1] - at.lo[1]) as usize);
        let m = (o[2] * nj + o[1]) * ni + o[0];
        for (c, v) in values.iter().enumerate() {
            out[c * n + m] = *v;
        }
        true
    })?;
    Ok(out)
}

/// Calls `each` with every node of a box and the fields there, page by page. It stops when `each` returns false, and
/// returns whether every call returned true.
///
/// # Errors
/// A failed page; [`FieldError::Interrupted`].
pub fn visit_box(
    session: &Session,
    dataset: &Dataset,
    at: NodeBox,
    fields: &[Quantity],
    watch: &mut ProgressWatch<'_>,
    each: &mut dyn FnMut([u32; 3], &[f64]) -> bool,
) -> Result<bool, FieldError> {
    let z = &dataset.zones[at.zone];
    let mut reader = NodeReader::new(dataset, at, fields)?;
    let t = &z.translation;
    let page_lo: [u32; 3] = core::array::from_fn(|a| at.lo[a] / t.page[a]);
    let page_hi: [u32; 3] = core::array::from_fn(|a| (at.hi[a] - 1) / t.page[a] + 1);
    let mut boxes = Vec::new();
    for k in page_lo[2]..page_hi[2] {
        for j in page_lo[1]..page_hi[1] {
            boxes.extend((page_lo[0]..page_hi[0]).map(|i| [i, j, k]));
        }
    }
    let page_bytes: u64 =
        reader.arrays.iter().map(|a| (t.component * z.arrays[*a].components * z.arrays[*a].dtype.size()) as u64).sum();
    // Enough pages at once to keep the readers busy, if they can be held together.
    let making = reader.arrays.iter().map(|a| z.arrays[*a].making).max().unwrap_or(0);
    let together = held_together(&session.pager, making + page_bytes).min(session.held_most());
    let mut batch = (together / page_bytes.max(1)).clamp(1, 4 * session.pager.readers() as u64) as usize;
    let mut values = vec![0.0; fields.iter().map(|q| q.components()).sum()];
    let mut worker = session.pager.worker();
    let mut next = 0;
    while next < boxes.len() {
        let some = &boxes[next..(next + batch).min(boxes.len())];
        if !watch("reading", next as f64, boxes.len() as f64) {
            return Err(FieldError::Interrupted);
        }
        let ids: Vec<PageId> = some.iter().flat_map(|b| reader.arrays.iter().map(|a| reader.page(z, *a, *b))).collect();
        let bytes = page_bytes * some.len() as u64;
        // The limit must hold what else the run reads: of any zone a page of every array. Derived pages are computed
        // one at a time.
        let short = |e| {
            let of_array = |z: &Zone, a: &ArraySlot| (z.translation.component * a.components * a.dtype.size()) as u64;
            let of_zone = |z: &Zone| z.arrays.iter().map(|a| of_array(z, a)).sum::<u64>();
            let making = |z: &Zone| z.arrays.iter().map(|a| a.making).max().unwrap_or(0);
            let pages = dataset.zones.iter().map(of_zone).fold(bytes, u64::max);
            fetch_error(&session.pager, e, pages, dataset.zones.iter().map(making).max().unwrap_or(0))
        };
        let _hold = match session.pager.fetch(&ids) {
            Ok(hold) => hold,
            // From now on fewer at once: each attempt that fails takes some seconds.
            Err(PagerError::Full(_)) if some.len() > 1 => {
                batch = some.len() / 2;
                session.hold_fewer(batch as u64 * page_bytes);
                continue;
            }
            Err(e) => return Err(short(e)),
        };
        next += some.len();
        for b in some {
            let mut pages: Vec<Option<&[u8]>> = vec![None; z.arrays.len()];
            for a in &reader.arrays {
                match worker.page(reader.page(z, *a, *b)) {
                    Lookup::Here(p) => pages[*a] = Some(p),
                    Lookup::Failed(e) => return Err(e.into()),
                    // It is held, so it is resident.
                    Lookup::Absent => return Err(FieldError::Internal("a held page is absent")),
                }
            }
            let lo: [u32; 3] = core::array::from_fn(|a| at.lo[a].max(b[a] * t.page[a]));
            let hi: [u32; 3] = core::array::from_fn(|a| at.hi[a].min((b[a] + 1) * t.page[a]));
            let (width, height) = ((hi[0] - lo[0]) as usize, (hi[1] - lo[1]) as usize);
            // Rows of a page are contiguous: where most of each is requested, several are computed together. Row by
            // row, with columns of 16 numbers, pressure took 9 ns a value beside the 15 of a stored field.
            let (stride, _) = t.strides();
            let rows = if 2 * width > stride { (TOGETHER / stride).max(1) } else { 1 };
            for k in lo[2]..hi[2] {
                for row in (0..height).step_by(rows) {
                    let rows = rows.min(height - row);
                    let first = t.node([lo[0], lo[1] + row as u32, k]).element;
                    reader.compute(z, &pages, first, (rows - 1) * stride + width);
                    for j in 0..rows {
                        for i in 0..width {
                            reader.eval(z, &pages, first, j * stride + i, &mut values);
                            if !each([lo[0] + i as u32, lo[1] + (row + j) as u32, k], &values) {
                                return Ok(false);
                            }
                        }
                    }
                }
            }
        }
        worker.release();
    }
    Ok(true)
}

/// Nodes at which fields are computed together, if they are several rows: 64 KiB of columns.
const TOGETHER: usize = 1024;

/// Fields at nodes, from the pages of a box of a zone.
pub struct NodeReader<'a> {
    fields: &'a [Quantity],
    info: ZoneFields,
    /// The arrays with needed pages.
    pub arrays: Vec<usize>,
    step: u32,
    /// The inputs at `nodes` consecutive nodes, and then the computed fields, component by component.
    conserved: Columns,
    computed: Vec<f64>,
    /// Number of these nodes.
    nodes: usize,
}

impl<'a> NodeReader<'a> {
    fn new(dataset: &Dataset, at: NodeBox, fields: &'a [Quantity]) -> Result<Self, FieldError> {
        dataset.uses.quantities(fields);
        Ok(Self::of(dataset.zone_fields(at.zone, at.step)?, at.step, fields))
    }

    /// For a zone whose inputs are known.
    pub fn of(mut info: ZoneFields, step: usize, fields: &'a [Quantity]) -> Self {
        info.sampled = fields.to_vec();
        let mut arrays = info.arrays();
        arrays.sort_unstable();
        arrays.dedup();
        let (conserved, computed) = (Columns::default(), Vec::new());
        Self { fields, info, arrays, step: step as u32, conserved, computed, nodes: 0 }
    }

    /// The page of an array at a box.
    pub fn page(&self, z: &Zone, array: usize, b: [u32; 3]) -> PageId {
        let step = if z.arrays[array].steady { 0 } else { self.step };
        PageId::new(z.arrays[array].id, step, z.translation.number(b))
    }

    /// Computes the fields without pages of their own at `n` consecutive nodes.
    pub fn compute(&mut self, z: &Zone, pages: &[Option<&[u8]>], first: usize, n: usize) {
        let derived = self.fields.iter().filter_map(|q| if let Quantity::Derived(d) = q { Some(*d) } else { None });
        if derived.clone().next().is_none() {
            return;
        }
        let energy = derived.clone().any(Derived::needs_energy);
        let (s, columns) = (&self.info.sources, &mut self.conserved);
        let momentum = |c: usize| s.momentum.filter(|m| c < z.arrays[*m].components);
        row(z, pages, (s.density, 0), first, columns.of(0, n, 0.0));
        (0..3).for_each(|c| row(z, pages, (momentum(c), c), first, columns.of(1 + c, n, 0.0)));
        row(z, pages, (s.energy.filter(|_| energy), 0), first, columns.of(4, n, 0.0));
        row(z, pages, (s.gamma.filter(|_| energy), 0), first, columns.of(5, n, self.info.gamma));
        self.nodes = n;
        self.computed.clear();
        for d in derived {
            let from = self.computed.len();
            self.computed.resize(from + n * d.components(), 0.0);
            d.values(&self.conserved, self.info.free, &mut self.computed[from..]);
        }
    }

    /// The fields at the node `at` places after `first`, the first node of the last [`Self::compute`].
    pub fn eval(&self, z: &Zone, pages: &[Option<&[u8]>], first: usize, at: usize, out: &mut [f64]) {
        let one = |array: usize, component: usize| -> f64 {
            pages[array].map_or(0.0, |page| z.element(array, page, component, first + at))
        };
        let (mut to, mut column) = (0, 0);
        for q in self.fields {
            match *q {
                Quantity::Stored { array, components } => {
                    for c in 0..components {
                        out[to + c] = one(array, c);
                    }
                }
                Quantity::Component { array, component } => out[to] = one(array, component),
                Quantity::Derived(_) => {
                    let n = self.nodes;
                    for c in 0..q.components() {
                        out[to + c] = self.computed[(column + c) * n + at];
                    }
                    column += q.components();
                }
            }
            to += q.components();
        }
    }
}

/// One component of an array at consecutive nodes, into `numbers`. These stay as they are if the zone lacks the array.
fn row(
    z: &Zone,
    pages: &[Option<&[u8]>],
    (array, component): (Option<usize>, usize),
    first: usize,
    numbers: &mut [f64],
) {
    if let Some((array, page)) = array.and_then(|a| Some((a, (*pages.get(a)?)?))) {
        z.elements(array, page, component, first, numbers);
    }
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// Zone number.
    pub zone: usize,
    /// Fractional index along i, j, k, 0-based.
    pub index: [f64; 3],
    /// Physical position.
    pub position: [f64; 3],
    /// iblank of the cell, in words, unless it is plain field.
    pub note: Option<String>,
    /// Values by name.
    pub values: Vec<(String, Vec<f64>)>,
}

/// Values at a point in physical space. `None`: no usable cell holds it. `names` `None`: all fields of the zone of the
/// point.
///
/// # Errors
/// [`FieldError`]; a name that this zone lacks.
pub fn probe(
    session: &Session,
    x: [f64; 3],
    names: Option<&[String]>,
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<Option<ProbeResult>, FieldError> {
    let dataset = session.located_with(names.unwrap_or_default(), step, watch)?;
    // The zone is not known yet: the fields of each zone.
    let fields = dataset.fields_by_zone(step, &|zone| match names {
        Some(names) => names.iter().filter(|n| Quantity::named(&dataset.zones[zone], n).is_some()).cloned().collect(),
        None => Quantity::names(&dataset.zones[zone]),
    })?;
    let mut flow = BlockingFlow::new(session, &dataset, fields, step)?;
    let Some(spot) = flow.until_here(|f| f.start(x))? else { return Ok(None) };
    let names = probe_names(&dataset, spot.cell.zone as usize, names)?;
    let mut values = Vec::new();
    flow.until_here(|f| {
        values.clear();
        f.space.sample(&spot, &mut values)
    })?;
    settle_infinite(session, &dataset, &spot, step, &names, &mut values)?;
    Ok(Some(probed(&dataset, spot, x, None, &names, &values)))
}

/// Settles values between nodes that are not finite. An interpolation between infinite numbers is infinite. A corner of
/// weight zero does not count: zero times infinity would be NaN.
fn settle_infinite(
    session: &Session,
    dataset: &Dataset,
    spot: &CellPoint,
    step: usize,
    names: &[String],
    values: &mut [f64],
) -> Result<(), FieldError> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    let zone = spot.cell.zone as usize;
    let (dims, lo) = (dataset.zones[zone].dims(), spot.cell.ijk);
    let at = NodeBox { zone, step, lo, hi: core::array::from_fn(|a| (lo[a] + 2).min(dims[a])) };
    let wanted = names.iter().map(|n| dataset.quantity(zone, n)).collect::<Result<Vec<_>, _>>()?;
    let corners = read_box(session, dataset, at, &wanted, &mut |_, _, _| true)?;
    let count = at.count();
    let along: [usize; 3] = core::array::from_fn(|a| (at.hi[a] - lo[a]) as usize);
    for (value, of) in values.iter_mut().zip(corners.chunks(count)).filter(|(v, _)| !v.is_finite()) {
        let each = of.iter().enumerate().map(|(n, corner)| {
            let place = [n % along[0], n / along[0] % along[1], n / (along[0] * along[1])];
            let part = |a: usize| match (along[a], place[a]) {
                (1, _) => 1.0,
                (_, 0) => 1.0 - spot.rst[a],
                _ => spot.rst[a],
            };
            (part(0) * part(1) * part(2), corner)
        });
        *value = each.filter(|(weight, _)| weight.abs() > NO_PART).map(|(weight, corner)| weight * corner).sum();
    }
    Ok(())
}

/// Weight of a corner on the opposite face, up to rounding.
const NO_PART: f64 = 1e-12;

/// Values at a place of a zone's computational space, 0-based. Fractions are interpolated; whole numbers give the
/// node's own values. `names` `None`: all fields of the zone.
///
/// # Errors
/// [`FieldError`]; a name that the zone lacks; a usage error for a place outside the zone.
pub fn probe_ijk(
    session: &Session,
    zone: usize,
    ijk: [f64; 3],
    names: Option<&[String]>,
    step: usize,
) -> Result<ProbeResult, FieldError> {
    session.derive(names.unwrap_or_default())?;
    let dataset = session.dataset();
    dataset.check_step(step)?;
    let z = &dataset.zones[zone];
    let dims = z.dims();
    for (a, name) in AXES.iter().enumerate() {
        if !(ijk[a] >= 0.0 && ijk[a] <= f64::from(dims[a] - 1)) {
            return Err(FieldError::Usage(format!(
                "{name} = {} is not within 1 to {} of {}",
                ijk[a] + 1.0,
                dims[a],
                z.name
            )));
        }
    }
    let names = probe_names(&dataset, zone, names)?;
    let fields = dataset.fields_by_zone(step, &|n| if n == zone { names.clone() } else { Vec::new() })?;
    let spot = dataset.zones.spot(zone as u32, ijk);
    let mut flow = BlockingFlow::new(session, &dataset, fields, step)?;
    let (mut x, blank) = flow.until_here(|f| {
        let l = f.space.geometry(spot.cell)?;
        Ok((l.map().point(spot.rst), l.blank))
    })?;
    let mut values = Vec::new();
    // Interpolated, a node next to one that holds NaN or an infinite number would give NaN, too.
    if ijk.iter().all(|c| c.fract() == 0.0) {
        let lo = ijk.map(|c| c as u32);
        let position = z.arrays[z.xyz].components;
        let mut wanted = vec![Quantity::Stored { array: z.xyz, components: position }];
        for name in &names {
            wanted.push(dataset.quantity(zone, name)?);
        }
        let node = NodeBox { zone, step, lo, hi: lo.map(|n| n + 1) };
        values = read_box(session, &dataset, node, &wanted, &mut |_, _, _| true)?;
        x[..position].copy_from_slice(&values[..position]);
        values.drain(..position);
    } else {
        flow.until_here(|f| {
            values.clear();
            f.space.sample(&spot, &mut values)
        })?;
        settle_infinite(session, &dataset, &spot, step, &names, &mut values)?;
    }
    let note = match blank {
        Blank::Field => None,
        Blank::Fringe(z) => Some(format!("a corner of the cell is interpolated from zone {}", z + 1)),
        Blank::Hole => Some("the cell is blanked out".to_owned()),
    };
    Ok(probed(&dataset, spot, x, note, &names, &values))
}

fn probe_names(dataset: &Dataset, zone: usize, names: Option<&[String]>) -> Result<Vec<String>, FieldError> {
    let Some(names) = names else { return Ok(Quantity::names(&dataset.zones[zone])) };
    for name in names {
        dataset.quantity(zone, name)?;
    }
    Ok(names.to_vec())
}

fn probed(
    dataset: &Dataset,
    spot: CellPoint,
    position: [f64; 3],
    note: Option<String>,
    names: &[String],
    values: &[f64],
) -> ProbeResult {
    let zone = spot.cell.zone as usize;
    let mut at = 0;
    let each = names.iter().map(|n| {
        let c = dataset.quantity(zone, n).map_or(1, |q| q.components());
        at += c;
        (n.clone(), values[at - c..at].to_vec())
    });
    let values = each.collect();
    ProbeResult { zone, index: spot.index(), position, note, values }
}

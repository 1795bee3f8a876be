//! Pages of derived fields.
//!
//! A page's inputs are copied, one page at a time, into the scratch reserved with it. They are the page's own nodes,
//! and for differentiated inputs the nodes around them (see [`super::reach`]). The page is then made plane by plane,
//! with three planes of the differentiated fields held for the differences. All arithmetic is in float64. The page is
//! float32 if all its inputs are, else float64.

use super::planes::Planes;
use super::reach::{arm, around, largest, own, short, star};
use super::stencil::metrics;
use crate::catalog::DType;
use crate::expression::compile::ZoneConstant;
use crate::expression::run::{Code, Operation, Parts, Register, BLOCK};
use crate::nodes::{ArraySlot, Zone};
use crate::quantity::FreeStream;
use crate::translate::Translation;
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Located, PageMap};
use std::sync::Arc;

/// Constants of a zone at a step.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OfStep {
    /// The time in the dataset's unit.
    pub time: f64,
    /// Ratio of specific heats, if there is no array of it.
    pub gamma: f64,
    /// The free stream.
    pub free: FreeStream,
}

impl OfStep {
    /// One of the constants.
    pub fn get(&self, what: ZoneConstant) -> f64 {
        match what {
            ZoneConstant::Time => self.time,
            ZoneConstant::Gamma => self.gamma,
            ZoneConstant::Mach => self.free.mach,
            ZoneConstant::Density => self.free.density,
            ZoneConstant::PressureScale => self.free.pressure_scale(),
            ZoneConstant::GasConstant => self.free.gas_constant,
        }
    }
}

/// An array from which pages are made.
pub(super) struct Input {
    /// Its index in the zone.
    array: usize,
    pub(super) slot: ArraySlot,
    /// Whether nodes of other pages are needed.
    around: bool,
    /// Place of its numbers in the scratch.
    pub(super) at: usize,
}

/// The pages of one derived field of one zone.
pub struct DerivedPages {
    name: String,
    pub(super) translation: Translation,
    components: usize,
    dtype: DType,
    pub(super) parts: Parts,
    pub(super) inputs: Vec<Input>,
    /// Index in `inputs`; none for fields without gradients.
    pub(super) xyz: Option<usize>,
    pub(super) iblank: Option<usize>,
    /// Differentiated columns besides the coordinates.
    pub(super) differentiated: usize,
    steps: Arc<[OfStep]>,
    /// Largest number of nodes of a plane.
    pub(super) plane: usize,
    /// Bytes of scratch for inputs, planes, their usable nodes, and blocks.
    sizes: [usize; 4],
}

/// Adjacent nodes of a row among the points of a block.
struct NodeRow {
    /// Number of the first point.
    point: usize,
    /// Its node.
    node: [u32; 3],
    count: usize,
}

impl NodeRow {
    fn points(&self) -> core::ops::Range<usize> {
        self.point..self.point + self.count
    }
}

const ALIGNED: usize = 64;

impl DerivedPages {
    /// The pages of a field of a zone. `steps`: the zone's constants by step.
    pub fn new(name: String, zone: &Zone, parts: Parts, dtype: DType, steps: Arc<[OfStep]>) -> Self {
        let t = zone.translation;
        let differentiated = parts.inner.results.len();
        let (nodes, _) = largest(&t);
        let mut wanted: Vec<(usize, bool)> = parts.inner.inputs().map(|a| (a, true)).collect();
        if differentiated > 0 {
            wanted.push((zone.xyz, true));
            wanted.extend(zone.iblank.map(|a| (a, true)));
        }
        wanted.extend(parts.outer.inputs().map(|a| (a, false)));
        // Each once; those with neighbours take precedence.
        wanted.sort_by_key(|(a, around)| (*a, !around));
        wanted.dedup_by_key(|(a, _)| *a);
        let mut at = 0;
        let inputs: Vec<Input> = wanted
            .into_iter()
            .map(|(array, around)| {
                let slot = zone.arrays[array].clone();
                let each = slot.components * slot.dtype.size();
                let input = Input { array, slot, around, at };
                at += (if around { nodes } else { t.component } * each).next_multiple_of(ALIGNED);
                input
            })
            .collect();
        let find = |array: usize| inputs.iter().position(|i| i.array == array);
        let gradients = differentiated > 0;
        let (xyz, iblank) = if gradients { (find(zone.xyz), zone.iblank.and_then(find)) } else { (None, None) };
        let wide = |a: usize| (t.page[a] as usize + 2).max(3).min(t.dims[a] as usize);
        let plane = if gradients { wide(0) * wide(1) } else { 0 };
        let columns = 3 + differentiated;
        let registers = parts.inner.registers.max(parts.outer.registers);
        // Differences along three axes, metrics, gradients.
        let blocks = if gradients { 3 * columns + 9 + 3 * differentiated } else { 0 } + registers;
        let floats = 3 * plane * if gradients { columns } else { 0 };
        let sizes = [at, floats * 8, 3 * plane, blocks * size_of::<Register>()].map(|n| n.next_multiple_of(ALIGNED));
        let components = parts.outer.results.len();
        Self {
            name,
            translation: t,
            components,
            dtype,
            parts,
            inputs,
            xyz,
            iblank,
            differentiated,
            steps,
            plane,
            sizes,
        }
    }

    /// The same with the pager's ids of the zone's arrays.
    pub fn with_numbers(mut self, zone: &Zone) -> Self {
        for i in &mut self.inputs {
            i.slot.id = zone.arrays[i.array].id;
        }
        self
    }

    /// Arrays from which pages are made, and whether neighbouring pages are needed.
    pub fn made_of(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        self.inputs.iter().map(|i| (i.array, i.around))
    }

    /// Whether it is the same at every step.
    pub fn steady(&self) -> bool {
        let mut given = self.parts.inner.given().chain(self.parts.outer.given());
        let same = |g: ZoneConstant| self.steps.windows(2).all(|s| s[0].get(g).to_bits() == s[1].get(g).to_bits());
        self.inputs.iter().all(|i| i.slot.steady) && given.all(same)
    }

    /// Bytes for making a page, beside its frame.
    pub fn scratch_bytes(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Bytes on the heap.
    pub fn held(&self) -> u64 {
        let names = self.name.len() + self.inputs.iter().map(|i| i.slot.name.len() + 24).sum::<usize>();
        let code = 64 * (self.parts.inner.registers + self.parts.outer.registers) + 48 * 64;
        (size_of::<Self>() + names + self.inputs.capacity() * size_of::<Input>() + code + 256) as u64
    }

    /// The input, and its page, at a place of the list.
    fn input(&self, page: u64, mut place: usize) -> Option<(&Input, u64)> {
        let star = star(&self.translation, page);
        for i in &self.inputs {
            let pages = if i.around { &star[..] } else { &star[..1] };
            match pages.get(place) {
                Some(other) => return Some((i, *other)),
                None => place -= pages.len(),
            }
        }
        None
    }

    fn error(&self, page: PageId, what: &str) -> PageError {
        let (at, _) = self.translation.extent(page.page);
        PageError::new(
            format!(
                "{}, step {}, page at node (i {}, j {}, k {})",
                self.name,
                page.step,
                at[0] + 1,
                at[1] + 1,
                at[2] + 1
            ),
            PageErrorKind::Decode(what.to_owned()),
        )
    }

    fn of_step(&self, step: u32) -> OfStep {
        let nothing = OfStep { time: f64::NAN, gamma: f64::NAN, free: f64::NAN.into() };
        self.steps.get(step as usize).or(self.steps.last()).copied().unwrap_or(nothing)
    }

    pub(super) fn load(&self, array: usize, component: u8, raw: &[u8], element: usize, to: &mut [f64]) {
        let Some(i) = self.inputs.iter().find(|i| i.array == array) else { return };
        i.slot.elements(&raw[i.at..], usize::from(component), element, to);
    }

    /// Makes a page without gradients, padding included.
    fn pointwise(&self, given: OfStep, raw: &[u8], registers: &mut [Register], frame: &mut [u8]) {
        let count = self.translation.component;
        for first in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - first);
            self.parts.outer.run(registers, &mut |what, to| match what {
                Operation::Input { array, component } => self.load(array, component, raw, first, &mut to[..n]),
                Operation::Given(g) => *to = [given.get(g); BLOCK],
                _ => {}
            });
            self.store(registers, 0..n, first, frame);
        }
    }

    fn store(&self, registers: &[Register], points: core::ops::Range<usize>, element: usize, frame: &mut [u8]) {
        let c = self.components;
        for (k, r) in self.parts.outer.results.iter().enumerate() {
            let from = &registers[usize::from(*r)][points.clone()];
            if self.dtype == DType::Float32 {
                let to = frame[element * c * 4..].chunks_exact_mut(4).skip(k).step_by(c);
                to.zip(from).for_each(|(to, v)| to.copy_from_slice(&(*v as f32).to_ne_bytes()));
            } else {
                let to = frame[element * c * 8..].chunks_exact_mut(8).skip(k).step_by(c);
                to.zip(from).for_each(|(to, v)| to.copy_from_slice(&v.to_ne_bytes()));
            }
        }
    }
}

impl DerivedPages {
    fn with_gradients(&self, page: u64, given: OfStep, raw: &[u8], scratch: &mut [u8], frame: &mut [u8]) {
        let t = &self.translation;
        let mine = own(t, page);
        let reach = around(t, &mine);
        let (values, rest) = scratch.split_at_mut(self.sizes[1]);
        let (usable, blocks) = rest.split_at_mut(self.sizes[2]);
        // SAFETY: any bits are numbers.
        let (values, blocks) = unsafe { (values.align_to_mut::<f64>().1, blocks.align_to_mut::<Register>().1) };
        let columns = 3 + self.differentiated;
        let (differences, blocks) = blocks.split_at_mut(3 * columns);
        let (metric, blocks) = blocks.split_at_mut(9);
        let (gradients, registers) = blocks.split_at_mut(3 * self.differentiated);
        if mine.count() < t.component {
            frame.fill(0xff); // NaN, beyond the zone
        }
        let thin = t.dims.map(|n| n == 1);
        let corners = short(t, &mine).contains(&true);
        let mut planes = Planes { pages: self, around: reach, mine, corners, raw, given, values, usable };
        let mut filled = reach.lo[2];
        for k in mine.lo[2]..mine.hi[2] {
            // The planes of this plane's stencils: at most three.
            let last = if k == 0 { 3 } else { k + 2 }.min(t.dims[2]);
            while filled < last {
                planes.fill(filled, registers);
                filled += 1;
            }
            let mut rows: Vec<NodeRow> = Vec::with_capacity(8);
            let (mut j, mut i, mut count) = (mine.lo[1], mine.lo[0], 0);
            while j < mine.hi[1] {
                let n = (BLOCK - count).min((mine.hi[0] - i) as usize);
                planes.differences([i, j, k], n, count, differences);
                planes.uncollapse([i, j, k], n, count, differences);
                rows.push(NodeRow { point: count, node: [i, j, k], count: n });
                count += n;
                i += n as u32;
                if i == mine.hi[0] {
                    (i, j) = (mine.lo[0], j + 1);
                }
                if count == BLOCK || j == mine.hi[1] {
                    self.block(count, differences, metric, gradients, thin);
                    self.finish(&planes, &rows, gradients, registers, frame);
                    rows.clear();
                    count = 0;
                }
            }
        }
    }

    /// Gradients in physical space of a block, from its differences.
    fn block(&self, n: usize, d: &[Register], metric: &mut [Register], gradients: &mut [Register], thin: [bool; 3]) {
        let columns = 3 + self.differentiated;
        for p in 0..n {
            let r = core::array::from_fn(|axis| core::array::from_fn(|c| d[axis * columns + c][p]));
            for (row, m) in metrics(r, thin).iter().enumerate() {
                for (c, m) in m.iter().enumerate() {
                    metric[row * 3 + c][p] = *m;
                }
            }
        }
        for g in 0..self.differentiated {
            let along = |axis: usize| &d[axis * columns + 3 + g];
            let (x, y, z) = (along(0), along(1), along(2));
            for c in 0..3 {
                let (a, b, e) = (&metric[c], &metric[3 + c], &metric[6 + c]);
                let to = &mut gradients[3 * g + c];
                for p in 0..n {
                    to[p] = a[p] * x[p] + b[p] * y[p] + e[p] * z[p];
                }
            }
        }
    }

    /// Computes the page's numbers from the gradients of a block.
    fn finish(
        &self,
        planes: &Planes<'_>,
        rows: &[NodeRow],
        gradients: &[Register],
        registers: &mut [Register],
        frame: &mut [u8],
    ) {
        let t = &self.translation;
        self.parts.outer.run(registers, &mut |what, to| match what {
            Operation::Input { array, component } => {
                let Some(input) = self.inputs.iter().find(|i| i.array == array) else { return };
                let raw = &planes.raw[input.at..];
                for row in rows {
                    let element = if input.around { planes.around.place(row.node) } else { t.node(row.node).element };
                    input.slot.elements(raw, usize::from(component), element, &mut to[row.points()]);
                }
            }
            Operation::Given(g) => *to = [planes.given.get(g); BLOCK],
            Operation::Gradient { of, axis } => *to = gradients[3 * of + usize::from(axis)],
            Operation::Constant(_) => {}
        });
        for row in rows {
            self.store(registers, row.points(), t.node(row.node).element, frame);
        }
    }

    fn code(&self) -> &Code {
        &self.parts.outer
    }
}

impl PageMap for DerivedPages {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.translation.pages.map(u64::from))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.components * self.dtype.size()
    }
    fn derived(&self) -> bool {
        true
    }
    fn locate(&self, page: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let star = star(&self.translation, page.page);
        let inputs = self.inputs.iter().flat_map(|i| {
            let step = if i.slot.steady { 0 } else { page.step };
            let pages = if i.around { &star[..] } else { &star[..1] };
            pages.iter().map(move |n| PageId::new(i.slot.id, step, *n))
        });
        Located::Derived { inputs: inputs.collect(), scratch_len: self.scratch_bytes() }
    }
    fn take(&self, page: PageId, input: usize, bytes: &[u8], scratch: &mut [u8]) -> Result<(), PageError> {
        let Some((i, other)) = self.input(page.page, input) else { return Err(self.error(page, "no such input")) };
        let t = &self.translation;
        let each = i.slot.components * i.slot.dtype.size();
        if bytes.len() < t.component * each {
            return Err(self.error(page, &format!("a page of {} is too short", i.slot.name)));
        }
        if !i.around {
            scratch[i.at..][..t.component * each].copy_from_slice(&bytes[..t.component * each]);
            return Ok(());
        }
        let mine = own(t, page.page);
        let reach = around(t, &mine);
        let Some(arm) = arm(t, page.page, other) else { return Ok(()) };
        let n = (arm.hi[0] - arm.lo[0]) as usize * each;
        for k in arm.lo[2]..arm.hi[2] {
            for j in arm.lo[1]..arm.hi[1] {
                let node = [arm.lo[0], j, k];
                let (from, to) = (t.node(node).element * each, i.at + reach.place(node) * each);
                scratch[to..to + n].copy_from_slice(&bytes[from..from + n]);
            }
        }
        Ok(())
    }
    fn decode(&self, page: PageId, _: &[u64], _: &[u8], scratch: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        if scratch.len() < self.scratch_bytes() {
            return Err(self.error(page, "its scratch is too small"));
        }
        let given = self.of_step(page.step);
        let (raw, rest) = scratch.split_at_mut(self.sizes[0]);
        if self.differentiated == 0 {
            // SAFETY: any bits are numbers.
            let registers = unsafe { rest.align_to_mut::<Register>().1 };
            debug_assert!(registers.len() >= self.code().registers);
            self.pointwise(given, raw, registers, frame);
        } else {
            self.with_gradients(page.page, given, raw, rest, frame);
        }
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`. All ones is NaN.
        frame.fill(0xff);
    }
    fn checked(&self) -> bool {
        true
    }
}

//! Fields of a zone at its nodes, from pages: by rows, or at some nodes of a page.

use super::grid::{IndexBox, Reads};
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::ZoneFields;
use field::nodes::Zone;
use field::quantity::{Columns, Derived, Quantity};
use kernels::surface::{each_bit, NodeSet};
use pager::{PageId, Pager};
use std::sync::Arc;

/// Some fields of a zone.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    /// The fields.
    pub quantities: Vec<Quantity>,
    info: ZoneFields,
    /// Arrays to be read, each once, in the order of the given pages.
    arrays: Vec<usize>,
    step: u32,
}

/// Memory for rows.
#[derive(Default)]
pub(crate) struct RowBuffers {
    conserved: Columns,
    out: Vec<f64>,
}

impl Sampler {
    /// For fields of the zone.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub fn new(dataset: &Dataset, zone: usize, step: usize, quantities: Vec<Quantity>) -> Result<Self, FieldError> {
        let mut info = dataset.zone_fields(zone, step)?;
        info.sampled.clone_from(&quantities);
        dataset.uses.quantities(&quantities);
        let mut arrays = info.arrays();
        arrays.sort_unstable();
        arrays.dedup();
        Ok(Self { quantities, info, arrays, step: step as u32 })
    }

    /// The reads for them.
    pub fn reads(&self, z: &Zone, pager: &Arc<Pager>) -> Reads {
        let of = |a: &usize| {
            let a = &z.arrays[*a];
            (a.id, if a.steady { 0 } else { self.step })
        };
        let arrays: Vec<_> = self.arrays.iter().map(of).collect();
        let bytes = arrays.iter().map(|(id, step)| pager.map(*id).page_bytes(PageId::new(*id, *step, 0)) as u64).sum();
        let making = self.arrays.iter().map(|a| z.arrays[*a].making).max().unwrap_or(0);
        Reads { translation: z.translation, arrays, bytes, making }
    }

    /// Memory for reuse from row to row.
    pub fn scratch(&self) -> RowBuffers {
        RowBuffers::default()
    }

    /// The page of an array.
    pub fn page<'p>(&self, pages: &[&'p [u8]], array: usize) -> &'p [u8] {
        self.arrays.iter().position(|a| *a == array).and_then(|n| pages.get(n).copied()).unwrap_or(&[])
    }

    /// The first `count` fields at `n` consecutive points of a page, component after component.
    pub fn row<'s>(
        &self,
        z: &Zone,
        pages: &[&[u8]],
        first: usize,
        n: usize,
        count: usize,
        scratch: &'s mut RowBuffers,
    ) -> &'s [f64] {
        scratch.out.clear();
        let out = &mut scratch.out;
        self.each(n, count, &mut scratch.conserved, out, |array, component, to| {
            z.elements(array, self.page(pages, array), component, first, to);
        });
        out
    }

    /// Appends fields at points; `fill` gives the stored numbers.
    fn each(
        &self,
        n: usize,
        count: usize,
        conserved: &mut Columns,
        out: &mut Vec<f64>,
        fill: impl Fn(usize, usize, &mut [f64]),
    ) {
        let quantities = &self.quantities[..count];
        let derived = || quantities.iter().filter_map(|q| if let Quantity::Derived(d) = q { Some(*d) } else { None });
        if derived().next().is_some() {
            let s = &self.info.sources;
            let energy = derived().any(Derived::needs_energy);
            let momentum = s.momentum.filter(|_| derived().any(Derived::needs_momentum));
            let sources = [
                (s.density, 0),
                (momentum, 0),
                (momentum, 1),
                (momentum, 2),
                (s.energy.filter(|_| energy), 0),
                (s.gamma.filter(|_| energy), 0),
            ];
            for (variable, (array, component)) in sources.into_iter().enumerate() {
                let to = conserved.of(variable, n, if variable == 5 { self.info.gamma } else { 0.0 });
                if let Some(array) = array {
                    fill(array, component, to);
                }
            }
        }
        for q in quantities {
            let from = out.len();
            out.resize(from + n * q.components(), 0.0);
            let to = &mut out[from..];
            match *q {
                Quantity::Stored { array, components } => {
                    (0..components).for_each(|c| fill(array, c, &mut to[c * n..(c + 1) * n]));
                }
                Quantity::Component { array, component } => fill(array, component, to),
                Quantity::Derived(d) => d.values(conserved, self.info.free, to),
            }
        }
    }

    /// Stores all fields at the needed nodes of a page into columns of them all.
    pub fn take(&self, z: &Zone, pages: &[&[u8]], nodes: IndexBox, needed: &NodeSet, values: &mut [f64]) {
        let [pi, pj, _] = z.translation.page.map(|n| n as usize);
        let (mut points, mut places) = (Vec::new(), Vec::new());
        needed.rows_in(nodes[0], nodes[1], |first, bits, number| {
            let at: [usize; 3] = core::array::from_fn(|a| (first[a] - nodes[0][a]) as usize);
            let row = (at[2] * pj + at[1]) * pi + at[0];
            let mut n = number;
            each_bit(bits, |i| {
                points.push(row + i as usize);
                places.push(n);
                n += 1;
            });
        });
        let mut out = Vec::new();
        self.each(points.len(), self.quantities.len(), &mut Columns::default(), &mut out, |array, component, to| {
            let page = self.page(pages, array);
            // Missing components stay unchanged.
            if component < z.arrays[array].components {
                to.iter_mut().zip(&points).for_each(|(to, n)| *to = z.element(array, page, component, *n));
            }
        });
        let count = needed.count();
        for (column, of) in out.chunks_exact(points.len().max(1)).enumerate() {
            let to = &mut values[column * count..(column + 1) * count];
            places.iter().zip(of).for_each(|(place, v)| to[*place] = *v);
        }
    }
}

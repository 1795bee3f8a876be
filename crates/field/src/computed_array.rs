//! Arrays that no file holds: their numbers follow from a point's indices, as in uniform and rectilinear grids.

use crate::catalog::{DType, ReadCounter, RowReader};
use crate::error::FieldError;
use crate::heap_size;
use crate::inplace::page_box;
use crate::translate::Translation;
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Located, PageMap};
use std::ops::Range;
use std::sync::Arc;

/// The numbers of a component by the 0-based indices (i, j, k).
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// The same at all points.
    Constant(f64),
    /// `values[index along axis]`.
    Line {
        /// 0, 1 or 2.
        axis: usize,
        /// One per point along the axis.
        values: Arc<[f64]>,
    },
    /// `origin + steps[0] * i + steps[1] * j + steps[2] * k`. A step of 0 adds nothing, so that components stay uniform
    /// to the last bit.
    Uniform {
        /// At point (0, 0, 0).
        origin: f64,
        /// The steps along i, j and k.
        steps: [f64; 3],
    },
}

impl Rule {
    fn at(&self, ijk: [usize; 3]) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Line { axis, values } => values.get(ijk[*axis]).copied().unwrap_or(f64::NAN),
            Self::Uniform { origin, steps } => {
                let each = steps.iter().zip(ijk).filter(|(step, _)| **step != 0.0);
                each.fold(*origin, |sum, (step, n)| sum + step * n as f64)
            }
        }
    }

    fn held(&self) -> u64 {
        match self {
            Self::Line { values, .. } => values.len() as u64 * 8 + heap_size::shared::<f64>(),
            Self::Constant(_) | Self::Uniform { .. } => 0,
        }
    }
}

/// An array with one rule per component, by step or for all steps.
#[derive(Debug)]
pub struct ComputedArray {
    name: String,
    dims: [usize; 3],
    dtype: DType,
    /// By step, or one for all steps.
    steps: Vec<Vec<Rule>>,
    /// Stays 0: nothing is read.
    tally: ReadCounter,
}

impl ComputedArray {
    /// `steps` is not empty; each has the same number of rules.
    pub(crate) fn new(name: String, dims: [usize; 3], dtype: DType, steps: Vec<Vec<Rule>>) -> Self {
        Self { name, dims, dtype, steps, tally: ReadCounter::default() }
    }

    /// Steps that differ; 1 if it is steady.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// A description of all that its numbers depend on.
    pub fn reading(&self) -> String {
        format!("{:?} {:?}", self.dtype, self.steps)
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        let rules = self.steps.iter().map(|s| heap_size::list(s) + s.iter().map(Rule::held).sum::<u64>());
        heap_size::shared::<Self>() + heap_size::text(&self.name) + heap_size::list(&self.steps) + rules.sum::<u64>()
    }

    fn rules(&self, step: usize) -> &[Rule] {
        &self.steps[step.min(self.steps.len() - 1)]
    }

    /// Writes a row of a component, with `apart` bytes from number to number.
    fn row(&self, step: usize, c: usize, [j, k]: [usize; 2], out: &mut [u8], apart: usize) {
        let rule = &self.rules(step)[c];
        let size = self.dtype.size();
        for (i, place) in out.chunks_mut(apart).take(self.dims[0]).enumerate() {
            let value = rule.at([i, j, k]);
            match self.dtype {
                DType::Float32 => place[..size].copy_from_slice(&(value as f32).to_ne_bytes()),
                DType::Float64 => place[..size].copy_from_slice(&value.to_ne_bytes()),
                DType::Int32 => place[..size].copy_from_slice(&(value as i32).to_ne_bytes()),
                DType::Uint8 => place[..size].copy_from_slice(&(value as u8).to_ne_bytes()),
            }
        }
    }
}

impl RowReader for ComputedArray {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        let [ni, nj, nk] = self.dims;
        let row = ni * self.dtype.size();
        if c >= self.rules(step).len() || k >= nk || j.end > nj || j.len().checked_mul(row) != Some(out.len()) {
            return Err(FieldError::Usage(format!(
                "{}: rows {j:?} of plane {k} of component {c} do not fit",
                self.name
            )));
        }
        for (j, out) in j.zip(out.chunks_exact_mut(row)) {
            self.row(step, c, [j, k], out, self.dtype.size());
        }
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

/// The pages of a computed array: runs of whole rows, as in [`crate::inplace::InPlace`].
pub struct ComputedPages {
    rule: Arc<ComputedArray>,
    translation: Translation,
}

impl ComputedPages {
    /// The pages of an array.
    pub fn new(rule: Arc<ComputedArray>) -> Self {
        let dims = rule.dims;
        Self { rule, translation: Translation::new(dims, page_box(dims)) }
    }
}

impl PageMap for ComputedPages {
    fn name(&self) -> &str {
        &self.rule.name
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.translation.pages.map(u64::from))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.rule.rules(0).len() * self.rule.dtype.size()
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Fill
    }
    fn decode(&self, page: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Err(PageError::new(self.page_name(page), PageErrorKind::Decode("it is computed, not decoded".into())))
    }
    fn fill(&self, page: PageId, frame: &mut [u8]) {
        let (t, step) = (&self.translation, page.step as usize);
        let plane_pages = u64::from(t.pages[1]);
        let (k, jp) = ((page.page / plane_pages) as usize, (page.page % plane_pages) as usize);
        let first = jp * t.page[1] as usize;
        let (components, size) = (self.rule.rules(step).len(), self.rule.dtype.size());
        let row = self.rule.dims[0] * components * size;
        let rows = first..(first + t.page[1] as usize).min(self.rule.dims[1]);
        for (j, out) in rows.zip(frame.chunks_exact_mut(row)) {
            for c in 0..components {
                self.rule.row(step, c, [j, k], &mut out[c * size..], components * size);
            }
        }
    }
    fn checked(&self) -> bool {
        false
    }
}

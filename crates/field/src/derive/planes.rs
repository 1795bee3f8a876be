//! Three planes of the differentiated fields, and their differences.

use super::page::{DerivedPages, OfStep};
use super::reach::NodeReach;
use super::stencil::{choose, Difference};
use crate::expression::run::{Operation, Register, BLOCK};
use crate::plot3d::iblank::{bits, EDGE};

/// Three planes of the differentiated fields, around the nodes of a page.
pub(super) struct Planes<'a> {
    pub pages: &'a DerivedPages,
    pub around: NodeReach,
    pub mine: NodeReach,
    /// Whether nodes across corners of the page are loaded.
    pub corners: bool,
    pub raw: &'a [u8],
    pub given: OfStep,
    pub values: &'a mut [f64],
    pub usable: &'a mut [u8],
}

impl Planes<'_> {
    fn columns(&self) -> usize {
        3 + self.pages.differentiated
    }

    /// Start of a node's row in a column, or in `usable` (column 0 of 1).
    fn row(&self, columns: usize, column: usize, j: u32, k: u32) -> usize {
        let wide = self.around.dims()[0];
        ((k % 3) as usize * columns + column) * self.pages.plane + (j - self.around.lo[1]) as usize * wide
    }

    fn is_usable(&self, [i, j, k]: [u32; 3]) -> bool {
        self.pages.iblank.is_none() || self.usable[self.row(1, 0, j, k) + (i - self.around.lo[0]) as usize] & 1 != 0
    }

    fn is_cut(&self, [i, j, k]: [u32; 3], axis: usize) -> bool {
        let marks = || self.usable[self.row(1, 0, j, k) + (i - self.around.lo[0]) as usize];
        self.pages.iblank.is_some() && marks() & (EDGE as u8) << axis != 0
    }

    /// Computes plane k: the page's own rows, and in its own planes also the nodes around them.
    pub fn fill(&mut self, k: u32, registers: &mut [Register]) {
        // Nodes across corners are loaded only for pages that end before their stencils.
        let whole = self.corners || (self.mine.lo[2]..self.mine.hi[2]).contains(&k);
        let rows = if whole { self.around } else { self.mine };
        let wide = self.around.dims()[0];
        let first = self.around.place([self.around.lo[0], rows.lo[1], k]);
        let count = wide * rows.dims()[1];
        let (columns, p) = (self.columns(), self.pages);
        for done in (0..count).step_by(BLOCK) {
            let n = BLOCK.min(count - done);
            let base = self.row(columns, 0, rows.lo[1], k) + done;
            let to = |column: usize| base + column * p.plane;
            if let Some(xyz) = p.xyz.map(|n| &p.inputs[n]) {
                for c in 0..3 {
                    let to = &mut self.values[to(c)..][..n];
                    match c < xyz.slot.components {
                        true => xyz.slot.elements(&self.raw[xyz.at..], c, first + done, to),
                        false => to.fill(0.0),
                    }
                }
            }
            p.parts.inner.run(registers, &mut |what, to| match what {
                Operation::Input { array, component } => p.load(array, component, self.raw, first + done, &mut to[..n]),
                Operation::Given(g) => *to = [self.given.get(g); BLOCK],
                _ => {}
            });
            for (c, r) in p.parts.inner.results.iter().enumerate() {
                let at = to(3 + c);
                self.values[at..][..n].copy_from_slice(&registers[usize::from(*r)][..n]);
            }
            if let Some(iblank) = p.iblank.map(|n| &p.inputs[n]) {
                let mut marks = [0.0; BLOCK];
                iblank.slot.elements(&self.raw[iblank.at..], 0, first + done, &mut marks[..n]);
                let at = self.row(1, 0, rows.lo[1], k) + done;
                for (to, m) in self.usable[at..][..n].iter_mut().zip(marks) {
                    // Whether the node is usable, and which edges from it lie in blanked-out cells only.
                    *to = u8::from(m != 0.0) | (bits(m) & (7 * EDGE)) as u8;
                }
            }
        }
    }

    /// Derivatives in computational space at `n` nodes from `at` on, of each column along each axis:
    /// `out[axis][column]`.
    pub fn differences(&self, at: [u32; 3], n: usize, into: usize, out: &mut [Register]) {
        let dims = self.pages.translation.dims;
        let columns = self.columns();
        let mut kinds = [Difference::None; BLOCK];
        for axis in 0..3 {
            for (t, kind) in kinds[..n].iter_mut().enumerate() {
                let node = [at[0] + t as u32, at[1], at[2]];
                let beside = |m| {
                    let mut other = node;
                    other[axis] = m;
                    other
                };
                *kind = choose(node[axis], dims[axis], |m| self.is_usable(beside(m)), |m| self.is_cut(beside(m), axis));
            }
            let mut begin = 0;
            while begin < n {
                let kind = kinds[begin];
                let len = kinds[begin..n].iter().take_while(|k| **k == kind).count();
                let node = [at[0] + begin as u32, at[1], at[2]];
                for c in 0..columns {
                    let to = &mut out[axis * columns + c][into + begin..into + begin + len];
                    // The nodes at distance `d`. Those that the kind does not use may not exist.
                    let from = |d: isize| {
                        let mut m = node;
                        m[axis] = m[axis].wrapping_add_signed(d as i32);
                        self.row(columns, c, m[1], m[2]) + (m[0] - self.around.lo[0]) as usize
                    };
                    let v = &*self.values;
                    match kind {
                        Difference::Central => {
                            let (next, previous) = (&v[from(1)..][..len], &v[from(-1)..][..len]);
                            for ((to, a), b) in to.iter_mut().zip(next).zip(previous) {
                                *to = (a - b) * 0.5;
                            }
                        }
                        kind => {
                            for (t, to) in to.iter_mut().enumerate() {
                                *to = kind.of(|d| v[from(d) + t]);
                            }
                        }
                    }
                }
                begin += len;
            }
        }
    }
}

/// Largest ratio of squared lengths, to the longest, at which an edge counts as collapsed: coordinates are rounded.
const COLLAPSED: f64 = 1e-12;

impl Planes<'_> {
    /// A difference of a column at a node along one axis, of differences along the others.
    fn mixed(&self, node: [u32; 3], axes: &[usize], column: usize) -> f64 {
        let Some((axis, rest)) = axes.split_first() else {
            let at = self.row(self.columns(), column, node[1], node[2]) + (node[0] - self.around.lo[0]) as usize;
            return self.values[at];
        };
        let beside = |m: u32| {
            let mut other = node;
            other[*axis] = m;
            other
        };
        let count = self.pages.translation.dims[*axis];
        let kind = choose(node[*axis], count, |m| self.is_usable(beside(m)), |m| self.is_cut(beside(m), *axis));
        kind.of(|d| self.mixed(beside(node[*axis].wrapping_add_signed(d as i32)), rest, column))
    }

    /// Replaces derivatives along collapsed edges by mixed ones, for nodes as in [`Self::differences`].
    pub fn uncollapse(&self, at: [u32; 3], n: usize, into: usize, out: &mut [Register]) {
        let dims = self.pages.translation.dims;
        let is_end = |a: usize, m: u32| dims[a] > 1 && (m == 0 || m + 1 == dims[a]);
        let ends_of = |node: [u32; 3]| -> [bool; 3] { core::array::from_fn(|a| is_end(a, node[a])) };
        let columns = self.columns();
        let square = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>();
        for t in 0..n {
            let node = [at[0] + t as u32, at[1], at[2]];
            let ends = ends_of(node);
            if ends == [false; 3] {
                continue;
            }
            let squares: [f64; 3] =
                core::array::from_fn(|a| square(core::array::from_fn(|c| out[a * columns + c][into + t])));
            let most = squares.iter().fold(0.0f64, |m, s| m.max(*s));
            for a in (0..3).filter(|a| dims[*a] > 1 && squares[*a] <= COLLAPSED * most.max(f64::MIN_POSITIVE)) {
                let [b, c] = [(a + 1) % 3, (a + 2) % 3];
                // The axis at whose end the edge is collapsed; both axes only if neither alone suffices.
                let tried: [(&[usize], bool); 3] =
                    [(&[b, a], ends[b]), (&[c, a], ends[c]), (&[b, c, a], ends[b] && ends[c])];
                let place = |axes: &[usize]| square(core::array::from_fn(|x| self.mixed(node, axes, x)));
                let mut best: Option<(&[usize], f64)> = None;
                for (axes, there) in tried {
                    if !there || (axes.len() == 3 && best.is_some()) {
                        continue;
                    }
                    let long = place(axes);
                    if long > squares[a] / COLLAPSED && best.is_none_or(|(_, other)| long > other) {
                        best = Some((axes, long));
                    }
                }
                if let Some((axes, _)) = best {
                    for column in 0..columns {
                        out[a * columns + column][into + t] = self.mixed(node, axes, column);
                    }
                }
            }
        }
    }
}

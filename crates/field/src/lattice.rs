//! The cells of a uniform grid, located by arithmetic without reading coordinates.

use crate::cell::FACE_TOLERANCE;
use crate::nodes::Zone;
use crate::shape::{CellId, CellPoint};
use crate::simd::V4;

/// A zone with the points of a [uniform grid](crate::uniform::Uniform), at least two along each axis.
#[derive(Copy, Clone, Debug)]
pub struct Lattice {
    zone: u32,
    origin: V4,
    spacing: V4,
    shortest: f64,
    inverse: V4,
    /// Cells along each axis.
    counts: V4,
    last: V4,
    cells: [u32; 3],
}

/// The location of a point along all axes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum LatticeLocation {
    /// In a cell.
    In(CellPoint),
    /// Beyond the last cells; the fractions are those in the nearest cell.
    Beyond(CellPoint),
}

/// Whether fractions lie in the cell, faces included, as in [`crate::cell::inside`].
#[inline(always)]
pub fn inside(rst: V4) -> bool {
    let (low, high) = (V4::splat(-FACE_TOLERANCE), V4::splat(1.0 + FACE_TOLERANCE));
    // NaN is neither below nor above.
    rst.below(low).either(high.below(rst)).bits() & 7 == 0 && rst.is_finite_xyz()
}

impl Lattice {
    /// The lattice of a zone, if it has one.
    pub fn of(zone: &Zone, number: usize) -> Option<Self> {
        let u = zone.uniform.as_ref()?;
        let even = u.spacing.iter().all(|s| *s != 0.0 && s.is_finite() && (1.0 / s).is_finite());
        if !even || zone.thin() != [false; 3] || !u.origin.iter().all(|c| c.is_finite()) {
            return None;
        }
        let cells = zone.cells();
        Some(Self {
            zone: number as u32,
            origin: V4::from_xyz(u.origin),
            spacing: V4::from_xyz(u.spacing),
            shortest: u.spacing.iter().fold(f64::INFINITY, |least, s| least.min(s.abs())),
            inverse: V4::from_xyz(u.spacing.map(|s| 1.0 / s)),
            counts: V4::from_xyz(cells.map(f64::from)),
            last: V4::from_xyz(cells.map(|n| f64::from(n - 1))),
            cells,
        })
    }

    /// Monomials of the map of a cell (see [`crate::cell::monomials`]).
    #[inline(always)]
    pub fn shape(&self, cell: CellId) -> [V4; 8] {
        let zero = V4::zero();
        let [x, y, z] = self.spacing.xyz();
        let low = self.origin.fma(self.spacing, V4::from_xyz(cell.ijk.map(f64::from)));
        let (r, s, t) = (V4::new(x, 0.0, 0.0, 0.0), V4::new(0.0, y, 0.0, 0.0), V4::new(0.0, 0.0, z, 0.0));
        [low, r, s, t, zero, zero, zero, zero]
    }

    /// Volume of each cell.
    pub fn volume(&self) -> f64 {
        self.spacing.xyz().iter().product::<f64>().abs()
    }

    /// Length of the shortest edge of each cell.
    #[inline(always)]
    pub fn shortest(&self) -> f64 {
        self.shortest
    }

    /// The fractional index of a point along each axis.
    #[inline(always)]
    fn index(&self, p: V4) -> V4 {
        (p - self.origin) * self.inverse
    }

    /// The cell that holds a point, and the fractions there. On a face the higher cell; beyond the last cells the
    /// nearest. It depends on the point alone.
    #[inline(always)]
    pub fn cell(&self, p: V4) -> (CellId, V4) {
        let at = self.index(p);
        // NaN becomes 0.
        let low = at.floor().max(V4::zero()).min(self.last);
        let [i, j, k, _] = low.to_array();
        (CellId { zone: self.zone, ijk: [i as u32, j as u32, k as u32] }, at - low)
    }

    /// The cell that holds a point, as in [`Self::cell`], if the point is not beyond the last.
    #[inline(always)]
    pub fn locate(&self, p: V4) -> LatticeLocation {
        let (cell, rst) = self.cell(p);
        let spot = CellPoint { cell, rst: rst.xyz() };
        match inside(rst) {
            true => LatticeLocation::In(spot),
            false => LatticeLocation::Beyond(spot),
        }
    }

    /// The one or more cells that hold a point, lowest (k, j, i) first.
    pub fn holding(&self, p: V4) -> impl Iterator<Item = CellPoint> + '_ {
        let at = self.index(p);
        let (slack, one) = (V4::splat(FACE_TOLERANCE), V4::splat(1.0));
        let beyond = at.below(V4::zero() - slack).either((self.counts + slack).below(at));
        let (at, first, last) = (at.xyz(), (at - one - slack).xyz(), (at + slack).xyz());
        let none = beyond.bits() & 7 != 0 || !at.iter().all(|c| c.is_finite());
        let [i, j, k]: [core::ops::Range<u32>; 3] = core::array::from_fn(|a| {
            let (first, last) = (first[a].ceil().max(0.0) as u32, last[a].floor().max(0.0) as u32);
            first.min(self.cells[a] - 1)..if none { 0 } else { last.min(self.cells[a] - 1) + 1 }
        });
        let all = k.flat_map(move |k| {
            let i = i.clone();
            j.clone().flat_map(move |j| i.clone().map(move |i| [i, j, k]))
        });
        all.map(move |ijk| {
            let rst = core::array::from_fn(|a| at[a] - f64::from(ijk[a]));
            CellPoint { cell: CellId { zone: self.zone, ijk }, rst }
        })
        .filter(|spot| crate::cell::inside(spot.rst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{CellMap, Inverse};
    use crate::translate::Translation;
    use crate::uniform::Uniform;
    use proptest::prelude::*;

    fn lattice(dims: [usize; 3], origin: [f64; 3], spacing: [f64; 3]) -> Option<Lattice> {
        let translation = Translation::new(dims, dims);
        let uniform = Some(Uniform { origin, spacing });
        let (name, arrays, boxes) = ("zone1".to_owned(), Vec::new(), Vec::new());
        Lattice::of(&Zone { name, translation, arrays, xyz: 0, iblank: None, boxes, uniform }, 3)
    }

    #[test]
    fn a_plane_and_broken_numbers_are_none() {
        assert!(lattice([5, 4, 3], [0.0; 3], [1.0; 3]).is_some());
        assert!(lattice([5, 4, 1], [0.0; 3], [1.0, 1.0, 0.0]).is_none());
        assert!(lattice([5, 4, 3], [0.0; 3], [1.0, f64::NAN, 1.0]).is_none());
        assert!(lattice([5, 4, 3], [f64::INFINITY, 0.0, 0.0], [1.0; 3]).is_none());
        let even = lattice([5, 4, 3], [0.0; 3], [1.0; 3]).unwrap();
        for x in [[f64::NAN, 1.0, 1.0], [f64::INFINITY, 1.0, 1.0], [1.0, f64::NEG_INFINITY, 1.0], [-1e-6, 1.0, 1.0]] {
            assert!(matches!(even.locate(V4::from_xyz(x)), LatticeLocation::Beyond(_)), "{x:?}");
            assert_eq!(even.holding(V4::from_xyz(x)).count(), 0, "{x:?}");
        }
    }

    proptest! {
        /// All cells that meet at a point hold it, lowest first, and their maps lead back to the point.
        #[test]
        fn cells_are_those_that_hold_the_point(
            dims in prop::array::uniform3(2usize..7), origin in prop::array::uniform3(-3.0f64..3.0),
            spacing in prop::array::uniform3(prop::sample::select(vec![0.125, -0.5, 1.0, 0.3])),
            place in prop::array::uniform3(prop::sample::select(vec![0.0, 0.25, 0.5, 0.61, 1.0])),
        ) {
            let even = lattice(dims, origin, spacing).unwrap();
            let index: [f64; 3] = core::array::from_fn(|a| place[a] * (dims[a] - 1) as f64);
            let p = V4::from_xyz(core::array::from_fn(|a| origin[a] + spacing[a] * index[a]));
            let found: Vec<CellPoint> = even.holding(p).collect();
            let meet = |a: usize| {
                let inner = index[a].fract() == 0.0 && index[a] > 0.0 && index[a] < (dims[a] - 1) as f64;
                if inner { 2 } else { 1 }
            };
            prop_assert_eq!(found.len(), (0..3).map(meet).product::<usize>());
            let key = |s: &CellPoint| [s.cell.ijk[2], s.cell.ijk[1], s.cell.ijk[0]];
            let rising = found.windows(2).all(|w| key(&w[0]) < key(&w[1]));
            prop_assert!(rising);
            let LatticeLocation::In(spot) = even.locate(p) else { return Err(TestCaseError::fail("it is inside")) };
            prop_assert_eq!(spot.cell.zone, 3);
            prop_assert!(found.iter().any(|s| s.cell == spot.cell));
            for s in &found {
                let map = CellMap::from_monomials(&even.shape(s.cell));
                let x = map.point(s.rst);
                prop_assert!((0..3).all(|a| (x[a] - p.xyz()[a]).abs() < 1e-12), "{:?} {:?}", x, p.xyz());
                let Inverse::At(q) = map.invert(p, [0.5; 3]) else { return Err(TestCaseError::fail("no inverse")) };
                prop_assert!((0..3).all(|a| (q[a] - s.rst[a]).abs() < 1e-9));
            }
        }
    }
}

//! Whether a zone's grid is uniform, rectilinear or curvilinear. PLOT3D stores coordinates of each in full.

/// Spacings are equal if they differ by less than this share of the largest coordinate. Single precision rounds by half
/// of it.
const ROUNDING: f64 = 2.5e-7;

/// The kinds. Each is a special case of those after it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GridKind {
    Uniform,
    Rectilinear,
    Curvilinear,
}

impl GridKind {
    /// The kind as it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Rectilinear => "rectilinear",
            Self::Curvilinear => "curvilinear",
        }
    }
}

/// Compares every node of a zone once, in any order.
pub(crate) struct GridLook {
    /// For each axis, its coordinate at each index; NaN before the first node there.
    lines: [Vec<f64>; 3],
    rectilinear: bool,
}

impl GridLook {
    /// For a zone of `dims` points.
    pub fn new(dims: [u32; 3]) -> Self {
        Self { lines: dims.map(|n| vec![f64::NAN; n as usize]), rectilinear: true }
    }

    /// Bytes held for a zone of `dims` points.
    pub fn bytes(dims: [u32; 3]) -> u64 {
        dims.iter().map(|n| u64::from(*n) * 8).sum()
    }

    /// Adds a node and its position.
    pub fn node(&mut self, at: [u32; 3], position: &[f64]) {
        if !self.rectilinear {
            return;
        }
        for ((line, i), x) in self.lines.iter_mut().zip(at).zip(position) {
            let known = &mut line[i as usize];
            if known.is_nan() {
                *known = *x;
            }
            // NaN is equal to nothing, so such a grid is curvilinear, too.
            self.rectilinear &= *known == *x;
        }
    }

    /// The kind of the nodes added. Axes must follow i, j, k in this order.
    pub fn kind(&self) -> GridKind {
        // Exchanged axes repeat one value along the tested axis.
        let grows = |line: &[f64]| {
            let up = line.windows(2).all(|w| w[0] < w[1]);
            up || line.windows(2).all(|w| w[0] > w[1])
        };
        if !self.rectilinear || !self.lines.iter().all(|l| grows(l)) {
            return GridKind::Curvilinear;
        }
        let even = |line: &[f64]| {
            // An axis of one point, or the missing third coordinate, is evenly spaced.
            let [first, .., last] = line else { return true };
            let step = (last - first) / (line.len() - 1) as f64;
            let slack = ROUNDING * first.abs().max(last.abs());
            line.iter().enumerate().all(|(n, x)| (x - (first + step * n as f64)).abs() <= slack)
        };
        if self.lines.iter().all(|l| even(l)) {
            GridKind::Uniform
        } else {
            GridKind::Rectilinear
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(at: impl Fn(f64, f64, f64) -> [f64; 3], dims: [u32; 3]) -> GridKind {
        let mut seen = GridLook::new(dims);
        // Backwards: the result must not depend on the order.
        for k in (0..dims[2]).rev() {
            for j in (0..dims[1]).rev() {
                for i in 0..dims[0] {
                    let single = at(i.into(), j.into(), k.into()).map(|c| f64::from(c as f32));
                    seen.node([i, j, k], &single);
                }
            }
        }
        seen.kind()
    }

    #[test]
    fn kinds() {
        let dims = [9, 8, 7];
        assert_eq!(kind(|i, j, k| [5.0 - 0.1 * i, 0.3 * j, 1.0 + k / 3.0], dims), GridKind::Uniform);
        assert_eq!(kind(|i, j, k| [0.1 * i, 0.3 * j * j, k], dims), GridKind::Rectilinear);
        assert_eq!(kind(|i, j, k| [0.1 * i, 0.3 * j + 1e-3 * i, k], dims), GridKind::Curvilinear);
        assert_eq!(kind(|i, j, k| [j, i, k], dims), GridKind::Curvilinear);
        assert_eq!(kind(|i, j, _| [i, j, f64::NAN], dims), GridKind::Curvilinear);
        assert_eq!(kind(|i, j, _| [0.1 * i, 0.2 * j, 4.0], [9, 8, 1]), GridKind::Uniform);
        assert_eq!(kind(|i, j, _| [i, i * 0.1, j], [9, 8, 1]), GridKind::Curvilinear);
        let mut plane = GridLook::new([2, 2, 1]);
        for (i, j) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            plane.node([i, j, 0], &[f64::from(i), f64::from(j)]);
        }
        assert_eq!(plane.kind(), GridKind::Uniform);
        // A moving grid has the most general kind of its steps.
        assert_eq!(GridKind::Uniform.max(GridKind::Rectilinear).word(), "rectilinear");
        assert_eq!(GridKind::Curvilinear.max(GridKind::Uniform).word(), "curvilinear");
    }
}

//! Whether the coordinates of a zone, which PLOT3D always stores in full, are those of a uniform or rectilinear grid.

/// Spacings that differ by less than this share of the largest coordinate are equal: single precision rounds by half of it.
const ROUNDING: f64 = 2.5e-7;

/// The kinds, each of which is also all that follow it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GridKind {
    Uniform,
    Rectilinear,
    Curvilinear,
}

impl GridKind {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Rectilinear => "rectilinear",
            Self::Curvilinear => "curvilinear",
        }
    }
}

/// Looks at every node of a zone once, in any order.
pub(crate) struct GridLook {
    /// For each axis, its coordinate at each index; NaN where none was seen.
    lines: [Vec<f64>; 3],
    rectilinear: bool,
}

impl GridLook {
    /// For a zone of so many points.
    pub fn new(dims: [u32; 3]) -> Self {
        Self { lines: dims.map(|n| vec![f64::NAN; n as usize]), rectilinear: true }
    }

    /// Bytes that it holds.
    pub fn bytes(dims: [u32; 3]) -> u64 {
        dims.iter().map(|n| u64::from(*n) * 8).sum()
    }

    /// A node and its position.
    pub fn node(&mut self, at: [u32; 3], position: &[f64]) {
        if !self.rectilinear {
            return;
        }
        for ((line, i), x) in self.lines.iter_mut().zip(at).zip(position) {
            let known = &mut line[i as usize];
            if known.is_nan() {
                *known = *x;
            }
            // Also where a coordinate is no number.
            self.rectilinear &= *known == *x;
        }
    }

    /// What it is. Axes must follow i, j, k in this order.
    pub fn kind(&self) -> GridKind {
        // A grid whose axes are exchanged repeats one value along the axis that it is tested for.
        let grows = |line: &[f64]| {
            let up = line.windows(2).all(|w| w[0] < w[1]);
            up || line.windows(2).all(|w| w[0] > w[1])
        };
        if !self.rectilinear || !self.lines.iter().all(|l| grows(l)) {
            return GridKind::Curvilinear;
        }
        let even = |line: &[f64]| {
            // One point (or none, of a third coordinate that is not there) is evenly spaced.
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
        // Backwards: the order is none that it may rely on.
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
        // Of a grid that moves, the kind of which it is at every step.
        assert_eq!(GridKind::Uniform.max(GridKind::Rectilinear).word(), "rectilinear");
        assert_eq!(GridKind::Curvilinear.max(GridKind::Uniform).word(), "curvilinear");
    }
}

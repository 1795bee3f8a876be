//! Seeds on a grid along the axes, by number and never as a list, and the blocks in which they are traced.

use field::error::FieldError;
use std::ops::Range;

/// Seeds along one axis.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct SeedAxis {
    /// The first coordinate.
    pub from: f64,
    /// The last coordinate; equal to the first if `count` is 1.
    pub to: f64,
    /// Number of seeds.
    pub count: u64,
}

impl SeedAxis {
    /// Coordinate of seed number `n`. The ends are exact.
    pub fn at(&self, n: u64) -> f64 {
        if n == 0 {
            return self.from;
        }
        if n + 1 >= self.count {
            return self.to;
        }
        let last = (self.count - 1) as f64;
        (self.from * (last - n as f64) + self.to * n as f64) / last
    }
}

/// Seeds along x, y and z, x fastest.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct SeedGrid {
    /// The axes.
    pub axes: [SeedAxis; 3],
}

/// Seeds of a block, which is one shard of the result, and is held while it is traced.
const BLOCK: [u64; 4] = [1, 1 << 15, 1 << 15, 1 << 15];

/// Shape of a block along x, y, z if `axes` have more than one seed.
fn block_edges(axes: usize) -> [u64; 3] {
    match axes {
        3 => [32, 32, 32],
        2 => [256, 128, 1],
        _ => [BLOCK[1], 1, 1],
    }
}

/// Seeds of a chunk along an axis: half the block's edge, or an eighth for a line of seeds.
fn chunk_edge(edge: u64) -> u64 {
    if edge >= BLOCK[1] {
        edge / 8
    } else {
        edge.div_ceil(2)
    }
}

impl SeedGrid {
    /// Checks the axes.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an invalid axis, and for more seeds than can be numbered.
    pub fn new(axes: [SeedAxis; 3]) -> Result<Self, FieldError> {
        let wrong = |what: String| Err(FieldError::Usage(what));
        for (a, name) in axes.iter().zip(["x", "y", "z"]) {
            if !(a.from.is_finite() && a.to.is_finite()) {
                return wrong(format!(
                    "seed grid: {name} goes from {} to {}, which are not both finite numbers",
                    a.from, a.to
                ));
            }
            if a.count == 0 {
                return wrong(format!("seed grid: there are 0 seeds along {name}; it must be 1 or more"));
            }
            if (a.count == 1) != (a.from == a.to) || a.from > a.to {
                return wrong(format!(
                    "seed grid: {} seeds along {name} cannot go from {} to {}; write low:high:n with n above 1, or one number",
                    a.count, a.from, a.to
                ));
            }
        }
        let total = axes.iter().try_fold(1u64, |n, a| n.checked_mul(a.count)).filter(|n| *n <= MOST_SEEDS);
        match total {
            Some(_) => Ok(Self { axes }),
            None => wrong(format!("seed grid: more than {MOST_SEEDS} seeds; take fewer along some axis")),
        }
    }

    /// Seeds along x, y, z.
    pub fn dims(&self) -> [u64; 3] {
        self.axes.map(|a| a.count)
    }

    /// Number of seeds.
    pub fn len(&self) -> u64 {
        self.dims().iter().product()
    }

    /// Always false: each axis has a seed.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Axes with more than one seed.
    pub fn spanned(&self) -> impl Iterator<Item = usize> + '_ {
        (0..3).filter(|a| self.axes[*a].count > 1)
    }

    /// Position of a seed.
    pub fn at(&self, ijk: [u64; 3]) -> [f64; 3] {
        core::array::from_fn(|a| self.axes[a].at(ijk[a]))
    }

    /// Number of a seed, x fastest.
    pub fn number(&self, ijk: [u64; 3]) -> u64 {
        let d = self.dims();
        (ijk[2] * d[1] + ijk[1]) * d[0] + ijk[0]
    }

    /// Shape of chunks: near half of a block, with the least padding.
    pub fn chunk(&self) -> [u64; 3] {
        let edges = self.edges();
        core::array::from_fn(|a| {
            let n = self.axes[a].count;
            n.div_ceil(n.div_ceil(chunk_edge(edges[a])))
        })
    }

    /// Shape of blocks, in whole chunks. It is the same under every memory limit, so that the same bytes are written.
    pub fn block(&self) -> [u64; 3] {
        let (edges, chunk) = (self.edges(), self.chunk());
        core::array::from_fn(|a| {
            let all = self.axes[a].count.div_ceil(chunk[a]);
            chunk[a] * (edges[a] / chunk[a]).clamp(1, all)
        })
    }

    fn edges(&self) -> [u64; 3] {
        let mut edges = [1; 3];
        let wanted = block_edges(self.spanned().count());
        for (axis, edge) in self.spanned().zip(wanted) {
            edges[axis] = edge;
        }
        edges
    }

    /// The blocks, x fastest, each as ranges of seeds along the axes.
    pub fn blocks(&self) -> impl Iterator<Item = [Range<u64>; 3]> + '_ {
        let (d, b) = (self.dims(), self.block());
        let starts = move |a: usize| (0..d[a]).step_by(b[a] as usize);
        starts(2).flat_map(move |k| {
            starts(1).flat_map(move |j| {
                starts(0).map(move |i| {
                    let low = [i, j, k];
                    core::array::from_fn(|a| low[a]..(low[a] + b[a]).min(d[a]))
                })
            })
        })
    }
}

/// Most seeds of a grid: their end points fill a petabyte.
const MOST_SEEDS: u64 = 1 << 45;

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: [u64; 3]) -> SeedGrid {
        let axis = |count| SeedAxis { from: 0.0, to: if count > 1 { 1.0 } else { 0.0 }, count };
        SeedGrid::new(dims.map(axis)).unwrap()
    }

    #[test]
    fn every_seed_is_in_one_block_and_ends_are_exact() {
        for dims in [[65, 33, 40], [300, 200, 1], [7, 1, 9], [100_000, 1, 1], [1, 1, 1], [1, 129, 257], [32, 32, 32]] {
            let g = grid(dims);
            let (chunk, block) = (g.chunk(), g.block());
            assert!((0..3).all(|a| block[a] % chunk[a] == 0 && chunk[a] <= dims[a]), "{dims:?}");
            assert!(block.iter().product::<u64>() <= 1 << 15, "{dims:?}: {block:?}");
            let seeds: u64 = g.blocks().map(|b| b.iter().map(|r| r.end - r.start).product::<u64>()).sum();
            assert_eq!(seeds, g.len(), "{dims:?}");
        }
        let a = SeedAxis { from: 0.1, to: 0.7, count: 7 };
        assert_eq!((a.at(0), a.at(6)), (0.1, 0.7));
        assert!((a.at(3) - 0.4).abs() < 1e-15);
    }

    #[test]
    fn axes_that_make_no_sense() {
        let good = SeedAxis { from: 0.0, to: 1.0, count: 3 };
        for (bad, words) in [
            (SeedAxis { count: 0, ..good }, "0 seeds"),
            (SeedAxis { count: 1, ..good }, "cannot go"),
            (SeedAxis { to: -1.0, ..good }, "cannot go"),
            (SeedAxis { to: f64::NAN, ..good }, "finite"),
            (SeedAxis { count: u64::MAX, ..good }, "more than"),
        ] {
            let e = SeedGrid::new([good, bad, good]).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}

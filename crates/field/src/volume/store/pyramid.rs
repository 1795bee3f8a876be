//! The levels of a volume's pyramid.

use std::f64::consts::SQRT_2;

/// Longest side of the last level, in voxels: a few pages, read at once.
const LAST_SIDE: usize = 64;

/// One level of the pyramid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LevelShape {
    /// Voxels along i, j, k.
    pub dims: [usize; 3],
    /// Voxels of the finest level along i, j and k in one voxel of this level.
    pub factor: [u64; 3],
}

impl LevelShape {
    /// Voxels along i, j, k that become one of `next`: 1 or 2.
    pub fn step_to(&self, next: &Self) -> [usize; 3] {
        std::array::from_fn(|a| if next.factor[a] == self.factor[a] { 1 } else { 2 })
    }
}

/// The levels of a volume of `dims` voxels with distances `spacing`, finest first. There are `most` of them, or so many
/// that the longest side of the last has at most 64 voxels.
///
/// From a level to the next, an axis is halved under two conditions. It has more than one voxel, and a spacing below √2
/// times the finest such axis's. Halves are rounded up: the last voxel of an odd axis becomes one by itself. So flat
/// voxels become nearly cubes, and stay so.
///
/// ```
/// use field::volume::store::pyramid;
/// let levels = pyramid([200, 100, 30], [1.0, 1.0, 4.0], None);
/// let dims: Vec<_> = levels.iter().map(|l| l.dims).collect();
/// assert_eq!(dims, [[200, 100, 30], [100, 50, 30], [50, 25, 30]]);
/// assert_eq!(levels[2].factor, [4, 4, 1]);
/// ```
pub fn pyramid(dims: [usize; 3], spacing: [f64; 3], most: Option<usize>) -> Vec<LevelShape> {
    let mut levels = vec![LevelShape { dims: dims.map(|n| n.max(1)), factor: [1; 3] }];
    loop {
        let last = levels[levels.len() - 1];
        let longest = last.dims.into_iter().max().unwrap_or(1);
        let enough = most.map_or(longest <= LAST_SIDE, |most| levels.len() >= most);
        if enough || longest == 1 {
            return levels;
        }
        let apart = |a: usize| spacing[a] * last.factor[a] as f64;
        let open = |a: &usize| last.dims[*a] > 1;
        let finest = (0..3).filter(open).map(apart).fold(f64::INFINITY, f64::min);
        // The finest axis itself is always halved, even for odd numbers such as NaN.
        let halved = |a: usize| open(&a) && !(apart(a) >= finest * SQRT_2);
        levels.push(LevelShape {
            dims: std::array::from_fn(|a| if halved(a) { last.dims[a].div_ceil(2) } else { last.dims[a] }),
            factor: std::array::from_fn(|a| last.factor[a] << u32::from(halved(a))),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thin_axes_stay_and_counts_hold() {
        let dims = |d, s, m| pyramid(d, s, m).iter().map(|l| l.dims).collect::<Vec<_>>();
        assert_eq!(dims([300, 1, 2], [1.0; 3], None), [[300, 1, 2], [150, 1, 1], [75, 1, 1], [38, 1, 1]]);
        assert_eq!(dims([5, 4, 3], [1.0; 3], Some(9)), [[5, 4, 3], [3, 2, 2], [2, 1, 1], [1, 1, 1]]);
        assert_eq!(dims([500, 500, 500], [1.0; 3], Some(1)), [[500, 500, 500]]);
        assert_eq!(dims([64, 64, 64], [1.0; 3], None), [[64, 64, 64]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, rng_seed: prop::test_runner::RngSeed::Fixed(0x7079_7261), ..ProptestConfig::default() })]
        /// Except for a factor of 2, voxels get no farther from cubes: a halved axis gets up to twice as long as
        /// another.
        #[test]
        fn near_to_cubes(d in prop::array::uniform3(65usize..3000), s in prop::array::uniform3(0.01f64..100.0)) {
            let ratio = |l: &LevelShape| {
                let apart = [0, 1, 2].map(|a| s[a] * l.factor[a] as f64);
                apart.iter().fold(0.0, |m, x| f64::max(m, *x)) / apart.iter().fold(f64::INFINITY, |m, x| f64::min(m, *x))
            };
            let levels = pyramid(d, s, None);
            prop_assert!(levels.len() < 40);
            for pair in levels.windows(2).take_while(|p| p[1].dims.iter().all(|n| *n > 1)) {
                prop_assert!(ratio(&pair[1]) <= ratio(&pair[0]).max(2.000_001), "{:?}", pair);
            }
        }
    }
}

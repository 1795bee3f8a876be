//! The first half of translation: from a point to its page. All arrays of a zone are cut into the same equal boxes of
//! points, so one page number serves them all.
//!
//! # Theory
//! Zarr stores the chunks at an array's edge in full. A zone of 65 points in pages of 16 then takes 80 points of disk
//! and memory along that axis. Cox & Ellsworth (1997) met the same growth (up to 200 %) and packed the edge pages. Here
//! the page edge itself is chosen, for each zone and axis, near the requested size and with the least padding: 65
//! points become five pages of 13. It need not be a power of two: translation uses small tables (or divides).
//!
//! # Practice
//! [`choose`] picks the boxes, [`Paging`] numbers pages and translates. Page numbers run with i fastest.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The shape of pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// About equally many points along i, j and k.
    Cubed,
    /// Whole i-lines, several rows, one plane in k: the order of the points in a PLOT3D file.
    Flat,
}

impl Layout {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubed => "cubed",
            Self::Flat => "flat",
        }
    }

    /// The layout of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Cubed, Self::Flat].into_iter().find(|l| l.name() == name)
    }
}

/// The pages of one zone. All triples are (i, j, k).
///
/// ```
/// use field::paging::{choose, Layout};
/// let p = choose([65, 33, 17], 16, Layout::Cubed, 4);
/// assert_eq!(p.page, [13, 11, 17]);
/// assert_eq!(p.pages, [5, 3, 1]);
/// assert_eq!(p.locate([13, 0, 2]), (1, 2 * 13 * 11));
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Paging {
    /// Points of the zone.
    pub dims: [usize; 3],
    /// Points of a page.
    pub page: [usize; 3],
    /// Pages of the zone: `dims / page`, rounded up.
    pub pages: [usize; 3],
}

impl Paging {
    /// Pages of `page` points over `dims` points. Edges are clamped to 1 and the zone's edge.
    pub fn new(dims: [usize; 3], page: [usize; 3]) -> Self {
        let dims = dims.map(|n| n.max(1));
        let page = std::array::from_fn(|a| page[a].clamp(1, dims[a]));
        Self { dims, page, pages: std::array::from_fn(|a| dims[a].div_ceil(page[a])) }
    }

    /// Points of a page, padding included.
    pub const fn page_points(&self) -> usize {
        self.page[0] * self.page[1] * self.page[2]
    }

    /// Number of pages of one array at one step.
    pub fn count(&self) -> u64 {
        self.pages.iter().map(|&n| n as u64).product()
    }

    /// Points of the zone.
    pub fn points(&self) -> u64 {
        self.dims.iter().map(|&n| n as u64).product()
    }

    /// Points with padding over points of the zone: 1 without padding.
    pub fn padding(&self) -> f64 {
        (0..3).map(|a| (self.pages[a] * self.page[a]) as f64 / self.dims[a] as f64).product()
    }

    /// Number of the page at page coordinates (i, j, k).
    pub const fn number(&self, at: [usize; 3]) -> u64 {
        (at[2] as u64 * self.pages[1] as u64 + at[1] as u64) * self.pages[0] as u64 + at[0] as u64
    }

    /// Page coordinates (i, j, k) of page `number`.
    pub const fn coords(&self, number: u64) -> [usize; 3] {
        let (ni, nj) = (self.pages[0] as u64, self.pages[1] as u64);
        [(number % ni) as usize, (number / ni % nj) as usize, (number / ni / nj) as usize]
    }

    /// Page number of a point, and its index in the page's box (of one component).
    pub const fn locate(&self, ijk: [usize; 3]) -> (u64, usize) {
        let at = [ijk[0] / self.page[0], ijk[1] / self.page[1], ijk[2] / self.page[2]];
        let low = [ijk[0] % self.page[0], ijk[1] % self.page[1], ijk[2] % self.page[2]];
        (self.number(at), (low[2] * self.page[1] + low[1]) * self.page[0] + low[0])
    }

    /// The zone's points in the page at page coordinates `at`, without padding.
    pub fn extent(&self, at: [usize; 3]) -> [Range<usize>; 3] {
        std::array::from_fn(|a| at[a] * self.page[a]..((at[a] + 1) * self.page[a]).min(self.dims[a]))
    }
}

/// Largest factor (each way) between a page edge and the requested one. It stretches "near" to twice the points in a
/// page.
const STRETCH: f64 = 1.4;
/// Padding that a deviation of the edge is worth, per unit of log(edge / requested): a quarter off costs 0.5 %.
const DRIFT: f64 = 0.02;
/// Bytes of a page beside its values: the index entry and the checksum.
const PAGE_OVERHEAD: f64 = 20.0;

/// Chooses the page box of a zone of `dims` points (i, j, k) for a requested edge of `asked` points.
///
/// `Cubed` takes, for each axis, the edge near `asked` with the least padding. If an axis is much thinner, the others
/// grow so that a page has about `asked`³ points. `Flat` takes about as many points in whole i-lines of one plane.
/// `value_bytes` is the size of a scalar: index entries weigh more for small pages of small values.
pub fn choose(dims: [usize; 3], asked: usize, layout: Layout, value_bytes: usize) -> Paging {
    let dims = dims.map(|n| n.max(1));
    let asked = asked.clamp(1, 1 << 10);
    let points = (asked * asked * asked) as f64;
    let value_bytes = value_bytes.max(1) as f64;
    let mut page = [1usize; 3];
    match layout {
        Layout::Cubed => {
            // Thinnest axis first, so that the others share what it leaves.
            let mut order = [0, 1, 2];
            order.sort_by_key(|&a| dims[a]);
            let mut volume = points;
            for (n, &axis) in order.iter().enumerate() {
                let target = volume.powf(1.0 / (3 - n) as f64);
                let thin = dims[axis] * 2 <= asked;
                page[axis] = if thin { dims[axis] } else { edge(dims[axis], target, value_bytes) };
                volume /= if thin { dims[axis] as f64 } else { target };
            }
        }
        Layout::Flat => {
            page[0] = if dims[0] as f64 <= points * STRETCH { dims[0] } else { edge(dims[0], points, value_bytes) };
            let rows = (points / page[0] as f64).max(1.0);
            page[1] = if dims[1] as f64 <= rows * STRETCH { dims[1] } else { edge(dims[1], rows, value_bytes) };
        }
    }
    Paging::new(dims, page)
}

/// The edge near `target` that cuts `n` points with the least padding.
fn edge(n: usize, target: f64, value_bytes: f64) -> usize {
    if n as f64 <= target * STRETCH {
        return n;
    }
    let low = ((target / STRETCH / 1.15).ceil() as usize).max(1);
    let high = ((target * STRETCH) as usize).clamp(low, n);
    let cost = |e: usize| {
        let padding = (n.div_ceil(e) * e - n) as f64 / n as f64;
        let drift = (e as f64 / target).ln().abs() * DRIFT;
        padding + drift + PAGE_OVERHEAD / (3.0 * value_bytes * (e as f64).powi(3))
    };
    (low..=high).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_to_the_n_plus_one_pads_little() {
        for a in 4..12 {
            for b in 4..12 {
                for c in 4..12 {
                    let dims = [(1 << a) + 1, (1 << b) + 1, (1 << c) + 1];
                    let p = choose(dims, 16, Layout::Cubed, 4);
                    // 257 is prime and 258 and 259 have no divisor near 16: three such axes are the worst case.
                    assert!(p.padding() <= 1.036, "{dims:?} {p:?} {}", p.padding());
                }
            }
        }
        assert_eq!(choose([65, 33, 33], 16, Layout::Cubed, 8).page, [13, 11, 11]);
        assert_eq!(choose([17, 17, 17], 16, Layout::Cubed, 4).page, [17, 17, 17]);
    }

    #[test]
    fn thin_zones_keep_the_points_of_a_page() {
        let p = choose([513, 513, 1], 16, Layout::Cubed, 4);
        assert_eq!(p.page[2], 1);
        assert!((2000..9000).contains(&p.page_points()), "{p:?}");
        let p = choose([100_000, 1, 1], 16, Layout::Cubed, 4);
        assert!((2000..9000).contains(&p.page_points()), "{p:?}");
        assert_eq!(choose([1, 1, 1], 16, Layout::Cubed, 4).page, [1, 1, 1]);
        let p = choose([512, 512, 256], 16, Layout::Flat, 4);
        assert_eq!(p.page, [512, 8, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: prop::test_runner::RngSeed::Fixed(0x7061_6765), ..ProptestConfig::default() })]
        #[test]
        fn every_point_has_one_place(i in 1usize..300, j in 1usize..90, k in 1usize..70, asked in prop::sample::select(vec![4usize, 8, 16, 32, 64]), flat: bool, seed: u64) {
            let layout = if flat { Layout::Flat } else { Layout::Cubed };
            let p = choose([i, j, k], asked, layout, 4);
            prop_assert_eq!(p.pages[0] * p.pages[1] * p.pages[2], p.count() as usize);
            for a in 0..3 {
                prop_assert!(p.page[a] >= 1 && p.page[a] <= p.dims[a]);
                prop_assert!(p.pages[a] * p.page[a] >= p.dims[a] && (p.pages[a] - 1) * p.page[a] < p.dims[a]);
            }
            prop_assert!(p.page_points() as f64 <= 4.0 * (asked * asked * asked) as f64, "{:?}", p);
            let n = (seed % (i * j * k) as u64) as usize;
            let ijk = [n % i, n / i % j, n / i / j];
            let (page, at) = p.locate(ijk);
            prop_assert!(page < p.count() && at < p.page_points());
            let c = p.coords(page);
            prop_assert_eq!(p.number(c), page);
            let e = p.extent(c);
            for a in 0..3 {
                prop_assert!(e[a].contains(&ijk[a]));
            }
            let low = [ijk[0] - e[0].start, ijk[1] - e[1].start, ijk[2] - e[2].start];
            prop_assert_eq!((low[2] * p.page[1] + low[1]) * p.page[0] + low[0], at);
        }
    }
}

//! Cells over pages equal the cells of the arrays, for every cut, number of components and type. The boxes of a whole
//! zone exclude nothing that one of its blocks may hold.

use field::boxes::{Bounds, EMPTY};
use field::catalog::DType;
use field::nodes::{box_holds, ArraySlot, BoxLevel, Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::simd::V4;
use field::translate::Translation;
use pager::{Located, PageError, PageId, PageMap, Pager, PagerConfig};
use proptest::prelude::*;
use std::sync::Arc;

/// An array that follows from a rule, without a source.
struct RuleArray {
    translation: Translation,
    components: usize,
    dtype: DType,
    value: Box<dyn Fn([u32; 3], usize) -> f64 + Send + Sync>,
}

impl PageMap for RuleArray {
    fn name(&self) -> &str {
        "rule"
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.components * self.dtype.size()
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Fill
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, id: PageId, frame: &mut [u8]) {
        // Padding must not be read.
        frame.fill(0xff);
        let t = &self.translation;
        for k in 0..t.dims[2] {
            for j in 0..t.dims[1] {
                for i in 0..t.dims[0] {
                    let at = t.node([i, j, k]);
                    if at.page != id.page {
                        continue;
                    }
                    for c in 0..self.components {
                        let v = (self.value)([i, j, k], c);
                        let to = (at.element * self.components + c) * self.dtype.size();
                        match self.dtype {
                            DType::Float32 => frame[to..to + 4].copy_from_slice(&(v as f32).to_ne_bytes()),
                            DType::Float64 => frame[to..to + 8].copy_from_slice(&v.to_ne_bytes()),
                            DType::Int32 => frame[to..to + 4].copy_from_slice(&(v as i32).to_ne_bytes()),
                            DType::Uint8 => frame[to] = v as u8,
                        }
                    }
                }
            }
        }
    }
    fn checked(&self) -> bool {
        false
    }
}

/// A number that every type holds, different for each node and component up to 251 of them.
fn number(n: [u32; 3], c: usize) -> f64 {
    f64::from((n[0] * 7 + n[1] * 31 + n[2] * 97 + c as u32 * 53) % 251)
}

/// Repeats a call until its pages are resident.
fn until_here<T>(
    pager: &Arc<Pager>,
    nodes: &mut PagedNodes,
    mut f: impl FnMut(&mut PagedNodes) -> Result<T, Miss>,
) -> T {
    loop {
        match f(nodes) {
            Ok(v) => return v,
            Err(Miss::Failed) => panic!("{:?}", nodes.failure()),
            Err(Miss::Absent) => {
                let missing = std::mem::take(nodes.missing());
                assert!(!missing.is_empty());
                drop(pager.fetch(&missing).expect("no source can fail"));
            }
        }
    }
}

fn config() -> PagerConfig {
    PagerConfig { limit: 16 << 20, ..PagerConfig::default() }
}

fn zone(translation: Translation, arrays: Vec<ArraySlot>, boxes: Vec<BoxLevel>) -> Arc<[Zone]> {
    Arc::new([Zone { name: "zone1".into(), translation, arrays, xyz: 0, iblank: None, boxes, uniform: None }])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: prop::test_runner::RngSeed::Fixed(0x7061_6765), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn corners_are_those_of_the_array(
        dims in prop::array::uniform3(1usize..8),
        page in prop::array::uniform3(1usize..8),
        components in prop::sample::select(vec![1usize, 2, 3, 6]),
        dtype in prop::sample::select(vec![DType::Float32, DType::Float64, DType::Int32, DType::Uint8]),
    ) {
        let page = core::array::from_fn(|a| page[a].min(dims[a]));
        let translation = Translation::new(dims, page);
        let pager = Pager::new(config()).expect("the limit holds it");
        let id = pager.add_array(Arc::new(RuleArray { translation, components, dtype, value: Box::new(number) }));
        let slot = ArraySlot { name: "xyz".into(), id, components, dtype, steady: true, derived: false, making: 0 };
        let mut nodes = PagedNodes::new(zone(translation, vec![slot], Vec::new()), pager.worker(), 0);
        let cells = dims.map(|n| n.max(2) as u32 - 1);
        for k in 0..cells[2] {
            for j in 0..cells[1] {
                for i in 0..cells[0] {
                    let cell = [i, j, k];
                    let corner = |n: u32| -> [u32; 3] {
                        core::array::from_fn(|a| (cell[a] + ((n >> a) & 1)).min(dims[a] as u32 - 1))
                    };
                    // A hint, also while pages are absent.
                    nodes.prefetch(0, &[0], cell);
                    let got = until_here(&pager, &mut nodes, |n| {
                        let mut v = [V4::splat(f64::NAN); 8];
                        n.vector(0, 0, cell, &mut v).map(|()| v)
                    });
                    for (n, v) in got.iter().enumerate() {
                        let want: [f64; 4] = core::array::from_fn(|c| {
                            if c < components.min(3) { number(corner(n as u32), c) } else { 0.0 }
                        });
                        prop_assert_eq!(v.to_array(), want, "cell {:?}, corner {}", cell, n);
                    }
                    for c in 0..components {
                        let got = until_here(&pager, &mut nodes, |n| {
                            let mut v = [f64::NAN; 8];
                            n.scalar(0, 0, c, cell, &mut v).map(|()| v)
                        });
                        prop_assert_eq!(got, core::array::from_fn(|n| number(corner(n as u32), c)));
                    }
                    // All rows of cells that begin here, if they lie in one page.
                    for count in 1..=cells[0] - i {
                        let Some(got) = until_here(&pager, &mut nodes, |n| n.row_bounds(0, 0, cell, count)) else {
                            let one_page = (0..3).all(|a| {
                                let last = cell[a] + if a == 0 { count } else { 1 };
                                dims[a] > 1 && cell[a] as usize / page[a] == last as usize / page[a]
                            });
                            prop_assert!(!one_page, "cell {:?}, {} in a row", cell, count);
                            continue;
                        };
                        let (mut lo, mut hi) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
                        for (of, n) in (0..count).flat_map(|of| (0..8).map(move |n| (of, n))) {
                            let mut node = corner(n);
                            node[0] += of;
                            for c in 0..3 {
                                let v = if c < components { number(node, c) } else { 0.0 };
                                (lo[c], hi[c]) = (lo[c].min(v), hi[c].max(v));
                            }
                        }
                        prop_assert_eq!((got.0.xyz(), got.1.xyz()), (lo, hi), "cell {:?}, {} in a row", cell, count);
                    }
                    nodes.prefetch(0, &[0], cell);
                    // Cached pages are forgotten with their pins.
                    if (i + j) % 3 == 0 {
                        nodes.worker().release();
                    }
                    nodes.begin_step();
                }
            }
        }
    }

    #[test]
    fn a_zone_holds_what_its_blocks_hold(
        dims in prop::array::uniform3(1usize..7),
        page in prop::array::uniform3(1usize..4),
        seed: u32,
        scale in prop::sample::select(vec![1.0f32, 1e-38, 1e38]),
    ) {
        let page = core::array::from_fn(|a| page[a].min(dims[a]));
        let translation = Translation::new(dims, page);
        let of = move |n: [u32; 3]| -> Bounds {
            let r = |c: u32| (seed ^ (n[0] * 73 + n[1] * 179 + n[2] * 283 + c * 997)).wrapping_mul(0x9e37_79b1) >> 8;
            match r(9) % 8 {
                0 => return EMPTY,
                // Flat in one direction, and beyond the range of a float.
                1 => return [0.0, 0.5 * scale, 0.0, scale, 0.5 * scale, scale],
                2 if scale > 1.0 => return [f32::MAX, 0.0, -f32::INFINITY, f32::INFINITY, scale, -f32::MAX],
                _ => {}
            }
            let side = |c: u32| {
                let (a, b) = (r(c) as f32 / 16_777_216.0 * scale, r(c + 3) as f32 / 16_777_216.0 * scale);
                (a.min(b), a.max(b))
            };
            let (x, y, z) = (side(0), side(1), side(2));
            [x.0, y.0, z.0, x.1, y.1, z.1]
        };
        let pager = Pager::new(config()).expect("the limit holds it");
        let value = Box::new(move |n: [u32; 3], c: usize| f64::from(of(n)[c]));
        let id = pager.add_array(Arc::new(RuleArray { translation, components: 6, dtype: DType::Float32, value }));
        let zones = zone(translation, Vec::new(), vec![BoxLevel { id, translation, steady: true }]);
        let mut nodes = PagedNodes::new(zones, pager.worker(), 0);
        let bounds = until_here(&pager, &mut nodes, |n| n.bounds(0, 0));
        for p in 0..60u32 {
            let at = |c: u32| {
                let of = f64::from(p.wrapping_mul(2_654_435_761).wrapping_add(c * 40_503) >> 4 & 0xff) / 255.0;
                f64::from(scale) * if p % 3 == 0 { (of * 2.0).round() / 2.0 } else { of * 1.2 - 0.1 }
            };
            let x = [at(0), at(1), at(2)];
            let point = V4::from_xyz(x);
            let mut got = until_here(&pager, &mut nodes, |n| {
                let mut out = Vec::new();
                n.blocks_that_hold(0, 0, point, &mut out).map(|()| out)
            });
            got.sort_unstable_by_key(|b| [b[2], b[1], b[0]]);
            // Eight at a time, some of them beyond the zone, each time without cached pages.
            let mut by_eights = Vec::new();
            let parents = dims.map(|n| (n as u32).div_ceil(2));
            for parent in (0..parents.iter().product::<u32>())
                .map(|n| [n % parents[0], n / parents[0] % parents[1], n / parents[0] / parents[1]])
            {
                let mut boxes = [[0.0f32; 6]; 8];
                let here = until_here(&pager, &mut nodes, |n| match n.children(0, 0, parent, &mut boxes) {
                    (here, None) => Ok(here),
                    (_, Some(miss)) => Err(miss),
                });
                for (c, found) in boxes.iter().enumerate() {
                    let child: [u32; 3] = core::array::from_fn(|a| 2 * parent[a] + (c >> a & 1) as u32);
                    let there = (0..3).all(|a| (child[a] as usize) < dims[a]);
                    prop_assert_eq!(here >> c & 1 == 1, there, "{:?} {}", parent, c);
                    if there {
                        let same = found.iter().zip(&of(child)).all(|(a, b)| a.to_bits() == b.to_bits());
                        prop_assert!(same, "{:?}: {:?} and not {:?}", child, found, of(child));
                    }
                }
                by_eights.extend(until_here(&pager, &mut nodes, |n| {
                    let mut out = Vec::new();
                    n.children_that_hold(0, 0, parent, point, &mut out).map(|()| out)
                }));
                if p % 7 == 0 {
                    nodes.worker().release();
                }
            }
            by_eights.sort_unstable_by_key(|b| [b[2], b[1], b[0]]);
            prop_assert_eq!(&by_eights, &got, "{:?}", x);
            let mut want = Vec::new();
            for k in 0..dims[2] as u32 {
                for j in 0..dims[1] as u32 {
                    for i in 0..dims[0] as u32 {
                        let b = of([i, j, k]).map(f64::from);
                        let within = |c: usize| {
                            let pad = (b[c + 3] - b[c]) * 2e-9;
                            b[c] <= b[c + 3] && x[c] >= b[c] - pad && x[c] <= b[c + 3] + pad
                        };
                        if (0..3).all(within) {
                            want.push([i, j, k]);
                        }
                    }
                }
            }
            prop_assert_eq!(&got, &want, "{:?}", x);
            prop_assert!(got.is_empty() || box_holds(&bounds, point), "{:?} in {:?} but not in {:?}", x, got, bounds);
        }
    }
}

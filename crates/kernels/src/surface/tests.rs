//! Surfaces of arrays in memory, through all steps of a block.

mod borders;

use super::*;
use field::volume::Placement;
use proptest::prelude::*;
use std::collections::HashMap;

const UNIT: Placement = Placement { origin: [0.0; 3], axes: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] };

struct MemoryZone {
    dims: [u32; 3],
    values: Vec<f64>,
    /// Unusable nodes.
    holes: Vec<bool>,
    /// Cells, by their lowest nodes, with omitted triangles, as in other parts of a surface.
    left_out: Vec<bool>,
}

impl MemoryZone {
    fn new(dims: [u32; 3], value: impl Fn([f64; 3]) -> f64) -> Self {
        let mut values = Vec::new();
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                values.extend((0..dims[0]).map(|i| value([i, j, k].map(f64::from))));
            }
        }
        let none = vec![false; values.len()];
        Self { dims, holes: none.clone(), left_out: none, values }
    }

    fn at(&self, n: [u32; 3]) -> usize {
        ((n[2] * self.dims[1] + n[1]) * self.dims[0] + n[0]) as usize
    }
}

#[derive(Debug, Default, PartialEq)]
struct Surface {
    points: Vec<[f64; 3]>,
    normals: Vec<[f32; 3]>,
    triangles: Vec<[u64; 3]>,
    /// The lower node of each point's edge in the zone, and its kind.
    keys: Vec<([u32; 3], u32)>,
}

fn surface(g: &MemoryZone, level: Level, placement: &Placement) -> Surface {
    in_blocks(g, level, placement, BLOCK_CELLS)
}

/// A surface in blocks of this many cells along each axis.
fn in_blocks(g: &MemoryZone, level: Level, placement: &Placement, cells: u32) -> Surface {
    let mut out = Surface::default();
    let of = g.dims.map(|n| (n.max(2) - 1).div_ceil(cells));
    let mut borders = Borders::new(g.dims, of);
    let mut marcher = Marcher::default();
    for k in 0..of[2] {
        for j in 0..of[1] {
            for i in 0..of[0] {
                let block = [i, j, k];
                let origin = block.map(|b| b * cells);
                let nodes: [u32; 3] = core::array::from_fn(|a| (cells + 1).min(g.dims[a] - origin[a]));
                if cells == BLOCK_CELLS {
                    assert_eq!((of, (origin, nodes)), (blocks(g.dims), block_nodes(g.dims, block)));
                }
                let mut inside = Signs::new(nodes.map(|n| n as usize));
                let (mut bad, mut hits) = (inside.clone(), inside.clone());
                for c in 0..nodes[2] {
                    for b in 0..nodes[1] {
                        for a in 0..nodes[0] {
                            let n = [a + origin[0], b + origin[1], c + origin[2]];
                            let at = g.at(n);
                            let v = match level {
                                Level::Value(_, value) => g.values[at] - value,
                                Level::Plane(p) => p.depth(placement.position(n.map(f64::from))),
                            };
                            let [a, b, c] = [a, b, c].map(|n| n as usize);
                            inside.set(a, b, c, u64::from(v >= 0.0));
                            hits.set(a, b, c, u64::from(v == 0.0));
                            bad.set(a, b, c, u64::from(g.holes[at] || v.is_nan()));
                        }
                    }
                }
                let mut usable = vec![u64::MAX; (nodes[1] - 1) as usize * (nodes[2] - 1) as usize];
                without_corners(&bad, &mut usable);
                let usable = bad.any().then_some(&usable[..]);
                let plane = matches!(level, Level::Plane(_));
                let mut mesh = BlockMesh::default();
                let hits = plane.then_some(&hits);
                let shape = MarchBlock { inside: &inside, usable, hits, turned: false, origins: true };
                marcher.march(&shape, &mut mesh);
                let [edges, triangles] = Marcher::at_most(&shape);
                assert!(mesh.edges.len() <= edges && mesh.triangles.len() <= triangles);
                let origins = mesh.origins.clone();
                let left_out =
                    |o: &Origin| g.left_out[g.at(core::array::from_fn(|a| origin[a] + u32::from(o.cell[a])))];
                if plane || origins.iter().any(left_out) {
                    mesh.retain(|n| !left_out(&origins[n]));
                }
                if mesh.triangles.is_empty() {
                    // The caller gets no such block.
                    continue;
                }
                let mut needed = NodeSet::new(origin.map(|n| n.saturating_sub(1)), {
                    let lo = origin.map(|n| n.saturating_sub(1));
                    core::array::from_fn(|a| (origin[a] + nodes[a] + 1).min(g.dims[a]) - lo[a])
                });
                needed.add_ends(origin, &mesh.edges);
                needed.add_beside(g.dims);
                needed.number();
                let mut values = vec![f64::NAN; 2 * needed.count()];
                let count = needed.count();
                needed.rows_in([0; 3], g.dims, |first, bits, number| {
                    let mut n = number;
                    each_bit(bits, |b| {
                        let at = g.at([first[0] + b, first[1], first[2]]);
                        values[n] = g.values[at];
                        values[count + n] = f64::from(u8::from(!g.holes[at]));
                        n += 1;
                    });
                });
                let mut vertices = Vertices::empty(true, true, 0);
                VertexInputs {
                    origin,
                    dims: g.dims,
                    needed: &needed,
                    values: &values,
                    shape: NodePositions::Regular(placement),
                    level,
                    fields: &[],
                    normals: Normals::Gradient { iblank: Some(1) },
                }
                .add(&mesh.edges, &mut vertices);
                let mut numbers = Vec::new();
                let mut n = 0;
                let next = out.points.len() as u64;
                let most = borders.bytes() + Borders::bytes_of(of, block, nodes, &mesh.edges);
                borders.resolve(block, origin, nodes, &mesh.edges, next, |number, new| {
                    numbers.push(number);
                    if new {
                        out.points.push(vertices.points.get(n));
                        out.normals.push(vertices.normals.as_ref().unwrap()[n]);
                        let e = mesh.edges[n];
                        out.keys.push((core::array::from_fn(|a| e.node()[a] + origin[a]), e.kind()));
                    } else {
                        // Bit for bit as in the other block.
                        assert_eq!(out.points[number as usize], vertices.points.get(n));
                        assert_eq!(out.normals[number as usize], vertices.normals.as_ref().unwrap()[n]);
                    }
                    n += 1;
                });
                assert!(borders.held() <= borders.bytes() && borders.bytes() <= most);
                out.triangles.extend(mesh.triangles.iter().map(|t| t.map(|v| numbers[v as usize])));
            }
        }
    }
    out
}

fn value(of: f64) -> Level {
    Level::Value(0, of)
}

/// The count of each directed edge.
fn directed(s: &Surface) -> HashMap<(u64, u64), u32> {
    let mut all = HashMap::new();
    for t in &s.triangles {
        for (a, b) in [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])] {
            *all.entry((a, b)).or_default() += 1;
        }
    }
    all
}

/// Checks that each edge has a triangle on either side, with the same orientation. Exceptions are edges for which
/// `open` says that both ends are at the border of the data.
fn check_closed(s: &Surface, open: impl Fn([f64; 3], [f64; 3]) -> bool) {
    let all = directed(s);
    for ((a, b), n) in &all {
        assert_eq!(*n, 1, "an edge with more than two triangles, or two turned differently");
        if !all.contains_key(&(*b, *a)) {
            let [p, q] = [*a, *b].map(|v| s.points[v as usize]);
            assert!(open(p, q), "a crack at {p:?} {q:?}");
        }
    }
}

/// Checks that no two points coincide, each point has a triangle, and each triangle an area.
fn check_clean(s: &Surface) {
    let mut places: Vec<[u64; 3]> = s.points.iter().map(|p| p.map(f64::to_bits)).collect();
    places.sort_unstable();
    let before = places.len();
    places.dedup();
    assert_eq!(places.len(), before, "points at one place");
    let mut used = vec![false; s.points.len()];
    s.triangles.as_flattened().iter().for_each(|v| used[*v as usize] = true);
    assert!(used.iter().all(|u| *u), "points without triangles");
    assert!(s.triangles.iter().all(|t| t[0] != t[1] && t[1] != t[2] && t[2] != t[0]));
}

fn cross(s: &Surface, t: &[u64; 3]) -> ([f64; 3], [f64; 3]) {
    let p = t.map(|v| s.points[v as usize]);
    let [a, b]: [[f64; 3]; 2] = [1, 2].map(|n| core::array::from_fn(|c| p[n][c] - p[0][c]));
    (p[0], [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
}

fn area_and_volume(s: &Surface) -> (f64, f64) {
    s.triangles.iter().fold((0.0, 0.0), |(area, volume), t| {
        let (p, n) = cross(s, t);
        let dot = |a: [f64; 3], b: [f64; 3]| (0..3).map(|c| a[c] * b[c]).sum::<f64>();
        (area + dot(n, n).sqrt() / 2.0, volume + dot(p, n) / 6.0)
    })
}

fn euler(s: &Surface) -> i64 {
    s.points.len() as i64 - directed(s).len() as i64 / 2 + s.triangles.len() as i64
}

#[test]
fn a_sphere_over_several_blocks() {
    let c = [66.2, 40.1, 30.3];
    let g = MemoryZone::new([140, 80, 70], |x| 25.0 - (0..3).map(|a| (x[a] - c[a]).powi(2)).sum::<f64>().sqrt());
    let s = surface(&g, value(0.0), &UNIT);
    check_closed(&s, |_, _| false);
    check_clean(&s);
    assert_eq!(euler(&s), 2);
    let (area, volume) = area_and_volume(&s);
    let (of_area, of_volume) = (4.0 * core::f64::consts::PI * 625.0, 4.0 / 3.0 * core::f64::consts::PI * 15625.0);
    assert!((area / of_area - 1.0).abs() < 1e-3 && (volume / of_volume - 1.0).abs() < 2e-3, "{area} {volume}");
    for (p, n) in s.points.iter().zip(&s.normals) {
        let r: [f64; 3] = core::array::from_fn(|a| (p[a] - c[a]) / 25.0);
        assert!((0..3).all(|a| (f64::from(n[a]) - r[a]).abs() < 5e-3), "{p:?} {n:?}");
    }
    // Integers at nodes.
    let g = MemoryZone::new([40, 40, 40], |x| 100.0 - (0..3).map(|a| (x[a] - 20.0).powi(2)).sum::<f64>());
    let s = surface(&g, value(0.0), &UNIT);
    check_closed(&s, |_, _| false);
    check_clean(&s);
    assert_eq!(euler(&s), 2);
}

#[test]
fn planes_are_exact_wherever_they_lie() {
    let g = MemoryZone::new([70, 30, 20], |_| 0.0);
    let edge = |p: [f64; 3], q: [f64; 3]| {
        (0..3).any(|a| (p[a] == 0.0 && q[a] == 0.0) || (p[a] == f64::from(g.dims[a] - 1) && p[a] == q[a]))
    };
    let root = 0.5f64.sqrt();
    let cases = [
        // Through nodes, along faces of cells, and between; with its area in the box of 69 x 29 x 19.
        ([0.0, 0.0, 7.0], [0.0, 0.0, 1.0], 69.0 * 29.0),
        ([0.0, 0.0, 7.25], [0.0, 0.0, -1.0], 69.0 * 29.0),
        ([64.0, 0.0, 0.0], [1.0, 0.0, 0.0], 29.0 * 19.0),
        ([10.0, 0.0, 0.0], [root, root, 0.0], 10.0 * 2.0 * root * 19.0),
        ([40.0, 0.0, 0.0], [root, root, 0.0], 29.0 / root * 19.0),
    ];
    for (origin, normal, area) in cases {
        let s = surface(&g, Level::Plane(Plane { origin, normal, tolerance: Plane::TOLERANCES[1] }), &UNIT);
        check_closed(&s, edge);
        check_clean(&s);
        for p in &s.points {
            let d: f64 = (0..3).map(|a| (p[a] - origin[a]) * normal[a]).sum();
            assert!(d.abs() < 1e-12, "{d} off");
        }
        let (got, _) = area_and_volume(&s);
        assert!((got / area - 1.0).abs() < 1e-12, "{got} {area}");
        for t in &s.triangles {
            let (_, n) = cross(&s, t);
            assert!((0..3).map(|a| n[a] * normal[a]).sum::<f64>() > 0.0, "turned along the normal");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: prop::test_runner::RngSeed::Fixed(0x6373_7566), ..ProptestConfig::default() })]
    #[test]
    fn random_values_make_closed_manifolds(seed: u64, dims in prop::array::uniform3(2u32..9), long in 0usize..4, kinds in 2u64..9, holes in 0u64..3) {
        let mut dims = dims;
        if long < 3 {
            // Across a face between blocks.
            dims[long] += 61;
        }
        let mut s = seed | 1;
        let mut random = || { s ^= s << 13; s ^= s >> 7; s ^= s << 17; s >> 20 };
        let mut g = MemoryZone::new(dims, |_| 0.0);
        // Few integers, so that nodes often equal the level.
        g.values.iter_mut().for_each(|v| *v = (random() % kinds) as f64);
        let all = g.values.len();
        for n in 0..all {
            if holes == 2 && random() % 40 == 0 {
                if random() % 2 == 0 { g.holes[n] = true } else { g.values[n] = f64::NAN }
            }
        }
        let got = surface(&g, value((kinds / 2) as f64), &UNIT);
        check_clean(&got);
        let usable = |n: [i64; 3]| {
            (0..8).all(|c| {
                let at: [i64; 3] = core::array::from_fn(|a| n[a] + (c >> a & 1));
                (0..3).all(|a| at[a] >= 0 && at[a] < i64::from(g.dims[a])) && {
                    let at = g.at(at.map(|v| v as u32));
                    !g.holes[at] && !g.values[at].is_nan()
                }
            })
        };
        // Open if one of the two cells at the face of an edge is unusable.
        check_closed(&got, |p, q| {
            (0..3).any(|a| p[a] == q[a] && p[a].fract() == 0.0 && {
                let mut cell: [i64; 3] = core::array::from_fn(|c| ((p[c] + q[c]) / 2.0).floor() as i64);
                cell[a] = p[a] as i64;
                let other = cell;
                cell[a] -= 1;
                !usable(cell) || !usable(other)
            })
        });
    }

    #[test]
    fn planes_through_nodes_leave_no_crack(seed: u64, n in prop::array::uniform3(-3i32..4)) {
        prop_assume!(n != [0; 3]);
        let length = n.iter().map(|c| f64::from(c * c)).sum::<f64>().sqrt();
        let normal = n.map(|c| f64::from(c) / length);
        let dims = [68, 7, 66];
        let at = [seed % 68, seed / 68 % 7, seed / 476 % 66].map(|v| v as f64);
        let g = MemoryZone::new(dims, |_| 0.0);
        let s = surface(&g, Level::Plane(Plane { origin: at, normal, tolerance: Plane::TOLERANCES[1] }), &UNIT);
        let all = directed(&s);
        for (a, b) in all.keys() {
            if !all.contains_key(&(*b, *a)) {
                let [p, q] = [*a, *b].map(|v| s.points[v as usize]);
                let edge = (0..3).any(|c| (p[c] == 0.0 && q[c] == 0.0) || (p[c] == f64::from(dims[c] - 1) && p[c] == q[c]));
                prop_assert!(edge, "{:?} {:?}", p, q);
            }
        }
        check_clean(&s);
    }
}

//! Vertices shared by several blocks, some of which draw nothing at them.
//!
//! Small blocks have as many edges and corners between them as thousands of whole ones. One block of all is the
//! reference.

use super::*;

/// A triangle's vertices by their keys, from the lowest on.
type Keys = [([u32; 3], u32); 3];

fn by_keys(s: &Surface) -> Vec<Keys> {
    let mut all: Vec<Keys> = s
        .triangles
        .iter()
        .map(|t| {
            let mut t = t.map(|v| s.keys[v as usize]);
            let lowest = (0..3).min_by_key(|n| t[*n]).unwrap();
            t.rotate_left(lowest);
            t
        })
        .collect();
    all.sort_unstable();
    all
}

/// Checks that a surface in blocks of this many cells is the same as in one.
fn check_whole(g: &MemoryZone, level: Level, cells: u32) {
    let (whole, got) = (in_blocks(g, level, &UNIT, 64), in_blocks(g, level, &UNIT, cells));
    let keys = |s: &Surface| {
        let mut keys = s.keys.clone();
        keys.sort_unstable();
        keys
    };
    let (found, once) = (keys(&got), keys(&whole));
    if let Some(twice) = found.windows(2).find(|w| w[0] == w[1]) {
        panic!("a vertex twice: {:?} of blocks of {cells} cells of {:?}", twice[0], g.dims);
    }
    assert_eq!(found, once);
    assert_eq!(by_keys(&got), by_keys(&whole));
    check_clean(&got);
    // Numbers of vertices too: as many open edges as in one block.
    let open = |s: &Surface| {
        let all = directed(s);
        all.keys().filter(|(a, b)| !all.contains_key(&(*b, *a))).count()
    };
    assert_eq!(open(&got), open(&whole));
}

fn plane(at: [u32; 3], normal: [i32; 3]) -> Level {
    let length = f64::from(normal.iter().map(|c| c * c).sum::<i32>()).sqrt();
    Level::Plane(Plane {
        origin: at.map(f64::from),
        normal: normal.map(|c| f64::from(c) / length),
        tolerance: Plane::TOLERANCES[1],
    })
}

#[test]
fn a_hole_where_four_blocks_meet_leaves_no_crack() {
    for axis in 0..3 {
        let [b, c] = [(axis + 1) % 3, (axis + 2) % 3];
        let mut dims = [80; 3];
        dims[axis] = 9;
        for (over, hole) in [(0.01, [63, 63]), (-0.02, [65, 63]), (0.03, [63, 65]), (-0.04, [65, 65])] {
            let mut g = MemoryZone::new(dims, |x| x[axis] - 4.4 + over * x[b] - over / 2.0 * x[c]);
            for n in 0..9 {
                let mut at = [n; 3];
                (at[b], at[c]) = (hole[0], hole[1]);
                let at = g.at(at);
                g.holes[at] = true;
            }
            let s = surface(&g, value(0.0), &UNIT);
            check_clean(&s);
            // Around the hole, and at the ends of the zone.
            let around = |p: [f64; 3], q: [f64; 3]| {
                [(b, hole[0]), (c, hole[1])].iter().all(|(a, at)| {
                    let off = (p[*a] + q[*a]) / 2.0 - f64::from(*at);
                    off.abs() <= 1.0
                })
            };
            let end = |x: f64| x == 0.0 || x == 79.0;
            check_closed(&s, |p, q| around(p, q) || [b, c].iter().any(|a| end(p[*a]) && p[*a] == q[*a]));
        }
    }
}

#[test]
fn planes_through_edges_and_corners_of_blocks_are_whole() {
    let mut g = MemoryZone::new([10, 9, 11], |_| 0.0);
    for turn in 0..3 {
        for n in 1..27 {
            let normal = [n % 3, n / 3 % 3, n / 9].map(|c| [0, 1, -1][c as usize]);
            for at in [[4, 4, 4], [8, 4, 4], [4, 8, 8], [5, 4, 8], [4, 3, 4]] {
                check_whole(&g, plane(at, normal), 4);
            }
        }
        g.dims.rotate_left(1);
        // With holes around a corner, too.
        for at in [[3, 3, 3], [5, 3, 3], [3, 5, 5]].into_iter().take(turn + 1) {
            let at = g.at(at);
            g.holes[at] = true;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: prop::test_runner::RngSeed::Fixed(0x626f_7264), ..ProptestConfig::default() })]
    #[test]
    fn blocks_with_holes_are_as_one_block(
        seed: u64,
        dims in prop::array::uniform3(2u32..12),
        cells in 1u32..5,
        kinds in 2u64..40,
        sparse in 1u64..30,
        absent in 0u64..5,
        normal in prop::array::uniform3(-2i32..3),
    ) {
        let mut s = seed | 1;
        let mut random = || { s ^= s << 13; s ^= s >> 7; s ^= s << 17; s >> 20 };
        let mut g = MemoryZone::new(dims, |_| 0.0);
        for n in 0..g.values.len() {
            g.values[n] = (random() % kinds) as f64;
            g.holes[n] = random() % (4 * sparse) == 0;
            g.left_out[n] = random() % sparse == 1;
        }
        // Whole blocks without triangles.
        let missing: Vec<bool> = (0..1331).map(|_| random() % 6 < absent).collect();
        for n in 0..g.values.len() as u32 {
            let at = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]].map(|c| c / cells);
            g.left_out[n as usize] |= missing[(at[0] + 11 * at[1] + 121 * at[2]) as usize];
        }
        check_whole(&g, value((kinds / 2) as f64), cells);
        if normal != [0; 3] {
            let at = dims.map(|n| (random() % u64::from(n)) as u32 / cells * cells);
            check_whole(&g, plane(at, normal), cells);
        }
    }
}

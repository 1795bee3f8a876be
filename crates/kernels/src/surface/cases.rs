//! The table of cases, made from first principles.
//!
//! # Theory
//! A corner of a cell is inside or outside, which gives 256 cases (Lorensen and Cline, "Marching cubes", 1987). On each
//! face the edges with different ends are joined in pairs. If all four have different ends, there are two ways to join
//! them; here each corner inside is cut off by itself. The rule uses the face only. So two cells join the edges of
//! their common face equally, and the surface has no hole.
//!
//! Joined over all faces, the edges form closed loops. Seen from outside the cell and counter-clockwise around a face,
//! each join runs from the edge of entry to an edge of exit. So all loops have the same orientation about the inside,
//! and the triangles face lower values.
//!
//! Loops are divided into triangles by diagonals outside of all faces. So two cells never draw the same one, and each
//! edge of the surface has two triangles. Among such divisions the one with the area of VTK's table is used, which has
//! the same loops. Loops are far from plane where values change by steps, as in masks. There the division changes the
//! size of a ball of ones in zeros by 0.6 %. For smooth fields it makes no difference.
//!
//! # Practice
//! Corner `c` is at (c & 1, c >> 1 & 1, c >> 2) along i, j, k, as in the whole crate. Edge `e` runs along axis `e / 4`
//! from the corner given by [`ends`].

use std::sync::OnceLock;

/// Most triangles of a case; a test checks it.
pub const MOST: usize = 5;

/// One case: the triangles of a cell with these corners inside.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Edges of the corners of each triangle.
    pub triangles: [[u8; 3]; MOST],
    /// Number of triangles.
    pub count: u8,
    /// Pieces of surface in the cell without a common edge, at most four.
    pub sheets: u8,
    /// The sheet of each triangle.
    pub sheet_of: [u8; MOST],
    /// The edges of each sheet, a bit each.
    pub edges_of: [u16; 4],
}

/// All cases by their corners, bit c for corner c.
#[derive(Debug)]
pub struct Cases {
    /// The cases.
    pub of: [Case; 256],
}

/// The two corners of an edge, the lower one first.
pub const fn ends(edge: usize) -> [usize; 2] {
    let (axis, n) = (edge / 4, edge % 4);
    let (b, c) = match axis {
        0 => (1, 2),
        1 => (0, 2),
        _ => (0, 1),
    };
    let low = (n & 1) << b | (n >> 1) << c;
    [low, low | 1 << axis]
}

/// The edge between two corners that differ in one axis.
pub fn between(p: usize, q: usize) -> usize {
    (0..12).find(|e| ends(*e) == [p & q, p | q]).unwrap_or(0)
}

/// Corners of a face, counter-clockwise from outside.
fn around(axis: usize, high: bool) -> [usize; 4] {
    let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
    let at = usize::from(high) << axis;
    let mut q = [at, at | 1 << b, at | 1 << b | 1 << c, at | 1 << c];
    if !high {
        q.reverse();
    }
    q
}

/// Whether both edges are in one face.
fn share_face(a: usize, b: usize) -> bool {
    let [a, b] = [a, b].map(ends);
    (0..3).any(|axis| {
        let side = |corner: usize| corner >> axis & 1;
        side(a[0]) == side(a[1]) && side(b[0]) == side(b[1]) && side(a[0]) == side(b[0])
    })
}

/// The loops of a case, each the sequence of its edges.
fn loops(case: usize) -> Vec<Vec<usize>> {
    let inside = |corner: usize| case >> corner & 1 == 1;
    let mut next = [usize::MAX; 12];
    for axis in 0..3 {
        for high in [false, true] {
            let q = around(axis, high);
            // A run of corners inside begins at an entry; the first exit after it is its end.
            for n in (0..4).filter(|n| !inside(q[*n]) && inside(q[(n + 1) % 4])) {
                let out = (n + 1..n + 4).find(|m| !inside(q[(m + 1) % 4])).unwrap_or(n);
                next[between(q[n], q[(n + 1) % 4])] = between(q[out % 4], q[(out + 1) % 4]);
            }
        }
    }
    let mut all = Vec::new();
    let mut seen = [false; 12];
    for first in 0..12 {
        let mut one = Vec::new();
        let mut at = first;
        while next[at] != usize::MAX && !seen[at] {
            seen[at] = true;
            one.push(at);
            at = next[at];
        }
        if !one.is_empty() {
            all.push(one);
        }
    }
    all
}

/// Square of the distance between the middles of two edges, in half steps.
fn apart(a: usize, b: usize) -> u32 {
    let middle = |e: usize| -> [i32; 3] {
        let [p, q] = ends(e);
        core::array::from_fn(|a| ((p >> a & 1) + (q >> a & 1)) as i32)
    };
    let (a, b) = (middle(a), middle(b));
    (0..3).map(|n| ((a[n] - b[n]) * (a[n] - b[n])) as u32).sum()
}

/// All divisions of a loop of `last - first + 1` edges into triangles, by their places in it, ascending in each
/// triangle.
fn cuts(first: usize, last: usize) -> Vec<Vec<[usize; 3]>> {
    if last - first < 2 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for middle in first + 1..last {
        let after = cuts(middle, last);
        for before in cuts(first, middle) {
            all.extend(after.iter().map(|after| [&before[..], &[[first, middle, last]], after].concat()));
        }
    }
    all
}

/// The triangles of a loop without a diagonal in a face; `None` if there are none.
fn cut(ring: &[usize]) -> Option<Vec<[u8; 3]>> {
    let n = ring.len();
    let side = |a: usize| apart(ring[a], ring[(a + 1) % n]);
    let even = (1..n).all(|a| side(a) == side(0));
    let mut best: Option<([i32; 2], Vec<[u8; 3]>)> = None;
    for triangles in cuts(0, n - 1) {
        // The long side of a triangle is a diagonal, each of them once, or joins the loop's ends.
        let diagonals: Vec<_> = triangles.iter().map(|t| (t[0], t[2])).filter(|(a, b)| b - a < n - 1).collect();
        if diagonals.iter().any(|(a, b)| share_face(ring[*a], ring[*b])) {
            continue;
        }
        let length: i32 = diagonals.iter().map(|(a, b)| apart(ring[*a], ring[*b]) as i32).sum();
        let at = |p: usize| diagonals.iter().filter(|(a, b)| *a == p || *b == p).count() as i32;
        let most = (0..n).map(at).max().unwrap_or(0);
        let ended_at = (0..n).filter(|p| at(*p) > 0).count() as i32;
        // The least of these. Five edges get long diagonals. Six get a zigzag of long ones for sides of one length,
        // else a triangle in the middle. Seven get a fan of short ones.
        let key = match n {
            6 if even => [-length, most],
            6 => [ended_at, 0],
            7 => [length, -most],
            _ => [-length, 0],
        };
        if best.as_ref().is_none_or(|(least, _)| key < *least) {
            best = Some((key, triangles.iter().map(|t| t.map(|p| ring[p] as u8)).collect()));
        }
    }
    best.map(|(_, triangles)| triangles)
}

impl Cases {
    /// The table, computed at its first use.
    pub fn get() -> &'static Self {
        static CASES: OnceLock<Cases> = OnceLock::new();
        CASES.get_or_init(|| Self { of: core::array::from_fn(Self::case) })
    }

    fn case(case: usize) -> Case {
        let mut made = Case::default();
        for (sheet, ring) in loops(case).iter().enumerate() {
            // Every loop can be divided: a test checks all of them.
            let triangles = cut(ring).unwrap_or_default();
            for t in triangles {
                made.triangles[usize::from(made.count)] = t;
                made.sheet_of[usize::from(made.count)] = sheet as u8;
                made.count += 1;
            }
            made.edges_of[sheet] = ring.iter().fold(0, |bits, e| bits | 1 << e);
            made.sheets = sheet as u8 + 1;
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_loop_is_cut_and_fits() {
        for case in 0..256 {
            let all = loops(case);
            assert!(all.len() <= 4, "{case}");
            let mut count = 0;
            for ring in &all {
                let triangles = cut(ring).unwrap_or_else(|| panic!("case {case}: {ring:?}"));
                assert_eq!(triangles.len(), ring.len() - 2);
                count += triangles.len();
            }
            assert!(count <= MOST, "{case}");
            let crossed = (0..12)
                .filter(|e| ends(*e).map(|c| case >> c & 1) == [0, 1] || ends(*e).map(|c| case >> c & 1) == [1, 0]);
            assert_eq!(crossed.count(), all.iter().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn triangles_look_away_from_what_is_inside() {
        let one = &Cases::get().of[1];
        assert_eq!((one.count, one.sheets), (1, 1));
        let p = one.triangles[0].map(|e| {
            let mut x = [0.0; 3];
            x[usize::from(e) / 4] = 0.5;
            x
        });
        let [a, b]: [[f64; 3]; 2] = [1, 2].map(|n| core::array::from_fn(|c| p[n][c] - p[0][c]));
        let normal = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
        assert!(normal.iter().all(|n| *n > 0.0), "{normal:?}");
    }

    /// The directed edges of a cell on a face.
    fn on_face(case: usize, axis: usize, high: bool) -> Vec<(u8, u8)> {
        let c = &Cases::get().of[case];
        let here = |e: u8| ends(usize::from(e)).iter().all(|p| p >> axis & 1 == usize::from(high));
        let mut open: HashMap<(u8, u8), i32> = HashMap::new();
        for t in &c.triangles[..usize::from(c.count)] {
            for (a, b) in [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])] {
                *open.entry((a, b)).or_default() += 1;
                *open.entry((b, a)).or_default() -= 1;
            }
        }
        open.into_iter().filter(|((a, b), n)| *n == 1 && here(*a) && here(*b)).map(|(e, _)| e).collect()
    }

    #[test]
    fn neighbours_agree_on_their_face() {
        for axis in 0..3 {
            for low in 0..256usize {
                for high in 0..256usize {
                    // `high` follows `low` along the axis: four corners are common.
                    let common = (0..8).filter(|c| c >> axis & 1 == 0);
                    if common.clone().any(|c| (high >> c & 1) != (low >> (c | 1 << axis) & 1)) {
                        continue;
                    }
                    let mut a = on_face(low, axis, true);
                    // The same edges by the other cell's numbers, reversed.
                    let moved = |e: u8| {
                        let [p, q] = ends(usize::from(e)).map(|c| c | 1 << axis);
                        between(p, q) as u8
                    };
                    let mut b: Vec<(u8, u8)> =
                        on_face(high, axis, false).iter().map(|(p, q)| (moved(*q), moved(*p))).collect();
                    a.sort_unstable();
                    b.sort_unstable();
                    assert_eq!(a, b, "{low} {high} along {axis}");
                }
            }
        }
    }
}

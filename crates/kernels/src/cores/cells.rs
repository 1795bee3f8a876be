//! From points on faces to segments within cells.
//!
//! # Theory
//! A core that enters a cell leaves it, so a cell's faces have two points, or none. If they have more, cores are near
//! each other or near an edge. Points along nearly a straight line are joined in that order.
//!
//! Others are joined in pairs. Points that pass the filters are joined with their like. Segments should be short and
//! follow the vectors at their ends: the deviation sideways counts in full, and a tenth of the length. Of an odd number
//! one point on an edge stays alone if there is one, since it may only touch the cell.

use super::block::{Cell, CoreBlock};
use super::pencil::{cross, dot, Vec3};

/// Largest number of points of a cell that are tried in every order. Of more the nearest are joined first.
const FEW: usize = 6;
/// Largest length of a nearly straight path, relative to the distance of its ends.
const STRAIGHT: f64 = 1.1;

/// A point of a cell.
#[derive(Copy, Clone, Debug)]
pub struct CellCrossing {
    /// Number, in the order of places.
    pub number: u32,
    /// Position.
    pub x: Vec3,
    /// Direction of the core there, of any length and either sign.
    pub along: Vec3,
    /// Whether it passes the filters.
    pub passes: bool,
    /// Whether it is on an edge.
    pub on_edge: bool,
}

fn apart(a: &CellCrossing, b: &CellCrossing) -> f64 {
    let d: Vec3 = core::array::from_fn(|c| a.x[c] - b.x[c]);
    dot(d, d).sqrt()
}

fn pair_cost(a: &CellCrossing, b: &CellCrossing) -> f64 {
    let d: Vec3 = core::array::from_fn(|c| a.x[c] - b.x[c]);
    let sideways = |along: Vec3| {
        let (off, length) = (cross(d, along), dot(along, along).sqrt());
        if length > 0.0 {
            dot(off, off).sqrt() / length
        } else {
            0.0
        }
    };
    0.5 * (sideways(a.along) + sideways(b.along)) + 0.1 * dot(d, d).sqrt()
}

/// The segments of a block: pairs of places (those of [`CoreBlock::places`]) in live cells that both pass the filters.
/// Each pair once, in rising order.
pub fn segments(block: &CoreBlock, places: &[u32], passes: impl Fn(u32) -> bool) -> Vec<[u32; 2]> {
    // Cells with the points on their faces.
    let mut of_cells: Vec<([i64; 3], u32)> = Vec::new();
    for n in places {
        let live = block.found[*n as usize].key.cells().filter(|c| block.cell(*c) == Some(Cell::Live));
        of_cells.extend(live.map(|[i, j, k]| ([k, j, i], *n)));
    }
    // A stable sort: within a cell places keep their order.
    of_cells.sort_by_key(|(cell, _)| *cell);
    let (mut pairs, mut points) = (Vec::new(), Vec::new());
    for some in of_cells.chunk_by(|a, b| a.0 == b.0) {
        points.clear();
        points.extend(some.iter().map(|(_, n)| {
            let f = &block.found[*n as usize];
            CellCrossing { number: *n, x: f.x, along: block.along(f), passes: passes(*n), on_edge: f.key.is_on_edge() }
        }));
        join(&points, &mut |a, b| {
            if a.passes && b.passes {
                pairs.push([a.number.min(b.number), a.number.max(b.number)]);
            }
        });
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Joins the points of a cell.
pub fn join(points: &[CellCrossing], put: &mut impl FnMut(&CellCrossing, &CellCrossing)) {
    match points.len() {
        0 | 1 => {}
        2 => put(&points[0], &points[1]),
        n if n <= FEW => match straight(points) {
            Some(way) => way.windows(2).for_each(|w| put(&points[w[0]], &points[w[1]])),
            None => {
                let mut best = (Cost::WORST, Vec::new());
                pairings(points, &mut vec![false; n], &mut Vec::new(), Cost::default(), n % 2, &mut best);
                best.1.iter().for_each(|[a, b]| put(&points[*a], &points[*b]));
            }
        },
        _ => {
            let mut left: Vec<&CellCrossing> = points.iter().collect();
            while left.len() > 1 {
                let (mut best, mut pair) = (f64::INFINITY, [0, 1]);
                for a in 0..left.len() {
                    for b in a + 1..left.len() {
                        let d = pair_cost(left[a], left[b]);
                        if d < best {
                            (best, pair) = (d, [a, b]);
                        }
                    }
                }
                put(left[pair[0]], left[pair[1]]);
                left.remove(pair[1]);
                left.remove(pair[0]);
            }
        }
    }
}

/// The order of points along a nearly straight line.
fn straight(points: &[CellCrossing]) -> Option<Vec<usize>> {
    let (mut far, mut ends) = (0.0, [0, 0]);
    for a in 0..points.len() {
        for b in a + 1..points.len() {
            let d = apart(&points[a], &points[b]);
            if d > far {
                (far, ends) = (d, [a, b]);
            }
        }
    }
    let [a, b] = ends.map(|n| points[n].x);
    let along = |p: &CellCrossing| (0..3).map(|c| (p.x[c] - a[c]) * (b[c] - a[c])).sum::<f64>();
    let mut way: Vec<usize> = (0..points.len()).collect();
    way.sort_by(|m, n| along(&points[*m]).total_cmp(&along(&points[*n])));
    let length: f64 = way.windows(2).map(|w| apart(&points[w[0]], &points[w[1]])).sum();
    (far > 0.0 && length <= STRAIGHT * far).then_some(way)
}

/// Costs of pairs, most important first.
#[derive(Copy, Clone, Debug, Default, PartialEq, PartialOrd)]
struct Cost {
    /// Points that stay alone without being on an edge.
    alone: u32,
    /// Pairs with one point that passes the filters and one that does not.
    mixed: u32,
    length: f64,
}

impl Cost {
    const WORST: Self = Self { alone: u32::MAX, mixed: u32::MAX, length: f64::INFINITY };
}

fn pairings(
    points: &[CellCrossing],
    used: &mut Vec<bool>,
    pairs: &mut Vec<[usize; 2]>,
    cost: Cost,
    spare: usize,
    best: &mut (Cost, Vec<[usize; 2]>),
) {
    let Some(a) = used.iter().position(|u| !u) else {
        if cost < best.0 {
            *best = (cost, pairs.clone());
        }
        return;
    };
    used[a] = true;
    for b in a + 1..points.len() {
        if used[b] {
            continue;
        }
        used[b] = true;
        pairs.push([a, b]);
        let mixed = u32::from(points[a].passes != points[b].passes);
        let next = Cost { mixed: cost.mixed + mixed, length: cost.length + pair_cost(&points[a], &points[b]), ..cost };
        pairings(points, used, pairs, next, spare, best);
        pairs.pop();
        used[b] = false;
    }
    if spare > 0 {
        let next = Cost { alone: cost.alone + u32::from(!points[a].on_edge), ..cost };
        pairings(points, used, pairs, next, spare - 1, best);
    }
    used[a] = false;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(Vec3, bool, bool)]) -> Vec<CellCrossing> {
        let each = of.iter().zip(0..);
        let point = |((x, passes, on_edge), number): (&(Vec3, bool, bool), u32)| CellCrossing {
            number,
            x: *x,
            along: [0.0, 0.0, 1.0],
            passes: *passes,
            on_edge: *on_edge,
        };
        each.map(point).collect()
    }

    fn joined(of: &[(Vec3, bool, bool)]) -> Vec<[u32; 2]> {
        let mut out = Vec::new();
        join(&points(of), &mut |a, b| out.push([a.number, b.number]));
        out
    }

    #[test]
    fn two_cores_side_by_side_stay_apart() {
        let at = |x: f64, z: f64| ([x, 0.5, z], true, false);
        assert_eq!(joined(&[at(0.1, 0.0), at(0.9, 0.0), at(0.1, 1.0), at(0.9, 1.0)]), [[0, 2], [1, 3]]);
    }

    #[test]
    fn points_in_a_row_are_one_line() {
        let at = |z: f64| ([0.0, 0.5, z], true, false);
        assert_eq!(joined(&[at(0.0), at(0.6), at(1.0)]), [[0, 1], [1, 2]]);
        assert_eq!(joined(&[at(0.0), at(0.6), at(0.3), at(1.0)]), [[0, 2], [2, 1], [1, 3]]);
    }

    #[test]
    fn like_goes_with_like_and_what_touches_stays_alone() {
        let at = |x: f64, y: f64, passes| ([x, y, 0.0], passes, false);
        let up = |x: f64, z: f64, passes| ([x, 0.0, z], passes, false);
        let crossing = [up(0.0, 0.0, true), up(0.3, 0.0, false), up(0.3, 1.0, true), up(0.0, 1.0, false)];
        assert_eq!(joined(&crossing), [[0, 2], [1, 3]]);
        let three = [at(0.0, 0.0, true), ([0.1, 0.1, 0.0], true, true), at(1.0, 0.0, true)];
        let bent = [three[0], ([0.5, 0.9, 0.0], true, true), three[2]];
        assert_eq!(joined(&bent), [[0, 2]]);
        assert!(joined(&three[..1]).is_empty() && joined(&three[..2]) == [[0, 1]]);
    }

    #[test]
    fn many_are_joined_all_the_same() {
        let row: Vec<(Vec3, bool, bool)> =
            (0..8).map(|n| ([f64::from(n / 2) * 10.0, f64::from(n % 2), f64::from(n * n % 7)], true, false)).collect();
        assert_eq!(joined(&row).len(), 4);
    }
}

//! From segments to polylines.
//!
//! # Theory
//! Places are in the order of zone, k, j, i, and lines follow from it alone. Lines that begin at places without exactly
//! two neighbours come first, lowest first, and closed lines after them. Lines end where three segments meet.
//!
//! Abutting zones are independent, and their gradients are one-sided at the common face. So a core ends there twice, a
//! part of a cell apart. Such ends are joined, nearest first, if they are nearer than half of the smaller cell's face.
//! The lines must also continue in about the same direction.

use super::pencil::{dot, Vec3};

/// A place as lines need it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ChainNode {
    /// Position.
    pub x: Vec3,
    /// Size of its face.
    pub size: f32,
    /// A cell beside it is beyond its zone.
    pub at_border: bool,
}

/// Polylines: numbers of consecutive places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chains {
    /// The places of all.
    pub places: Vec<u32>,
    /// Where each begins, and the end of the last.
    pub offsets: Vec<u32>,
    /// Closed lines: the last place is before the first.
    pub closed: Vec<bool>,
}

/// Most bytes that [`chains`] needs for this many places and segments, with its result.
pub fn bytes(places: usize, segments: usize) -> u64 {
    // Neighbours, their offsets, marks of use, the lines twice, ends.
    (places as u64).saturating_mul(2 * 4 + 1 + 2 * 4 + 24).saturating_add((segments as u64).saturating_mul(2 * 4))
}

/// Neighbours of places.
struct Graph {
    offsets: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    fn new(places: usize, segments: &[[u32; 2]]) -> Self {
        let mut offsets = vec![0u32; places + 1];
        segments.iter().flatten().for_each(|n| offsets[*n as usize + 1] += 1);
        for n in 0..places {
            offsets[n + 1] += offsets[n];
        }
        let (mut to, mut next) = (vec![0; 2 * segments.len()], offsets.clone());
        for [a, b] in segments {
            for (from, other) in [(a, b), (b, a)] {
                let at = &mut next[*from as usize];
                to[*at as usize] = *other;
                *at += 1;
            }
        }
        for n in 0..places {
            to[offsets[n] as usize..offsets[n + 1] as usize].sort_unstable();
        }
        Self { offsets, to }
    }

    fn of(&self, n: u32) -> &[u32] {
        &self.to[self.offsets[n as usize] as usize..self.offsets[n as usize + 1] as usize]
    }
}

/// Joins segments, each once, between places in their order.
pub fn chains(places: &[ChainNode], segments: &[[u32; 2]]) -> Chains {
    let graph = Graph::new(places.len(), segments);
    let mut used = vec![false; places.len()];
    let mut lines = Chains { offsets: vec![0], ..Chains::default() };
    let is_inner = |n: u32| graph.of(n).len() == 2;
    for n in 0..places.len() as u32 {
        if is_inner(n) {
            continue;
        }
        for first in graph.of(n) {
            // The other end came first; of two ends with each other the lower.
            if used[*first as usize] || (!is_inner(*first) && *first < n) {
                continue;
            }
            lines.places.push(n);
            let (mut before, mut at) = (n, *first);
            while is_inner(at) {
                used[at as usize] = true;
                lines.places.push(at);
                let [a, b] = [graph.of(at)[0], graph.of(at)[1]];
                (before, at) = (at, if a == before { b } else { a });
            }
            lines.places.push(at);
            lines.end(false);
        }
    }
    for n in 0..places.len() as u32 {
        if !is_inner(n) || used[n as usize] {
            continue;
        }
        let (mut before, mut at) = (n, n);
        loop {
            used[at as usize] = true;
            lines.places.push(at);
            let [a, b] = [graph.of(at)[0], graph.of(at)[1]];
            let next = if a == before { b } else { a };
            (before, at) = (at, if before == n && at == n { a } else { next });
            if at == n {
                break;
            }
        }
        lines.end(true);
    }
    across(places, lines)
}

impl Chains {
    fn end(&mut self, closed: bool) {
        self.offsets.push(self.places.len() as u32);
        self.closed.push(closed);
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.closed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// The places of one line.
    pub fn line(&self, n: usize) -> &[u32] {
        &self.places[self.offsets[n] as usize..self.offsets[n + 1] as usize]
    }
}

fn less(a: Vec3, b: Vec3) -> Vec3 {
    core::array::from_fn(|c| a[c] - b[c])
}

/// An end of a line at the border of a zone.
#[derive(Copy, Clone)]
struct End {
    line: u32,
    /// The last place, not the first.
    last: bool,
    x: Vec3,
    size: f64,
    /// Direction of the line beyond it.
    on: Vec3,
}

/// The ends of lines that are joined: for each end (two a line) the other.
fn partners(places: &[ChainNode], lines: &Chains) -> Vec<Option<u32>> {
    let mut ends: Vec<End> = Vec::new();
    for n in 0..lines.len() {
        let line = lines.line(n);
        if lines.closed[n] || line.len() < 2 {
            continue;
        }
        let at = |n: usize| &places[line[n] as usize];
        for (last, end, beside) in [(false, 0, 1), (true, line.len() - 1, line.len() - 2)] {
            let p = at(end);
            if p.at_border {
                let on = less(p.x, at(beside).x);
                ends.push(End { line: n as u32, last, x: p.x, size: f64::from(p.size), on });
            }
        }
    }
    ends.sort_by(|a, b| a.x[0].total_cmp(&b.x[0]));
    let widest = ends.iter().fold(0.0, |m: f64, e| m.max(0.5 * e.size));
    let id = |e: &End| 2 * e.line + u32::from(e.last);
    let mut pairs: Vec<(f64, u32, u32)> = Vec::new();
    for (n, a) in ends.iter().enumerate() {
        for b in ends[n + 1..].iter().take_while(|b| b.x[0] - a.x[0] <= widest) {
            let d = less(a.x, b.x);
            let apart = dot(d, d).sqrt();
            // A line entered by one end leaves by the other. A single segment is not closed in itself.
            let turns = dot(a.on, b.on) >= 0.0;
            let itself = a.line == b.line && lines.line(a.line as usize).len() < 4;
            if apart <= 0.5 * a.size.min(b.size) && !turns && !itself {
                pairs.push((apart, id(a).min(id(b)), id(a).max(id(b))));
            }
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut partner = vec![None; 2 * lines.len()];
    for (_, a, b) in pairs {
        if partner[a as usize].is_none() && partner[b as usize].is_none() {
            (partner[a as usize], partner[b as usize]) = (Some(b), Some(a));
        }
    }
    partner
}

/// Joins lines where zones abut.
fn across(places: &[ChainNode], lines: Chains) -> Chains {
    let partner = partners(places, &lines);
    if partner.iter().all(Option::is_none) {
        return lines;
    }
    let mut out = Chains { offsets: vec![0], ..Chains::default() };
    let mut used = vec![false; lines.len()];
    // Lines with a free end first, lowest first, then rings.
    for rings in [false, true] {
        for n in 0..lines.len() {
            let free = [2 * n, 2 * n + 1].map(|e| partner[e].is_none());
            if used[n] || !(rings || free[0] || free[1]) {
                continue;
            }
            // Entered by its first place, unless only its last is free.
            let begun = if free[0] || !free[1] { 2 * n } else { 2 * n + 1 };
            let (mut enter, mut closed) = (begun, lines.closed[n]);
            loop {
                let (line, backward) = (enter / 2, enter % 2 == 1);
                used[line] = true;
                match backward {
                    false => out.places.extend_from_slice(lines.line(line)),
                    true => out.places.extend(lines.line(line).iter().rev()),
                }
                match partner[enter ^ 1].map(|p| p as usize) {
                    None => break,
                    Some(next) if next == begun => {
                        closed = true;
                        break;
                    }
                    Some(next) => enter = next,
                }
            }
            out.end(closed);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(x: Vec3, at_border: bool) -> ChainNode {
        ChainNode { x, size: 1.0, at_border }
    }

    fn row(n: u32) -> Vec<ChainNode> {
        (0..n).map(|n| place([f64::from(n), 0.0, 0.0], false)).collect()
    }

    #[test]
    fn lines_begin_at_their_lower_end_and_end_where_three_meet() {
        let c = chains(&row(7), &[[1, 2], [0, 2], [3, 4], [4, 5], [3, 5], [0, 6]]);
        assert_eq!((c.line(0), c.line(1)), (&[1, 2, 0, 6][..], &[3, 4, 5][..]));
        assert_eq!((c.len(), &c.closed[..]), (2, &[false, true][..]));
        let star = chains(&row(4), &[[0, 3], [1, 3], [2, 3]]);
        assert_eq!((star.line(0), star.line(1), star.line(2)), (&[0, 3][..], &[1, 3][..], &[2, 3][..]));
        assert!(chains(&row(3), &[]).is_empty());
        assert_eq!(chains(&row(2), &[[0, 1]]).line(0), [0, 1]);
    }

    #[test]
    fn zones_that_abut_are_crossed_once() {
        let x = |x: f64, y: f64, border| place([x, y, 0.0], border);
        // Two zones along x, the second backward; a third line beside them.
        let places = [
            x(0.0, 0.0, true),
            x(1.0, 0.0, true),
            x(2.0, 0.1, true),
            x(1.1, 0.1, true),
            x(1.0, 3.0, true),
            x(2.0, 3.0, true),
        ];
        let c = chains(&places, &[[0, 1], [2, 3], [4, 5]]);
        assert_eq!((c.len(), c.line(0), c.line(1)), (2, &[0, 1, 3, 2][..], &[4, 5][..]));
        // Too far, or turned back.
        let mut far = places;
        far[3].x[0] = 1.7;
        assert_eq!(chains(&far, &[[0, 1], [2, 3]]).len(), 2);
        far[3].x[0] = 1.1;
        far[2].x[0] = 0.3;
        assert_eq!(chains(&far, &[[0, 1], [2, 3]]).len(), 2);
    }

    #[test]
    fn a_ring_through_a_seam_is_closed() {
        let at = |n: f64, border| {
            let a = n * core::f64::consts::TAU / 6.0;
            place([3.0 * a.cos(), 3.0 * a.sin(), 0.0], border)
        };
        let inner = (1..6).map(|n| at(f64::from(n), false));
        let places: Vec<ChainNode> = [at(0.0, true)].into_iter().chain(inner).chain([at(5.98, true)]).collect();
        let c = chains(&places, &[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]);
        assert_eq!((c.len(), &c.closed[..], c.line(0)), (1, &[true][..], &[0, 1, 2, 3, 4, 5, 6][..]));
    }
}

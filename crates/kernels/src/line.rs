//! A line as it grows: two halves from the seed.

pub use crate::reason::Reason;
use crate::saved_state::{SavedState, Saver};

/// One of the two halves of a line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Half {
    /// Against the vector; its times are negative.
    Backward,
    /// With the vector.
    Forward,
}

#[derive(Copy, Clone, Debug)]
struct LinePoint {
    x: [f64; 3],
    time: f64,
    zone: i32,
}

/// Points that a line may get between two checks of its size.
const SOON: usize = 32;

#[derive(Clone, Debug, Default)]
struct HalfLine {
    points: Vec<LinePoint>,
    fields: Vec<f64>,
    length: f64,
    reason: Option<Reason>,
}

/// A line with its samples.
#[derive(Clone, Debug)]
pub struct Line {
    seed: HalfLine,
    halves: [HalfLine; 2],
    current: usize,
    fields: usize,
    /// Points from the seed on that were passed on.
    taken: usize,
}

/// A finished line, backward end first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinedLine {
    /// Positions.
    pub points: Vec<[f64; 3]>,
    /// Integration time of each point, 0 at the seed, negative before it.
    pub time: Vec<f64>,
    /// Zone of each point, 1-based.
    pub zone: Vec<i32>,
    /// Sampled components of each point, point by point.
    pub fields: Vec<f64>,
    /// Index of the seed's point.
    pub seed: usize,
    /// Why the forward half ended (or the only half).
    pub reason: Option<Reason>,
    /// Why the backward half ended, if both were traced.
    pub reason_backward: Option<Reason>,
    /// There is no line because no seed is in a zone.
    pub outside: bool,
}

impl Line {
    /// An empty line; `fields` is the number of sampled components.
    pub fn new(fields: usize) -> Self {
        Self {
            seed: HalfLine::default(),
            halves: [HalfLine::default(), HalfLine::default()],
            current: 1,
            fields,
            taken: 0,
        }
    }
    /// Number of sampled components at each point.
    #[inline(always)]
    pub fn fields(&self) -> usize {
        self.fields
    }
    /// Whether the line has no point.
    pub fn is_empty(&self) -> bool {
        self.seed.points.is_empty()
    }
    /// Selects the growing half.
    pub fn begin(&mut self, half: Half) {
        self.current = usize::from(half == Half::Forward);
    }
    /// Adds a point `dt` after the last (for the seed: at 0). Zones are 0-based here.
    #[inline]
    pub fn push(&mut self, x: [f64; 3], dt: f64, zone: u32, fields: impl Iterator<Item = f64>) {
        let first = self.seed.points.is_empty();
        let h = if first { &mut self.seed } else { &mut self.halves[self.current] };
        let time = if first { 0.0 } else { h.points.last().map_or(0.0, |p| p.time) + dt };
        if !first && h.points.is_empty() {
            // Most lines cross dozens of cells: this saves three reallocations.
            h.points.reserve(32);
        }
        h.points.push(LinePoint { x, time, zone: zone as i32 + 1 });
        h.fields.extend(fields);
    }
    /// Adds a point at a time, to a half that is not traced backward: times are stored as given.
    pub fn push_at(&mut self, x: [f64; 3], time: f64, zone: u32, fields: impl Iterator<Item = f64>) {
        let h = if self.seed.points.is_empty() { &mut self.seed } else { &mut self.halves[1] };
        h.points.push(LinePoint { x, time, zone: zone as i32 + 1 });
        h.fields.extend(fields);
    }
    /// The last point of the half that is traced forward, or the seed: position, 0-based zone, fields.
    pub fn last(&self) -> Option<([f64; 3], u32, &[f64])> {
        let h = if self.halves[1].points.is_empty() { &self.seed } else { &self.halves[1] };
        let p = h.points.last()?;
        Some((p.x, (p.zone - 1) as u32, &h.fields[h.fields.len() - self.fields..]))
    }
    /// The time of that point.
    pub(crate) fn last_time(&self) -> Option<f64> {
        self.halves[1].points.last().or(self.seed.points.last()).map(|p| p.time)
    }
    /// Drops all points but the seed's. Lengths stay.
    pub fn forget(&mut self) {
        self.halves[1].points.clear();
        self.halves[1].fields.clear();
    }
    /// Removes and returns the points of a line that grows forward only. Lengths stay. The room for as many points
    /// stays, too, if they are few.
    pub fn drain(&mut self) -> JoinedLine {
        let seed = core::mem::take(&mut self.seed);
        let forward = &mut self.halves[1];
        let all = || seed.points.iter().chain(&forward.points);
        let joined = JoinedLine {
            points: all().map(|p| p.x).collect(),
            time: all().map(|p| p.time).collect(),
            zone: all().map(|p| p.zone).collect(),
            fields: seed.fields.iter().chain(&forward.fields).copied().collect(),
            seed: 0,
            reason: None,
            reason_backward: None,
            outside: false,
        };
        if forward.points.capacity() > 2 * SOON {
            (forward.points, forward.fields) = Default::default();
        }
        forward.points.clear();
        forward.fields.clear();
        joined
    }
    /// Drops the points at the end with times of some kind.
    pub(crate) fn forget_after(&mut self, of_kind: impl Fn(f64) -> bool) {
        let n = self.fields;
        for part in [&mut self.halves[1], &mut self.seed] {
            while part.points.last().is_some_and(|p| of_kind(p.time)) {
                part.points.pop();
                part.fields.truncate(part.points.len() * n);
            }
            if !part.points.is_empty() {
                break;
            }
        }
    }
    /// Passes on the points from the seed on that were added since the last call (position, time, 0-based zone,
    /// fields). Drops them except the seed and the last.
    pub fn take(&mut self, mut each: impl FnMut([f64; 3], f64, u32, &[f64])) {
        let n = self.fields;
        let forward = &mut self.halves[1];
        let all =
            self.seed.points.iter().zip(0..).map(|(p, at): (_, usize)| (p, &self.seed.fields[at * n..(at + 1) * n]));
        let later =
            forward.points.iter().zip(0..).map(|(p, at): (_, usize)| (p, &forward.fields[at * n..(at + 1) * n]));
        for (p, fields) in all.chain(later).skip(self.taken) {
            each(p.x, p.time, (p.zone - 1) as u32, fields);
        }
        let gone = forward.points.len().saturating_sub(1);
        forward.points.drain(..gone);
        forward.fields.drain(..gone * n);
        self.taken = self.seed.points.len() + forward.points.len();
    }
    /// Why the current half ended.
    pub fn ended(&self) -> Option<Reason> {
        self.halves[self.current].reason
    }
    /// Adds to the length of the current half.
    #[inline]
    pub fn advance(&mut self, length: f64) {
        self.halves[self.current].length += length;
    }
    /// Length of the current half.
    #[inline]
    pub fn half_length(&self) -> f64 {
        self.halves[self.current].length
    }
    /// Time of the current half, without sign.
    #[inline]
    pub fn half_time(&self) -> f64 {
        self.halves[self.current].points.last().map_or(0.0, |p| p.time)
    }
    /// Steps of the current half.
    #[inline]
    pub fn half_steps(&self) -> u32 {
        self.halves[self.current].points.len() as u32
    }
    /// Reopens the current half.
    pub(crate) fn go_on(&mut self) {
        self.halves[self.current].reason = None;
    }
    /// Ends the current half.
    pub fn end(&mut self, reason: Reason) {
        self.halves[self.current].reason = Some(reason);
    }
    /// Bytes held, with spare capacity. A nearly full list counts with its size during growth: itself, and twice that.
    pub fn bytes(&self) -> usize {
        self.bytes_from(0)
    }
    /// The same for a line with points passed on a few at a time: room for few points counts as it is.
    pub fn bytes_of_few(&self) -> usize {
        self.bytes_from(2 * SOON)
    }
    fn bytes_from(&self, many: usize) -> usize {
        let soon = |len: usize, room: usize, each: usize| {
            let full = room > many * each && room - len < SOON * each;
            if full {
                3 * room
            } else {
                room
            }
        };
        let half = |h: &HalfLine| {
            soon(h.points.len(), h.points.capacity(), 1) * size_of::<LinePoint>()
                + soon(h.fields.len(), h.fields.capacity(), self.fields) * 8
        };
        self.halves.iter().map(half).sum::<usize>() + size_of::<LinePoint>() + 8 * self.fields
    }
    /// Saves the state of a line that is not traced backward.
    pub(crate) fn save(&self, to: &mut Saver) {
        let half = &self.halves[1];
        to.float(half.length);
        to.reason(half.reason);
        to.whole(self.len() as u64);
        for part in [&self.seed, half] {
            for (n, p) in part.points.iter().enumerate() {
                to.floats(&p.x);
                to.float(p.time);
                to.whole(p.zone as u64);
                to.floats(&part.fields[n * self.fields..(n + 1) * self.fields]);
            }
        }
    }
    /// Restores a saved line with this many sampled components.
    pub(crate) fn restore(from: &mut SavedState<'_>, fields: usize) -> Option<Self> {
        let mut line = Self::new(fields);
        line.begin(Half::Forward);
        let (length, reason) = (from.float()?, from.reason()?);
        let count = from.count(40 + 8 * fields)?;
        let mut sampled = vec![0.0; fields];
        line.halves[1].points.reserve_exact(count);
        line.halves[1].fields.reserve_exact(count * fields);
        for _ in 0..count {
            let (x, time, zone) = (from.three()?, from.float()?, from.whole()? as i32);
            for value in &mut sampled {
                *value = from.float()?;
            }
            line.push_at(x, time, (zone - 1) as u32, sampled.iter().copied());
        }
        (line.halves[1].length, line.halves[1].reason) = (length, reason);
        Some(line)
    }
    /// Points so far.
    pub fn len(&self) -> usize {
        self.seed.points.len() + self.halves[0].points.len() + self.halves[1].points.len()
    }
    /// One line from the far end of the backward half to the far end of the forward one.
    pub fn join(self) -> JoinedLine {
        let [b, f] = self.halves;
        let n = self.fields;
        let seed = b.points.len();
        let both = b.reason.is_some() && f.reason.is_some();
        let mut fields = Vec::with_capacity((seed + self.seed.points.len() + f.points.len()) * n);
        for p in (0..seed).rev() {
            fields.extend_from_slice(&b.fields[p * n..(p + 1) * n]);
        }
        fields.extend(self.seed.fields.iter().chain(&f.fields));
        let after = || self.seed.points.iter().chain(&f.points);
        let all = || b.points.iter().rev().chain(after());
        // Any other line without points ends for another reason: a seed in a zone has a point there, or is in a hole.
        let outside = all().next().is_none() && f.reason.or(b.reason) == Some(Reason::Left);
        JoinedLine {
            outside,
            points: all().map(|p| p.x).collect(),
            time: b.points.iter().rev().map(|p| -p.time).chain(after().map(|p| p.time)).collect(),
            zone: all().map(|p| p.zone).collect(),
            fields,
            seed,
            reason: f.reason.or(b.reason),
            reason_backward: if both { b.reason } else { None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_join_at_the_seed() {
        let mut l = Line::new(1);
        l.push([0.0; 3], 0.0, 0, [10.0].into_iter());
        l.begin(Half::Backward);
        l.push([-1.0, 0.0, 0.0], 0.5, 0, [9.0].into_iter());
        l.push([-2.0, 0.0, 0.0], 0.5, 1, [8.0].into_iter());
        l.end(Reason::Left);
        l.begin(Half::Forward);
        l.push([1.0, 0.0, 0.0], 0.25, 0, [11.0].into_iter());
        l.end(Reason::Steps);
        let j = l.join();
        assert_eq!(j.points.iter().map(|p| p[0]).collect::<Vec<_>>(), [-2.0, -1.0, 0.0, 1.0]);
        assert_eq!(j.time, [-1.0, -0.5, 0.0, 0.25]);
        assert_eq!(j.zone, [2, 1, 1, 1]);
        assert_eq!(j.fields, [8.0, 9.0, 10.0, 11.0]);
        assert_eq!((j.seed, j.reason, j.reason_backward), (2, Some(Reason::Steps), Some(Reason::Left)));
    }
}

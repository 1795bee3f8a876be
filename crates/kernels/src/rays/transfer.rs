//! Transfer functions: from a value to colour and opacity, as users specify them and as lookup tables for rays.

use super::lanes::F4;
use crate::draw::srgb_to_linear;

/// Colour and opacity over the values of a channel, linear between nodes and constant beyond the outer ones.
///
/// Values are the stored numbers. Of two nodes at the same value the later one holds from that value on.
///
/// ```
/// use kernels::rays::TransferFunction;
/// let bone = TransferFunction::new(vec![(0.0, [0.0; 3]), (255.0, [1.0; 3])], vec![(100.0, 0.0), (140.0, 0.2)]).unwrap();
/// assert_eq!(bone.opacity(120.0), 0.1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TransferFunction {
    colours: Vec<(f64, [f32; 3])>,
    opacities: Vec<(f64, f32)>,
}

/// Why a transfer function, or a request for rays, is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransferError {
    /// No nodes.
    #[error("a transfer function needs at least one node of {0}")]
    Empty(&'static str),
    /// Not in order, or NaN.
    #[error("the values of a transfer function's nodes of {0} must be numbers that do not fall")]
    Order(&'static str),
    /// Beyond 0 to 1.
    #[error("{0} in a transfer function lie between 0 and 1")]
    Range(&'static str),
}

impl TransferFunction {
    /// A function from nodes of colour (sRGB, 0 to 1) and of opacity (0 to 1, of one unit of length), each with its
    /// value.
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn new(colours: Vec<(f64, [f32; 3])>, opacities: Vec<(f64, f32)>) -> Result<Self, TransferError> {
        let rising = |v: &[f64]| v.iter().all(|x| x.is_finite()) && v.windows(2).all(|w| w[0] <= w[1]);
        if colours.is_empty() {
            return Err(TransferError::Empty("colour"));
        }
        if opacities.is_empty() {
            return Err(TransferError::Empty("opacity"));
        }
        if !rising(&colours.iter().map(|c| c.0).collect::<Vec<_>>()) {
            return Err(TransferError::Order("colour"));
        }
        if !rising(&opacities.iter().map(|c| c.0).collect::<Vec<_>>()) {
            return Err(TransferError::Order("opacity"));
        }
        if !colours.iter().all(|c| c.1.iter().all(|v| (0.0..=1.0).contains(v))) {
            return Err(TransferError::Range("colours"));
        }
        if !opacities.iter().all(|o| (0.0..=1.0).contains(&o.1)) {
            return Err(TransferError::Range("opacities"));
        }
        Ok(Self { colours, opacities })
    }

    /// A grey window: black and transparent at `level - width / 2`, white and of `opacity` at `level + width / 2`.
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn window(level: f64, width: f64, opacity: f32) -> Result<Self, TransferError> {
        let (low, high) = (level - 0.5 * width, level + 0.5 * width);
        Self::new(vec![(low, [0.0; 3]), (high, [1.0; 3])], vec![(low, 0.0), (high, opacity)])
    }

    /// The same over stored numbers, if this one is over values of `scale[0]` times the stored number, plus `scale[1]`.
    #[must_use]
    pub fn stored(mut self, scale: [f64; 2]) -> Self {
        let back = |v: f64| (v - scale[1]) / scale[0];
        self.colours.iter_mut().for_each(|c| c.0 = back(c.0));
        self.opacities.iter_mut().for_each(|o| o.0 = back(o.0));
        if scale[0] < 0.0 {
            self.colours.reverse();
            self.opacities.reverse();
        }
        self
    }

    /// Opacity of one unit of length at a value.
    pub fn opacity(&self, value: f64) -> f32 {
        between(&self.opacities, value, |a, b, f| a + (b - a) * f)
    }

    /// Colour at a value, in linear light. Between nodes sRGB is linear, as in colour maps.
    pub fn colour(&self, value: f64) -> [f32; 3] {
        let srgb =
            between(&self.colours, value, |a: [f32; 3], b, f| core::array::from_fn(|c| a[c] + (b[c] - a[c]) * f));
        srgb.map(srgb_to_linear)
    }

    /// The ends of the values within which it changes, and its shortest changing piece.
    fn extent(&self) -> ([f64; 2], f64) {
        let mut at: Vec<f64> = self.colours.iter().map(|c| c.0).chain(self.opacities.iter().map(|o| o.0)).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        // An invisible value has no colour.
        let changes = |a: f64, b: f64| {
            let (oa, ob) = (self.opacity(a), before(&self.opacities, b));
            let (ca, cb) = (between_colours(self, a), before(&self.colours, b));
            oa != ob || ((oa > 0.0 || ob > 0.0) && ca != cb)
        };
        let jumps = |v: f64| {
            before(&self.opacities, v) != self.opacity(v) || before(&self.colours, v) != between_colours(self, v)
        };
        let mut shortest = f64::INFINITY;
        let mut ends = [f64::INFINITY, f64::NEG_INFINITY];
        for w in at.windows(2) {
            if changes(w[0], w[1]) {
                shortest = shortest.min(w[1] - w[0]);
                ends = [ends[0].min(w[0]), ends[1].max(w[1])];
            }
        }
        for &v in at.iter().filter(|v| jumps(**v)) {
            ends = [ends[0].min(v), ends[1].max(v)];
        }
        if ends[0] > ends[1] {
            ends = [at[0], at[0]];
        }
        (ends, shortest)
    }
}

fn between_colours(f: &TransferFunction, value: f64) -> [f32; 3] {
    between(&f.colours, value, |a: [f32; 3], b, f| core::array::from_fn(|c| a[c] + (b[c] - a[c]) * f))
}

/// Linear between nodes, right-continuous.
fn between<T: Copy>(nodes: &[(f64, T)], value: f64, mix: impl Fn(T, T, f32) -> T) -> T {
    let n = nodes.partition_point(|c| c.0 <= value);
    match (n.checked_sub(1).map(|n| nodes[n]), nodes.get(n)) {
        (None, _) => nodes[0].1,
        (Some(a), None) => a.1,
        (Some(a), Some(b)) => mix(a.1, b.1, ((value - a.0) / (b.0 - a.0)) as f32),
    }
}

/// The limit from below, at a node.
fn before<T: Copy>(nodes: &[(f64, T)], value: f64) -> T {
    let n = nodes.partition_point(|c| c.0 < value);
    nodes.get(n).or(nodes.last()).map_or(nodes[0].1, |c| c.1)
}

/// Colour times opacity of the length of a step, and that opacity.
#[derive(Copy, Clone, Debug, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct TransferEntry(pub [f32; 4]);

impl TransferEntry {
    pub(crate) const NOTHING: Self = Self([0.0; 4]);

    /// Light of several objects in one place: it adds up, and each blocks its part of the light behind. If one were
    /// blended over the other, the first would hide the others where it is brightest.
    pub(crate) fn sum(each: impl Iterator<Item = Self>) -> Self {
        let (mut light, mut through) = ([0.0f32; 3], 1.0f32);
        for Self([r, g, b, opacity]) in each {
            light = [light[0] + r, light[1] + g, light[2] + b];
            through *= 1.0 - opacity;
        }
        let [r, g, b] = light.map(|v| v.min(1.0));
        Self([r, g, b, 1.0 - through])
    }

    /// In lanes.
    #[inline(always)]
    pub(crate) fn light(self) -> F4 {
        F4::from(self.0)
    }

    /// The same for this many steps: each transmits the same share of light (Beer and Lambert).
    pub(crate) fn over(self, steps: f32) -> Self {
        let a = self.0[3];
        if steps == 1.0 || !(a > 0.0) {
            return self;
        }
        let more = -((-a).ln_1p() * steps).exp_m1() / a;
        Self(self.0.map(|c| c * more))
    }
}

/// Least and most entries of a table: the shortest changing piece gets [`OF_PIECE`] of them.
const LEAST: usize = 1024;
const MOST: usize = 1 << 16;
const OF_PIECE: f64 = 64.0;

/// A transfer function for steps of one length.
#[derive(Clone, Debug)]
pub(crate) struct TransferTable {
    /// 1. One more than `top`: the last is that of NaN, and is invisible.
    pub(crate) entries: Vec<TransferEntry>,
    /// Nearest entry: `value * scale + offset`.
    pub(crate) scale: f32,
    pub(crate) offset: f32,
    /// Index of the last entry of a finite value.
    pub(crate) top: f32,
    /// Number of visible entries before this one.
    seen: Vec<u32>,
}

impl TransferTable {
    /// `ratio` is the length of a step over the unit of length of opacities. Looked-up values are multiplied by `unit`.
    pub(crate) fn new(f: &TransferFunction, ratio: f64, unit: f32) -> Self {
        let ([low, high], shortest) = f.extent();
        let wanted = if shortest.is_finite() { ((high - low) / shortest * OF_PIECE).ceil() } else { 0.0 };
        let count = (wanted as usize).clamp(LEAST, MOST);
        let last = count - 1;
        let width = high - low;
        let step = if width > 0.0 { width / last as f64 } else { 0.0 };
        let mut entries: Vec<TransferEntry> = (0..count)
            .map(|n| {
                // Exact ends, so that the constant pieces beyond them are exact.
                let v = match n {
                    _ if n == last => high,
                    _ => low + n as f64 * step,
                };
                // Values below all nodes use the limit from below, which differs if the function jumps at its first
                // node.
                let (opacity, colour) = if n == 0 && last > 0 {
                    (before(&f.opacities, v), before(&f.colours, v).map(srgb_to_linear))
                } else {
                    (f.opacity(v), f.colour(v))
                };
                of_length(colour, opacity, ratio)
            })
            .collect();
        entries.push(TransferEntry::NOTHING);
        let scale = if step > 0.0 { 1.0 / step } else { 0.0 };
        let (mut scale, mut offset) = (scale, -low * scale);
        if step == 0.0 {
            // A jump at one value, or none: all values below use the first entry, all others the last.
            let far = f64::from(f32::MAX).sqrt();
            (scale, offset) = (far, -low * far + 0.5 * count as f64);
        }
        let mut table = Self {
            entries,
            scale: (scale / f64::from(unit)) as f32,
            offset: offset as f32,
            top: last as f32,
            seen: Vec::new(),
        };
        table.count();
        table
    }

    fn count(&mut self) {
        let mut n = 0;
        self.seen = core::iter::once(0)
            .chain(self.entries.iter().map(|e| {
                n += u32::from(*e != TransferEntry::NOTHING);
                n
            }))
            .collect();
    }

    /// The entry of a value, already multiplied by the unit.
    #[inline(always)]
    pub(crate) fn index(&self, v: f32) -> usize {
        if v.is_nan() {
            return self.entries.len() - 1;
        }
        let x = v.mul_add(self.scale, self.offset);
        // As in lanes: NaN here (infinite both ways) uses the first.
        let x = if x > 0.0 { x } else { 0.0 };
        let x = if x < self.top { x } else { self.top };
        x.round_ties_even() as usize
    }

    /// Whether [`TransferTable::shows`] gives the same results as that of another.
    pub(crate) fn shows_as(&self, o: &Self) -> bool {
        (self.scale, self.offset, self.top) == (o.scale, o.offset, o.top) && self.seen == o.seen
    }

    /// Whether any value from `low` to `high`, already multiplied by the unit, is visible. Interpolated values may
    /// exceed the ends slightly by rounding, except between equal numbers.
    #[inline]
    pub(crate) fn shows(&self, low: f32, high: f32) -> bool {
        if !(low <= high) {
            return false;
        }
        let (low, high) = widened(low, high);
        self.seen[self.index(high) + 1] > self.seen[self.index(low)]
    }

    /// Whether any value up to `high`, already multiplied by the unit, is visible.
    #[inline]
    pub(crate) fn shows_up_to(&self, high: f32) -> bool {
        !high.is_nan() && self.seen[self.index(high + room(high)) + 1] > 0
    }
}

/// Bound of rounding of interpolated values, for numbers as large as `v`.
#[inline(always)]
pub(crate) fn room(v: f32) -> f32 {
    v.abs() * (8.0 * f32::EPSILON)
}

/// A range of numbers, with a margin for rounding in interpolation.
#[inline(always)]
pub(crate) fn widened(low: f32, high: f32) -> (f32, f32) {
    if low == high {
        return (low, high);
    }
    let room = room(low.abs().max(high.abs()));
    (low - room, high + room)
}

/// The light of a step of `ratio` units of length.
pub(crate) fn of_length(linear: [f32; 3], opacity: f32, ratio: f64) -> TransferEntry {
    let a = (1.0 - (1.0 - f64::from(opacity)).powf(ratio)) as f32;
    if !(a > 0.0) {
        return TransferEntry::NOTHING;
    }
    TransferEntry([linear[0] * a, linear[1] * a, linear[2] * a, a])
}

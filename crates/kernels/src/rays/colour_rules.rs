//! Other colour rules than a transfer function of one channel: stored colours, and labels.

use super::appearance::{ColourOpacity, Projection, VolumeAppearance, VoxelPaint};
use super::scene_error::SceneError;
use super::transfer::{TransferEntry, TransferFunction, TransferTable};
use crate::draw::srgb_to_linear;
use field::volume::{Missing, VolumeArray, VoxelType};
use std::sync::OnceLock;

/// The rule from the numbers of a source to light.
pub(crate) enum Tint {
    /// By the table of one channel.
    Plain,
    /// Three channels.
    Colour(Colour),
    Labels(Labels),
}

/// Channels that are a colour.
pub(crate) struct Colour {
    /// Components of red, green and blue, and of opacity.
    pub at: [usize; 4],
    /// From stored numbers to 0..1.
    scale: [f32; 4],
    offset: [f32; 4],
    by: By,
}

#[derive(Copy, Clone)]
enum By {
    Channel,
    Luminance,
    Distance([f32; 3]),
}

/// Of Rec. 709.
const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];

impl Colour {
    /// Stored numbers as parts of 0..1.
    #[inline(always)]
    pub(crate) fn parts(&self, stored: [f32; 4]) -> [f32; 4] {
        let part = |c: usize| {
            let v = stored[c].mul_add(self.scale[c], self.offset[c]);
            // NaN is black and transparent.
            if v > 0.0 {
                v.min(1.0)
            } else {
                0.0
            }
        };
        [part(0), part(1), part(2), part(3)]
    }

    /// Whether voxels have an opacity of their own.
    #[inline(always)]
    pub(crate) fn has_own_opacity(&self) -> bool {
        matches!(self.by, By::Channel)
    }

    /// Stored numbers between the corners of a cell, where each colour counts by its opacity (premultiplied: Porter and
    /// Duff 1984). Transparent corners have no colour: otherwise their stored numbers would show as a dark fringe.
    /// `plain` are the numbers that `mix` makes without opacity. They are equal, and used, if all corners have one
    /// opacity.
    #[inline(always)]
    pub(crate) fn weighted(
        &self,
        corners: [[f32; 4]; 8],
        plain: [f32; 4],
        mix: impl Fn([[f32; 4]; 8]) -> [f32; 4],
    ) -> [f32; 4] {
        if corners.iter().all(|c| c[3] == corners[0][3]) {
            return plain;
        }
        let premultiplied = corners.map(|c| {
            let a = self.parts(c)[3];
            [c[0] * a, c[1] * a, c[2] * a, a]
        });
        let [r, g, b, a] = mix(premultiplied);
        // A colour that is not finite where it is transparent does not count: use the plain numbers.
        if a > 0.0 && (r + g + b).is_finite() {
            [r / a, g / a, b / a, plain[3]]
        } else {
            plain
        }
    }

    /// The number that the nodes of opacity are over.
    #[inline(always)]
    pub(crate) fn measure(&self, p: [f32; 4]) -> f32 {
        match self.by {
            By::Channel => p[3],
            By::Luminance => p[0].mul_add(LUMA[0], p[1].mul_add(LUMA[1], p[2] * LUMA[2])),
            By::Distance(from) => {
                let d: f32 = (0..3).map(|c| (p[c] - from[c]) * (p[c] - from[c])).sum();
                (d * (1.0 / 3.0)).sqrt()
            }
        }
    }

    /// Light of a sample.
    #[inline(always)]
    pub(crate) fn entry(&self, table: &TransferTable, p: [f32; 4]) -> TransferEntry {
        let a = table.entries[table.index(self.measure(p))].0[3];
        if a == 0.0 {
            return TransferEntry::NOTHING;
        }
        TransferEntry([light(p[0]) * a, light(p[1]) * a, light(p[2]) * a, a])
    }

    fn shows(&self, table: &TransferTable, range: impl Fn(usize) -> [f64; 2]) -> bool {
        let ends: [[f32; 2]; 4] = core::array::from_fn(|c| {
            let [a, b] = range(self.at[c]);
            let of = |v: f64| ((v as f32).mul_add(self.scale[c], self.offset[c])).clamp(0.0, 1.0);
            let (a, b) = (of(a), of(b));
            // A margin for rounding in interpolation, and for ranges in single precision.
            [(a.min(b) - 1e-5).max(0.0), (a.max(b) + 1e-5).min(1.0)]
        });
        let (low, high) = match self.by {
            By::Channel => (ends[3][0], ends[3][1]),
            By::Luminance => (self.measure(ends.map(|e| e[0])) - 1e-5, self.measure(ends.map(|e| e[1])) + 1e-5),
            By::Distance(from) => {
                let near = core::array::from_fn(|c| from.get(c).map_or(0.0, |f| f.clamp(ends[c][0], ends[c][1])));
                let far = core::array::from_fn(|c| {
                    from.get(c).map_or(0.0, |f| if f - ends[c][0] > ends[c][1] - f { ends[c][0] } else { ends[c][1] })
                });
                (self.measure(near) - 1e-5, self.measure(far) + 1e-5)
            }
        };
        table.shows(low, high)
    }
}

/// Steps of [`light`]'s table: a step is less than an eighth of one of 8 bits.
const STEPS: usize = 2048;

/// Linear light of a part of sRGB.
#[inline(always)]
fn light(p: f32) -> f32 {
    static TABLE: OnceLock<Box<[f32; STEPS + 1]>> = OnceLock::new();
    let table = TABLE.get_or_init(|| Box::new(core::array::from_fn(|n| srgb_to_linear(n as f32 / STEPS as f32))));
    table[((p * STEPS as f32 + 0.5) as usize).min(STEPS)]
}

/// Labels and their colours.
pub(crate) struct Labels {
    /// Sorted by label: linear colour.
    own: Vec<(u64, [f32; 3])>,
    /// Sorted; empty: all but 0.
    only: Vec<u64>,
    /// Labels of missing values: lowest and highest of each range, since the bits of signed numbers have an order of
    /// their own.
    none: Vec<Nameless>,
    component: usize,
}

impl Labels {
    #[inline(always)]
    fn is_shown(&self, name: u64) -> bool {
        name != 0
            && !self.none.iter().any(|none| none.holds(name))
            && (self.only.is_empty() || self.only.binary_search(&name).is_ok())
    }

    /// Light of a sample.
    #[inline(always)]
    pub(crate) fn entry(&self, table: &TransferTable, name: u64) -> TransferEntry {
        // One opacity for all.
        let a = table.entries[0].0[3];
        if a == 0.0 || !self.is_shown(name) {
            return TransferEntry::NOTHING;
        }
        let [r, g, b] = match self.own.binary_search_by_key(&name, |o| o.0) {
            Ok(n) => self.own[n].1,
            Err(_) => colour_of(name).map(light),
        };
        TransferEntry([r * a, g * a, b * a, a])
    }

    fn shows(&self, [low, high]: [f64; 2]) -> bool {
        // Labels below 0 are stored as unsigned bits, but ranges are signed.
        match &self.only[..] {
            _ if !(low <= high) => false,
            [] => low != 0.0 || high != 0.0,
            only => only.iter().any(|n| {
                let (plain, signed) = (*n as f64, *n as i64 as f64);
                (plain >= low && plain <= high) || (signed >= low && signed <= high)
            }),
        }
    }
}

/// A range of labels for missing values; a negative number has the label of its bits.
#[derive(Copy, Clone)]
enum Nameless {
    Plain(u64, u64),
    Signed(i64, i64),
}

impl Nameless {
    #[inline(always)]
    fn holds(self, name: u64) -> bool {
        match self {
            Self::Plain(low, high) => low <= name && name <= high,
            Self::Signed(low, high) => low <= name as i64 && name as i64 <= high,
        }
    }
}

/// The labels of the integers in ranges.
fn names_of(voxel: VoxelType, missing: &Missing) -> Vec<Nameless> {
    let plain = |n: i128| n.clamp(0, u64::MAX.into()) as u64;
    let signed = |n: i128| n.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let (least, most) = match voxel {
        VoxelType::Uint64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let name = |[low, high]: [i128; 2]| match voxel {
        VoxelType::Uint64 => Nameless::Plain(plain(low), plain(high)),
        _ => Nameless::Signed(signed(low), signed(high)),
    };
    missing.whole_ranges().filter(|[low, high]| *high >= least && *low <= most).map(name).collect()
}

/// A colour (sRGB) for a label without one. Hues of consecutive labels are far apart, since they advance by the golden
/// ratio. A label has the same colour everywhere.
pub fn colour_of(name: u64) -> [f32; 3] {
    /// 2^64 over the golden ratio.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let turn = name.wrapping_mul(STEP);
    let hue = (turn >> 40) as f32 / (1u64 << 24) as f32 * 6.0;
    // Three levels of lightness, so that similar hues differ.
    let value = [0.95, 0.75, 0.85][(name % 3) as usize];
    let saturation = [0.55, 0.75, 0.4][(name / 3 % 3) as usize];
    let x = |n: f32| {
        let k = (n + hue) % 6.0;
        value - value * saturation * k.min(4.0 - k).clamp(0.0, 1.0)
    };
    [x(5.0), x(3.0), x(1.0)]
}

impl Tint {
    /// Whether cells with these ranges may be visible.
    pub(crate) fn shows(&self, table: &TransferTable, range: impl Fn(usize) -> [f64; 2]) -> bool {
        match self {
            Self::Plain => true,
            Self::Colour(colour) => colour.shows(table, range),
            Self::Labels(labels) => labels.shows(range(labels.component)),
        }
    }
}

/// A prepared rule.
pub(crate) struct TintedArray<'a> {
    pub(crate) array: &'a VolumeArray,
    /// The component of the ranges, if it is one.
    pub(crate) component: usize,
    pub(crate) tint: Tint,
    /// The transfer function of the table.
    pub(crate) transfer: TransferFunction,
}

/// Prepares a paint.
pub(crate) fn tint(look: &VolumeAppearance) -> Result<TintedArray<'_>, SceneError> {
    if look.manner.projection != Projection::Composite && !matches!(look.paint, VoxelPaint::Scalar { .. }) {
        return Err(SceneError::Projected);
    }
    let find = |channel: usize| look.level.valued(channel).ok_or(SceneError::Channel(channel));
    match &look.paint {
        VoxelPaint::Scalar { channel, transfer } => {
            let (array, component) = find(*channel)?;
            Ok(TintedArray { array, component, tint: Tint::Plain, transfer: transfer.clone() })
        }
        VoxelPaint::Labels { channel, colours, only, opacity } => {
            // Labels are compared as stored: floats do not represent all of them.
            let (array, component) = look.level.channel(*channel).ok_or(SceneError::Channel(*channel))?;
            let none = array.missing.get(component).map(|m| names_of(array.brick.voxel, m)).unwrap_or_default();
            let mut own: Vec<(u64, [f32; 3])> = colours.iter().map(|(n, c)| (*n, c.map(srgb_to_linear))).collect();
            own.sort_by_key(|o| o.0);
            own.dedup_by_key(|o| o.0);
            let mut only = only.clone();
            only.sort_unstable();
            only.dedup();
            let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(0.0, *opacity)])?;
            Ok(TintedArray { array, component, tint: Tint::Labels(Labels { own, only, none, component }), transfer })
        }
        VoxelPaint::Colour { channels, limits, opacity } => {
            let (array, _) = find(channels[0])?;
            let mut all = channels.to_vec();
            let mut ends = limits.to_vec();
            let (by, nodes) = match opacity {
                ColourOpacity::Channel { channel, limits, nodes } => {
                    all.push(*channel);
                    ends.push(*limits);
                    (By::Channel, nodes)
                }
                ColourOpacity::Luminance(nodes) => (By::Luminance, nodes),
                ColourOpacity::Distance { from, nodes } => (By::Distance(*from), nodes),
            };
            let (mut at, mut scale, mut offset) = ([0; 4], [0.0; 4], [0.0; 4]);
            for (n, channel) in all.iter().enumerate() {
                let (of, component) = find(*channel)?;
                if of.id != array.id {
                    return Err(SceneError::Apart(all.clone()));
                }
                let [low, high] = ends[n];
                at[n] = component;
                let width = if high != low { high - low } else { 1.0 };
                scale[n] = (1.0 / width) as f32;
                offset[n] = (-low / width) as f32;
            }
            if all.len() < 4 {
                at[3] = at[0];
            }
            let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], nodes.clone())?;
            Ok(TintedArray { array, component: at[0], tint: Tint::Colour(Colour { at, scale, offset, by }), transfer })
        }
    }
}

/// Default limits of channels of colours: of integers their whole range, of others 0 to 1.
pub fn full_range(voxel: VoxelType) -> [f64; 2] {
    match voxel {
        VoxelType::Uint8 => [0.0, 255.0],
        VoxelType::Int8 => [-128.0, 127.0],
        VoxelType::Uint16 => [0.0, 65535.0],
        VoxelType::Int16 => [-32768.0, 32767.0],
        VoxelType::Uint32 => [0.0, f64::from(u32::MAX)],
        VoxelType::Int32 => [f64::from(i32::MIN), f64::from(i32::MAX)],
        VoxelType::Uint64 => [0.0, u64::MAX as f64],
        VoxelType::Int64 => [i64::MIN as f64, i64::MAX as f64],
        VoxelType::Float32 | VoxelType::Float64 => [0.0, 1.0],
    }
}

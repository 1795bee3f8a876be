//! From values to the colours of a picture.

use field::volume::VoxelType;
use kernels::draw::hatch;
use kernels::draw::Srgb8;
use kernels::draw::{ColourMap, ColourMapError};
use kernels::slice::Pixel;
use std::collections::BTreeMap;

/// The rule from values to colours.
#[derive(Clone, Debug, PartialEq)]
pub enum SlicePaint {
    /// One number a pixel, by a table of colours over a range; `None`: the range of the slice. NaN is grey.
    Map {
        /// The colours, least value first.
        table: Vec<Srgb8>,
        /// Values of the first and the last.
        range: Option<[f64; 2]>,
    },
    /// One number a pixel as 16-bit grey over a range (`None`: as above). NaN is transparent.
    Grey16 {
        /// Values for black and white.
        range: Option<[f64; 2]>,
        /// Whether the least value is white.
        inverted: bool,
    },
    /// Red, green and blue, and opacity if there is a fourth, as stored. Integers range up to the largest of their
    /// type, others from 0 to 1.
    Colours(VoxelType),
    /// The sum of all numbers of a pixel, each from black to a colour over its limits (`None`: those of the slice). It
    /// is computed in sRGB, as microscopes' viewers do. In an inverted one (true) the least value has the full colour.
    Channels(Vec<(Srgb8, Option<[f64; 2]>, bool)>),
    /// Labels: a colour each, the same in every picture, unless given here. 0 is transparent.
    Labels(BTreeMap<u64, Srgb8>),
    /// The same for labels as bits of numbers ([`super::SliceNumbers`]).
    Names(BTreeMap<u64, Srgb8>),
}

impl SlicePaint {
    /// Required numbers of a pixel, if any.
    pub(super) fn takes(&self, components: usize) -> bool {
        match self {
            Self::Map { .. } | Self::Grey16 { .. } | Self::Labels(_) | Self::Names(_) => components == 1,
            Self::Colours(_) => components == 3 || components == 4,
            Self::Channels(channels) => components == channels.len(),
        }
    }

    /// Whether the range of each number of a pixel must be found first.
    pub(super) fn seeks(&self) -> bool {
        match self {
            Self::Map { range, .. } | Self::Grey16 { range, .. } => range.is_none(),
            Self::Channels(channels) => channels.iter().any(|(_, limits, _)| limits.is_none()),
            Self::Colours(_) | Self::Labels(_) | Self::Names(_) => false,
        }
    }

    /// With the found ranges in place of missing ones.
    pub(super) fn settled(&self, found: &[[f64; 2]]) -> Self {
        let of = |n: usize| found.get(n).copied().filter(|r| r[0] <= r[1]).unwrap_or([0.0, 1.0]);
        match self.clone() {
            Self::Map { table, range } => Self::Map { table, range: range.or(Some(of(0))) },
            Self::Grey16 { range, inverted } => Self::Grey16 { range: range.or(Some(of(0))), inverted },
            Self::Channels(channels) => {
                let channels = channels.into_iter().enumerate();
                Self::Channels(
                    channels.map(|(n, (c, limits, inverted))| (c, limits.or(Some(of(n))), inverted)).collect(),
                )
            }
            other => other,
        }
    }

    /// The final ranges, one for each number of the pixel if there are any.
    pub(super) fn ranges(&self) -> Vec<[f64; 2]> {
        match self {
            Self::Map { range, .. } | Self::Grey16 { range, .. } => range.iter().copied().collect(),
            Self::Channels(channels) => channels.iter().filter_map(|(_, limits, _)| *limits).collect(),
            Self::Colours(_) | Self::Labels(_) | Self::Names(_) => Vec::new(),
        }
    }

    /// Whether a pixel is a word with any bits as a label.
    fn is_words(&self) -> bool {
        matches!(self, Self::Names(_))
    }

    /// Whether a picture has 16 bits and no colour.
    pub(super) fn is_grey16(&self) -> bool {
        matches!(self, Self::Grey16 { .. })
    }
}

/// A final rule, prepared for painting.
pub(super) struct Painter {
    look: SlicePaint,
    map: Option<ColourMap>,
    /// A range of a map beyond single precision: the map then is over shares of it.
    far: Option<[f64; 2]>,
}

impl Painter {
    pub(super) fn new(look: SlicePaint) -> Result<Self, ColourMapError> {
        let is_far = |range: &[f64; 2]| {
            range.iter().all(|end| end.is_finite()) && range.iter().any(|end| (*end as f32).is_infinite())
        };
        let far = match &look {
            SlicePaint::Map { range, .. } => range.filter(is_far),
            _ => None,
        };
        let map = match &look {
            SlicePaint::Map { table, range } => {
                let range = range.filter(|_| far.is_none()).unwrap_or([0.0, 1.0]);
                Some(ColourMap::new(table.clone(), range)?)
            }
            SlicePaint::Grey16 { range, .. } => {
                // Only for its check of the range.
                ColourMap::new(vec![[0; 3]], range.unwrap_or([0.0, 1.0]))?;
                None
            }
            SlicePaint::Channels(channels) => {
                for (_, limits, _) in channels {
                    ColourMap::new(vec![[0; 3]], limits.unwrap_or([0.0, 1.0]))?;
                }
                None
            }
            SlicePaint::Colours(_) | SlicePaint::Labels(_) | SlicePaint::Names(_) => None,
        };
        Ok(Self { look, map, far })
    }

    /// Appends a pixel: red, green, blue and opacity, or grey and opacity in 16 bits (big-endian, as in PNG).
    pub(super) fn paint(&self, at: [u32; 2], pixel: Pixel, values: &[f64], out: &mut Vec<u8>) {
        let grey16 = |grey: u16, opacity: u16| {
            let [g, a] = [grey.to_be_bytes(), opacity.to_be_bytes()];
            [g[0], g[1], a[0], a[1]]
        };
        let opaque = |[r, g, b]: Srgb8| [r, g, b, 255];
        let painted = match (pixel, &self.look) {
            (Pixel::Outside, _) => [0; 4],
            (Pixel::Failed | Pixel::Open, look) => match look.is_grey16() {
                true => grey16(if hatch::stripe(at) == 0 { u16::MAX } else { 0 }, u16::MAX),
                false => opaque(hatch::colour(at)),
            },
            // A gap, like pixels outside: grey would be one of the map's own colours.
            (Pixel::Value, look) if !look.is_words() && values.iter().all(|v| v.is_nan()) => [0; 4],
            (Pixel::Value, SlicePaint::Map { .. }) => {
                let value = self.far.map_or(values[0], |range| share(values[0], range));
                self.map.as_ref().map_or([0; 4], |map| opaque(map.colour(value as f32)))
            }
            (Pixel::Value, SlicePaint::Grey16 { range, inverted }) => {
                let share = share(values[0], range.unwrap_or([0.0, 1.0]));
                grey16((65535.0 * if *inverted { 1.0 - share } else { share }).round() as u16, u16::MAX)
            }
            (Pixel::Value, SlicePaint::Colours(voxel)) => {
                let full = full(*voxel);
                let byte = |n: usize| values.get(n).map_or(255, |v| (255.0 * share(*v, [0.0, full])).round() as u8);
                [byte(0), byte(1), byte(2), byte(3)]
            }
            (Pixel::Value, SlicePaint::Channels(channels)) => {
                let mut sum = [0.0; 3];
                for ((colour, limits, inverted), value) in channels.iter().zip(values) {
                    let share = match share(*value, limits.unwrap_or([0.0, 1.0])) {
                        _ if value.is_nan() => 0.0,
                        share if *inverted => 1.0 - share,
                        share => share,
                    };
                    sum.iter_mut().zip(colour).for_each(|(s, c)| *s += share * f64::from(*c));
                }
                opaque(sum.map(|s| s.min(255.0).round() as u8))
            }
            (Pixel::Value, SlicePaint::Labels(own)) => match values[0] {
                0.0 => [0; 4],
                // Labels below 0 as in rays: the bits of a signed integer.
                label => opaque(label_colour(if label < 0.0 { label as i64 as u64 } else { label as u64 }, own)),
            },
            (Pixel::Value, SlicePaint::Names(own)) => match values[0].to_bits() {
                0 => [0; 4],
                name => opaque(label_colour(name, own)),
            },
        };
        out.extend_from_slice(&painted);
    }
}

/// The share of a value between the ends of a range, clamped; one half if they are equal.
fn share(value: f64, [low, high]: [f64; 2]) -> f64 {
    if high > low {
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    } else {
        0.5
    }
}

/// The number of full light.
fn full(voxel: VoxelType) -> f64 {
    match voxel {
        VoxelType::Uint8 => f64::from(u8::MAX),
        VoxelType::Int8 => f64::from(i8::MAX),
        VoxelType::Uint16 => f64::from(u16::MAX),
        VoxelType::Int16 => f64::from(i16::MAX),
        VoxelType::Uint32 => f64::from(u32::MAX),
        VoxelType::Int32 => f64::from(i32::MAX),
        VoxelType::Uint64 => u64::MAX as f64,
        VoxelType::Int64 => i64::MAX as f64,
        VoxelType::Float32 | VoxelType::Float64 => 1.0,
    }
}

/// The colour of a label, the same as in rays.
fn label_colour(name: u64, own: &BTreeMap<u64, Srgb8>) -> Srgb8 {
    let usual = || kernels::rays::colour_of(name).map(|part| (255.0 * part).round() as u8);
    own.get(&name).copied().unwrap_or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paint(look: SlicePaint, pixel: Pixel, values: &[f64]) -> Vec<u8> {
        let mut out = Vec::new();
        Painter::new(look).unwrap().paint([3, 0], pixel, values, &mut out);
        out
    }

    #[test]
    fn every_look_paints_what_it_says() {
        let map = SlicePaint::Map { table: vec![[0, 0, 255], [255, 0, 0]], range: Some([0.0, 2.0]) };
        assert_eq!(paint(map.clone(), Pixel::Value, &[0.1]), [0, 0, 255, 255]);
        assert_eq!(paint(map.clone(), Pixel::Value, &[5.0]), [255, 0, 0, 255]);
        assert_eq!(paint(map.clone(), Pixel::Value, &[f64::NAN]), [0; 4]);
        assert_eq!(paint(map.clone(), Pixel::Outside, &[f64::NAN]), [0; 4]);
        assert_eq!(paint(map, Pixel::Failed, &[f64::NAN]), [255, 0, 255, 255]);
        let grey = SlicePaint::Grey16 { range: Some([-1000.0, 1000.0]), inverted: false };
        let inverted = SlicePaint::Grey16 { range: Some([0.0, 4.0]), inverted: true };
        assert_eq!(paint(inverted, Pixel::Value, &[1.0]), [0xbf, 0xff, 0xff, 0xff]);
        assert_eq!(paint(grey.clone(), Pixel::Value, &[0.0]), [0x80, 0x00, 0xff, 0xff]);
        assert_eq!(paint(grey, Pixel::Value, &[f64::NAN]), [0; 4]);
        assert_eq!(
            paint(SlicePaint::Colours(VoxelType::Uint8), Pixel::Value, &[10.0, 20.4, 300.0]),
            [10, 20, 255, 255]
        );
        assert_eq!(
            paint(SlicePaint::Colours(VoxelType::Uint16), Pixel::Value, &[65535.0, 0.0, 257.0, 0.0]),
            [255, 0, 1, 0]
        );
        let channels = SlicePaint::Channels(vec![
            ([255, 0, 0], Some([0.0, 10.0]), false),
            ([255, 255, 0], Some([0.0, 1.0]), true),
        ]);
        assert_eq!(paint(channels.clone(), Pixel::Value, &[5.0, 0.75]), [191, 64, 0, 255]);
        assert_eq!(paint(channels.clone(), Pixel::Value, &[f64::NAN, 0.75]), [64, 64, 0, 255]);
        assert_eq!(paint(channels, Pixel::Value, &[f64::NAN; 2]), [0; 4]);
        let labels = || SlicePaint::Labels(BTreeMap::from([(9, [1, 2, 3])]));
        assert_eq!(paint(labels(), Pixel::Value, &[0.0]), [0; 4]);
        assert_eq!(paint(labels(), Pixel::Value, &[9.0]), [1, 2, 3, 255]);
        let usual = paint(SlicePaint::Labels(BTreeMap::new()), Pixel::Value, &[7.0]);
        assert_eq!((paint(labels(), Pixel::Value, &[7.0]), usual[3]), (usual.clone(), 255));
        let names = || SlicePaint::Names(BTreeMap::from([(u64::MAX - 1, [1, 2, 3])]));
        let of = |name: u64| paint(names(), Pixel::Value, &[f64::from_bits(name)]);
        assert_eq!((of(0), of(u64::MAX - 1), of(7)), ([0; 4].to_vec(), vec![1, 2, 3, 255], usual));
        assert_ne!(of(1 << 63), of((1 << 63) + 1));
        let far = SlicePaint::Map { table: vec![[0; 3], [200; 3]], range: Some([0.0, 1e39]) };
        assert_eq!(paint(far.clone(), Pixel::Value, &[4e38]), [0, 0, 0, 255]);
        // Numbers wait in single precision, which does not represent this one.
        assert_eq!(paint(far, Pixel::Value, &[f64::INFINITY]), [200, 200, 200, 255]);
    }

    #[test]
    fn labels_differ() {
        let mut seen: Vec<Srgb8> = (1..=200).map(|n| label_colour(n, &BTreeMap::new())).collect();
        assert!(seen.iter().all(|c| c.iter().any(|v| *v > 150)), "{seen:?}");
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 190, "{}", seen.len());
        assert_ne!(label_colour(-1i64 as u64, &BTreeMap::new()), label_colour(1, &BTreeMap::new()));
    }

    #[test]
    fn ranges_are_settled_where_none_is_said() {
        let look =
            SlicePaint::Channels(vec![([1; 3], None, false), ([2; 3], Some([3.0, 4.0]), true), ([3; 3], None, false)]);
        assert!(look.seeks());
        let settled = look.settled(&[[0.5, 1.5], [9.0, 9.0], [f64::INFINITY, f64::NEG_INFINITY]]);
        assert_eq!(settled.ranges(), [[0.5, 1.5], [3.0, 4.0], [0.0, 1.0]]);
        assert!(!settled.seeks());
    }
}

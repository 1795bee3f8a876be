//! Colour: sRGB and linear light, and maps from a value to a colour.

use std::sync::{Arc, OnceLock};

/// An opaque sRGB colour, 8 bits a channel, as in picture files.
pub type Srgb8 = [u8; 3];

/// Linear light of an sRGB value in 0..=1 (IEC 61966-2-1).
pub fn srgb_to_linear(v: f32) -> f32 {
    if v <= 0.04045 {
        v / 12.92
    } else {
        ((v + 0.055) / 1.055).powf(2.4)
    }
}

/// sRGB value in 0..=1 of linear light; values outside are clamped.
pub fn linear_to_srgb(v: f32) -> f32 {
    let v = v.clamp(0.0, 1.0);
    if v <= 0.003_130_8 {
        v * 12.92
    } else {
        1.055 * v.powf(1.0 / 2.4) - 0.055
    }
}

/// Linear light of each 8-bit sRGB value.
pub(crate) fn linear_table() -> &'static [f32; 256] {
    static TABLE: OnceLock<[f32; 256]> = OnceLock::new();
    TABLE.get_or_init(|| std::array::from_fn(|i| srgb_to_linear(i as f32 / 255.0)))
}

/// Steps of [`encode_table`]. Over the square root of linear light the curve is nearly straight. So linear
/// interpolation between this many entries stays within a hundredth of an 8-bit step.
const ENCODE_STEPS: usize = 1024;

/// sRGB in 0..=255 over the square root of linear light.
fn encode_table() -> &'static [f32; ENCODE_STEPS + 2] {
    static TABLE: OnceLock<[f32; ENCODE_STEPS + 2]> = OnceLock::new();
    TABLE.get_or_init(|| {
        std::array::from_fn(|i| {
            let root = i as f32 / ENCODE_STEPS as f32;
            255.0 * linear_to_srgb(root * root)
        })
    })
}

/// sRGB in 0..=255, not yet rounded, of linear light clamped to 0..=1.
#[inline]
pub(crate) fn encode(linear: f32) -> f32 {
    let table = encode_table();
    // `max` also turns a NaN into black, and `clamp` would give an invalid index.
    #[allow(clippy::manual_clamp)]
    let x = linear.max(0.0).min(1.0).sqrt() * ENCODE_STEPS as f32;
    let i = x as usize;
    let f = x - i as f32;
    table[i] + (table[i + 1] - table[i]) * f
}

/// Linear light of an 8-bit colour.
#[inline]
pub(crate) fn linear_of(c: Srgb8) -> [f32; 3] {
    let table = linear_table();
    c.map(|v| table[v as usize])
}

/// A map from values to colours: a table of any length over a closed range.
///
/// A value uses the entry of its cell (no blending between entries). So both ends of the table and every entry of a map
/// with few colours are exact. Values outside the range use the end entries. Infinite values and NaN have a colour of
/// their own.
///
/// ```
/// use kernels::draw::ColourMap;
/// let map = ColourMap::new(vec![[0, 0, 0], [255, 255, 255]], [-1.0, 1.0]).unwrap();
/// assert_eq!(map.colour(-1.0), [0, 0, 0]);
/// assert_eq!(map.colour(1.0), [255, 255, 255]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ColourMap {
    table: Arc<[Srgb8]>,
    range: [f32; 2],
    /// Entries a unit of value.
    scale: f32,
    nan: Srgb8,
}

/// Why a colour map is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ColourMapError {
    /// The table has no entry.
    #[error("the colour table is empty")]
    EmptyTable,
    /// The range is not finite, or its ends are in the wrong order.
    #[error("the range of colours {0:e} to {1:e} is not a range: it has to be finite, low end first")]
    BadRange(f64, f64),
}

impl ColourMap {
    /// A map of `table` over `range` (low, high). Equal ends are allowed: all values then take the middle entry.
    ///
    /// # Errors
    /// [`ColourMapError`] for an empty table, or a range that is not finite or has its ends swapped.
    pub fn new(table: Vec<Srgb8>, range: [f64; 2]) -> Result<ColourMap, ColourMapError> {
        if table.is_empty() {
            return Err(ColourMapError::EmptyTable);
        }
        let narrow = [range[0] as f32, range[1] as f32];
        if !(narrow[0].is_finite() && narrow[1].is_finite() && range[0] <= range[1]) {
            return Err(ColourMapError::BadRange(range[0], range[1]));
        }
        let scale = (table.len() as f64 / (range[1] - range[0])) as f32;
        Ok(ColourMap { table: table.into(), range: narrow, scale, nan: [150, 150, 150] })
    }

    /// Sets the colour of infinite values and NaN (grey otherwise).
    pub fn with_nan(mut self, nan: Srgb8) -> ColourMap {
        self.nan = nan;
        self
    }

    /// The table.
    pub fn table(&self) -> &[Srgb8] {
        &self.table
    }

    /// The range (low, high).
    pub fn range(&self) -> [f64; 2] {
        self.range.map(f64::from)
    }

    /// Colour of a value.
    #[inline]
    pub fn colour(&self, value: f32) -> Srgb8 {
        if !value.is_finite() {
            return self.nan;
        }
        let last = self.table.len() - 1;
        if !self.scale.is_finite() {
            return self.table[last / 2];
        }
        // The cast saturates: below the range is entry 0, above is clamped to the last.
        let i = ((value - self.range[0]) * self.scale) as usize;
        self.table[i.min(last)]
    }
}

/// The colour of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Colour {
    /// One colour.
    Solid(Srgb8),
    /// By the scalar of each vertex; vertices without one use the map's colour of NaN.
    Mapped(ColourMap),
}

/// An automatic range that a scale can show. Rounding noise, as at a wall at rest, becomes zero, and a constant gets a
/// range around it.
pub fn readable([low, high]: [f64; 2]) -> [f64; 2] {
    let most = low.abs().max(high.abs());
    if high - low <= NOISE * most || most == 0.0 {
        let reach = if most > 0.0 { most * 0.01 } else { 1.0 };
        return [low - reach, high + reach].map(|end| end.clamp(f64::MIN, f64::MAX));
    }
    let clean = |v: f64| if v.abs() < NOISE * most { 0.0 } else { v };
    [clean(low), clean(high)]
}

/// Share of the largest value below which a difference is rounding in single precision.
const NOISE: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize) -> Vec<Srgb8> {
        (0..n).map(|i| [i as u8, 0, 255 - i as u8]).collect()
    }

    #[test]
    fn ends_of_the_table_are_exact() {
        let map = ColourMap::new(ramp(256), [0.1, 0.7]).unwrap();
        assert_eq!(map.colour(0.1), [0, 0, 255]);
        assert_eq!(map.colour(0.7), [255, 0, 0]);
        assert_eq!(map.colour(-1e30), [0, 0, 255]);
        assert_eq!(map.colour(f32::MAX), [255, 0, 0]);
        // Infinite values are no end of the range.
        assert_eq!([f32::INFINITY, f32::NEG_INFINITY].map(|v| map.colour(v)), [[150, 150, 150]; 2]);
        assert_eq!(map.colour(f32::NAN), [150, 150, 150]);
        assert_eq!(map.colour(0.401), [128, 0, 127]);
    }

    #[test]
    fn a_range_of_one_value_takes_the_middle() {
        let map = ColourMap::new(ramp(256), [2.0, 2.0]).unwrap();
        assert_eq!(map.colour(2.0), [127, 0, 128]);
        assert_eq!(map.colour(3.0), [127, 0, 128]);
    }

    #[test]
    fn bad_maps_are_errors() {
        assert_eq!(ColourMap::new(vec![], [0.0, 1.0]), Err(ColourMapError::EmptyTable));
        assert_eq!(ColourMap::new(ramp(2), [1.0, 0.0]), Err(ColourMapError::BadRange(1.0, 0.0)));
        assert!(ColourMap::new(ramp(2), [f64::NAN, 0.0]).is_err());
    }

    #[test]
    fn eight_bits_survive_linear_light() {
        for v in 0..=255u8 {
            let linear = linear_of([v; 3])[0];
            assert!((encode(linear) - f32::from(v)).abs() < 0.02, "{v} {}", encode(linear));
        }
        assert_eq!(encode(f32::NAN), 0.0);
        assert!((encode(1.0) - 255.0).abs() < 1e-3);
    }
}

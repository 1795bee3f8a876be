//! Which stored numbers stand for a missing value.

use super::spec::number::Written;
use super::voxel::{Voxel, VoxelType};
use crate::with_voxel;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Stored numbers that stand for a missing value: any count of single ones (`_FillValue` and `missing_value` of CF), and of ranges
/// with both ends (DICOM's padding, what lies beyond a `valid_range`). NaN is missing everywhere, and never among them.
///
/// In JSON it is `null`, a number, or a list of numbers and of pairs `[low, high]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missing(Vec<[f64; 2]>);

impl Missing {
    /// No number does.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// One number; of NaN none.
    pub fn one(value: f64) -> Self {
        Self::of([[value, value]])
    }

    /// Ranges with both ends; those without a number in them are left out.
    pub fn of(ranges: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let mut kept = Vec::new();
        for range in ranges {
            if range[0] <= range[1] && !kept.contains(&range) {
                kept.push(range);
            }
        }
        Self(kept)
    }

    /// Lowest and highest number of each range.
    pub fn ranges(&self) -> &[[f64; 2]] {
        &self.0
    }

    /// Whether no number stands for a missing value.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a stored number stands for a missing value.
    #[inline]
    pub fn holds(&self, stored: f64) -> bool {
        self.0.iter().any(|[low, high]| *low <= stored && stored <= *high)
    }

    /// Whether all numbers between two do.
    #[inline]
    pub fn holds_all(&self, [low, high]: [f64; 2]) -> bool {
        self.0.iter().any(|r| r[0] <= low && high <= r[1])
    }

    /// Those of them that a type has.
    pub fn stored(&self, voxel: VoxelType) -> Self {
        let has = |m: f64| with_voxel!(voxel, T => (m as T).to_f64() == m);
        Self(self.0.iter().filter(|[low, high]| low < high || has(*low)).copied().collect())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Part {
    One(Written),
    Range([Written; 2]),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whole {
    One(Written),
    Several(Vec<Part>),
}

impl Serialize for Missing {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let part = |[low, high]: &[f64; 2]| match low == high {
            true => Part::One(Written::of(*low)),
            false => Part::Range([Written::of(*low), Written::of(*high)]),
        };
        match &self.0[..] {
            [] => s.serialize_none(),
            // One is written as it always was.
            [[low, high]] if low == high => Written::of(*low).serialize(s),
            all => all.iter().map(part).collect::<Vec<_>>().serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Missing {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let range = |part: Part| match part {
            Part::One(w) => w.read().map(|v| [v, v]),
            Part::Range([low, high]) => Ok([low.read()?, high.read()?]),
        };
        let ranges: Result<Vec<_>, String> = match Option::<Whole>::deserialize(d)? {
            None => Ok(Vec::new()),
            Some(Whole::One(w)) => range(Part::One(w)).map(|r| vec![r]),
            Some(Whole::Several(parts)) => parts.into_iter().map(range).collect(),
        };
        ranges.map(Self::of).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_one_number_or_a_list() {
        let read = |text: &str| serde_json::from_str::<Missing>(text).unwrap();
        for (text, ranges) in [
            ("null", vec![]),
            ("-999.0", vec![[-999.0, -999.0]]),
            ("[-999.0,-888.0]", vec![[-999.0, -999.0], [-888.0, -888.0]]),
            ("[[\"-Infinity\",0.0],7.0]", vec![[f64::NEG_INFINITY, 0.0], [7.0, 7.0]]),
        ] {
            assert_eq!(read(text).ranges(), ranges);
            assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
        }
        assert!(read("\"NaN\"").is_none() && read("[]").is_none() && read("[[2.0,1.0]]").is_none());
        assert_eq!(read("[5,5]").ranges(), [[5.0, 5.0]], "each once");
        assert!(serde_json::from_str::<Missing>("\"none\"").is_err());
    }

    #[test]
    fn only_numbers_of_the_type_stand_for_anything() {
        let kept = |m: f64, voxel| Missing::one(m).stored(voxel);
        assert!(kept(-9999.0, VoxelType::Uint8).is_none() && !kept(-9999.0, VoxelType::Int16).is_none());
        assert!(kept(0.5, VoxelType::Int32).is_none());
        assert!(kept(1e20, VoxelType::Float32).is_none() && !kept(f64::from(1e20f32), VoxelType::Float32).is_none());
        assert!(kept(f64::NAN, VoxelType::Float64).is_none());
        let range = Missing::of([[-0.5, 0.5]]).stored(VoxelType::Uint8);
        assert!(range.holds(0.0) && !range.holds(1.0) && range.holds_all([-0.5, 0.0]) && !range.holds_all([0.0, 1.0]));
    }
}

//! The stored numbers that mean a missing value.

use super::spec::number::Written;
use super::voxel::{Voxel, VoxelType};
use crate::with_voxel;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Stored numbers that mean a missing value: single ones (`_FillValue` and `missing_value` of CF), and closed ranges
/// (DICOM's padding, the outside of a `valid_range`). NaN is missing everywhere, and is never listed.
///
/// In JSON it is `null`, a number, or a list of numbers and of pairs `[low, high]`. Integers are exact there, and are
/// compared with 64-bit integers exactly. Beyond 2^53 several of them are one number in double precision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Missing {
    ranges: Vec<[f64; 2]>,
    /// The integers in each of `ranges`; empty if the first is larger than the second.
    whole: Vec<[i128; 2]>,
}

/// The integers from one number to another.
fn whole_in([low, high]: [f64; 2]) -> [i128; 2] {
    [low.ceil() as i128, high.floor() as i128]
}

impl Missing {
    /// No missing values.
    pub const fn none() -> Self {
        Self { ranges: Vec::new(), whole: Vec::new() }
    }

    /// One number. NaN gives none.
    pub fn one(value: f64) -> Self {
        Self::of([[value, value]])
    }

    /// Closed ranges; empty ones are left out.
    pub fn of(ranges: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let mut found = Self::none();
        ranges.into_iter().for_each(|range| found.add(range, whole_in(range)));
        found
    }

    fn add(&mut self, range: [f64; 2], whole: [i128; 2]) {
        let there = self.ranges.iter().zip(&self.whole).any(|known| known == (&range, &whole));
        if range[0] <= range[1] && !there {
            self.ranges.push(range);
            self.whole.push(whole);
        }
    }

    /// Lowest and highest number of each range.
    pub fn ranges(&self) -> &[[f64; 2]] {
        &self.ranges
    }

    /// Lowest and highest integer of each range that contains one.
    pub fn whole_ranges(&self) -> impl Iterator<Item = [i128; 2]> + '_ {
        self.whole.iter().copied().filter(|[low, high]| low <= high)
    }

    /// Whether no number means a missing value.
    pub fn is_none(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a stored number means a missing value.
    #[inline]
    pub fn holds<T: Voxel>(&self, stored: T) -> bool {
        if T::TYPE.is_wide() {
            let stored = stored.to_whole();
            return self.whole.iter().any(|[low, high]| *low <= stored && stored <= *high);
        }
        let stored = stored.to_f64();
        self.ranges.iter().any(|[low, high]| *low <= stored && stored <= *high)
    }

    /// Whether all numbers of a type within a range do.
    #[inline]
    pub fn holds_all(&self, voxel: VoxelType, [low, high]: [f64; 2]) -> bool {
        if voxel.is_wide() && low.abs().max(high.abs()) >= EXACT {
            // An end stands for all integers near it.
            let [first, last] = [low.next_down().ceil() as i128, high.next_up().floor() as i128];
            return self.whole.iter().any(|r| r[0] <= first && last <= r[1]);
        }
        self.ranges.iter().any(|r| r[0] <= low && high <= r[1])
    }

    /// The subset that a type can represent.
    pub fn stored(&self, voxel: VoxelType) -> Self {
        let has = |m: f64, whole: i128| match voxel {
            VoxelType::Uint64 => u64::try_from(whole).is_ok() && m.fract() == 0.0,
            VoxelType::Int64 => i64::try_from(whole).is_ok() && m.fract() == 0.0,
            _ => with_voxel!(voxel, T => (m as T).to_f64() == m),
        };
        let mut found = Self::none();
        for (range, whole) in self.ranges.iter().zip(&self.whole) {
            let whole = match largest(voxel) {
                // Double precision lacks the largest 64-bit integer, so files have the next number instead.
                Some(largest) if *whole == [largest + 1; 2] => [largest; 2],
                _ => *whole,
            };
            if range[0] < range[1] || has(range[0], whole[0]) {
                found.add(*range, whole);
            }
        }
        found
    }
}

/// The largest number of a 64-bit integer type.
fn largest(voxel: VoxelType) -> Option<i128> {
    match voxel {
        VoxelType::Int64 => Some(i64::MAX.into()),
        VoxelType::Uint64 => Some(u64::MAX.into()),
        _ => None,
    }
}

/// 2^53: smaller integers are exact in double precision.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Unsigned(u64),
    Signed(i64),
    Other(Written),
}

impl JsonNumber {
    /// The end of a range: an integer if double precision may not be exact.
    fn of(end: f64, whole: i128) -> Self {
        if end.abs() < EXACT || end.is_infinite() {
            return Self::Other(Written::of(end));
        }
        match (u64::try_from(whole), i64::try_from(whole)) {
            (Ok(n), _) => Self::Unsigned(n),
            (_, Ok(n)) => Self::Signed(n),
            _ => Self::Other(Written::of(end)),
        }
    }

    /// The number, and the integer that `round` makes of it.
    fn read(self, round: impl Fn(f64) -> f64) -> Result<(f64, i128), String> {
        Ok(match self {
            Self::Unsigned(n) => (n as f64, n.into()),
            Self::Signed(n) => (n as f64, n.into()),
            Self::Other(written) => {
                let v = written.read()?;
                (v, round(v) as i128)
            }
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MissingPart {
    One(JsonNumber),
    Range([JsonNumber; 2]),
}

impl MissingPart {
    fn of([low, high]: [f64; 2], whole: [i128; 2]) -> Self {
        if low == high && whole[0] >= whole[1] {
            Self::One(JsonNumber::of(low, whole[0]))
        } else {
            Self::Range([JsonNumber::of(low, whole[0]), JsonNumber::of(high, whole[1])])
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whole {
    One(JsonNumber),
    Several(Vec<MissingPart>),
}

impl Serialize for Missing {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut parts: Vec<MissingPart> =
            self.ranges.iter().zip(&self.whole).map(|(r, w)| MissingPart::of(*r, *w)).collect();
        match &parts[..] {
            [] => s.serialize_none(),
            // A single number is written without a list.
            [MissingPart::One(_)] => parts.remove(0).serialize(s),
            _ => parts.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Missing {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let parts = match Option::<Whole>::deserialize(d)? {
            None => Vec::new(),
            Some(Whole::One(one)) => vec![MissingPart::One(one)],
            Some(Whole::Several(parts)) => parts,
        };
        let mut found = Self::none();
        for part in parts {
            let ends = match part {
                MissingPart::One(one) => one.read(f64::ceil).map(|(v, first)| {
                    let last = if v.fract() == 0.0 { first } else { first - 1 };
                    ([v, v], [first, last])
                }),
                MissingPart::Range([low, high]) => low
                    .read(f64::ceil)
                    .and_then(|(low, first)| high.read(f64::floor).map(|(high, last)| ([low, high], [first, last]))),
            };
            let (range, whole) = ends.map_err(D::Error::custom)?;
            found.add(range, whole);
        }
        Ok(found)
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
        for text in [
            "720575940600000001",
            "18446744073709551615",
            "-9223372036854775808",
            "[[9007199254740993,9007199254740995],3.0]",
        ] {
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
        let all = |ends| range.holds_all(VoxelType::Uint8, ends);
        assert!(range.holds(0.0) && !range.holds(1.0) && all([-0.5, 0.0]) && !all([0.0, 1.0]));
    }

    #[test]
    fn whole_numbers_of_64_bits_are_compared_as_such() {
        let read = |text: &str, voxel| serde_json::from_str::<Missing>(text).unwrap().stored(voxel);
        let one = read("720575940600000001", VoxelType::Uint64);
        assert!(one.holds(720_575_940_600_000_001u64));
        assert!(!one.holds(720_575_940_600_000_002u64) && !one.holds(720_575_940_600_000_000u64));
        // Numbers of a page near it may differ from it.
        assert!(!one.holds_all(VoxelType::Uint64, [720_575_940_600_000_001u64 as f64; 2]));
        let least = Missing::one(i64::MIN as f64).stored(VoxelType::Int64);
        assert!(least.holds(i64::MIN) && !least.holds(i64::MIN + 1));
        assert!(Missing::one(i64::MIN as f64).stored(VoxelType::Uint64).is_none());
        for largest in
            [Missing::one(u64::MAX as f64).stored(VoxelType::Uint64), read("18446744073709551615", VoxelType::Uint64)]
        {
            assert!(largest.holds(u64::MAX) && !largest.holds(u64::MAX - 1));
        }
        let largest = Missing::one(i64::MAX as f64).stored(VoxelType::Int64);
        assert!(largest.holds(i64::MAX) && !largest.holds(i64::MAX - 1));
        assert!(read("18446744073709551615", VoxelType::Int64).is_none());
        let range = read("[[9007199254740993, 9007199254740995]]", VoxelType::Int64);
        let held: Vec<_> = (9_007_199_254_740_991i64..9_007_199_254_740_998).filter(|n| range.holds(*n)).collect();
        assert_eq!(held, [9_007_199_254_740_993, 9_007_199_254_740_994, 9_007_199_254_740_995]);
        let half = Missing::of([[-0.5, 1.5], [2.5, 2.5]]).stored(VoxelType::Int64);
        assert!(half.holds(0i64) && half.holds(1i64) && !half.holds(-1i64) && !half.holds(2i64) && !half.holds(3i64));
        assert!(half.holds_all(VoxelType::Int64, [0.0, 1.0]) && !half.holds_all(VoxelType::Int64, [0.0, 2.0]));
    }
}

//! A user's options for PLOT3D files, on the command line (`--plot3d-KEY VALUE`) or in `NAME.p3d.json`.

use crate::error::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An option with a fixed set of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }
        impl $name {
            /// The words of the option, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
            /// The word of this value.
            pub const fn word(self) -> &'static str { match self { $(Self::$variant => $word),+ } }
            /// The value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

pub(super) use words;

words! {
    /// Encoding of numbers.
    Format {
        /// Fortran sequential unformatted: every record lies between two marks with its length.
        Fortran = "fortran",
        /// The same numbers without record marks.
        Binary = "binary",
        /// Text, list-directed.
        Ascii = "ascii",
    }
}
words! {
    /// Byte order of a binary file.
    ByteOrder {
        /// Least significant byte first.
        Little = "little",
        /// Most significant byte first.
        Big = "big",
    }
}
words! {
    /// Width of the floating-point numbers.
    Precision {
        /// 4 bytes.
        Single = "32",
        /// 8 bytes.
        Double = "64",
    }
}
words! {
    /// Whether the file begins with the number of zones.
    ZoneCount {
        /// One zone, no count.
        Single = "single",
        /// A count, then that many zones (possibly 1).
        Multi = "multi",
    }
}
words! {
    /// Number of coordinates.
    Dimension {
        /// x and y; zones of i and j.
        Two = "2",
        /// x, y and z.
        Three = "3",
    }
}
words! {
    /// Order of the numbers of one zone.
    Order {
        /// All x, then all y, then all z.
        Whole = "whole",
        /// For each k: x, y, z (iblank) of that plane.
        Planes = "planes",
    }
}
words! {
    /// Contents of a file.
    Kind {
        /// Coordinates, and optionally iblank.
        Grid = "grid",
        /// Density, momentum, energy.
        Q = "q",
        /// Any number of functions.
        Function = "function",
    }
}

impl Precision {
    /// Bytes a number.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

impl Dimension {
    /// 2 or 3.
    pub const fn count(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Facts given about a file. Fields with `None` are determined from the content.
///
/// ```
/// # use field::plot3d::{ByteOrder, Plot3dOptions};
/// let mut options = Plot3dOptions::default();
/// options.set("byte-order", "big")?;
/// assert_eq!(options.byte_order, Some(ByteOrder::Big));
/// # Ok::<(), field::error::FieldError>(())
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct Plot3dOptions {
    /// `format`: `fortran`, `binary` or `ascii`.
    pub format: Option<Format>,
    /// `byte-order`: `little` or `big`.
    pub byte_order: Option<ByteOrder>,
    /// `precision`: `32` or `64`.
    pub precision: Option<Precision>,
    /// `iblank`: `yes` or `no`.
    pub iblank: Option<bool>,
    /// `zones`: `single` or `multi`.
    pub zones: Option<ZoneCount>,
    /// `dimension`: `2` or `3`.
    pub dimension: Option<Dimension>,
    /// `order`: `whole` or `planes`.
    pub order: Option<Order>,
    /// `kind`: `grid`, `q` or `function`, of the opened file.
    pub kind: Option<Kind>,
}

impl Plot3dOptions {
    /// Every key with its words, for `--plot3d-KEY`.
    pub const KEYS: &'static [(&'static str, &'static [&'static str])] = &[
        ("format", Format::WORDS),
        ("byte-order", ByteOrder::WORDS),
        ("precision", Precision::WORDS),
        ("iblank", &["yes", "no"]),
        ("zones", ZoneCount::WORDS),
        ("dimension", Dimension::WORDS),
        ("order", Order::WORDS),
        ("kind", Kind::WORDS),
    ];

    /// Sets `key` to `value`. `plot3d-` before the key is optional, and `_` equals `-`.
    ///
    /// # Errors
    /// [`FieldError::Usage`] names the valid keys or words.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), FieldError> {
        let name = plain_key(key);
        let fits = match name.as_str() {
            "format" => put(&mut self.format, Format::from_word(value)),
            "byte-order" => put(&mut self.byte_order, ByteOrder::from_word(value)),
            "precision" => put(&mut self.precision, Precision::from_word(value)),
            "iblank" => put(
                &mut self.iblank,
                match value {
                    "yes" | "true" => Some(true),
                    "no" | "false" => Some(false),
                    _ => None,
                },
            ),
            "zones" => put(&mut self.zones, ZoneCount::from_word(value)),
            "dimension" => put(&mut self.dimension, Dimension::from_word(value)),
            "order" => put(&mut self.order, Order::from_word(value)),
            "kind" => put(&mut self.kind, Kind::from_word(value)),
            _ => {
                let known: Vec<&str> = Self::KEYS.iter().map(|k| k.0).collect();
                return Err(FieldError::Usage(format!("no PLOT3D option '{key}'; there are: {}", known.join(", "))));
            }
        };
        if fits {
            return Ok(());
        }
        let words = Self::KEYS.iter().find(|k| k.0 == name).map_or(&[][..], |k| k.1);
        Err(FieldError::Usage(format!("PLOT3D option '{name}' is '{value}'; it can be {}", words.join(", "))))
    }

    /// These options, with those of `under` for unset fields.
    #[must_use]
    pub fn over(&self, under: &Self) -> Self {
        Self {
            format: self.format.or(under.format),
            byte_order: self.byte_order.or(under.byte_order),
            precision: self.precision.or(under.precision),
            iblank: self.iblank.or(under.iblank),
            zones: self.zones.or(under.zones),
            dimension: self.dimension.or(under.dimension),
            order: self.order.or(under.order),
            kind: self.kind.or(under.kind),
        }
    }

    /// Sets an option from JSON. Numbers and booleans count as words.
    pub(super) fn set_json(&mut self, key: &str, value: &Value) -> Result<(), FieldError> {
        let word = match value {
            Value::String(s) => s.clone(),
            Value::Number(n) => n.to_string(),
            Value::Bool(b) => b.to_string(),
            other => other.to_string(),
        };
        self.set(key, &word)
    }

    /// `(key, word)` of all set options.
    pub fn words(&self) -> Vec<(&'static str, &'static str)> {
        let yes_no = |b: bool| if b { "yes" } else { "no" };
        [
            ("format", self.format.map(Format::word)),
            ("byte-order", self.byte_order.map(ByteOrder::word)),
            ("precision", self.precision.map(Precision::word)),
            ("iblank", self.iblank.map(yes_no)),
            ("zones", self.zones.map(ZoneCount::word)),
            ("dimension", self.dimension.map(Dimension::word)),
            ("order", self.order.map(Order::word)),
            ("kind", self.kind.map(Kind::word)),
        ]
        .into_iter()
        .filter_map(|(k, w)| w.map(|w| (k, w)))
        .collect()
    }
}

fn put<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    let some = value.is_some();
    if some {
        *slot = value;
    }
    some
}

/// The key's plain form. `--plot3d-byte_order`, `plot3d-byte-order` and `byte-order` are the same key.
pub(super) fn plain_key(key: &str) -> String {
    let key = key.trim_start_matches('-').replace('_', "-");
    key.strip_prefix("plot3d-").map_or(key.clone(), str::to_owned)
}

impl TryFrom<Map<String, Value>> for Plot3dOptions {
    type Error = FieldError;
    fn try_from(map: Map<String, Value>) -> Result<Self, FieldError> {
        let mut options = Self::default();
        for (key, value) in &map {
            if !value.is_null() {
                options.set_json(key, value)?;
            }
        }
        Ok(options)
    }
}

impl From<Plot3dOptions> for Map<String, Value> {
    fn from(options: Plot3dOptions) -> Self {
        options.words().into_iter().map(|(k, w)| (k.to_owned(), Value::from(w))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_in_and_out() {
        for (key, words) in Plot3dOptions::KEYS {
            for word in *words {
                let mut o = Plot3dOptions::default();
                o.set(&format!("plot3d-{key}"), word).unwrap();
                assert_eq!(o.words(), vec![(*key, *word)]);
                let json = serde_json::to_value(o).unwrap();
                assert_eq!(serde_json::from_value::<Plot3dOptions>(json).unwrap(), o);
            }
            let e = Plot3dOptions::default().set(key, "nonsense").unwrap_err().to_string();
            assert!(e.contains(words[0]), "{e}");
        }
        assert!(Plot3dOptions::default().set("color", "red").unwrap_err().to_string().contains("byte-order"));
        let o: Plot3dOptions =
            serde_json::from_str(r#"{"precision": 64, "iblank": true, "byte_order": "big"}"#).unwrap();
        assert_eq!((o.precision, o.iblank, o.byte_order), (Some(Precision::Double), Some(true), Some(ByteOrder::Big)));
    }
}

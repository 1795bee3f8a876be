//! A reader's description of a volume: its contents, and the places of its bytes. If Python has a maintained library
//! for a format, its reader is in Python and passes the description as JSON. Pages are read and decoded here.

use super::missing_values::Missing;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Meaning of a volume's numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeKind {
    /// One number a voxel.
    Scalar,
    /// Red, green and blue.
    Rgb,
    /// Red, green, blue and opacity.
    Rgba,
    /// Several numbers a voxel, each with a colour.
    Channels,
    /// Numbers that name an object for each voxel, with no values between them.
    Labels,
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelSpec {
    /// Its name.
    pub name: String,
    /// UDUNITS spelling, `1` if there is none.
    #[serde(default = "one")]
    pub units: String,
    /// `#rrggbb`, if the format has one.
    #[serde(default)]
    pub color: Option<String>,
    /// Values shown as black and as full, if the format has them.
    #[serde(default)]
    pub limits: Option<[f64; 2]>,
    /// Factor and offset from stored numbers to values in `units` (slope and intercept of NIfTI and DICOM,
    /// `scale_factor` and `add_offset` of CF). Stored numbers stay unchanged; labels, windows and probes are in values.
    #[serde(default)]
    pub scale: Option<[f64; 2]>,
    /// The stored numbers that mean a missing value.
    #[serde(default)]
    pub missing: Missing,
    /// Whether the format hides it until a user requests it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Whether the lowest value is shown as the highest is otherwise: white in grey. Set by the format (DICOM's
    /// MONOCHROME1, TIFF's WhiteIsZero, OME's `inverted`) or the user. Values stay unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inverted: bool,
}

impl ChannelSpec {
    /// A channel with only a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            units: one(),
            color: None,
            limits: None,
            scale: None,
            missing: Missing::none(),
            hidden: false,
            inverted: false,
        }
    }
}

fn one() -> String {
    "1".into()
}

/// Red, green and blue of `#rrggbb`; the `#` is optional.
pub fn rgb_of(text: &str) -> Option<[u8; 3]> {
    let digits = text.trim_start_matches('#');
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 6)?;
    let [_, r, g, b] = number.to_be_bytes();
    Some([r, g, b])
}

/// A whole volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its name in messages: the path that the user gave.
    pub path: String,
    /// `OME-Zarr 0.5`, `NIfTI-1`, `NRRD`, ...
    pub format: String,
    /// Sentences about guesses.
    #[serde(default)]
    pub guessed: Vec<String>,
    /// Meaning of its numbers.
    pub kind: VolumeKind,
    /// Its channels.
    pub channels: Vec<ChannelSpec>,
    /// Colours (`#rrggbb`) of labels in the format, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_colors: BTreeMap<u64, String>,
    /// Unit of `origin` and `spacing`; `voxel` if the format has none.
    pub length_unit: String,
    /// Anatomical directions of +x, +y and +z: three of R L A P S I, such as `LPS` or `RAS`.
    #[serde(default)]
    pub anatomy: Option<String>,
    /// Directions of the axes i, j and k in space, each of length 1.
    pub direction: [[f64; 3]; 3],
    /// Times of the steps; empty for one step without a time.
    #[serde(default)]
    pub times: Vec<f64>,
    /// Their unit, `1` if there is none.
    #[serde(default = "one")]
    pub time_units: String,
    /// Levels, finest first.
    pub levels: Vec<LevelSpec>,
    /// A folder of our own ranges of pages, if there is one.
    #[serde(default)]
    pub ranges: Option<String>,
}

/// One level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    /// Voxels along i, j, k.
    pub dims: [u64; 3],
    /// Position of the centre of voxel (0, 0, 0).
    pub origin: [f64; 3],
    /// Distances between voxels along i, j, k, each positive.
    pub spacing: [f64; 3],
    /// Arrays that together have every channel once.
    pub arrays: Vec<ArraySpec>,
}

/// One array in files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Its name in errors and events.
    pub name: String,
    /// `uint8` ... `float64`, `bool` (in memory `uint8`) or `float16` (in memory `float32`).
    pub dtype: String,
    /// Whether elements are stored with the highest byte first.
    #[serde(default)]
    pub big_endian: bool,
    /// Length of each dimension, slowest first.
    pub shape: Vec<u64>,
    /// Meaning of the dimensions, one letter each: `t` time, `c` component, `z`, `y`, `x` (k, j, i). `zyx`, `tczyx`,
    /// `zyxc`, `xyz` ...
    pub axes: String,
    /// Chunk shape, as `shape`; absent if the array is not chunked.
    #[serde(default)]
    pub chunk: Option<Vec<u64>>,
    /// Order of a chunk's dimensions in its bytes, slowest first; by default that of `shape`.
    #[serde(default)]
    pub order: Option<Vec<usize>>,
    /// Channels of the components.
    pub channels: Vec<usize>,
    /// Value of chunks that the format defines as never written; absent if every chunk must exist.
    #[serde(default)]
    pub fill: Option<Fill>,
    /// Steps from stored bytes to the chunk's elements, in decoding order.
    #[serde(default)]
    pub codecs: Vec<CodecSpec>,
    /// Place of the bytes.
    #[serde(rename = "where")]
    pub place: PlaceSpec,
}

/// Value of elements that were never written: a number, or an integer that may not fit a double.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Fill {
    /// An integer of any type.
    Whole(i128),
    /// Any other number.
    Number(f64),
}

impl Serialize for Fill {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Number(v) => number::serialize(&Some(v), s),
            Self::Whole(v) => match (u64::try_from(v), i64::try_from(v)) {
                (Ok(v), _) => s.serialize_u64(v),
                (_, Ok(v)) => s.serialize_i64(v),
                _ => number::serialize(&Some(v as f64), s),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Fill {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenNumber {
            Natural(u64),
            Whole(i64),
            Other(#[serde(with = "number")] Option<f64>),
        }
        Ok(match WrittenNumber::deserialize(d)? {
            WrittenNumber::Natural(v) => Self::Whole(v.into()),
            WrittenNumber::Whole(v) => Self::Whole(v.into()),
            WrittenNumber::Other(v) => Self::Number(v.unwrap_or(f64::NAN)),
        })
    }
}

/// One step of decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum CodecSpec {
    /// Zstandard frames.
    Zstd {},
    /// gzip (RFC 1952).
    Gzip {},
    /// zlib (RFC 1950).
    Zlib {},
    /// Deflate without a header (RFC 1951).
    Deflate {},
    /// numcodecs' LZ4: the decoded length (u32, little-endian), then one LZ4 block.
    Lz4 {},
    /// A Blosc 1 buffer.
    Blosc {},
    /// bzip2.
    Bz2 {},
    /// TIFF's LZW.
    Lzw {},
    /// TIFF's PackBits.
    Packbits {},
    /// Bytes sorted by their place in the element (HDF5 and numcodecs `shuffle`).
    Shuffle {
        /// Bytes an element.
        size: usize,
    },
    /// Differences along the fastest dimension (numcodecs `delta`), in the array's own type.
    Delta {},
    /// TIFF predictor 2 (differences along rows of `width` pixels of `samples` numbers) or 3 (floating point).
    Predictor {
        /// 2 or 3.
        kind: u8,
        /// Pixels a row.
        width: usize,
        /// Numbers a pixel.
        samples: usize,
    },
    /// crc32c of the bytes before it, in the last four bytes.
    Crc32c {},
    /// HDF5's Fletcher-32, in the last four bytes.
    Fletcher32 {},
    /// A JPEG image (baseline or progressive) with the chunk's elements.
    Jpeg {
        /// The tables of a TIFF's abbreviated streams, in hexadecimal digits.
        #[serde(default)]
        tables: Option<String>,
    },
    /// A PNG image with the chunk's elements.
    Png {},
}

/// Places of chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum PlaceSpec {
    /// An array without chunks: its elements are contiguous in a file.
    Contiguous {
        /// The file.
        file: String,
        /// First byte.
        offset: u64,
    },
    /// One file for each index of the slowest dimension, all alike, with the rest contiguous in each.
    Planes {
        /// The files.
        files: Vec<String>,
        /// First byte in each.
        offset: u64,
        /// First byte in each, if they differ.
        #[serde(default)]
        offsets: Option<Vec<u64>>,
    },
    /// File, offset and length of each chunk, in the order of the chunk grid (slowest dimension first). They are rows
    /// of three little-endian u64 in the table with this number, which comes beside the JSON. Length 0: never written.
    Table {
        /// The files that the rows number.
        files: Vec<String>,
        /// Number of the table.
        table: usize,
    },
    /// One file for each chunk, named by its indices: `prefix`, then the indices with `separator` between them.
    Keys {
        /// Folder and beginning of the name, such as `/data/a.zarr/0/c/`.
        prefix: String,
        /// `/` or `.`.
        separator: String,
    },
    /// One file for each shard (Zarr v3's `sharding_indexed`), named as in [`PlaceSpec::Keys`]; `chunk` is the inner
    /// chunk.
    Shards {
        /// As above.
        prefix: String,
        /// As above.
        separator: String,
        /// Elements of a shard, as `shape`.
        shard: Vec<u64>,
        /// Whether the index ends with a crc32c.
        index_crc32c: bool,
        /// Whether the index is at the end of the file.
        index_at_end: bool,
        /// The root of a Farfield store. After the index is the checksum of the shard's name below the root.
        #[serde(default)]
        root: Option<String>,
    },
}

/// Numbers without a JSON spelling, written as in Zarr: `"NaN"`, `"Infinity"`, `"-Infinity"`.
pub(super) mod number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(in super::super) enum Written {
        Number(f64),
        Word(String),
    }

    impl Written {
        pub(in super::super) fn of(v: f64) -> Self {
            match v {
                v if v.is_nan() => Self::Word("NaN".into()),
                f64::INFINITY => Self::Word("Infinity".into()),
                f64::NEG_INFINITY => Self::Word("-Infinity".into()),
                v => Self::Number(v),
            }
        }

        pub(in super::super) fn read(self) -> Result<f64, String> {
            match self {
                Self::Number(v) => Ok(v),
                Self::Word(w) => match w.as_str() {
                    "NaN" => Ok(f64::NAN),
                    "Infinity" => Ok(f64::INFINITY),
                    "-Infinity" => Ok(f64::NEG_INFINITY),
                    _ => Err(format!("'{w}' is no number")),
                },
            }
        }
    }

    pub(super) fn serialize<S: Serializer>(value: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
        value.map(Written::of).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
        Option::<Written>::deserialize(d)?.map(|w| w.read().map_err(D::Error::custom)).transpose()
    }
}

//! The root's `zarr.json` of a stored volume: OME-NGFF for every reader, and Farfield's own data under `farfield`, with
//! the crc32c of every other document. It is the commit mark.

use super::ome;
use crate::error::FieldError;
use crate::paging::Layout;
use crate::store::codec::Codec;
use crate::store::metadata::{float, hex, number, seal, triple, unfloat, unhex, unseal, ArraySeal, VERSION};
use crate::volume::{VolumeKind, VolumeSpec, VoxelType};
use serde_json::{json, Value};
use std::path::Path;

/// The way to make a level from the one before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Downsample {
    /// The mean of up to eight voxels, of those with a value. Integers are rounded to the nearest, halves to even.
    Mean,
    /// The most frequent value; of several, the lowest.
    Majority,
    /// The voxel with the lowest indices.
    Nearest,
}

impl Downsample {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Majority, Self::Nearest];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Majority => "majority",
            Self::Nearest => "nearest",
        }
    }

    /// The way with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The default for a volume of this kind.
    pub const fn of(kind: VolumeKind) -> Self {
        match kind {
            VolumeKind::Labels => Self::Majority,
            _ => Self::Mean,
        }
    }
}

/// The root's content.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeRoot {
    /// The requested page edge.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// Encoding of pages.
    pub codec: Codec,
    /// The way to make levels.
    pub downsample: Downsample,
    /// The source's description of the volume: one level, without arrays; no path; no ranges.
    pub about: VolumeSpec,
    /// Type of the voxels.
    pub voxel: VoxelType,
    /// Page box of each level.
    pub pages: Vec<[usize; 3]>,
    /// Digest of the identities of its source files.
    pub source: String,
    /// Lowest and highest stored number of each channel, rounded outward to single precision. The lowest is above the
    /// highest if there are none.
    pub seen: Vec<[f64; 2]>,
    /// Length and crc32c of the other documents, in the order of [`super::VolumeLayout::documents`].
    pub documents: Vec<(u64, u32)>,
    /// Seals of each level, then of each array of ranges.
    pub seals: Vec<ArraySeal>,
}

impl VolumeRoot {
    /// The document.
    pub fn document(&self) -> Vec<u8> {
        let seals: Vec<Value> = self.seals.iter().map(|s| json!([s.bytes, hex(s.pages)])).collect();
        let documents: Vec<Value> = self.documents.iter().map(|d| json!([d.0, hex(d.1)])).collect();
        seal(&json!({"zarr_format": 3, "node_type": "group", "attributes": {
            "farfield": {
                "crc32c": hex(0),
                "version": VERSION,
                "kind": "volume",
                "page": self.page,
                "layout": self.layout.name(),
                "codec": self.codec.name(),
                "level": self.codec.level(),
                "downsample": self.downsample.name(),
                "dtype": self.voxel,
                "pages": self.pages,
                "volume": self.about,
                "note": "direction, anatomy, times, scale and missing stand here because OME-NGFF 0.5 cannot say them; its translations \
                         are along the volume's own axes",
                "source": self.source,
                "seen": self.seen.iter().map(|s| json!([float(s[0]), float(s[1])])).collect::<Vec<_>>(),
                "arrays": seals,
                "documents": documents,
            },
            "ome": ome::attributes(self),
        }}))
    }

    /// Parses the document.
    ///
    /// # Errors
    /// [`FieldError::Format`] about `path` if a byte has changed or the document is not a stored volume's.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FieldError> {
        let value = unseal(path, bytes)?;
        let ours = &value["attributes"]["farfield"];
        let bad = || FieldError::format(path, "the document is not as this Farfield writes it; convert again");
        Self::from_value(ours).ok_or_else(bad)
    }

    fn from_value(v: &Value) -> Option<Self> {
        if v["kind"].as_str()? != "volume" {
            return None;
        }
        let level = match &v["level"] {
            Value::Null => None,
            n => Some(i32::try_from(n.as_i64()?).ok()?),
        };
        let pair = |v: &Value| Some((v[0].as_u64()?, unhex(v[1].as_str()?)?));
        let pairs = |v: &Value| v.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>();
        let range = |v: &Value| Some([unfloat(&v[0])?, unfloat(&v[1])?]);
        Some(Self {
            page: number(&v["page"])?,
            layout: Layout::parse(v["layout"].as_str()?)?,
            codec: Codec::parse(v["codec"].as_str()?, level).ok()?,
            downsample: Downsample::parse(v["downsample"].as_str()?)?,
            about: serde_json::from_value(v["volume"].clone()).ok()?,
            voxel: VoxelType::parse(v["dtype"].as_str()?)?,
            pages: v["pages"].as_array()?.iter().map(triple).collect::<Option<_>>()?,
            source: v["source"].as_str()?.to_owned(),
            seen: v["seen"].as_array()?.iter().map(range).collect::<Option<_>>()?,
            documents: pairs(&v["documents"])?,
            seals: pairs(&v["arrays"])?.into_iter().map(|(bytes, pages)| ArraySeal { bytes, pages }).collect(),
        })
    }
}

/// A source's description of its volume in the form for the root: one level, without arrays and path.
///
/// # Errors
/// [`FieldError::Usage`] for numbers that a document cannot hold.
pub fn kept(spec: &VolumeSpec) -> Result<VolumeSpec, FieldError> {
    let mut about = VolumeSpec { path: String::new(), ranges: None, ..spec.clone() };
    about.levels.truncate(1);
    about.levels.iter_mut().for_each(|l| l.arrays.clear());
    for channel in &about.channels {
        let numbers = channel.limits.iter().flatten().chain(channel.scale.iter().flatten());
        if let Some(odd) = numbers.copied().find(|x| !x.is_finite()) {
            return Err(FieldError::Usage(format!(
                "{}: channel '{}': {odd} as a limit or scale cannot be kept; leave it out",
                spec.path, channel.name
            )));
        }
    }
    if about.direction.iter().flatten().any(|x| !x.is_finite()) {
        return Err(FieldError::Usage(format!("{}: directions {:?} are no numbers", spec.path, about.direction)));
    }
    Ok(about)
}

//! An open stored volume: its description, in the form of a format's reader, and its ranges for the pager.

use super::layout::VolumeLayout;
use super::ome::placed;
use super::root::VolumeRoot;
use crate::error::FieldError;
use crate::file::read_start;
use crate::store::codec::Codec;
use crate::store::layout::{ArrayLayout, ShardForm};
use crate::store::metadata::float;
use crate::store::{check_count, check_documents, open_root, sum, Sharded, StoreCheck};
use crate::volume::{ArraySpec, CodecSpec, LevelSpec, PlaceSpec, VolumeSpec};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The format's name in `info`.
const FORMAT: &str = "Farfield volume (OME-Zarr 0.5)";

/// An open stored volume: everything but its pages.
#[derive(Clone, Debug)]
pub struct VolumeStore {
    /// Its folder.
    pub path: PathBuf,
    /// Its root document.
    pub root: VolumeRoot,
    /// Its arrays.
    pub layout: VolumeLayout,
}

impl VolumeStore {
    /// Whether `path` has a volume for [`Self::open`]: a folder with a root document of a volume.
    pub fn is_volume(path: &Path) -> bool {
        // Both words are in the first bytes.
        let head = read_start(&path.join("zarr.json"), 4096);
        let has = |word: &[u8]| head.as_ref().is_ok_and(|head| head.windows(word.len()).any(|w| w == word));
        has(b"\"farfield\":{\"crc32c\"") && has(b"\"kind\":\"volume\"")
    }

    /// Opens a stored volume. Reads and checks the root and all other documents.
    ///
    /// # Errors
    /// [`FieldError::Io`] or [`FieldError::Format`] about the missing or damaged document.
    pub fn open(path: &Path) -> Result<Self, FieldError> {
        open_root(path, |root_path, root| Self::with_root(path, root_path, root))
    }

    fn with_root(path: &Path, root_path: &Path, root: &[u8]) -> Result<Self, FieldError> {
        let root = VolumeRoot::parse(root_path, root)?;
        let layout = VolumeLayout::new(root_path, &root)?;
        check_documents(path, root_path, &root.documents, layout.documents())?;
        let (levels, channels) = (layout.levels.len(), root.about.channels.len());
        if root.seals.len() != levels + layout.ranges().count() || root.seen.len() != channels {
            return Err(FieldError::format(root_path, "lists more or less than there is; convert again"));
        }
        for level in 0..levels {
            check_count(&path.join(level.to_string()), layout.shard_count(level))?;
        }
        for ranges in layout.ranges() {
            check_count(&path.join(&ranges.path), ranges.shard_count())?;
        }
        // A forger's numbers must not overflow in later sums. Shards are numbered in 32 bits.
        let pages = (0..levels).map(|n| layout.page_count(n).saturating_add(layout.shard_count(n)));
        let pages = sum(pages.chain(layout.ranges().map(|a| a.page_count().saturating_add(a.shard_count()))));
        let shards = sum((0..levels).map(|n| layout.shard_count(n)).chain(layout.ranges().map(|a| a.shard_count())));
        let bytes = sum(root.seals.iter().map(|s| s.bytes));
        if pages.is_none() || bytes.is_none() || shards.is_none_or(|n| n > u64::from(u32::MAX)) {
            let m = "claims more pages or bytes than any store has; convert again";
            return Err(FieldError::format(root_path, m));
        }
        Ok(Self { path: path.to_owned(), root, layout })
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.root.seals.iter().map(|s| s.bytes).sum()
    }

    /// Format of the source, in its own words.
    pub fn origin(&self) -> &str {
        &self.root.about.format
    }

    /// The description of the volume, in the form of a format's reader. Every chunk must exist, each with its crc32c.
    pub fn spec(&self) -> VolumeSpec {
        let mut spec = self.root.about.clone();
        spec.path = self.path.to_string_lossy().into_owned();
        spec.format = FORMAT.into();
        spec.ranges = Some(self.path.join("_farfield").to_string_lossy().into_owned());
        spec.levels = (0..self.layout.levels.len()).map(|n| self.level(n)).collect();
        spec
    }

    fn level(&self, number: usize) -> LevelSpec {
        let level = &self.layout.levels[number];
        let p = &level.grid.paging;
        let channels = self.root.about.channels.len();
        let outer = std::array::from_fn(|a| level.grid.shard[a] * p.page[a]);
        let array = ArraySpec {
            name: number.to_string(),
            dtype: self.layout.voxel.name().into(),
            shape: lengths(self.layout.steps, channels, p.dims),
            chunk: Some(lengths(1, self.layout.components, p.page)),
            codecs: codecs(self.layout.codec),
            channels: (0..channels).collect(),
            place: shards(&self.path, &number.to_string(), lengths(1, self.layout.components, outer)),
            ..plain()
        };
        LevelSpec { arrays: vec![array], ..placed(&self.root.about, &level.shape, self.root.downsample) }
    }

    /// The form of this store for validation.
    pub fn checked(&self) -> StoreCheck<'_> {
        let levels = (0..self.layout.levels.len()).map(|n| {
            let level = Level { layout: &self.layout, number: n, name: n.to_string() };
            Box::new(level) as Box<dyn Sharded + '_>
        });
        let arrays = levels.chain(self.layout.ranges().map(|a| Box::new(a) as Box<dyn Sharded + '_>)).collect();
        let documents = self.layout.documents().map(|(name, _)| name).collect();
        StoreCheck { path: &self.path, arrays, uniform: HashMap::new(), seals: &self.root.seals, documents }
    }

    /// Description for `info`.
    pub fn described(&self) -> Value {
        let level = |n: usize| {
            let l = &self.layout.levels[n];
            serde_json::json!({"dims": l.shape.dims, "page": l.grid.paging.page, "pages": self.layout.page_count(n),
                "shards": self.layout.shard_count(n), "padding": l.grid.paging.padding()})
        };
        let levels: Vec<Value> = (0..self.layout.levels.len()).map(level).collect();
        serde_json::json!({"format": FORMAT, "origin": self.origin(), "layout": self.root.layout.name(),
            "codec": self.layout.codec.name(), "downsample": self.root.downsample.name(), "dtype": self.layout.voxel.name(),
            "steps": self.layout.steps, "levels": levels, "bytes": self.bytes(),
            // JSON has no number for infinite ends.
            "seen": self.root.seen.iter().map(|[a, b]| if a <= b { serde_json::json!([float(*a), float(*b)]) } else { Value::Null }).collect::<Vec<_>>()})
    }
}

/// The description of ranges below `root`, in the form of a format's reader. Every page must exist, each with its
/// crc32c.
pub fn range_spec(root: &Path, layout: &ArrayLayout) -> ArraySpec {
    let p = &layout.grid.paging;
    let outer = std::array::from_fn(|a| layout.grid.shard[a] * p.page[a]);
    let components = layout.components();
    ArraySpec {
        name: layout.path.clone(),
        dtype: layout.dtype.name().into(),
        shape: lengths(layout.steps, components, p.dims),
        chunk: Some(lengths(1, components, p.page)),
        codecs: codecs(layout.codec),
        channels: (0..components).collect(),
        place: shards(root, &layout.path, lengths(1, components, outer)),
        ..plain()
    }
}

fn shards(root: &Path, folder: &str, shard: Vec<u64>) -> PlaceSpec {
    let root = root.to_string_lossy().into_owned();
    let prefix = format!("{root}/{folder}/c.");
    PlaceSpec::Shards {
        prefix,
        separator: ".".into(),
        shard,
        index_crc32c: true,
        index_at_end: false,
        root: Some(root),
    }
}

/// In Zarr's order.
fn lengths(t: usize, c: usize, along: [usize; 3]) -> Vec<u64> {
    [t, c, along[2], along[1], along[0]].map(|n| n as u64).to_vec()
}

/// In decoding order.
fn codecs(codec: Codec) -> Vec<CodecSpec> {
    let mut codecs = vec![CodecSpec::Crc32c {}];
    match codec {
        Codec::None => {}
        Codec::Zstd { .. } => codecs.push(CodecSpec::Zstd {}),
        Codec::Lz4 => codecs.push(CodecSpec::Blosc {}),
    }
    codecs
}

/// The part common to all arrays: every chunk must exist.
fn plain() -> ArraySpec {
    ArraySpec {
        name: String::new(),
        dtype: String::new(),
        big_endian: false,
        shape: Vec::new(),
        axes: "tczyx".into(),
        chunk: None,
        order: None,
        channels: Vec::new(),
        fill: None,
        codecs: Vec::new(),
        place: PlaceSpec::Keys { prefix: String::new(), separator: ".".into() },
    }
}

/// A level's array in validation.
struct Level<'s> {
    layout: &'s VolumeLayout,
    number: usize,
    name: String,
}

impl Sharded for Level<'_> {
    fn name(&self) -> &str {
        &self.name
    }
    fn form(&self) -> ShardForm<'_> {
        self.layout.form(self.number)
    }
    fn times(&self) -> usize {
        self.layout.steps * self.layout.groups
    }
    fn shard_path(&self, time: usize, shard: u64) -> String {
        self.layout.shard_path(self.number, time / self.layout.groups, time % self.layout.groups, shard)
    }
}

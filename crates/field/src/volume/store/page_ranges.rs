//! Ranges of pages of data that are paged in place, in a folder of the cache.
//!
//! They have the same form as those of a stored volume. Their own root document is written last, and has their arrays
//! and the state of the files. Readers that find another state do not use them.

use super::layout::range_layouts;
use crate::error::FieldError;
use crate::file::Digest;
use crate::store::layout::ArrayLayout;
use crate::store::metadata::{float, hex, seal, unfloat, unseal, VERSION};
use crate::store::read_bounded;
use crate::volume::VolumeArray;
use serde_json::{json, Value};
use std::path::Path;

/// Limit of a root document in bytes. It has a line for each array, and a range for each channel.
const MAX_BYTES: u64 = 16 << 20;

/// The properties of an array that determine its ranges.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RangedArray {
    /// Level of resolution.
    pub level: usize,
    /// Number among the level's arrays.
    pub group: usize,
    /// Its time steps.
    pub steps: usize,
    /// Numbers of a voxel.
    pub components: usize,
    /// Voxels of a page.
    pub page: [u32; 3],
    /// Pages along i, j, k.
    pub pages: [u32; 3],
}

impl RangedArray {
    /// The entry of an open volume's array. The volume has `steps` steps.
    pub fn of(level: usize, group: usize, array: &VolumeArray, steps: u32) -> Self {
        let steps = if array.steady { 1 } else { steps as usize };
        let t = &array.translation;
        Self { level, group, steps, components: array.brick.components, page: t.page, pages: t.pages }
    }

    /// Its ranges as arrays, finest first.
    pub fn layouts(&self) -> Vec<ArrayLayout> {
        range_layouts(self.level, self.group, self.steps, self.components, self.pages.map(|n| n as usize))
    }

    fn value(&self) -> Value {
        json!([self.level, self.group, self.steps, self.components, self.page, self.pages])
    }
}

/// The root document.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeDocument {
    /// The state of the files.
    pub state: Digest,
    /// The arrays.
    pub arrays: Vec<RangedArray>,
    /// Lowest and highest stored number of each channel, rounded outward to single precision. The lowest is above the
    /// highest if there are none.
    pub seen: Vec<[f64; 2]>,
    /// Pages that could not be read: their ranges are unlimited.
    pub failed: u64,
}

impl RangeDocument {
    /// The document.
    pub fn document(&self) -> Vec<u8> {
        seal(&json!({"zarr_format": 3, "node_type": "group", "attributes": {"farfield": {
            "crc32c": hex(0),
            "version": VERSION,
            "kind": "ranges",
            "state": self.state.to_string(),
            "arrays": self.arrays.iter().map(RangedArray::value).collect::<Vec<_>>(),
            "seen": self.seen.iter().map(|s| json!([float(s[0]), float(s[1])])).collect::<Vec<_>>(),
            "failed": self.failed,
        }}}))
    }

    /// The document in the folder at `root`, if it has ranges of `arrays` for files in this state. `None` for anything
    /// else, which is then replaced.
    pub fn open(root: &Path, state: Digest, arrays: &[RangedArray]) -> Option<Self> {
        Self::read(root, state).filter(|known| known.arrays == arrays)
    }

    /// As [`Self::open`], for callers without the arrays. These follow from the state.
    pub fn read(root: &Path, state: Digest) -> Option<Self> {
        Self::at(root).filter(|known| known.state == state)
    }

    /// The document in the folder at `root`, for any state of the files. `None` if there are no such ranges, as in a
    /// stored volume.
    pub(crate) fn at(root: &Path) -> Option<Self> {
        let path = root.join("zarr.json");
        let bytes = read_bounded(&path, MAX_BYTES).ok()?;
        Self::parse(&path, &bytes).ok()
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FieldError> {
        let value = unseal(path, bytes)?;
        let bad = || FieldError::format(path, "the document is not as this Farfield writes it");
        Self::from_value(&value["attributes"]["farfield"]).ok_or_else(bad)
    }

    fn from_value(v: &Value) -> Option<Self> {
        if v["kind"].as_str()? != "ranges" {
            return None;
        }
        let range = |v: &Value| Some([unfloat(&v[0])?, unfloat(&v[1])?]);
        Some(Self {
            state: Digest::parse(v["state"].as_str()?)?,
            arrays: v["arrays"].as_array()?.iter().map(ranged).collect::<Option<_>>()?,
            seen: v["seen"].as_array()?.iter().map(range).collect::<Option<_>>()?,
            failed: v["failed"].as_u64()?,
        })
    }
}

fn ranged(v: &Value) -> Option<RangedArray> {
    let number = |v: &Value| usize::try_from(v.as_u64()?).ok();
    let triple = |v: &Value| {
        let mut out = [0; 3];
        for (a, to) in out.iter_mut().enumerate() {
            *to = u32::try_from(v[a].as_u64()?).ok()?;
        }
        Some(out)
    };
    Some(RangedArray {
        level: number(&v[0])?,
        group: number(&v[1])?,
        steps: number(&v[2])?,
        components: number(&v[3])?,
        page: triple(&v[4])?,
        pages: triple(&v[5])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("ff-known-ranges-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let array = RangedArray { level: 1, group: 2, steps: 3, components: 4, page: [5, 6, 7], pages: [8, 9, 10] };
        let known = RangeDocument {
            state: Digest::default().text("files"),
            arrays: vec![array],
            seen: vec![[f64::INFINITY, f64::NEG_INFINITY], [-1.5, 2.0]],
            failed: 1,
        };
        let document = known.document();
        std::fs::write(dir.join("zarr.json"), &document).unwrap();
        assert_eq!(RangeDocument::open(&dir, known.state, &[array]), Some(known.clone()));
        assert_eq!(RangeDocument::open(&dir, Digest::default(), &[array]), None, "of files in another state");
        assert_eq!(
            RangeDocument::open(&dir, known.state, &[RangedArray { steps: 2, ..array }]),
            None,
            "of other arrays"
        );
        let mut changed = document;
        let at = changed.len() - 20;
        changed[at] ^= 1;
        std::fs::write(dir.join("zarr.json"), &changed).unwrap();
        assert_eq!(RangeDocument::read(&dir, known.state), None, "a byte has changed");
        std::fs::remove_dir_all(dir).unwrap();
    }
}

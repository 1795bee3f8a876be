//! Open volumes: boxes of voxels, descriptions, checks of every page.
//!
//! # Practice
//! [`Session::open`] takes a reader's description. Boxes are read into the caller's array, some pages at a time, within
//! a part of the limit.

mod boxes;
mod check;
mod page_ranges;
mod page_set;
mod paged;

use crate::limits::{least_limit, SMALLEST_LIMIT};
use crate::session::Session;
use field::error::FieldError;
use field::volume::Volume;
use serde_json::{json, Value};

pub use check::VolumeCheck;
pub use page_ranges::{build_ranges, RangesReport};
pub(crate) use page_set::PageSet;
pub use paged::{charge_beside_pages, paged_input};

impl Session {
    /// Checks that the limit holds a page of the volume, where there is one. Calls that read pages check first; a volume's
    /// description needs no page.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`].
    pub fn check_limit(&self) -> Result<(), FieldError> {
        self.limit_holds(self.pager.ledger().limit())
    }

    pub(crate) fn limit_holds(&self, limit: u64) -> Result<(), FieldError> {
        let needs = self.volume().map_or(0, least_volume_limit);
        if limit < needs {
            return Err(FieldError::LimitTooSmall { limit, needs, what: "one page of the volume".into() });
        }
        Ok(())
    }

    /// The volume's storage: pages of each level, bytes, and whether there are checksums. The reader's description is
    /// not included.
    ///
    /// # Errors
    /// As [`Self::volume`].
    pub fn volume_info(&self) -> Result<Value, FieldError> {
        let v = self.volume()?;
        let levels: Vec<Value> = v
            .levels
            .iter()
            .map(|l| {
                let first = &l.arrays[0];
                let pages: u64 = l.arrays.iter().map(|a| a.translation.count()).sum();
                json!({
                    "dims": l.dims, "page": first.translation.page, "pages": pages,
                    "ranges": v.spec.ranges.is_some() && l.arrays.iter().all(|a| !a.ranges.is_empty()),
                })
            })
            .collect();
        let frames: u64 = v.levels.iter().flat_map(|l| &l.arrays).map(|a| a.brick.bytes() as u64).max().unwrap_or(0);
        Ok(json!({
            "pages": {"total": v.page_count(), "bytes": frames}, "levels": levels, "checked": v.checked,
            "bytes_disk": v.file_bytes, "bytes_memory": v.bytes(), "limit_least_bytes": least_volume_limit(v),
        }))
    }
}

/// The smallest limit under which a volume's largest page can be read. The page is in memory encoded and decoded, with
/// its neighbour for interpolation.
fn least_volume_limit(volume: &Volume) -> u64 {
    let arrays = volume.levels.iter().flat_map(|l| &l.arrays);
    least_limit(2 * arrays.map(|a| a.brick.bytes() as u64).max().unwrap_or(0)).max(SMALLEST_LIMIT)
}

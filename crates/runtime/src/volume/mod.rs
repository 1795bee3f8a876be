//! Open volumes: boxes of voxels, what a volume is, every page once.
//!
//! # Practice
//! [`VolumeSession::open`] takes what a reader said. Boxes are read some pages at a time, as many as a part of the limit holds, into an
//! array of the caller's.

mod boxes;
mod check;
mod page_ranges;
mod page_set;
mod paged;

use crate::limits::{least_limit, Unseen, SMALLEST_LIMIT};
use crate::session::{is_past_cache, Bare, Resources, Waited};
use field::error::FieldError;
use field::volume::{Volume, VolumeSpec};
use pager::Pager;
use serde_json::{json, Value};
use std::sync::Arc;

pub use check::VolumeCheck;
pub use page_ranges::{build_ranges, RangesReport};
pub(crate) use page_set::PageSet;
pub use paged::{charge_beside_pages, paged_input};

/// A volume with the pager that its pages go through.
pub struct VolumeSession {
    /// The volume.
    pub volume: Volume,
    /// Its pager.
    pub pager: Arc<Pager>,
    bare: Bare,
    means: Resources,
    waited: Waited,
    unseen: Unseen,
}

/// Whether a volume's pages are read past the page cache: see [`is_past_cache`]. Of files whose bytes are not known it goes by those of
/// the voxels.
pub fn goes_past_cache(volume: &Volume) -> bool {
    is_past_cache(volume.file_bytes.max(volume.bytes()))
}

impl VolumeSession {
    /// Opens what a reader said; `tables` are those that it counts. Reads no page, and asks for no memory that only pages take:
    /// [`Self::check_limit`].
    ///
    /// # Errors
    /// As [`Volume::open`]; [`FieldError::LimitTooSmall`] where what is kept of it does not fit.
    pub fn open(spec: VolumeSpec, tables: Vec<Vec<u8>>, means: Resources) -> Result<Self, FieldError> {
        let bare = Bare::new(&means)?;
        let unseen = Unseen::new(&bare.pager, "opening a volume")?;
        let volume = Volume::open(spec, tables, &bare.pager)?;
        bare.pager.set_direct(goes_past_cache(&volume));
        let pager = bare.pager.clone();
        Ok(Self { volume, pager, bare, means, waited: Waited::default(), unseen })
    }

    /// Looks whether the limit holds a page, which whatever reads one asks first. What a volume is can be said under any limit.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`].
    pub fn check_limit(&self) -> Result<(), FieldError> {
        self.limit_holds(self.pager.ledger().limit())
    }

    fn limit_holds(&self, limit: u64) -> Result<(), FieldError> {
        let needs = self.least_limit();
        if limit < needs {
            return Err(FieldError::LimitTooSmall { limit, needs, what: "one page of the volume".into() });
        }
        Ok(())
    }

    /// Threads.
    pub fn threads(&self) -> usize {
        self.means.threads()
    }

    /// Adds time that was waited for its pages.
    pub fn add_wait(&self, seconds: f64) {
        self.waited.add(seconds);
    }

    /// The smallest limit under which its largest page can be read: a page is there encoded and decoded, and what lies beside it when it
    /// is interpolated.
    pub fn least_limit(&self) -> u64 {
        let arrays = self.volume.levels.iter().flat_map(|l| &l.arrays);
        least_limit(2 * arrays.map(|a| a.brick.bytes() as u64).max().unwrap_or(0)).max(SMALLEST_LIMIT)
    }

    /// The limit of its ledger from now on.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`].
    pub fn set_limit(&self, limit: u64) -> Result<(), FieldError> {
        self.limit_holds(limit)?;
        self.unseen.set_limit(&self.pager, limit);
        Ok(())
    }

    /// The numbers that every run reports, with chunks that were found never written.
    pub fn stats(&self) -> Value {
        let mut stats = self.bare.paged_stats(self.volume.page_count(), &self.waited);
        stats["pages"]["never_written"] = self.volume.fills().into();
        stats
    }

    /// What it is made of: pages of each level, bytes, whether they carry checksums. What the reader said stands elsewhere.
    pub fn info(&self) -> Value {
        let v = &self.volume;
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
        json!({
            "pages": {"total": v.page_count(), "bytes": frames}, "levels": levels, "checked": v.checked,
            "bytes_disk": v.file_bytes, "bytes_memory": v.bytes(), "limit_least_bytes": self.least_limit(),
        })
    }
}

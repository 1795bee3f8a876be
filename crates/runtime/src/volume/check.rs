//! A check of every page of a volume.

use super::PageSet;
use crate::limits::pager_error;
use crate::session::{ProgressWatch, Session};
use field::error::FieldError;
use field::store::Problem;
use pager::{PageErrorKind, PageId, PagerError};

/// The result of checking every page.
#[derive(Clone, Debug, Default)]
pub struct VolumeCheck {
    /// Pages that were read.
    pub pages: u64,
    /// Chunks that the format defines as never written.
    pub never_written: u64,
    /// Failed pages and their errors, at most [`VolumeCheck::TOLD`].
    pub problems: Vec<Problem>,
    /// Number of failed pages.
    pub failed: u64,
}

impl VolumeCheck {
    /// Most problems that are listed.
    pub const TOLD: usize = 1000;
}

impl Session {
    /// Reads every page of all levels and steps. Checks lengths, checksums if there are any, and decoding.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. A failed page is in [`VolumeCheck`], and no error.
    pub fn check(&self, watch: &mut ProgressWatch<'_>) -> Result<VolumeCheck, FieldError> {
        let volume = self.volume()?;
        let mut found = VolumeCheck::default();
        let total = volume.page_count() as f64;
        let before = volume.fills();
        for array in volume.levels.iter().flat_map(|l| &l.arrays) {
            let steps = if array.steady { 1 } else { volume.steps };
            let bytes = 2 * array.brick.bytes() as u64;
            let at_once = (self.pager.ledger().limit() / 4 / bytes).clamp(1, 1024);
            for step in 0..steps {
                let wanted = PageSet::of(self, array, step);
                let mut from = 0;
                while from < wanted.count() {
                    if !watch("checking", found.pages as f64, total) {
                        return Err(FieldError::Interrupted);
                    }
                    let to = (from + at_once).min(wanted.count());
                    let numbers = wanted.numbers(from, to);
                    let pages: Vec<PageId> = numbers.iter().map(|n| PageId::new(array.id, step, *n)).collect();
                    self.check_some(&pages, &mut found)?;
                    found.pages += to - from;
                    from = to;
                }
                wanted.answered(self, array);
                found.pages += wanted.vacant();
            }
        }
        found.never_written = volume.fills() - before;
        Ok(found)
    }

    /// Reads pages together, and one by one if one of them fails.
    fn check_some(&self, pages: &[PageId], found: &mut VolumeCheck) -> Result<(), FieldError> {
        match self.pager.fetch(pages) {
            Ok(_held) => Ok(()),
            Err(PagerError::Page(e)) if !matches!(e.kind, PageErrorKind::TooLarge { .. }) => {
                if let [_one] = pages {
                    found.failed += 1;
                    if found.problems.len() < VolumeCheck::TOLD {
                        found.problems.push(Problem { what: e.what.to_string(), error: e.kind.to_string() });
                    }
                    return Ok(());
                }
                pages.iter().try_for_each(|p| self.check_some(&[*p], found))
            }
            Err(e) => Err(pager_error(e)),
        }
    }
}

//! Boxes of voxels.

use crate::limits::fetch_error;
use crate::session::{ProgressWatch, Session};
use field::error::FieldError;
use field::volume::VolumeArray;
use pager::{Lookup, PageId};
use std::time::Instant;

/// Pages of a box in memory at a time take at most one part in this many of the limit.
const SHARE: u64 = 4;
/// Pages in memory are whole pages of the system, however small they are.
const FRAME: usize = 4096;

impl Session {
    /// Copies the voxels of a box, `[k][j][i]`, in the channel's own type and native byte order. `lo` and `hi` are i,
    /// j, k, half open.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a level, channel, step or box that does not exist, or `to` of another length; a failed
    /// page; [`FieldError::LimitTooSmall`]; [`FieldError::Interrupted`].
    pub fn read_box(
        &self,
        level: usize,
        channel: usize,
        [lo, hi]: [[u32; 3]; 2],
        step: usize,
        to: &mut [u8],
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), FieldError> {
        let (array, component) = self.array(level, channel, step)?;
        let dims = array.translation.dims;
        if (0..3).any(|a| lo[a] > hi[a] || hi[a] > dims[a]) {
            return Err(FieldError::Usage(format!("a box from {lo:?} to {hi:?} does not lie within {dims:?} voxels")));
        }
        let size = array.brick.voxel.size();
        let n: [usize; 3] = std::array::from_fn(|a| (hi[a] - lo[a]) as usize);
        if n.iter().product::<usize>() * size != to.len() {
            return Err(FieldError::Usage(format!("{} bytes are not room for {n:?} voxels", to.len())));
        }
        if n.contains(&0) {
            return Ok(());
        }
        let page = array.translation.page;
        let page_bytes = array.brick.bytes().next_multiple_of(FRAME);
        let at_once = (self.pager.ledger().limit() / SHARE / (2 * page_bytes as u64)).max(1) as usize;
        let first: [u32; 3] = std::array::from_fn(|a| lo[a] / page[a]);
        let last: [u32; 3] = std::array::from_fn(|a| (hi[a] - 1) / page[a]);
        let mut places = Vec::new();
        for k in first[2]..=last[2] {
            for j in first[1]..=last[1] {
                places.extend((first[0]..=last[0]).map(|i| [i, j, k]));
            }
        }
        let step = if array.steady { 0 } else { step as u32 };
        let id = |at: [u32; 3]| {
            let [ni, nj, _] = array.translation.pages.map(u64::from);
            PageId::new(array.id, step, (u64::from(at[2]) * nj + u64::from(at[1])) * ni + u64::from(at[0]))
        };
        let mut worker = self.pager.worker();
        for (done, some) in places.chunks(at_once).enumerate() {
            if !watch("reading", (done * at_once) as f64, places.len() as f64) {
                return Err(FieldError::Interrupted);
            }
            let pages: Vec<PageId> = some.iter().map(|at| id(*at)).collect();
            let bytes = (pages.len() * page_bytes) as u64;
            let begun = Instant::now();
            let hold = self.pager.fetch(&pages).map_err(|e| fetch_error(&self.pager, e, bytes, 0))?;
            self.add_wait(begun.elapsed().as_secs_f64());
            for (at, page) in some.iter().zip(&pages) {
                match worker.page(*page) {
                    Lookup::Here(frame) => copy(array, component, *at, [lo, hi], frame, to),
                    Lookup::Failed(e) => return Err(FieldError::Page(e.clone())),
                    Lookup::Absent => return Err(FieldError::Internal("a held page is absent")),
                }
            }
            worker.release();
            drop(hold);
        }
        Ok(())
    }

    /// The array of a channel at a level, and the channel's component in it.
    fn array(&self, level: usize, channel: usize, step: usize) -> Result<(&VolumeArray, usize), FieldError> {
        let v = self.volume()?;
        let none = |what: &str, n: usize, count: usize| {
            FieldError::Usage(format!("{}: there is no {what} {n}; there are {count}, counted from 0", v.spec.path))
        };
        if step >= v.steps as usize {
            return Err(none("time step", step, v.steps as usize));
        }
        let of = v.levels.get(level).ok_or_else(|| none("level", level, v.levels.len()))?;
        of.channel(channel).ok_or_else(|| none("channel", channel, v.spec.channels.len()))
    }
}

/// Copies the part of a box that lies in a page.
fn copy(array: &VolumeArray, component: usize, at: [u32; 3], [lo, hi]: [[u32; 3]; 2], frame: &[u8], to: &mut [u8]) {
    let (page, c) = (array.translation.page, array.brick.components);
    let size = array.brick.voxel.size();
    let from: [u32; 3] = std::array::from_fn(|a| lo[a].max(at[a] * page[a]));
    let until: [u32; 3] = std::array::from_fn(|a| hi[a].min((at[a] + 1) * page[a]));
    let count = (until[0] - from[0]) as usize;
    let n: [usize; 3] = std::array::from_fn(|a| (hi[a] - lo[a]) as usize);
    for k in from[2]..until[2] {
        for j in from[1]..until[1] {
            let inside: [usize; 3] =
                [(from[0] - at[0] * page[0]) as usize, (j - at[1] * page[1]) as usize, (k - at[2] * page[2]) as usize];
            let row = (inside[2] * page[1] as usize + inside[1]) * page[0] as usize + inside[0];
            let target =
                (((k - lo[2]) as usize * n[1] + (j - lo[1]) as usize) * n[0] + (from[0] - lo[0]) as usize) * size;
            let target = &mut to[target..target + count * size];
            let source = &frame[(row * c + component) * size..];
            if c == 1 {
                target.copy_from_slice(&source[..count * size]);
            } else {
                for (to, from) in target.chunks_exact_mut(size).zip(source.chunks(c * size)) {
                    to.copy_from_slice(&from[..size]);
                }
            }
        }
    }
}

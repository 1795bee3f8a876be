//! How much memory the steps of a tracer take: every page that one can need at a time.

use crate::dataset::Dataset;
use crate::locator::ZoneFields;
use crate::nodes::Zone;
use crate::store::layout::SYSTEM_PAGE;
use pager::id::{ArrayId, PageId};
use pager::Pager;

impl Dataset {
    /// Bytes of the largest step of a tracer that looks at `steps` time steps at once: every page that the cell of a particle can
    /// lie in, for each array that is read, with the pages of boxes and shard indexes on the way to them.
    pub fn step_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        let frame = |id: ArrayId| frame_bytes(pager, id);
        let of_zone = |(z, f): (&Zone, &ZoneFields)| {
            let corners: u64 = z.translation.pages.iter().map(|n| if *n > 1 { 2 } else { 1 }).product();
            let used = used(z, f);
            let pages: u64 =
                used.iter().map(|a| (frame(z.arrays[*a].id) * corners + INDEX_BYTES) * times(z, *a, steps)).sum();
            let boxes: u64 =
                z.boxes.iter().map(|b| frame(b.id) * 2 + INDEX_BYTES / 8).sum::<u64>() * times(z, z.xyz, steps);
            // The largest page is read encoded beside its frame; where components are put together, it is decoded beside it too.
            // Buffers come in sizes a quarter apart.
            let buffers = |a: usize| if z.arrays[a].components > 1 { 2 } else { 1 };
            // Of a derived page it is what making it takes.
            let beside = |a: &usize| (frame(z.arrays[*a].id) * 5 / 4 * buffers(*a)).max(z.arrays[*a].making);
            pages + boxes + used.iter().map(beside).max().unwrap_or(0)
        };
        self.zones.iter().zip(fields).map(of_zone).max().unwrap_or(0)
    }

    /// Bytes that lines of one step take beside [`Self::step_bytes`] and [`Self::closure_bytes`] where grids move: whether what they run
    /// into is a wall follows from the places of a cell's corners at the two steps beside it.
    pub fn neighbour_bytes(&self, pager: &Pager) -> u64 {
        let moving = self.zones.iter().filter(|z| !z.arrays[z.xyz].steady);
        let of_zone = |z: &Zone| {
            let corners: u64 = z.translation.pages.iter().map(|n| u64::from(*n).min(2)).product();
            let frame = frame_bytes(pager, z.arrays[z.xyz].id);
            2 * (frame * corners + INDEX_BYTES) + frame * 5 / 2
        };
        moving.map(of_zone).max().unwrap_or(0)
    }

    /// Bytes that do for any step of a tracer, wherever it leads: those of [`Self::step_bytes`], and the geometry of every other
    /// zone in which a particle that crosses may be looked for; never more than all pages that the run can ask for.
    pub fn closure_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        let frame = |id: ArrayId| frame_bytes(pager, id);
        let (mut all, mut others, mut encoded) = (0u64, 0u64, 0u64);
        for (z, f) in self.zones.iter().zip(fields) {
            let corners: u64 = z.translation.pages.iter().map(|n| u64::from(*n).min(2)).product();
            let moments = times(z, z.xyz, steps);
            let boxes: u64 = z.boxes.iter().map(|b| frame(b.id) * b.translation.count() + INDEX_BYTES / 8).sum();
            let near: u64 = z.boxes.iter().map(|b| frame(b.id) * b.translation.count().min(2) + INDEX_BYTES / 8).sum();
            let used = used(z, f);
            let whole =
                |a: &usize| (frame(z.arrays[*a].id) * z.translation.count() + INDEX_BYTES) * times(z, *a, steps);
            all += boxes * moments + used.iter().map(whole).sum::<u64>();
            let geometry = z.iblank.into_iter().chain([z.xyz]);
            let geometry = geometry.map(|a| (frame(z.arrays[a].id) * corners + INDEX_BYTES) * times(z, a, steps));
            others += near * moments + geometry.sum::<u64>();
            // A buffer for an encoded page may be a fifth larger than it.
            encoded = encoded
                .max(used.iter().map(|a| (frame(z.arrays[*a].id) * 6 / 5).max(z.arrays[*a].making)).max().unwrap_or(0));
        }
        (self.step_bytes(fields, pager, steps) + others).min(all) + encoded
    }
}

/// The arrays of a zone that are read, each once.
fn used(z: &Zone, f: &ZoneFields) -> Vec<usize> {
    let mut used: Vec<usize> = z.iblank.into_iter().chain(f.arrays()).chain([z.xyz]).collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// At how many of so many time steps an array is read.
fn times(z: &Zone, array: usize, steps: usize) -> u64 {
    if z.arrays[array].steady {
        1
    } else {
        steps as u64
    }
}

/// Bytes of the frame of an array's first page, which is as large as any.
fn frame_bytes(pager: &Pager, id: ArrayId) -> u64 {
    pager.map(id).page_bytes(PageId::new(id, 0, 0)).next_multiple_of(SYSTEM_PAGE) as u64
}

/// A shard index of the size that stores of a few shards have.
const INDEX_BYTES: u64 = 16 << 10;

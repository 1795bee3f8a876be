//! The closure of a tracer's steps in curvilinear zones: bytes of all pages that one step may need at once.

use crate::dataset::Dataset;
use crate::domain::Domains;
use crate::locator::ZoneFields;
use crate::nodes::Zone;
use crate::store::layout::SYSTEM_PAGE;
use pager::id::{ArrayId, PageId};
use pager::Pager;

impl Dataset {
    /// [`Domains::step_bytes`] of all domains.
    pub fn step_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        self.zones.step_bytes(fields, pager, steps)
    }

    /// [`Domains::neighbour_bytes`] of all domains.
    pub fn neighbour_bytes(&self, pager: &Pager) -> u64 {
        self.zones.neighbour_bytes(pager)
    }

    /// [`Domains::closure_bytes`] of all domains.
    pub fn closure_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        self.zones.closure_bytes(fields, pager, steps)
    }
}

/// See [`Domains::step_bytes`]. Pages that locate others are those of boxes and shard indexes.
pub(crate) fn step_bytes(zones: &[Zone], fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
    let frame = |id: ArrayId| frame_bytes(pager, id);
    let of_zone = |(z, f): (&Zone, &ZoneFields)| {
        let corners: u64 = z.translation.pages.iter().map(|n| if *n > 1 { 2 } else { 1 }).product();
        let used = used(z, f);
        let pages: u64 =
            used.iter().map(|a| (frame(z.arrays[*a].id) * corners + INDEX_BYTES) * times(z, *a, steps)).sum();
        let boxes: u64 =
            z.boxes.iter().map(|b| frame(b.id) * 2 + INDEX_BYTES / 8).sum::<u64>() * times(z, z.xyz, steps);
        // The largest page is read encoded beside its frame; several components are decoded beside it too. Sizes of
        // buffers are a quarter apart.
        let buffers = |a: usize| if z.arrays[a].components > 1 { 2 } else { 1 };
        // A derived page takes the bytes of its making.
        let beside = |a: &usize| (frame(z.arrays[*a].id) * 5 / 4 * buffers(*a)).max(z.arrays[*a].making);
        pages + boxes + used.iter().map(beside).max().unwrap_or(0)
    };
    zones.iter().zip(fields).map(of_zone).max().unwrap_or(0)
}

/// See [`Domains::neighbour_bytes`]. Walls follow from a cell's corners at the two neighbouring steps.
pub(crate) fn neighbour_bytes(zones: &[Zone], pager: &Pager) -> u64 {
    let moving = zones.iter().filter(|z| !z.arrays[z.xyz].steady);
    let of_zone = |z: &Zone| {
        let corners: u64 = z.translation.pages.iter().map(|n| u64::from(*n).min(2)).product();
        let frame = frame_bytes(pager, z.arrays[z.xyz].id);
        2 * (frame * corners + INDEX_BYTES) + frame * 5 / 2
    };
    moving.map(of_zone).max().unwrap_or(0)
}

/// See [`Domains::closure_bytes`]. In every other zone, the search for a crossing particle reads the geometry.
pub(crate) fn closure_bytes(zones: &[Zone], fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
    let frame = |id: ArrayId| frame_bytes(pager, id);
    let (mut all, mut others, mut encoded) = (0u64, 0u64, 0u64);
    for (z, f) in zones.iter().zip(fields) {
        let corners: u64 = z.translation.pages.iter().map(|n| u64::from(*n).min(2)).product();
        let moments = times(z, z.xyz, steps);
        let boxes: u64 = z.boxes.iter().map(|b| frame(b.id) * b.translation.count() + INDEX_BYTES / 8).sum();
        let near: u64 = z.boxes.iter().map(|b| frame(b.id) * b.translation.count().min(2) + INDEX_BYTES / 8).sum();
        let used = used(z, f);
        let whole = |a: &usize| (frame(z.arrays[*a].id) * z.translation.count() + INDEX_BYTES) * times(z, *a, steps);
        all += boxes * moments + used.iter().map(whole).sum::<u64>();
        let geometry = z.iblank.into_iter().chain([z.xyz]);
        let geometry = geometry.map(|a| (frame(z.arrays[a].id) * corners + INDEX_BYTES) * times(z, a, steps));
        others += near * moments + geometry.sum::<u64>();
        // A buffer for an encoded page may be a fifth larger than the page.
        encoded = encoded
            .max(used.iter().map(|a| (frame(z.arrays[*a].id) * 6 / 5).max(z.arrays[*a].making)).max().unwrap_or(0));
    }
    (step_bytes(zones, fields, pager, steps) + others).min(all) + encoded
}

/// The arrays of a zone that are read, each once.
fn used(z: &Zone, f: &ZoneFields) -> Vec<usize> {
    let mut used: Vec<usize> = z.iblank.into_iter().chain(f.arrays()).chain([z.xyz]).collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Steps at which an array is read, of `steps` steps.
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

/// Bytes of a shard index, as in stores of a few shards.
const INDEX_BYTES: u64 = 16 << 10;

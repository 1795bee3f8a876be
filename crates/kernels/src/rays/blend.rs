//! Samples of a ray become light, in their order.

use super::lane::{opaque, Lane};
use super::lanes::{F4, F8, I8};
use super::ray::Tips;
use super::sample::SampledVoxel;
use super::transfer::TransferTable;

/// Table entries of eight values.
#[inline(always)]
pub(crate) fn indices<T: SampledVoxel>(table: &TransferTable, v: F8) -> I8 {
    let x = F8::splat(table.offset).fma(v, F8::splat(table.scale));
    let i = x.at_least(F8::splat(0.0)).at_most(F8::splat(table.top)).round();
    if T::FLOAT {
        v.number(i, I8::splat(table.entries.len() as i32 - 1))
    } else {
        i
    }
}

/// Adds the light of samples in their order. It does not report where the ray becomes opaque.
#[inline(always)]
fn blend(table: &TransferTable, at: &[i32], colour: &mut F4, through: &mut F4) {
    for &i in at {
        // SAFETY: indices are between 0 and the table's last.
        let e = unsafe { table.entries.get_unchecked(i as usize) }.light();
        *colour = colour.fma(*through, e);
        *through = through.fnma(*through, e.last());
    }
}

/// Blends samples. Returns whether the ray is opaque afterwards. It becomes opaque at the same sample for any group
/// size.
#[inline(always)]
pub(crate) fn composite(table: &TransferTable, at: &[i32], lane: &mut Lane) -> bool {
    let (mut c, mut t) = (lane.colour, lane.through);
    blend(table, at, &mut c, &mut t);
    if !opaque(c, t) {
        (lane.colour, lane.through) = (c, t);
        return false;
    }
    last_of(table, at, lane);
    true
}

/// The same for samples with a known last one.
#[inline(never)]
pub(crate) fn last_of(table: &TransferTable, at: &[i32], lane: &mut Lane) {
    for i in at {
        blend(table, core::slice::from_ref(i), &mut lane.colour, &mut lane.through);
        if opaque(lane.colour, lane.through) {
            return;
        }
    }
}

/// As [`composite`], one by one, for samples of which some are `lost` (a bit each), or with other lengths at the ends.
/// The ray has a gap if it reaches a lost one. The group size depends on the arrival of pages, so samples behind the
/// last visible one must not count.
#[inline(never)]
pub(crate) fn composite_each(table: &TransferTable, at: &[i32], lost: u64, tips: Tips, lane: &mut Lane) -> bool {
    at.iter().enumerate().any(|(n, i)| {
        lane.gap |= lost >> n & 1 == 1;
        if n + 1 == at.len() && tips.last != 0.0 {
            lane.remember(tips.n);
        }
        lane.add(table.entries[*i as usize].over(tips.length(n, at.len())));
        opaque(lane.colour, lane.through)
    })
}

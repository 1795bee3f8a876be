//! Voxels around a sample, in any number of pages.

use super::pages::Context;
use super::source::RaySource;
use field::volume::Voxel;
use pager::PageId;

/// Unavailable voxels.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Their pages are absent, and noted in the context.
    Need,
    /// Their pages cannot be read.
    Failed,
}

/// The eight corners of a cell (bit 0 for i, 1 for j, 2 for k): the place of the first component of each.
pub(crate) struct Cell<T>(pub(crate) [*const T; 8]);

impl<T: Voxel> Cell<T> {
    /// A component of the corners.
    ///
    /// # Safety
    /// The worker has released no pages since, and the voxels have the component.
    #[inline(always)]
    pub(crate) unsafe fn of(&self, component: usize) -> [T; 8] {
        let [a, b, c, d, e, f, g, h] = self.0;
        // SAFETY: the caller's.
        let of = |p: *const T| unsafe { *p.add(component) };
        [of(a), of(b), of(c), of(d), of(e), of(f), of(g), of(h)]
    }
}

/// The corners of the cell of a voxel in a slot's page.
#[inline(always)]
pub(crate) fn cell<T: Voxel>(
    source: &RaySource,
    slot: usize,
    voxel: [i32; 4],
    cx: &mut Context,
) -> Result<Cell<T>, Lack> {
    let low = cx.slot(slot).low;
    let (mut apart, mut at) = (0, [[0i32; 2]; 3]);
    for a in 0..3 {
        let n = voxel[a].wrapping_sub(low[a]);
        let over = n + 1 >= source.page[a];
        apart |= usize::from(over) << a;
        let next = if over { 0 } else { n + 1 };
        at[a] = [n.wrapping_mul(source.strides[a]), next.wrapping_mul(source.strides[a])];
    }
    let mut bases = cx.slot(slot).near;
    if apart != 0 {
        beyond(source, slot, apart, &mut bases, cx)?;
    }
    let mut corners = [core::ptr::null(); 8];
    for (c, corner) in corners.iter_mut().enumerate() {
        let element = at[0][c & 1].wrapping_add(at[1][c >> 1 & 1]).wrapping_add(at[2][c >> 2]);
        // SAFETY: the corner is in that page, which is pinned while the context is borrowed.
        *corner = unsafe { bases[c & apart].cast::<T>().offset(element as isize) };
    }
    Ok(Cell(corners))
}

/// Finds the next pages in the directions of `apart`.
#[inline(never)]
fn beyond(
    source: &RaySource,
    slot: usize,
    apart: usize,
    bases: &mut [*const u8; 8],
    cx: &mut Context,
) -> Result<(), Lack> {
    let (mut failed, mut need) = (false, false);
    for over in (1..8usize).filter(|c| c & apart == *c) {
        if bases[over].is_null() {
            match cx.near(source, slot, over) {
                Ok(Some(p)) => bases[over] = p,
                Ok(None) => failed = true,
                Err(id) => {
                    cx.miss(id);
                    need = true;
                }
            }
        }
    }
    match (need, failed) {
        (true, _) => Err(Lack::Need),
        (_, true) => Err(Lack::Failed),
        _ => Ok(()),
    }
}

/// The 4 x 4 x 4 voxels around a cell, without the eight corners and twelve edges of that cube. Outside of the volume
/// the voxels at its edge are repeated. `of` converts the place of a voxel's first component to a number.
pub(crate) fn around<T: Voxel>(
    source: &RaySource,
    voxel: [i32; 4],
    cx: &mut Context,
    of: impl Fn(*const T) -> f32,
) -> Result<[f32; 64], Lack> {
    let last = source.cells.map(|n| n as i32);
    let at: [[i32; 4]; 3] =
        core::array::from_fn(|a| core::array::from_fn(|n| (voxel[a] + n as i32 - 1).clamp(0, last[a])));
    let page = source.page;
    // Pages along each axis: four voxels in a row are mostly in one or two.
    let pages: [[i32; 4]; 3] = core::array::from_fn(|a| at[a].map(|v| v / page[a]));
    let mut known: [([i32; 3], *const u8); 8] = [([-1; 3], core::ptr::null()); 8];
    let (mut count, mut recent) = (0, 0);
    let (mut need, mut failed) = (false, false);
    let mut out = [0.0; 64];
    for k in 0..4 {
        for j in 0..4 {
            for i in 0..4 {
                let outer = [i, j, k].into_iter().filter(|n| *n == 0 || *n == 3).count();
                if outer > 1 {
                    continue;
                }
                let of_page = [pages[0][i], pages[1][j], pages[2][k]];
                if known[recent].0 != of_page {
                    recent = match known[..count].iter().position(|(p, _)| *p == of_page) {
                        Some(n) => n,
                        None => {
                            let first: [u32; 3] = core::array::from_fn(|a| (of_page[a] * page[a]) as u32);
                            let number = source.array.translation.node(first).page;
                            let found = match cx.look(source, number) {
                                Ok(Some(p)) => p,
                                Ok(None) => {
                                    failed = true;
                                    core::ptr::null()
                                }
                                Err(id) => {
                                    miss(cx, id, &mut need);
                                    core::ptr::null()
                                }
                            };
                            // With pages of one voxel across there may be more than fit.
                            let n = count.min(known.len() - 1);
                            known[n] = (of_page, found);
                            count = (n + 1).max(count);
                            n
                        }
                    };
                }
                let base = known[recent].1;
                if base.is_null() {
                    continue;
                }
                let within = [at[0][i], at[1][j], at[2][k]];
                let element: i32 = (0..3).map(|a| (within[a] - of_page[a] * page[a]) * source.strides[a]).sum();
                // SAFETY: the voxel is in that page, which is pinned while the context is borrowed.
                out[(k * 4 + j) * 4 + i] = of(unsafe { base.cast::<T>().offset(element as isize) });
            }
        }
    }
    match (need, failed) {
        (true, _) => Err(Lack::Need),
        (_, true) => Err(Lack::Failed),
        _ => Ok(out),
    }
}

fn miss(cx: &mut Context, id: PageId, need: &mut bool) {
    cx.miss(id);
    *need = true;
}

/// Numbers of the voxels around a cell from one to the next along i, j, k.
const STEP: [usize; 3] = [1, 4, 16];

/// The gradient along i, j, k at a place in a cell; `v` has its numbers and those around. Central differences at its
/// corners are interpolated, one-sided at the volume's edge. With `HOLES` they are also one-sided beside a NaN, and 0
/// between two NaNs. Otherwise surfaces would be lit as flat for two voxels around each hole. Without `HOLES` a NaN
/// gives NaN.
pub(crate) fn gradient<const HOLES: bool>(v: &[f32; 64], voxel: [i32; 4], cells: [u32; 3], f: [f32; 3]) -> [f32; 3] {
    core::array::from_fn(|a| {
        let mut sum = 0.0;
        for c in 0..8usize {
            let on = |d: usize| c >> d & 1;
            let at = (on(2) + 1) * 16 + (on(1) + 1) * 4 + on(0) + 1;
            let number = voxel[a] + on(a) as i32;
            let far = if number <= 0 || number >= cells[a] as i32 { 1.0 } else { 0.5 };
            let mut slope = (v[at + STEP[a]] - v[at - STEP[a]]) * far;
            if HOLES {
                let (back, further) = (v[at] - v[at - STEP[a]], v[at + STEP[a]] - v[at]);
                slope = match (back.is_nan(), further.is_nan()) {
                    (false, false) => slope,
                    (false, true) => back,
                    (true, false) => further,
                    (true, true) => 0.0,
                };
            }
            let weight: f32 = (0..3).map(|d| if on(d) == 1 { f[d] } else { 1.0 - f[d] }).product();
            sum += weight * slope;
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_what_is_no_number_gradients_are_those_of_the_rest() {
        // Numbers that rise by 1, 2 and 4 a voxel along i, j and k.
        let ramp = |n: usize| (n % 4 + n / 4 % 4 * 2 + n / 16 * 4) as f32;
        let whole: [f32; 64] = core::array::from_fn(ramp);
        let f = [0.25, 0.5, 0.75];
        let of = |v: &[f32; 64]| gradient::<true>(v, [9; 4], [20; 3], f);
        assert_eq!((gradient::<false>(&whole, [9; 4], [20; 3], f), of(&whole)), ([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]));
        // One layer of voxels on either side.
        for none in
            [|n: usize| n < 16, |n: usize| n % 4 == 3, |n: usize| (n / 4).is_multiple_of(4), |n: usize| n == 4 * 5]
        {
            let holed = core::array::from_fn(|n| if none(n) { f32::NAN } else { whole[n] });
            assert_eq!(of(&holed), [1.0, 2.0, 4.0]);
        }
        // Between two layers there is no difference.
        let alone = core::array::from_fn(|n| if n.is_multiple_of(2) { f32::NAN } else { whole[n] });
        assert_eq!(of(&alone), [0.0, 2.0 * 0.75, 4.0 * 0.75]);
    }
}

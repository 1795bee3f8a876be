//! Sizes of pages.

use super::level::RowGroup;
use super::shape::{ArrayShape, C, X, Y, Z};

/// Target of a page's voxels.
const PAGE_VOXELS: u64 = 32 * 32 * 32;
/// Bytes of a page of small voxels.
const PAGE_BYTES: u64 = 64 << 10;
/// Target bytes of a row. A disk reads much beside shorter rows, and less of longer ones is used. Seconds of five
/// pictures of colours in rows of 6 KiB, by memory and row bytes:
///
/// | memory | 512 | 1024 | 1536 | 3072 | 6144 |
/// |---|---|---|---|---|---|
/// | 7 % | 15.2 | 8.9 | 8.8 | 13.8 | 18.2 |
/// | all | 3.1 | 2.4 | 2.7 | 2.9 | 3.0 |
const ROW_BYTES: u64 = 1024;
/// Bytes of pieces of one row that are read together. Gaps up to about this length are read with them.
const ROW_GROUP_BYTES: u64 = 16 << 10;
/// Most planes of a volume whose pages are whole rows of one plane, contiguous in the file. With pages of 1024 pixels'
/// width, a slice of a picture of 12000 x 7000 pixels read each byte seven times.
const FEW_PLANES: u64 = 8;
/// Voxels along each axis of the bricks that rays copy from pages.
const BRICK: u64 = 32;
/// Size from which uncompressed chunks are read in parts.
pub(super) const LARGE: u64 = 1 << 20;

/// The box of a page that is read by rows, along i, j, k. Rows go along the dimension in which elements are contiguous.
pub(super) fn row_box(shape: &ArrayShape, components: u64) -> [u32; 3] {
    let (fast, together) = match shape.fastest() {
        C => {
            let next = [X, Y, Z].into_iter().filter(|d| shape.chunk[*d] > 1).min_by_key(|d| shape.strides[*d]);
            (next.unwrap_or(X), shape.chunk[C])
        }
        d @ (X | Y | Z) => (d, 1),
        _ => (X, 1),
    };
    // Longest lengths of a page. If it must lie in one chunk, its lengths divide the chunk's.
    let whole = shape.grid[..3].iter().all(|n| *n == 1);
    let spans = |d: usize| whole || shape.chunk[d] == 1;
    let limit: [u64; 3] = std::array::from_fn(|d| if spans(d) { shape.shape[d] } else { shape.chunk[d] });
    // Pages end where bricks end, or divide them, so that a brick has few pieces.
    let fit = |d: usize, n: u64| match (spans(d), d == fast) {
        (false, _) => divisor(limit[d], n),
        (_, true) => even(limit[d], n).next_multiple_of(BRICK).min(limit[d]),
        _ => near_power(n).min(limit[d]),
    };
    let element = shape.stored.size() as u64 * together;
    let mut page = [1u64; 3];
    // Rows and planes by their distance in the file.
    let [rows, planes] = {
        let mut d: Vec<usize> = (0..3).filter(|d| *d != fast).collect();
        d.sort_by_key(|d| (limit[*d] == 1, shape.strides[*d]));
        [d[0], d[1]]
    };
    let one_piece = shape.grid[fast] == 1 && shape.grid[rows] == 1;
    if one_piece && limit[planes] <= FEW_PLANES && element * limit[fast] * limit[rows] > PAGE_BYTES {
        page[fast] = fit(fast, (PAGE_BYTES / element).max(BRICK));
        let left = PAGE_BYTES / (element * page[fast]);
        page[rows] = if page[fast] == limit[fast] { left.clamp(1, limit[rows]) } else { 1 };
        return page.map(|n| n as u32);
    }
    page[fast] = fit(fast, (ROW_BYTES / element).max(BRICK));
    // The other two axes share the remaining voxels, the thinner first.
    let mut others: Vec<usize> = (0..3).filter(|d| *d != fast).collect();
    others.sort_by_key(|d| limit[*d]);
    let voxels = PAGE_VOXELS.max(PAGE_BYTES / (shape.stored.size() as u64 * components));
    let mut left = (voxels / page[fast]).max(1);
    for (n, d) in others.iter().enumerate() {
        let side = if n == 0 { left.isqrt() } else { left };
        page[*d] = fit(*d, side.max(1));
        left = (left / page[*d]).max(1);
    }
    page.map(|n| n as u32)
}

/// Pages that are read together in a file of rows. `None` if each is read by itself.
pub(super) fn row_group(shape: &ArrayShape, page: [u32; 3]) -> Option<RowGroup> {
    // Components may be interleaved.
    let axis = (X..=Z).filter(|d| shape.chunk[*d] > 1).min_by_key(|d| shape.strides[*d])?;
    let long = u64::from(page[axis]);
    let pages = (ROW_GROUP_BYTES / (long * shape.strides[axis] * shape.stored.size() as u64))
        .min(shape.chunk[axis].div_ceil(long));
    // A group stays within a chunk.
    let pages = if shape.grid[axis] > 1 { divisor(shape.chunk[axis] / long, pages) } else { pages };
    (pages > 1).then_some(RowGroup { axis, pages: pages as u32 })
}

/// The power of two nearest to `n`, as a ratio.
fn near_power(n: u64) -> u64 {
    let above = n.max(1).next_power_of_two();
    if above * above > 2 * n * n {
        above / 2
    } else {
        above
    }
}

/// The length near `n` that cuts `of` into parts as equal as possible.
fn even(of: u64, n: u64) -> u64 {
    let parts = of.div_ceil(n.max(1).min(of));
    of.div_ceil(parts)
}

/// The largest divisor of `of` up to `n`, unless it is much smaller; then `of` itself.
fn divisor(of: u64, n: u64) -> u64 {
    let best = (1..=n.min(of)).rev().find(|d| of.is_multiple_of(*d)).unwrap_or(of);
    if best * 4 >= n.min(of) {
        best
    } else {
        of
    }
}

/// The box of a page of whole chunks. If `may_join`, thin chunks (the strips of an image) are joined, up to about
/// [`PAGE_VOXELS`].
pub(super) fn chunk_box(shape: &ArrayShape, may_join: bool) -> [u32; 3] {
    let mut page: [u64; 3] = std::array::from_fn(|d| shape.chunk[d].min(shape.shape[d].max(shape.chunk[d])));
    if may_join {
        for d in [X, Y, Z] {
            let voxels: u64 = page.iter().product();
            let room = PAGE_VOXELS / voxels.max(1);
            // At most the side of a cube.
            let most = (32 / page[d].max(1)).max(1).min(room.max(1)).min(shape.grid[d]);
            page[d] *= most;
        }
    }
    page.map(|n| n as u32)
}

//! The next possible place of a ray in a zone, found by the boxes of blocks of its cells.

use super::scene::Ray;
use field::boxes::Bounds;
use field::cell::FACE_TOLERANCE;
use field::nodes::{Miss, Nodes};
use field::simd::V4;

/// Margin around boxes: the tolerance of cells at their faces, and rounding along rays.
const ROOM: f64 = 4.0 * FACE_TOLERANCE;
const ROUNDING: f64 = 1e-12;

/// A block to be searched: level, place, and the part of the ray within it.
type BlockCandidate = (usize, [u32; 3], [f64; 2]);

/// Blocks to be searched. Callers keep it between searches.
#[derive(Default)]
pub(super) struct Stack(Vec<BlockCandidate>);

impl Stack {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<BlockCandidate>()
    }
}

/// The first part of a ray from `from` on inside the box of a block of 4x4x4 usable cells. Returns its beginning and
/// its length, which measures the size of the cells. Before it the ray is in no cell of the zone. `None`: the ray
/// enters no more cells.
///
/// # Errors
/// [`Miss`]; all absent boxes that may matter are listed.
pub(super) fn enter<N: Nodes>(
    nodes: &mut N,
    zone: usize,
    ray: &Ray,
    from: f64,
    stack: &mut Stack,
) -> Result<Option<[f64; 2]>, Miss> {
    let levels = nodes.zones()[zone].boxes.len();
    let stack = &mut stack.0;
    stack.clear();
    let Some(top) = levels.checked_sub(1) else { return Ok(None) };
    let (mut best, mut miss): (Option<[f64; 2]>, Option<(f64, Miss)>) = (None, None);
    let worse = |miss: &mut Option<(f64, Miss)>, at: f64, m: Miss| {
        let (t, before) = miss.unwrap_or((at, m));
        *miss = Some((t.min(at), Miss::worst([Some(before), Some(m), None])));
    };
    let probe = Probe::new(ray, from);
    let mut boxes = [field::boxes::EMPTY; 8];
    let parents = nodes.zones()[zone].boxes[top].translation.dims.map(|n| n.div_ceil(2));
    for k in 0..parents[2] {
        for j in 0..parents[1] {
            for i in 0..parents[0] {
                if let Some(m) = look(nodes, zone, (top, [i, j, k]), &probe, &mut boxes, stack) {
                    worse(&mut miss, from, m);
                }
            }
        }
    }
    nearest_last(stack, 0);
    while let Some((level, block, inside)) = stack.pop() {
        if best.is_some_and(|b| inside[0] >= b[0]) {
            continue;
        }
        if level == 0 {
            best = Some(inside);
            continue;
        }
        let first = stack.len();
        if let Some(m) = look(nodes, zone, (level - 1, block), &probe, &mut boxes, stack) {
            worse(&mut miss, inside[0], m);
        }
        nearest_last(stack, first);
    }
    match miss {
        // The absent or failed box is behind the found one.
        Some((t, m)) if best.is_none_or(|b| t < b[0]) => Err(m),
        _ => Ok(best.map(|[low, high]| [low, high - low])),
    }
}

/// Adds the children of a block that the ray meets to the stack. Returns why some are unavailable.
#[inline]
fn look<N: Nodes>(
    nodes: &mut N,
    zone: usize,
    (level, parent): (usize, [u32; 3]),
    probe: &Probe,
    boxes: &mut [Bounds; 8],
    stack: &mut Vec<BlockCandidate>,
) -> Option<Miss> {
    let (here, miss) = nodes.children(zone, level, parent, boxes);
    for (c, b) in boxes.iter().enumerate().filter(|(c, _)| here >> c & 1 == 1) {
        if let Some(part) = probe.part(b) {
            let child = core::array::from_fn(|a| 2 * parent[a] + (c >> a & 1) as u32);
            stack.push((level, child, part));
        }
    }
    miss
}

/// Orders the stack from `first` on so that the block that the ray meets first is on top; of several the lowest.
fn nearest_last(stack: &mut [BlockCandidate], first: usize) {
    let key = |b: &BlockCandidate| (b.1[2], b.1[1], b.1[0]);
    stack[first..].sort_unstable_by(|a, b| b.2[0].total_cmp(&a.2[0]).then_with(|| key(b).cmp(&key(a))));
}

/// A ray, prepared for tests against boxes.
struct Probe {
    o: V4,
    /// The reciprocal of its direction.
    inverse: V4,
    from: f64,
    high: f64,
}

impl Probe {
    fn new(ray: &Ray, from: f64) -> Self {
        // Along an axis without motion the ray reaches both ends at infinity; one of them before, if it is beyond.
        let inverse = ray.d.map(|d| if d == 0.0 { 1e300 } else { 1.0 / d });
        Self { o: V4::from_xyz(ray.o), inverse: V4::from_xyz(inverse), from, high: ray.high }
    }

    /// The part of it within a box.
    #[inline(always)]
    fn part(&self, b: &Bounds) -> Option<[f64; 2]> {
        let [low, high] = [0, 3].map(|n| V4::new(f64::from(b[n]), f64::from(b[n + 1]), f64::from(b[n + 2]), 0.0));
        // Boxes without cells have low above high.
        if high.below(low).bits() & 7 != 0 {
            return None;
        }
        let size = low.abs().max(high.abs()).max(self.o.abs());
        let room = (size * V4::splat(ROUNDING)).fma(high - low, V4::splat(ROOM));
        let (x, y) = ((low - room - self.o) * self.inverse, (high + room - self.o) * self.inverse);
        let ([a, b, c], [d, e, f]) = (x.min(y).xyz(), x.max(y).xyz());
        let (l, h) = (a.max(b).max(c).max(self.from), d.min(e).min(f));
        (l <= h && l < self.high).then_some([l, h])
    }
}

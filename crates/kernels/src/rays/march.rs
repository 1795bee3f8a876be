//! One ray through one volume, front to back.

use super::bricks::BrickState;
use super::corners::{cell, Lack};
use super::lanes::{firsts, numbers, zeros, F4, F8, I4, I8};
use super::pages::{Context, TilePageState};
use super::queue::{block_box, box_of, brick_of, Ended, SampleQueue, TOGETHER};
use super::ray::{Ray, RaySegment, SEGMENT};
use super::sample::{between, PageRun, SampledVoxel};
use super::scene::RaySource;
use super::transfer::{TransferEntry, TransferTable};
use field::volume::BLOCK;

/// How far a ray is.
#[derive(Copy, Clone)]
pub(crate) struct Lane {
    /// Next sample.
    pub n: i64,
    /// Light so far, and opacity.
    pub colour: F4,
    /// Share of light that comes through what is behind, in each lane.
    pub through: F4,
    pub done: bool,
    /// Something that cannot be had was left out.
    pub gap: bool,
    /// How it was before the last sample, where that stands for another length than others: a ray that goes on takes it anew.
    pub before: Before,
}

/// Light and opacity before sample `n`.
#[derive(Copy, Clone)]
pub(crate) struct Before {
    pub n: i64,
    pub colour: F4,
    pub through: F4,
}

/// What the first and the last of some samples stand for beyond a step each, where they are the first and the last of their ray.
#[derive(Copy, Clone)]
pub(crate) struct Tips {
    pub first: f32,
    pub last: f32,
    /// Number of the last.
    pub n: i64,
}

impl Tips {
    /// They are not.
    pub(crate) const NONE: Self = Self { first: 0.0, last: 0.0, n: i64::MAX };

    /// Of samples from one number to another.
    #[inline(always)]
    pub(super) fn of(ray: &Ray, first: i64, last: i64) -> Self {
        Self {
            first: if first == ray.first { ray.ends[0] } else { 0.0 },
            last: if last == ray.last - 1 { ray.ends[1] } else { 0.0 },
            n: last,
        }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.first != 0.0 || self.last != 0.0
    }

    /// How many steps sample `at` of `count` stands for.
    #[inline(always)]
    pub(crate) fn length(&self, at: usize, count: usize) -> f32 {
        let of = |is: bool, end: f32| if is { end } else { 0.0 };
        (1.0 + of(at == 0, self.first) + of(at + 1 == count, self.last)).max(0.0)
    }
}

impl Lane {
    /// Rays of one pixel, one through each source, at the first sample of any.
    pub(crate) fn of_all(rays: &[Ray]) -> Self {
        let first = rays.iter().filter(|r| r.first < r.last).map(|r| r.first).min();
        Self {
            n: first.unwrap_or(0),
            colour: F4::splat(0.0),
            through: F4::splat(1.0),
            done: first.is_none(),
            gap: false,
            before: Before { n: i64::MAX, colour: F4::splat(0.0), through: F4::splat(1.0) },
        }
    }

    /// Remembers how it is before sample `n`.
    #[inline(always)]
    pub(crate) fn remember(&mut self, n: i64) {
        self.before = Before { n, colour: self.colour, through: self.through };
    }

    /// One more sample.
    #[inline(always)]
    pub(crate) fn add(&mut self, e: TransferEntry) {
        let e = e.light();
        self.colour = self.colour.fma(self.through, e);
        self.through = self.through.fnma(self.through, e.last());
    }
}

/// A ray ends where what is behind can change no 8-bit sRGB channel of the pixel by half a step, whatever it is. That is light
/// of `0.0044 L^0.58` for a channel of light L, since the curve of sRGB rises by `0.44 L^-0.58` there (12.9 near black); a straight line
/// below that is the bound here, for the darkest channel.
const DARK: f32 = 1.2e-4;
const OF_LIGHT: f32 = 0.0042;

#[inline(always)]
pub(crate) fn opaque(colour: F4, through: F4) -> bool {
    let t = through.first();
    if t > DARK + OF_LIGHT {
        return false;
    }
    let [r, g, b, _] = colour.to_array();
    let least = if r < g { r } else { g };
    let least = if least < b { least } else { b };
    t <= least.mul_add(OF_LIGHT, DARK)
}

/// Whether [`opaque`] may hold for any of four.
#[inline(always)]
pub(crate) fn may_be_opaque(throughs: [F8; 2]) -> bool {
    let most = F8::splat(DARK + OF_LIGHT);
    throughs[0].at_most(throughs[1]).any_at_most(most)
}

/// [`opaque`] of numbers.
pub(crate) fn opaque_at([r, g, b]: [f32; 3], through: f32) -> bool {
    opaque(F4::from([r, g, b, 0.0]), F4::splat(through))
}

/// Entries of eight values.
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

/// Light of samples in their order. Nothing is said of where they end when the ray is opaque before the last.
#[inline(always)]
fn blend(table: &TransferTable, at: &[i32], colour: &mut F4, through: &mut F4) {
    for &i in at {
        // SAFETY: indices lie between 0 and the table's last.
        let e = unsafe { table.entries.get_unchecked(i as usize) }.light();
        *colour = colour.fma(*through, e);
        *through = through.fnma(*through, e.last());
    }
}

/// Blends samples and says whether the ray is opaque then; it is so at the same sample however many come at a time.
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

/// The same of samples of which one is known to be the last.
#[inline(never)]
pub(crate) fn last_of(table: &TransferTable, at: &[i32], lane: &mut Lane) {
    for i in at {
        blend(table, core::slice::from_ref(i), &mut lane.colour, &mut lane.through);
        if opaque(lane.colour, lane.through) {
            return;
        }
    }
}

/// As [`composite`], one by one: of samples of which some are `lost` (a bit each), or whose first and last stand for other lengths. The ray
/// has a gap if it comes to a lost one. How many samples come at a time depends on when pages came, so what lies behind the last that
/// is seen must not count.
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

/// Makes a ray go up to sample `until`, or to where a page is absent: by bricks, where there are any and there are `queues`. What was
/// gathered of them then lies in the queue of this number, and is not blended yet.
pub(crate) fn march<T: SampledVoxel>(
    source: &RaySource,
    ray: &Ray,
    lane: &mut Lane,
    until: i64,
    cx: &mut Context,
    mut queues: Option<(&mut [SampleQueue; TOGETHER], usize)>,
) {
    'segments: while lane.n < until {
        if opaque_by_now::<T>(&mut queues, source, lane, cx) {
            return;
        }
        if lane.n >= ray.last {
            lane.done = true;
            return;
        }
        let number = lane.n.div_euclid(SEGMENT);
        let begin = number * SEGMENT;
        let s = RaySegment::new(ray, number, source.cells, 0.0);
        let mut k = ((lane.n - begin) as i32).max(s.from);
        let to = s.to.min((until - begin).min(SEGMENT) as i32);
        let bricks = queues.is_some() && k < to && cx.bricks().reach(s.voxel(k), s.voxel(to - 1));
        while k < to {
            let (mut first, mut last) = (I4::splat(i32::MIN), I4::splat(i32::MAX));
            let mut untried = None;
            if let (true, Some((queues, own))) = (bricks, &mut queues) {
                let (next, why) = queues[*own].push::<T>(ray, (&s, begin), (k, to), cx.bricks());
                k = next;
                if k == to {
                    break;
                }
                let voxel = s.voxel(k);
                let brick = brick_of(voxel);
                (first, last) = box_of(brick);
                untried = (why == Ended::Unknown).then_some(brick);
            }
            let voxel = s.voxel(k);
            let noted = cx.missing.len();
            let Some(slot) = cx.find::<T>(source, voxel.to_array()) else {
                lane.n = begin + i64::from(k);
                // What is behind the last that is seen is not needed.
                if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                    cx.missing.truncate(noted);
                }
                return;
            };
            let (low, high) = (cx.slot(slot).low, cx.slot(slot).high);
            match cx.slot(slot).state {
                TilePageState::Here => {}
                state => {
                    if state == TilePageState::Failed {
                        if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                            return;
                        }
                        lane.gap = true;
                    }
                    if let (TilePageState::Nothing, Some(brick)) = (state, untried) {
                        cx.bricks().nothing(brick, low, high);
                    }
                    lane.n = ray.leaves(begin + i64::from(k), low, high);
                    if lane.n >= begin + i64::from(to) {
                        continue 'segments;
                    }
                    k = (lane.n - begin) as i32;
                    continue;
                }
            }
            if let Some(brick) = untried {
                if let Some((queues, _)) = &mut queues {
                    // It may take the place of one that they have samples in.
                    queues.iter_mut().for_each(|queue| queue.settle::<T>(&source.table, cx.bricks()));
                }
                if cx.make::<T>(source, brick) != BrickState::Apart {
                    continue;
                }
            }
            if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                return;
            }
            let [low, high] = [low, high].map(|v| I4::new([v[0], v[1], v[2], 0]));
            if bricks && waits::<T>(source, &s, (k, to), (low, high), slot, cx) {
                lane.n = begin + i64::from(k);
                return;
            }
            cx.mapped::<T>(source, slot);
            let end = s.leaves(k, to, low.max(first), high.min(last));
            // SAFETY: the voxels of samples k to end lie in the page, which is pinned while the context is borrowed.
            match unsafe { inside::<T>(source, (ray, begin), &s, k, end, low, slot, lane, cx) } {
                PageMarch::Through => k = end,
                PageMarch::Opaque => {
                    lane.done = true;
                    return;
                }
                PageMarch::Need(k) => {
                    lane.n = begin + i64::from(k);
                    return;
                }
            }
        }
        lane.n = until.min(begin + SEGMENT);
    }
}

/// Blends what was gathered of a ray, before it goes on in another way; whether it is opaque, and done, then.
#[inline(always)]
fn opaque_by_now<T: SampledVoxel>(
    queues: &mut Option<(&mut [SampleQueue; TOGETHER], usize)>,
    source: &RaySource,
    lane: &mut Lane,
    cx: &mut Context,
) -> bool {
    let Some((queues, own)) = queues else { return false };
    lane.done |= queues[*own].any() && queues[*own].drain::<T>(&source.table, lane, cx);
    lane.done
}

/// Whether a ray lacks a page before it leaves the block that it is in, and which is noted then. It stays where it is, so that what it
/// passes through there is taken out of a brick when that page has come. (With it, and nothing asked for behind what is opaque, cold pictures
/// within a third of the data took a tenth less time of the processor.)
#[inline(always)]
fn waits<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    (k, to): (i32, i32),
    (low, high): (I4, I4),
    slot: usize,
    cx: &mut Context,
) -> bool {
    let (first, last) = block_box(s.voxel(k));
    let end = s.leaves(k, to.min(k + 8), low.max(first), high.min(last));
    let run = PageRun::new(s, low, source.strides, source.component as i32);
    let (_, over) = run.blocks(k, source.page, [source.blocks[0], source.blocks[1]]);
    let over = over & firsts(end - k);
    if over == 0 {
        return false;
    }
    let voxel = s.voxel(k + over.trailing_zeros() as i32).to_array();
    matches!(cell::<T>(source, slot, voxel, cx), Err(Lack::Need))
}

/// How a ray came through a page.
enum PageMarch {
    Through,
    Opaque,
    /// It lacks a page at this sample.
    Need(i32),
}

/// Blocks that nothing is seen in are jumped over from this distance to the next on; nearer ones are looked at sample by sample.
const JUMP: u8 = 3;

/// Samples from `k` to `end` of a segment, in a page.
///
/// # Safety
/// Their voxels lie there, and the page is pinned.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn inside<T: SampledVoxel>(
    source: &RaySource,
    (ray, begin): (&Ray, i64),
    s: &RaySegment,
    mut k: i32,
    end: i32,
    low: I4,
    slot: usize,
    lane: &mut Lane,
    cx: &mut Context,
) -> PageMarch {
    let (map, full) = (cx.slot(slot).map, cx.slot(slot).full);
    let run = PageRun::new(s, low, source.strides, source.component as i32);
    let [bi, bj, _] = source.blocks;
    // Numbers of samples that may show something, the highest bit set where their cells reach into other pages. Each is written eight
    // at a time.
    let mut found = [0u8; 24];
    let mut count = 0usize;
    loop {
        while k < end && count < 8 {
            let all = firsts(end - k);
            let (blocks, over) = run.blocks(k, source.page, [bi, bj]);
            let (mut live, mut jump) = (all, 0);
            if !full {
                let at = if all == 255 { blocks } else { blocks.and(I8::splat(end - k).above(I8::lanes())) };
                // SAFETY: the voxels lie in the page, so their blocks are among the map's.
                let distances = unsafe { I8::gather_bytes(map, &at.to_array()) };
                // Of cells that reach into other pages the block says too little.
                live = (zeros(distances) | over) & all;
                jump = (distances >> 56) as u8;
            }
            let some = numbers(live, k as u32) | marks(live, over);
            found[count..count + 8].copy_from_slice(&some.to_le_bytes());
            count += live.count_ones() as usize;
            k += 8;
            if jump >= JUMP && k < end {
                // From the last of the eight, which lies in the page.
                let e = i32::from(jump) - 1;
                let b = s.voxel(k - 1).sub(low).down::<{ BLOCK.trailing_zeros() as i32 }>();
                let from = b.sub(I4::splat(e)).up::<{ BLOCK.trailing_zeros() as i32 }>().max(I4::splat(0)).add(low);
                let to = b.add(I4::splat(e + 1)).up::<{ BLOCK.trailing_zeros() as i32 }>();
                let to = to.min(source.inner).add(low);
                if s.voxel(k - 1).within(from, to) {
                    k = s.leaves(k - 1, end, from, to);
                }
            }
        }
        if count == 0 {
            return PageMarch::Through;
        }
        let taken = count.min(8);
        let eight =
            u64::from_le_bytes([found[0], found[1], found[2], found[3], found[4], found[5], found[6], found[7]]);
        let over = marked(eight) & ((1 << taken) - 1);
        let eight = eight & NUMBERS;
        // Those that nobody asked for are left out like those that reach elsewhere.
        let unlike = I8::bytes(eight_of(over, taken)).above(I8::splat(0));
        // SAFETY: what is not left out has its cell in the page.
        let v = unsafe { run.values(cx.slot(slot).near[0].cast::<T>(), eight, unlike) };
        let mut at = indices::<T>(&source.table, v).to_array();
        let mut need = None;
        let (mut whole, mut lost) = (taken, 0);
        if over != 0 {
            (whole, need, lost) = outside::<T>(source, s, eight, over, taken, slot, cx, &mut at);
        }
        cx.counts.samples += whole as u64;
        let number = |n: usize| begin + (eight >> (8 * n) & 0xff) as i64;
        let tips = if whole > 0 { Tips::of(ray, number(0), number(whole - 1)) } else { Tips::NONE };
        let opaque = if lost == 0 && !tips.any() {
            composite(&source.table, &at[..whole], lane)
        } else {
            composite_each(&source.table, &at[..whole], u64::from(lost), tips, lane)
        };
        if opaque {
            return PageMarch::Opaque;
        }
        if let Some(k) = need {
            return PageMarch::Need(k);
        }
        found.copy_within(8..16, 0);
        count -= taken;
    }
}

/// Bits of a byte that number a sample of a segment.
const NUMBERS: u64 = 0x3f3f_3f3f_3f3f_3f3f;

/// The highest bit of each byte that stands for a sample in `live` that is `over` too.
#[inline(always)]
fn marks(live: u32, over: u32) -> u64 {
    if over == 0 {
        return 0;
    }
    let mut out = 0u64;
    let mut at = 7;
    for n in 0..8 {
        if live >> n & 1 == 1 {
            out |= u64::from(over >> n & 1) << at;
            at += 8;
        }
    }
    out
}

/// A bit for each byte whose highest bit is set.
#[inline(always)]
fn marked(eight: u64) -> u32 {
    (((eight >> 7) & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// A byte of 1 for each bit of `over`, and for all from `taken` on.
#[inline(always)]
fn eight_of(over: u32, taken: usize) -> u64 {
    let past = if taken >= 8 { 0 } else { u64::MAX << (8 * taken) };
    let mut out = past & 0x0101_0101_0101_0101;
    let mut rest = over;
    while rest != 0 {
        out |= 1 << (8 * rest.trailing_zeros());
        rest &= rest - 1;
    }
    out
}

/// Looks at samples whose cells reach into other pages. Says how many samples there are before one lacks a page, which one that is, and
/// which of those before it cannot be had.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn outside<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    numbers: u64,
    over: u32,
    taken: usize,
    slot: usize,
    cx: &mut Context,
    at: &mut [i32; 8],
) -> (usize, Option<i32>, u32) {
    let (mut rest, mut lost) = (over, 0);
    while rest != 0 {
        let n = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let k = (numbers >> (8 * n)) as i32 & 63;
        cx.counts.across += 1;
        let nothing = source.table.entries.len() as i32 - 1;
        at[n] = match across::<T>(source, s, k, s.voxel(k).to_array(), slot, cx) {
            Ok(v) => source.table.index(v) as i32,
            Err(Lack::Failed) => {
                lost |= 1 << n;
                nothing
            }
            Err(Lack::Need) => return (n, Some(k), lost),
        };
    }
    (taken, None, lost)
}

/// A sample in a cell whose corners lie in several pages.
#[inline(never)]
fn across<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    k: i32,
    voxel: [i32; 4],
    slot: usize,
    cx: &mut Context,
) -> Result<f32, Lack> {
    let cell = cell::<T>(source, slot, voxel, cx)?;
    let p = s.place(k).to_array();
    // SAFETY: pages stay pinned while the context is borrowed.
    Ok(between(unsafe { cell.of(source.component) }, [p[0], p[1], p[2]]))
}

#[cfg(test)]
mod tests {
    use super::super::transfer::TransferFunction;
    use super::*;

    #[test]
    fn a_ray_has_a_gap_only_before_it_is_opaque_however_many_samples_come_at_a_time() {
        let f = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(0.0, 0.0), (1.0, 1.0)]).unwrap();
        let table = TransferTable::new(&f, 1.0, 1.0);
        let (clear, solid) = (0, table.entries.len() as i32 - 2);
        let ray = Ray { origin: [0.0; 3], step: [1.0; 3], first: 0, last: 8, ends: [0.0; 2] };
        // The sample that is lost comes before or after the one behind which nothing is seen.
        for (lost, gap) in [(0b0001u32, true), (0b0010, true), (0b1000, false)] {
            let at = [clear, clear, solid, clear];
            for together in 1..=4usize {
                let mut lane = Lane::of_all(&[ray]);
                let opaque = at.chunks(together).enumerate().any(|(n, some)| {
                    match lost >> (n * together) & ((1 << some.len()) - 1) {
                        0 => composite(&table, some, &mut lane),
                        own => composite_each(&table, some, u64::from(own), Tips::NONE, &mut lane),
                    }
                });
                assert!(opaque && lane.gap == gap, "lost {lost:b}, {together} at a time");
            }
        }
    }
}

//! Rays through several channels and volumes at once, sample by sample. They handle all appearances beside one channel
//! through a transfer function: colours, labels, lit gradients, nearest voxels, projections, surfaces.
//!
//! # Theory
//! Samples of all volumes are at the same places along a ray, since they share one step. At each, all volumes with a
//! value there add their light in the order in which they were named. Only then does the ray continue. So a sample is
//! the restartable unit: its pages in all volumes are found before any of it is blended.

use super::appearance::{Projection, MOST_SOURCES};
use super::colour_rules::{Colour, Tint};
use super::corners::{around, cell, gradient, Lack};
use super::lane::{opaque, Lane};
use super::lanes::{F4, I4};
use super::pages::{Context, TilePageState};
use super::ray::{Ray, RaySegment, ONE, PART, SEGMENT};
use super::sample::{between, SampledVoxel};
use super::scene::Scene;
use super::source::RaySource;
use super::transfer::TransferEntry;
use field::volume::{Voxel, VoxelType, BLOCK};
use field::with_voxel;
use glam::Vec3;

/// The state of a ray's projection of one source.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ProjectionState {
    pub(super) best: f32,
    sum: f64,
    /// Steps with values.
    steps: f64,
    /// Both before the last sample, whenever the lane stores its state.
    before: [f64; 2],
}

impl ProjectionState {
    pub(crate) const NONE: Self = Self { best: f32::NEG_INFINITY, sum: 0.0, steps: 0.0, before: [0.0; 2] };

    /// Adds a number for this many steps.
    #[inline(always)]
    pub(super) fn add(&mut self, v: f32, steps: f32) {
        self.best = self.best.max(v);
        self.sum += f64::from(v) * f64::from(steps);
        self.steps += f64::from(steps);
    }

    /// A projection that needs its largest number only.
    pub(super) fn of_best(best: f32) -> Self {
        Self { best, ..Self::NONE }
    }

    /// Stores the state before a sample.
    pub(super) fn remember(&mut self) {
        self.before = [self.sum, self.steps];
    }

    /// Restores the state before its last sample, except the largest number: that sample comes again.
    pub(super) fn recall(&mut self) {
        [self.sum, self.steps] = self.before;
    }
}

/// The place of a ray in a source.
#[derive(Copy, Clone)]
struct SourceWalk {
    /// The segment and its number.
    segment: Option<(i64, RaySegment)>,
    /// Samples before this one are invisible.
    until: i64,
}

/// The result of a source at a sample.
#[derive(Copy, Clone)]
pub(crate) enum SampleLight {
    /// Invisible here and before this sample.
    Nothing(i64),
    /// The same, because of unreadable pages.
    Lost(i64),
    /// Pages are absent, and requested.
    Need,
    Light(TransferEntry),
    /// A number of a projection, already multiplied by the unit.
    Number(f32),
}

/// A sample of a source, to be taken.
pub(crate) struct SampleRequest<'a> {
    source: &'a RaySource,
    ray: &'a Ray,
    forward: Vec3,
    best: f32,
    n: i64,
}

impl<'a> SampleRequest<'a> {
    pub(super) fn of_projection(source: &'a RaySource, ray: &'a Ray, tally: &ProjectionState, n: i64) -> Self {
        Self { source, ray, forward: Vec3::ZERO, best: tally.best, n }
    }
}

/// Takes a sample; one for each voxel type.
type Sampler = fn(&SampleRequest<'_>, &mut Context, &mut Option<(i64, RaySegment)>) -> SampleLight;

fn sampler(voxel: VoxelType) -> Sampler {
    with_voxel!(voxel, T => sample::<T>)
}

/// Advances a ray to sample `until`, or to absent pages. There is a ray, and a tally, for each source.
pub(crate) fn march(
    scene: &Scene,
    rays: &[Ray],
    forward: Vec3,
    tallies: &mut [ProjectionState],
    lane: &mut Lane,
    until: i64,
    cx: &mut Context,
) {
    let last = rays.iter().map(|r| r.last).max().unwrap_or(0);
    let until = until.min(last);
    let mut walks = [SourceWalk { segment: None, until: i64::MIN }; MOST_SOURCES];
    // Half a kilobyte, allocated once: only the counted entries of a sample are used.
    let mut found = [(0, SampleLight::Need); MOST_SOURCES];
    let projects = scene.projects();
    while lane.n < until {
        let n = lane.n;
        let (mut count, mut need, mut gap, mut next) = (0, false, false, i64::MAX);
        for (s, (source, ray)) in scene.sources.iter().zip(rays).enumerate() {
            if n >= ray.last {
                continue;
            }
            if n < ray.first {
                next = next.min(ray.first);
                continue;
            }
            let walk = &mut walks[s];
            if n < walk.until {
                next = next.min(walk.until);
                continue;
            }
            let best = tallies.get(s).map_or(f32::NEG_INFINITY, |t| t.best);
            let asked = SampleRequest { source, ray, forward, best, n };
            match sampler(source.array.brick.voxel)(&asked, cx, &mut walk.segment) {
                SampleLight::Nothing(until) => {
                    walk.until = until;
                    next = next.min(until);
                }
                SampleLight::Lost(until) => {
                    gap = true;
                    walk.until = until;
                    next = next.min(until);
                }
                SampleLight::Need => need = true,
                shown => {
                    found[count] = (s, shown);
                    count += 1;
                    next = n + 1;
                }
            }
        }
        if need {
            return;
        }
        lane.gap |= gap;
        if rays.iter().any(|ray| n == ray.last - 1 && ray.ends[1] != 0.0) {
            lane.remember(n);
            tallies.iter_mut().for_each(ProjectionState::remember);
        }
        for (s, shown) in &found[..count] {
            match shown {
                SampleLight::Light(e) => lane.add(e.over(rays[*s].length(n))),
                SampleLight::Number(v) => tallies[*s].add(*v, rays[*s].length(n)),
                _ => {}
            }
        }
        cx.counts.samples += count as u64;
        if !projects && count > 0 && opaque(lane.colour, lane.through) {
            lane.done = true;
            return;
        }
        lane.n = next.min(last);
    }
    lane.done |= lane.n >= last;
}

/// The light of a finished ray: projections are behind gathered light, those of several channels together.
pub(super) fn finish(scene: &Scene, tallies: &[ProjectionState], lane: &mut Lane) {
    let each = scene.sources.iter().zip(tallies).filter_map(|(source, t)| {
        let v = match source.projection {
            Projection::Maximum if t.best > f32::NEG_INFINITY => t.best,
            Projection::Mean if t.steps > 0.0 => (t.sum / t.steps) as f32,
            _ => return None,
        };
        Some(source.table.entries[source.table.index(v)])
    });
    lane.add(TransferEntry::sum(each));
}

/// Least distance at which invisible blocks are skipped.
const JUMP: u8 = 3;

pub(super) fn sample<T: SampledVoxel>(
    asked: &SampleRequest<'_>,
    cx: &mut Context,
    segment: &mut Option<(i64, RaySegment)>,
) -> SampleLight {
    let SampleRequest { source, ray, n, .. } = *asked;
    let number = n.div_euclid(SEGMENT);
    let begin = number * SEGMENT;
    let s = match segment {
        Some((of, s)) if *of == number => &*s,
        other => &other.insert((number, RaySegment::new(ray, number, source.spans(), source.shift()))).1,
    };
    let k = (n - begin) as i32;
    if k < s.from {
        return SampleLight::Nothing(begin + i64::from(s.from));
    }
    if k >= s.to {
        return SampleLight::Nothing(begin + SEGMENT);
    }
    let voxel = s.voxel(k).to_array();
    let Some(slot) = cx.find::<T>(source, voxel) else { return SampleLight::Need };
    let (low, high) = (cx.slot(slot).low, cx.slot(slot).high);
    match cx.slot(slot).state {
        TilePageState::Here => {}
        state => {
            let until = ray.leaves_shifted(n, low, high, source.shift());
            return if state == TilePageState::Failed { SampleLight::Lost(until) } else { SampleLight::Nothing(until) };
        }
    }
    cx.mapped::<T>(source, slot);
    let within: [i32; 3] = core::array::from_fn(|a| voxel[a] - low[a]);
    let over = !source.nearest && (0..3).any(|a| within[a] + 1 >= source.page[a]);
    if !over {
        let block = within.map(|v| v / BLOCK as i32);
        let of = (block[2] * source.blocks[1] + block[1]) * source.blocks[0] + block[0];
        if !cx.slot(slot).full {
            // SAFETY: the voxel is in the page, so its block is among the map's.
            let distance = unsafe { *cx.slot(slot).map.add(of as usize) };
            if distance >= JUMP {
                let e = i32::from(distance) - 1;
                let from = core::array::from_fn(|a| (block[a] - e).max(0) * BLOCK as i32 + low[a]);
                // Cells at the far faces of the page extend into others, which its blocks do not cover.
                let inner = i32::from(!source.nearest);
                let to =
                    core::array::from_fn(|a| ((block[a] + e + 1) * BLOCK as i32).min(source.page[a] - inner) + low[a]);
                return SampleLight::Nothing(ray.leaves_shifted(n, from, to, source.shift()).max(n + 1));
            }
            if distance > 0 {
                return SampleLight::Nothing(n + 1);
            }
        }
        if source.projection == Projection::Maximum && source.skip {
            let brick = &source.array.brick;
            // SAFETY: frames hold the ranges of all blocks.
            let most = unsafe {
                let ranges = cx.slot(slot).near[0].add(brick.ranges_at()).cast::<T>();
                (*ranges.add((of as usize * brick.components + source.component) * 2 + 1)).to_f32()
            };
            let most = most * T::UNIT;
            if !(most + most.abs() * (8.0 * f32::EPSILON) > asked.best) {
                return SampleLight::Nothing(n + 1);
            }
        }
    }
    let place = s.place(k).to_array().map(|p| p & (ONE - 1));
    let place = [place[0], place[1], place[2]];
    let found = match &source.tint {
        Tint::Plain => plain::<T>(asked, s, k, slot, voxel, place, cx),
        Tint::Colour(colour) => coloured::<T>(asked, colour, slot, voxel, place, cx),
        Tint::Labels(labels) => {
            let at = offset(source, slot, voxel, cx);
            // SAFETY: the voxel is in the page, which is pinned while the context is borrowed.
            let name = unsafe { name_of::<T>(cx.slot(slot).near[0].cast::<T>().add(at + source.component)) };
            Ok(SampleLight::Light(labels.entry(&source.table, name)))
        }
    };
    match found {
        Ok(SampleLight::Light(e)) if e == TransferEntry::NOTHING => SampleLight::Nothing(n + 1),
        Ok(shown) => shown,
        Err(Lack::Need) => SampleLight::Need,
        Err(Lack::Failed) => SampleLight::Lost(n + 1),
    }
}

/// Element of a voxel's first component in its page.
#[inline(always)]
fn offset(source: &RaySource, slot: usize, voxel: [i32; 4], cx: &Context) -> usize {
    let low = cx.slot(slot).low;
    (0..3).map(|a| ((voxel[a] - low[a]) * source.strides[a]) as usize).sum()
}

/// A label, as stored.
///
/// # Safety
/// `p` can be read.
unsafe fn name_of<T: Voxel>(p: *const T) -> u64 {
    let p = p.cast::<u8>();
    // SAFETY: the caller's, for as many bytes as the type has.
    unsafe {
        match T::TYPE {
            VoxelType::Uint8 => u64::from(*p),
            VoxelType::Int8 => *p.cast::<i8>() as u64,
            VoxelType::Uint16 => u64::from(*p.cast::<u16>()),
            VoxelType::Int16 => *p.cast::<i16>() as u64,
            VoxelType::Uint32 => u64::from(*p.cast::<u32>()),
            VoxelType::Int32 => *p.cast::<i32>() as u64,
            VoxelType::Uint64 | VoxelType::Int64 => *p.cast::<u64>(),
            VoxelType::Float32 => *p.cast::<f32>() as i64 as u64,
            VoxelType::Float64 => *p.cast::<f64>() as i64 as u64,
        }
    }
}

/// The value at a sample, multiplied by the type's unit.
#[inline(always)]
fn value<T: SampledVoxel>(
    source: &RaySource,
    slot: usize,
    voxel: [i32; 4],
    place: [i32; 3],
    cx: &mut Context,
) -> Result<f32, Lack> {
    if source.nearest {
        let at = offset(source, slot, voxel, cx) + source.component;
        // SAFETY: the voxel is in the page, which is pinned while the context is borrowed.
        return Ok(unsafe { *cx.slot(slot).near[0].cast::<T>().add(at) }.to_f32() * T::UNIT);
    }
    let cell = cell::<T>(source, slot, voxel, cx)?;
    // SAFETY: pages stay pinned while the context is borrowed.
    Ok(between(unsafe { cell.of(source.component) }, place))
}

/// The cell of a sample and its place there. For nearest voxels it is not the voxel that was sampled.
fn in_cell(source: &RaySource, voxel: [i32; 4], place: [i32; 3]) -> ([i32; 4], [f32; 3]) {
    if !source.nearest {
        return (voxel, place.map(|p| p as f32 * PART));
    }
    let (mut cell, mut f) = (voxel, [0.0; 3]);
    for a in 0..3 {
        // Positions were shifted by half a voxel.
        let x = (place[a] as f32).mul_add(PART, -0.5) + voxel[a] as f32;
        let last = source.cells[a] as f32 - 1.0;
        let low = x.floor().clamp(0.0, last.max(0.0));
        cell[a] = low as i32;
        f[a] = (x - low).clamp(0.0, 1.0);
    }
    (cell, f)
}

/// Lights a sample, if there are lamps; `at` is its cell, and its place there.
#[inline(always)]
fn lit<T: SampledVoxel>(
    asked: &SampleRequest<'_>,
    e: TransferEntry,
    at: impl FnOnce() -> ([i32; 4], [f32; 3]),
    cx: &mut Context,
    of: impl Fn(*const T) -> f32,
) -> Result<SampleLight, Lack> {
    if asked.source.lamps.is_none() || e == TransferEntry::NOTHING {
        return Ok(SampleLight::Light(e));
    }
    shone_on::<T>(asked, e, at(), cx, of)
}

fn shone_on<T: SampledVoxel>(
    asked: &SampleRequest<'_>,
    e: TransferEntry,
    (voxel, f): ([i32; 4], [f32; 3]),
    cx: &mut Context,
    of: impl Fn(*const T) -> f32,
) -> Result<SampleLight, Lack> {
    let Some(lamps) = &asked.source.lamps else { return Ok(SampleLight::Light(e)) };
    let v = around::<T>(asked.source, voxel, cx, of)?;
    let mut g = gradient::<false>(&v, voxel, asked.source.cells, f);
    if T::FLOAT && g.iter().any(|g| g.is_nan()) {
        g = gradient::<true>(&v, voxel, asked.source.cells, f);
    }
    Ok(SampleLight::Light(lamps.lit(e, g, &asked.source.to_space, asked.forward)))
}

#[inline(always)]
fn plain<T: SampledVoxel>(
    asked: &SampleRequest<'_>,
    s: &RaySegment,
    k: i32,
    slot: usize,
    voxel: [i32; 4],
    place: [i32; 3],
    cx: &mut Context,
) -> Result<SampleLight, Lack> {
    let source = asked.source;
    let v = value::<T>(source, slot, voxel, place, cx)?;
    // SAFETY: voxels have the component, and `around` gives their places.
    let of = |p: *const T| unsafe { *p.add(source.component) }.to_f32();
    match source.projection {
        Projection::Maximum | Projection::Mean if v.is_nan() => Ok(SampleLight::Nothing(asked.n + 1)),
        Projection::Maximum | Projection::Mean => Ok(SampleLight::Number(v)),
        Projection::Composite => {
            let e = source.table.entries[source.table.index(v)];
            lit::<T>(asked, e, || in_cell(source, voxel, place), cx, of)
        }
        Projection::Surface { value: wanted } => {
            let wanted = wanted as f32 * T::UNIT;
            if !(v >= wanted) {
                return Ok(SampleLight::Nothing(asked.n + 1));
            }
            let [r, g, b, _] = source.table.entries[source.table.index(wanted)].0;
            let a = source.table.entries[source.table.index(wanted)].0[3];
            let whole = if a > 0.0 { 1.0 / a } else { 0.0 };
            let e = TransferEntry([r * whole, g * whole, b * whole, 1.0]);
            if source.lamps.is_none() {
                return Ok(SampleLight::Light(e));
            }
            // The value was reached between the sample before and this one: interpolate linearly.
            let before = if k > s.from {
                before::<T>(source, s, k - 1, cx)?
            } else if asked.n > asked.ray.first {
                // That is the last sample of the segment before.
                let number = (asked.n - 1).div_euclid(SEGMENT);
                let s = RaySegment::new(asked.ray, number, source.spans(), source.shift());
                let k = (asked.n - 1 - number * SEGMENT) as i32;
                if (s.from..s.to).contains(&k) {
                    before::<T>(source, &s, k, cx)?
                } else {
                    f32::NAN
                }
            } else {
                f32::NAN
            };
            let back = if before < wanted { (v - wanted) / (v - before) } else { 0.0 };
            let x = asked.ray.at(asked.n as f64 - f64::from(back));
            let (mut cell, mut f) = (voxel, [0.0; 3]);
            for a in 0..3 {
                let low = x[a].floor().clamp(0.0, (f64::from(source.cells[a]) - 1.0).max(0.0));
                cell[a] = low as i32;
                f[a] = (x[a] - low).clamp(0.0, 1.0) as f32;
            }
            lit::<T>(asked, e, || (cell, f), cx, of)
        }
    }
}

/// The value at another sample of a segment.
fn before<T: SampledVoxel>(source: &RaySource, s: &RaySegment, k: i32, cx: &mut Context) -> Result<f32, Lack> {
    let voxel = s.voxel(k).to_array();
    let first = source.array.translation.node([voxel[0] as u32, voxel[1] as u32, voxel[2] as u32]);
    let place = s.place(k).to_array().map(|p| p & (ONE - 1));
    let (low, _) = source.array.translation.extent(first.page);
    let mut corners = [core::ptr::null::<T>(); 8];
    let (mut need, mut failed) = (false, false);
    for (c, corner) in corners.iter_mut().enumerate() {
        let at: [i32; 3] = core::array::from_fn(|a| voxel[a] + i32::from(!source.nearest && c >> a & 1 == 1));
        let page = core::array::from_fn(|a| (at[a] / source.page[a] * source.page[a]) as u32);
        let number = if page == low { first.page } else { source.array.translation.node(page).page };
        match cx.look(source, number) {
            Ok(Some(p)) => {
                let element: i32 = (0..3).map(|a| (at[a] - page[a] as i32) * source.strides[a]).sum();
                // SAFETY: the voxel is in that page.
                *corner = unsafe { p.cast::<T>().add(element as usize + source.component) };
            }
            Ok(None) => failed = true,
            Err(id) => {
                cx.miss(id);
                need = true;
            }
        }
    }
    if need || failed {
        return Err(if need { Lack::Need } else { Lack::Failed });
    }
    // SAFETY: all were found, and their pages are pinned while the context is borrowed.
    let corners = corners.map(|p| unsafe { *p });
    if source.nearest {
        return Ok(corners[0].to_f32() * T::UNIT);
    }
    Ok(between(corners, [place[0], place[1], place[2]]))
}

/// Stored numbers of a voxel's colour.
///
/// # Safety
/// The voxel at `p` has these components.
#[inline(always)]
unsafe fn stored<T: SampledVoxel>(p: *const T, at: &[usize; 4]) -> F4 {
    // SAFETY: the caller's.
    let of = |c: usize| unsafe { *p.add(at[c]) }.to_f32();
    F4::from([of(0), of(1), of(2), of(3)])
}

/// Numbers of the corners of a cell, mixed for a place in it.
#[inline(always)]
fn mixed(corners: &[F4; 8], f: [f32; 4]) -> F4 {
    let mix = |a: F4, b: F4, f: f32| a.fma(F4::splat(f), b.sub(a));
    let row = |n: usize| mix(corners[2 * n], corners[2 * n + 1], f[0]);
    mix(mix(row(0), row(1), f[1]), mix(row(2), row(3), f[1]), f[2])
}

#[inline(always)]
fn coloured<T: SampledVoxel>(
    asked: &SampleRequest<'_>,
    colour: &Colour,
    slot: usize,
    voxel: [i32; 4],
    place: [i32; 3],
    cx: &mut Context,
) -> Result<SampleLight, Lack> {
    let source = asked.source;
    let numbers = if source.nearest {
        let at = offset(source, slot, voxel, cx);
        // SAFETY: the voxel is in the page, which is pinned while the context is borrowed.
        unsafe { stored(cx.slot(slot).near[0].cast::<T>().add(at), &colour.at) }.to_array()
    } else {
        let cell = cell::<T>(source, slot, voxel, cx)?;
        let f = I4::new([place[0], place[1], place[2], 0]).to_f4().mul(F4::splat(PART)).to_array();
        let mut corners = [F4::splat(0.0); 8];
        for (corner, p) in corners.iter_mut().zip(cell.0) {
            // SAFETY: pages stay pinned while the context is borrowed.
            *corner = unsafe { stored(p, &colour.at) };
        }
        let numbers = mixed(&corners, f);
        if colour.has_own_opacity() {
            colour
                .weighted(corners.map(F4::to_array), numbers.to_array(), |all| mixed(&all.map(F4::from), f).to_array())
        } else {
            numbers.to_array()
        }
    };
    // A colour with a NaN counts as missing: black would show before a bright background, and ranges omit NaN.
    let is_none = |numbers: &[f32; 4]| T::FLOAT && numbers.iter().any(|v| v.is_nan());
    if is_none(&numbers) {
        return Ok(SampleLight::Nothing(asked.n + 1));
    }
    let e = colour.entry(&source.table, colour.parts(numbers));
    lit::<T>(
        asked,
        e,
        || in_cell(source, voxel, place),
        cx,
        |p| {
            // SAFETY: `around` gives the places of voxels.
            let numbers = unsafe { stored(p, &colour.at) }.to_array();
            if is_none(&numbers) {
                f32::NAN
            } else {
                colour.measure(colour.parts(numbers))
            }
        },
    )
}

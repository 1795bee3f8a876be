//! What is to be seen, made ready: cameras as rays, transfer functions as tables.

use super::appearance::{Manner, Projection, VolumeAppearance};
use super::colour_rules::{tint, Tint};
use super::layers::VoxelRay;
use super::ray::{Ray, LONGEST_STEP};
use super::shade::Lamps;
use super::transfer::{room, TransferError, TransferTable};
use crate::draw::{Camera, CameraError, Lens};
use field::volume::{Placement, VolumeArray, VoxelType};
use glam::{DMat3, DVec3, Vec3};
use std::sync::Arc;

/// A picture of volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct RaySetting {
    /// Where one looks from.
    pub camera: Camera,
    /// Pixels across and down.
    pub size: [u32; 2],
    /// Length from a sample to the next.
    pub dt: f64,
    /// Opacities of transfer functions are those of this length.
    pub unit: f64,
    /// Leaves out what shows nothing without looking at it. The picture is the same without.
    pub skip: bool,
}

/// Why rays cannot be cast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SceneError {
    /// The camera makes no sense.
    #[error(transparent)]
    Camera(#[from] CameraError),
    /// A length that is none.
    #[error("{0} must be a positive number")]
    Length(&'static str),
    /// No such channel.
    #[error("the volume has no channel {0}")]
    Channel(usize),
    /// Channels that are one colour lie in arrays of their own.
    #[error("channels {0:?} are not stored side by side, so they are no colour; show them as channels of their own")]
    Apart(Vec<usize>),
    /// Maxima of what has no order.
    #[error("projections and surfaces are those of numbers: colours and labels are composited")]
    Projected,
    /// Nodes that make no sense.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// More than a picture takes.
    #[error("a picture takes {MOST_SOURCES} volumes and channels at most, not {0}")]
    Many(usize),
    /// Steps that leave out too much.
    #[error("steps of {dt} along rays are longer than {} voxels; take at most {most}", LONGEST_STEP)]
    LongSteps {
        /// What was asked for.
        dt: f64,
        /// What would do.
        most: f64,
    },
    /// The voxels do not span a space.
    #[error("the volume's axes do not span a space, or its voxels have no size")]
    Flat,
    /// Pages or axes too long for 32 bits.
    #[error("the volume has {0} voxels along an axis; rays take at most 2^30")]
    Long(u32),
}

/// Volumes and channels of a picture at most.
pub const MOST_SOURCES: usize = 16;

/// One channel, or colour, of one volume, as rays meet it.
pub(crate) struct RaySource {
    pub number: u32,
    pub array: VolumeArray,
    pub component: usize,
    pub step: u32,
    /// Cells along each axis.
    pub cells: [u32; 3],
    /// Elements of a page from a voxel to the next.
    pub strides: [i32; 3],
    /// What numbers are multiplied by when they come out of interpolation.
    pub unit: f32,
    /// Voxels of a page, and blocks.
    pub page: [i32; 3],
    pub blocks: [i32; 3],
    /// Blocks of pages are those of the whole volume: pages are whole blocks along each axis, or there is but one.
    pub blocks_align: bool,
    /// Voxels of a page whose cells lie in it, along each axis.
    pub inner: super::lanes::I4,
    pub table: TransferTable,
    /// Of 8-bit numbers: the next one from each on that is seen; 256 where there is none.
    pub next_seen: Option<Box<[u16; 256]>>,
    pub skip: bool,
    /// How numbers become colours, where that is not the table alone.
    pub tint: Tint,
    pub projection: Projection,
    pub nearest: bool,
    pub lamps: Option<Lamps>,
    /// From a gradient along i, j, k to one in space.
    pub to_space: DMat3,
    /// Takes a sample; see [`super::mixed`].
    pub sampler: super::multichannel::Sampler,
    look: usize,
}

impl RaySource {
    /// What is added to positions before they are rounded down.
    pub(crate) fn shift(&self) -> f64 {
        if self.nearest {
            0.5
        } else {
            0.0
        }
    }

    /// Voxels that samples stand in along each axis: cells, or the nearest voxels.
    pub(crate) fn spans(&self) -> [u32; 3] {
        if self.nearest {
            self.cells.map(|n| n + 1)
        } else {
            self.cells
        }
    }

    /// Whether it is one channel through a transfer function and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.tint, Tint::Plain)
            && self.projection == Projection::Composite
            && !self.nearest
            && self.lamps.is_none()
    }

    /// Whether rays may take its values out of bricks: it is plain, or the largest or mean value of one channel.
    pub(crate) fn by_bricks(&self) -> bool {
        self.is_plain() || self.is_projected()
    }

    /// Whether it is the largest or mean value of one channel.
    fn is_projected(&self) -> bool {
        let projects = matches!(self.projection, Projection::Maximum | Projection::Mean);
        projects && matches!(self.tint, Tint::Plain) && !self.nearest
    }

    /// Whether cells may show something whose numbers are in these ranges, by component. What it refuses contributes nothing.
    #[inline]
    pub(crate) fn shows(&self, range: impl Fn(usize) -> [f64; 2]) -> bool {
        let unit = f64::from(self.unit);
        match (&self.tint, self.projection) {
            (Tint::Plain, Projection::Composite) => {
                let [a, b] = range(self.component);
                self.table.shows((a * unit) as f32, (b * unit) as f32)
            }
            // Smaller values than the smallest that is seen change no maximum that is.
            (Tint::Plain, Projection::Maximum) => {
                let [a, b] = range(self.component);
                a <= b && self.table.shows_up_to((b * unit) as f32)
            }
            (_, Projection::Surface { value }) => {
                // In single precision, as samples are: a value may be a little more than what it is there.
                let [a, b] = range(self.component);
                let high = (b * unit) as f32;
                a <= b && high + room(high.abs().max(((a * unit) as f32).abs())) >= value as f32 * self.unit
            }
            (_, Projection::Mean) => true,
            (tint, _) => tint.shows(&self.table, range),
        }
    }

    /// Whether stored numbers from `low` to `high` show anything.
    #[inline(always)]
    pub(crate) fn seen<T: super::sample::SampledVoxel>(&self, low: T, high: T) -> bool {
        match &self.next_seen {
            // Of 8-bit numbers: the next one that is seen, from each on.
            Some(next) => u32::from(next[low.to_f32() as usize & 255]) <= high.to_f32() as u32,
            // As [`Self::shows`] has it.
            None if self.projection == Projection::Maximum => {
                low <= high && self.table.shows_up_to(high.to_f32() * T::UNIT)
            }
            None => super::empty_space::shows(&self.table, T::UNIT, low, high),
        }
    }
}

/// Affine map from space to voxel indices.
#[derive(Copy, Clone, Debug)]
struct Inverse {
    matrix: DMat3,
    origin: DVec3,
}

impl Inverse {
    fn of(p: &Placement) -> Option<Self> {
        let m = DMat3::from_cols_array_2d(&p.axes);
        let inverse = m.inverse();
        inverse.is_finite().then(|| Self { matrix: inverse, origin: DVec3::from_array(p.origin) })
    }
    fn point(&self, x: DVec3) -> DVec3 {
        self.matrix * (x - self.origin)
    }
}

/// The rays of a picture.
#[derive(Clone, Debug)]
pub(crate) struct View {
    eye: DVec3,
    axes: DMat3,
    /// Pixels a unit of slope (central), or of length (parallel).
    scale: f64,
    center: [f64; 2],
    parallel: bool,
}

impl View {
    pub(crate) fn new(camera: &Camera, size: [u32; 2]) -> Result<Self, CameraError> {
        camera.check()?;
        let [width, height] = size.map(f64::from);
        let (scale, parallel) = match camera.lens {
            Lens::Perspective { fov_degrees } => (height * 0.5 / (fov_degrees.to_radians() * 0.5).tan(), false),
            Lens::Orthographic { height: shown } => (height / shown, true),
        };
        Ok(Self {
            eye: DVec3::from_array(camera.position),
            axes: camera.axes(),
            scale,
            center: [camera.center[0] * width, camera.center[1] * height],
            parallel,
        })
    }

    /// Whether all rays have one direction.
    pub(crate) fn parallel(&self) -> bool {
        self.parallel
    }

    /// The line of sight.
    pub(crate) fn forward(&self) -> DVec3 {
        self.axes.z_axis
    }

    /// Where t = 0 is on the ray through a pixel position, and its direction, of length 1.
    pub(crate) fn ray(&self, u: f64, v: f64) -> (DVec3, DVec3) {
        let (a, b) = ((u - self.center[0]) / self.scale, (self.center[1] - v) / self.scale);
        if self.parallel {
            (self.eye + self.axes.x_axis * a + self.axes.y_axis * b, self.axes.z_axis)
        } else {
            (self.eye, (self.axes.x_axis * a + self.axes.y_axis * b + self.axes.z_axis).normalize())
        }
    }
}

/// What is to be seen, made ready.
pub struct Scene {
    pub(crate) setting: RaySetting,
    pub(crate) sources: Vec<RaySource>,
    view: View,
    looks: Vec<VolumeAppearance>,
    inverses: Vec<Inverse>,
}

impl Scene {
    /// Makes looks ready for a picture.
    ///
    /// # Errors
    /// [`SceneError`].
    pub fn new(setting: RaySetting, looks: Vec<VolumeAppearance>) -> Result<Arc<Self>, SceneError> {
        let view = View::new(&setting.camera, setting.size)?;
        if !(setting.dt > 0.0 && setting.dt.is_finite()) {
            return Err(SceneError::Length("the length of steps along rays"));
        }
        if !(setting.unit > 0.0 && setting.unit.is_finite()) {
            return Err(SceneError::Length("the unit of length of opacities"));
        }
        let (mut sources, mut inverses) = (Vec::new(), Vec::new());
        for (n, look) in looks.iter().enumerate() {
            inverses.push(Inverse::of(&look.level.placement).ok_or(SceneError::Flat)?);
            let spacing = look.level.placement.spacing();
            let least = spacing.into_iter().fold(f64::INFINITY, f64::min);
            if setting.dt > least * LONGEST_STEP {
                return Err(SceneError::LongSteps { dt: setting.dt, most: least * LONGEST_STEP });
            }
            if let Some(long) = look.level.dims.into_iter().find(|n| *n > 1 << 30) {
                return Err(SceneError::Long(long));
            }
            sources.push(source(&setting, look, n, &inverses[n])?);
        }
        if sources.len() > MOST_SOURCES {
            return Err(SceneError::Many(sources.len()));
        }
        Ok(Arc::new(Self { setting, sources, view, looks, inverses }))
    }

    /// Whether it is one channel through a transfer function and nothing else, which has a way of its own.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(&self.sources[..], [s] if s.is_plain())
    }

    /// Whether pixels are the largest or mean value of one channel.
    pub(crate) fn is_projected(&self) -> bool {
        matches!(&self.sources[..], [s] if s.is_projected())
    }

    /// Whether pixels show something that is known when a ray is at its end.
    pub fn projects(&self) -> bool {
        self.sources.iter().any(|s| matches!(s.projection, Projection::Maximum | Projection::Mean))
    }

    /// Whether some are means, of which more is to be known than the number so far.
    pub(super) fn sums(&self) -> bool {
        self.sources.iter().any(|s| s.projection == Projection::Mean)
    }

    /// Whether two sources are the same volume, or lie as if they were.
    pub(super) fn have_one_place(&self, a: &RaySource, b: &RaySource) -> bool {
        let [p, q] = [a, b].map(|s| &self.looks[s.look].level.placement);
        p == q
    }

    /// The line of sight through a place in the picture, in voxels of a source.
    pub(super) fn line(&self, source: &RaySource, x: f64, y: f64) -> VoxelRay {
        let inverse = &self.inverses[source.look];
        let (o, d) = self.view.ray(x, y);
        VoxelRay { origin: inverse.point(o).to_array(), step: (inverse.matrix * d).to_array() }
    }

    /// The ray of a pixel through a source.
    pub(crate) fn ray(&self, source: &RaySource, x: u32, y: u32) -> Ray {
        let look = &self.looks[source.look];
        let inverse = &self.inverses[source.look];
        let (o, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let dt = self.setting.dt;
        let origin = inverse.point(o);
        let step = inverse.matrix * d * dt;
        let mut t = Interval { low: if self.view.parallel { f64::NEG_INFINITY } else { 0.0 }, high: f64::INFINITY };
        for a in 0..3 {
            let mut ends = [0.0, f64::from(source.cells[a])];
            if let Some(v) = look.clip.voxels {
                ends = [ends[0].max(v[a][0]), ends[1].min(v[a][1])];
            }
            t.between(origin[a], step[a] / dt, ends);
        }
        if let Some([low, high]) = look.clip.within {
            (0..3).for_each(|a| t.between(o[a], d[a], [low[a], high[a]]));
        }
        for (normal, offset) in &look.clip.planes {
            let n = DVec3::from_array(*normal);
            t.between(n.dot(o), n.dot(d), [*offset, f64::INFINITY]);
        }
        if !(t.low < t.high) {
            return Ray::NONE;
        }
        let (begin, end) = (RayPosition::of(t.low / dt), RayPosition::of(t.high / dt));
        if begin.n == end.n {
            // No sample stands in so little: one is put in the middle of it.
            let (middle, length) = ((t.low + t.high) / (2.0 * dt), (t.high - t.low) / dt);
            let n = (middle - 0.5).round().clamp(-9e15, 9e15);
            let (origin, n) = (origin + step * (middle - 0.5 - n), n as i64);
            let ends = [((length - 1.0) * 0.5).clamp(-0.5, 0.5) as f32; 2];
            return Ray { origin: origin.to_array(), step: step.to_array(), first: n, last: n + 1, ends };
        }
        let ends = [-begin.beyond, end.beyond];
        Ray { origin: origin.to_array(), step: step.to_array(), first: begin.n, last: end.n, ends }
    }
}

/// A place on a ray.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
pub(crate) struct RayPosition {
    /// The first sample that lies beyond it.
    pub n: i64,
    /// How much farther it is than where the step of the sample before that ends, in steps: from -1/2 to 1/2.
    pub beyond: f32,
}

impl RayPosition {
    /// Before all.
    pub(crate) const NONE: Self = Self { n: i64::MIN, beyond: 0.0 };

    /// So many steps from where t = 0 is.
    fn of(steps: f64) -> Self {
        // Samples are what their numbers say up to 2^53; rounding of what is farther off means nothing any more.
        let n = (steps - 0.5).ceil().clamp(-9e15, 9e15);
        Self { n: n as i64, beyond: (steps - n).clamp(-0.5, 0.5) as f32 }
    }

    /// Ends a ray here, if it goes so far.
    pub(crate) fn end(self, ray: Ray) -> Ray {
        let own = Self { n: ray.last, beyond: ray.ends[1] };
        if self.n <= ray.first {
            Ray { last: ray.first.min(ray.last), ..ray }
        } else if self < own {
            Ray { last: self.n, ends: [ray.ends[0], self.beyond], ..ray }
        } else {
            ray
        }
    }
}

impl Scene {
    /// Of a pixel, from a depth along the line of sight to where that is on its ray.
    pub(crate) fn place_of(&self, x: u32, y: u32) -> impl Fn(f64) -> RayPosition + '_ {
        let (_, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let cosine = d.dot(self.view.axes.z_axis);
        move |depth| {
            let t = depth / cosine;
            if t > 0.0 || self.view.parallel && t > f64::NEG_INFINITY {
                RayPosition::of(t / self.setting.dt)
            } else {
                RayPosition::NONE
            }
        }
    }

    /// Between which depths along the line of sight the ray of a pixel goes through what is shown, to within a step; none where it misses it.
    pub fn depths(&self, x: u32, y: u32) -> Option<[f64; 2]> {
        let rays = self.sources.iter().map(|source| self.ray(source, x, y)).filter(|ray| ray.first < ray.last);
        let steps = rays.map(|ray| [ray.first, ray.last]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])?;
        let (_, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        Some(steps.map(|n| n as f64 * self.setting.dt * d.dot(self.view.axes.z_axis)))
    }

    /// A ray of a pixel without what lies beyond a depth along the line of sight.
    pub(crate) fn ending(&self, ray: Ray, x: u32, y: u32, depth: f64) -> Ray {
        match self.place_of(x, y)(depth) {
            RayPosition::NONE => Ray::NONE,
            place => place.end(ray),
        }
    }
}

impl Scene {
    /// Along the ray of a pixel.
    pub(crate) fn forward(&self, x: u32, y: u32) -> Vec3 {
        self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5).1.as_vec3()
    }
}

struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    /// Keeps where `o + t d` lies between two ends.
    fn between(&mut self, o: f64, d: f64, [low, high]: [f64; 2]) {
        if d == 0.0 {
            if !(o >= low && o <= high) {
                self.high = f64::NEG_INFINITY;
            }
            return;
        }
        let (a, b) = ((low - o) / d, (high - o) / d);
        self.low = self.low.max(a.min(b));
        self.high = self.high.min(a.max(b));
    }
}

fn source(setting: &RaySetting, look: &VolumeAppearance, n: usize, inverse: &Inverse) -> Result<RaySource, SceneError> {
    let Manner { projection, nearest, shading, unit: length } = &look.manner;
    let made = tint(look)?;
    let array = made.array;
    let unit = match array.brick.voxel {
        _ if !matches!(made.tint, Tint::Plain) => 1.0,
        VoxelType::Uint8 => <u8 as super::sample::SampledVoxel>::UNIT,
        VoxelType::Uint16 => <u16 as super::sample::SampledVoxel>::UNIT,
        VoxelType::Int16 => <i16 as super::sample::SampledVoxel>::UNIT,
        _ => 1.0,
    };
    let length = length.unwrap_or(setting.unit);
    if !(length > 0.0 && length.is_finite()) {
        return Err(SceneError::Length("the unit of length of opacities"));
    }
    // Of a projection opacities are those of the pixel.
    let ratio = if matches!(projection, Projection::Maximum | Projection::Mean) { 1.0 } else { setting.dt / length };
    let table = TransferTable::new(&made.transfer, ratio, unit);
    let maximum = *projection == Projection::Maximum;
    let plain = matches!(made.tint, Tint::Plain) && (maximum || *projection == Projection::Composite);
    let next_seen = (plain && array.brick.voxel == VoxelType::Uint8).then(|| {
        let mut next = Box::new([256u16; 256]);
        for v in 0..256usize {
            let shows = |high: f32| if maximum { table.shows_up_to(high) } else { table.shows(v as f32 * unit, high) };
            let seen = (v..256).find(|h| shows(*h as f32 * unit));
            next[v] = seen.map_or(256, |h| h as u16);
        }
        next
    });
    let page = array.brick.page.map(|n| n as i32);
    let [pi, pj, pk] = page;
    let c = array.brick.components as i32;
    Ok(RaySource {
        number: n as u32,
        component: made.component,
        step: if array.steady { 0 } else { look.step },
        cells: look.level.dims.map(|n| n.saturating_sub(1)),
        strides: [c, c * pi, c * pi * pj],
        unit,
        page,
        blocks: array.brick.blocks().map(|n| n as i32),
        blocks_align: (0..3).all(|a| {
            let page = array.brick.page[a];
            page.is_multiple_of(field::volume::BLOCK as u32) || page >= look.level.dims[a]
        }),
        inner: super::lanes::I4::new([pi - 1, pj - 1, pk - 1, 0]),
        table,
        next_seen,
        skip: setting.skip && *projection != Projection::Mean,
        nearest: *nearest || matches!(made.tint, Tint::Labels(_)),
        tint: made.tint,
        projection: *projection,
        lamps: shading.as_ref().map(Lamps::of),
        to_space: inverse.matrix.transpose(),
        sampler: super::multichannel::sampler(array.brick.voxel),
        look: n,
        array: array.clone(),
    })
}

impl Scene {
    /// Pixels across and down.
    pub fn size(&self) -> [u32; 2] {
        self.setting.size
    }

    /// Bytes of the pages of all its sources.
    pub fn page_bytes(&self) -> u64 {
        let of = |s: &RaySource| {
            let pages = s.array.translation.pages.iter().fold(1u64, |n, pages| n.saturating_mul(u64::from(*pages)));
            pages.saturating_mul(s.array.brick.bytes() as u64)
        };
        self.sources.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Bytes of the largest page of any source.
    pub fn largest_page(&self) -> usize {
        largest_page(&self.sources)
    }
}

/// Bytes of the largest page of any of these, one at least.
pub(super) fn largest_page(sources: &[RaySource]) -> usize {
    sources.iter().map(|s| s.array.brick.bytes()).fold(1, usize::max)
}

//! What is to be seen, made ready: cameras as rays, transfer functions as tables.

use super::ray::{Ray, LONGEST_STEP};
use super::transfer::{Table, TransferFunction};
use crate::draw::{Camera, CameraError, Lens};
use field::volume::{Placement, VolumeArray, VolumeLevel, VoxelType};
use glam::{DMat3, DVec3};
use std::sync::Arc;

/// What limits a volume in space; all of it holds at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clip {
    /// Planes, each a normal and an offset: what lies at `x . normal < offset` is cut away.
    pub planes: Vec<([f64; 3], f64)>,
    /// A box in space: its lower and its higher corner.
    pub within: Option<[[f64; 3]; 2]>,
    /// First and last voxel along i, j, k: a range of slices, say. The ends count.
    pub voxels: Option<[[f64; 2]; 3]>,
}

/// How a volume is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Paint {
    /// A channel through a transfer function.
    Scalar {
        /// The channel.
        channel: usize,
        /// Over its stored numbers.
        transfer: TransferFunction,
    },
}

/// A volume, and how it is shown.
#[derive(Clone, Debug)]
pub struct Look {
    /// The level of it that is sampled.
    pub level: VolumeLevel,
    /// Time step.
    pub step: u32,
    /// Colours.
    pub paint: Paint,
    /// What is cut away.
    pub clip: Clip,
}

/// A picture of volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
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

/// One channel of one volume, as rays meet it.
pub(crate) struct Source {
    pub number: u32,
    pub array: VolumeArray,
    pub component: usize,
    pub step: u32,
    /// Cells along each axis.
    pub cells: [u32; 3],
    /// Elements of a page from a voxel to the next.
    pub strides: [i32; 3],
    /// Voxels of a page, and blocks.
    pub page: [i32; 3],
    pub blocks: [i32; 3],
    /// Voxels of a page whose cells lie in it, along each axis.
    pub inner: super::lanes::I4,
    pub table: Table,
    /// Of 8-bit numbers: the next one from each on that is seen; 256 where there is none.
    pub next_seen: Option<Box<[u16; 256]>>,
    pub skip: bool,
    look: usize,
}

impl Source {
    /// Whether stored numbers from `low` to `high` show anything.
    #[inline(always)]
    pub(crate) fn seen<T: super::sample::Sampled>(&self, low: T, high: T) -> bool {
        match &self.next_seen {
            // Of 8-bit numbers: the next one that is seen, from each on.
            Some(next) => u32::from(next[low.to_f32() as usize & 255]) <= high.to_f32() as u32,
            None => super::skip::shows(&self.table, T::UNIT, low, high),
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
    fn new(camera: &Camera, size: [u32; 2]) -> Result<Self, CameraError> {
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
    pub(crate) setting: Setting,
    pub(crate) sources: Vec<Source>,
    view: View,
    looks: Vec<Look>,
    inverses: Vec<Inverse>,
}

impl Scene {
    /// Makes looks ready for a picture.
    ///
    /// # Errors
    /// [`SceneError`].
    pub fn new(setting: Setting, looks: Vec<Look>) -> Result<Arc<Self>, SceneError> {
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
            let Paint::Scalar { channel, transfer } = &look.paint;
            let (array, component) = look.level.channel(*channel).ok_or(SceneError::Channel(*channel))?;
            sources.push(source(&setting, look, n, sources.len(), array, component, transfer));
        }
        Ok(Arc::new(Self { setting, sources, view, looks, inverses }))
    }

    /// The ray of a pixel through a source.
    pub(crate) fn ray(&self, source: &Source, x: u32, y: u32) -> Ray {
        let look = &self.looks[source.look];
        let inverse = &self.inverses[source.look];
        let (o, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let dt = self.setting.dt;
        let origin = inverse.point(o);
        let step = inverse.matrix * d * dt;
        let mut t = Interval { low: if self.view.parallel { f64::NEG_INFINITY } else { 0.0 }, high: f64::INFINITY };
        for a in 0..3 {
            let mut ends = [0.0, f64::from(look.level.dims[a]) - 1.0];
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
        // Samples are what their numbers say up to 2^53; rounding of what is farther off means nothing any more.
        let number = |t: f64| (t / dt - 0.5).ceil().clamp(-9e15, 9e15) as i64;
        Ray { origin: origin.to_array(), step: step.to_array(), first: number(t.low), last: number(t.high) }
    }
}

impl Scene {
    /// A ray of a pixel without its samples beyond a depth along the line of sight.
    pub(crate) fn ending(&self, ray: Ray, x: u32, y: u32, depth: f64) -> Ray {
        let (_, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let t = depth / d.dot(self.view.axes.z_axis);
        if !(t > 0.0 || self.view.parallel && t > f64::NEG_INFINITY) {
            return Ray::NONE;
        }
        let last = (t / self.setting.dt - 0.5).ceil().clamp(-9e15, 9e15) as i64;
        Ray { last: ray.last.min(last.max(ray.first)), ..ray }
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

fn source(
    setting: &Setting,
    look: &Look,
    n: usize,
    number: usize,
    array: &VolumeArray,
    component: usize,
    transfer: &TransferFunction,
) -> Source {
    let unit = match array.brick.voxel {
        VoxelType::Uint8 => <u8 as super::sample::Sampled>::UNIT,
        VoxelType::Uint16 => <u16 as super::sample::Sampled>::UNIT,
        VoxelType::Int16 => <i16 as super::sample::Sampled>::UNIT,
        _ => 1.0,
    };
    let table = Table::new(transfer, setting.dt / setting.unit, unit);
    let next_seen = (array.brick.voxel == VoxelType::Uint8).then(|| {
        let mut next = Box::new([256u16; 256]);
        for v in 0..256usize {
            let seen = (v..256).find(|h| table.shows(v as f32 * unit, *h as f32 * unit));
            next[v] = seen.map_or(256, |h| h as u16);
        }
        next
    });
    let page = array.brick.page.map(|n| n as i32);
    let [pi, pj, pk] = page;
    let c = array.brick.components as i32;
    Source {
        number: number as u32,
        component,
        step: if array.steady { 0 } else { look.step },
        cells: look.level.dims.map(|n| n.saturating_sub(1)),
        strides: [c, c * pi, c * pi * pj],
        page,
        blocks: array.brick.blocks().map(|n| n as i32),
        inner: super::lanes::I4::new([pi - 1, pj - 1, pk - 1, 0]),
        table,
        next_seen,
        skip: setting.skip,
        look: n,
        array: array.clone(),
    }
}

impl Scene {
    /// Pixels across and down.
    pub fn size(&self) -> [u32; 2] {
        self.setting.size
    }
}

//! Isosurfaces and cutting planes of datasets and of volumes.
//!
//! # Theory
//! See [`kernels::surface`]. A zone is divided into blocks of 64^3 cells, each a task of the executor. Pieces are
//! passed on block by block, zone after zone. Their order and every bit are the same for any limit, pages, or number of
//! workers. A surface may be larger than memory: only the borders between blocks are kept.
//!
//! Blocks and pages that cannot be crossed are ruled out by stored ranges of pages, and not read.
//!
//! # Practice
//! [`run_volume`] for a level of a volume, [`run`] for a dataset. Both pass pieces to a function.

mod abutting;
mod connected;
mod context;
mod files;
mod grid;
pub(crate) mod job;
pub mod options;
mod sampler;
mod sink;
mod spill;
mod stage;
mod task;
mod volume;
mod zone;

use abutting::Across;
use connected::{ConnectedRegion, Joint, PartGrowth, Seeds, ZonePoint};
use field::catalog::DType;
use field::dataset::Dataset;
use field::error::FieldError;
use field::volume::VolumeLevel;
pub use files::in_units;
pub use files::{of_channel, write, write_volume};
use grid::Grid;
use kernels::surface::{blocks, Plane};
use output::{MemoryAccount as _, SpoolOptions};
use pager::{ArrayId, PageId, Pager};
use runtime::blocking::BlockingFlow;
use runtime::executor::{self, RunLoad, RunStats};
use runtime::ledger_share::LedgerShare;
use runtime::limits::{enough_limit, least_limit, more_than, would_do};
use runtime::session::{ProgressWatch, Session};
use runtime::values::probe;
use sink::PieceSink;
pub use sink::{Drawn, TakePiece};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use task::{block_bytes, Contouring};
use volume::{Sought, VolumeGrid};

/// A surface of a level of a volume.
#[derive(Clone, Debug)]
pub enum VolumeWhat {
    /// An isosurface of a channel at these stored values.
    Iso {
        /// The channel.
        channel: usize,
        /// The values.
        values: Vec<f64>,
    },
    /// A plane.
    Plane {
        /// A point on it.
        origin: [f64; 3],
        /// Its normal, of any length but 0.
        normal: [f64; 3],
    },
}

/// Options of a surface of a level of a volume.
#[derive(Clone, Debug)]
pub struct VolumeContour {
    /// The surface.
    pub what: VolumeWhat,
    /// Channels at the points, in single precision.
    pub channels: Vec<usize>,
    /// Whether points have normals.
    pub normals: bool,
    /// Restricts an isosurface to the connected part nearest to this point. Without a value the value is that of the
    /// point.
    pub near: Option<[f64; 3]>,
    /// Time step.
    pub step: usize,
    /// Directory of pieces that wait when memory is short; `None`: that of temporary files.
    pub spill: Option<PathBuf>,
}

/// The result of a run, and its statistics.
#[derive(Clone, Debug, Default)]
pub struct Contoured {
    /// The result.
    pub drawn: Drawn,
    /// Statistics of the run.
    pub run: RunStats,
    /// Zones omitted because they are one point thick.
    pub thin_zones: usize,
}

impl Contoured {
    /// Whether a part is missing.
    pub fn partial(&self) -> bool {
        self.drawn.failed_pages > 0
    }
}

/// Draws a surface of a level of a volume. `watch` gets the number of finished blocks and of all; when it returns false
/// the run stops.
///
/// # Errors
/// [`FieldError::Usage`] for values of NaN, unknown channels, a plane without a direction, or a level one voxel thick.
/// [`FieldError::LimitTooSmall`]; errors of `each`; [`FieldError::Interrupted`].
pub fn run_volume(
    pager: &Arc<Pager>,
    workers: usize,
    level: &VolumeLevel,
    spec: &VolumeContour,
    each: &mut TakePiece<'_>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Contoured, FieldError> {
    let step = spec.step as u32;
    let place = spec.near.map(|x| volume::place(level, x)).transpose()?;
    let sought = match &spec.what {
        VolumeWhat::Iso { channel, values } => match (&values[..], place) {
            ([], Some(place)) => Sought::Values(*channel, vec![volume::value_at(pager, level, *channel, place, step)?]),
            _ => Sought::Values(*channel, checked(values)?),
        },
        VolumeWhat::Plane { origin, normal } => Sought::Plane(plane(*origin, *normal, Plane::TOLERANCES[1])?),
    };
    let bare: Vec<Box<dyn Grid + '_>> = vec![Box::new(VolumeGrid::new(level, sought.clone(), &[], step, false)?)];
    let grid = VolumeGrid::new(level, sought, &spec.channels, step, spec.normals)?;
    let grids: Vec<Box<dyn Grid + '_>> = vec![Box::new(grid)];
    let near =
        spec.near.zip(place).map(|(x, index)| Near { grid: 0, at: ZonePoint { index, x }, bare: &bare, across: None });
    let job = ContourJob { pager, workers, grids: &grids, near, spill: spec.spill.clone() };
    job.draw(each, &mut |_, done, all| watch(done, all))
}

/// A surface of a dataset.
#[derive(Clone, Debug)]
pub enum ContourKind {
    /// An isosurface of a scalar field at these values.
    Iso {
        /// The field.
        field: String,
        /// The values.
        values: Vec<f64>,
    },
    /// A plane.
    Plane {
        /// A point on it.
        origin: [f64; 3],
        /// Its normal, of any length but 0.
        normal: [f64; 3],
    },
}

/// Options of a surface of a dataset.
#[derive(Clone, Debug)]
pub struct ContourSpec {
    /// The surface.
    pub what: ContourKind,
    /// Fields at the points, in single precision. Every drawn zone must have them.
    pub scalars: Vec<String>,
    /// Whether points have normals.
    pub normals: bool,
    /// Restricts an isosurface to the connected part nearest to this point, also through abutting zones. Without a
    /// value the value is that of the point.
    pub near: Option<[f64; 3]>,
    /// Time step.
    pub step: usize,
    /// Directory of pieces that wait when memory is short; `None`: that of temporary files.
    pub spill: Option<PathBuf>,
}

/// Draws a surface of the zones of a dataset with the field and more than one point thick. `watch` gets the number of
/// finished blocks and of all; when it returns false the run stops.
///
/// # Errors
/// [`FieldError`] for unknown names, or names lacking in a drawn zone; for values of NaN; for a dataset of thin zones
/// only. Also for a limit that is too small, errors of `each`, and [`FieldError::Interrupted`].
pub fn run(
    session: &Session,
    spec: &ContourSpec,
    each: &mut TakePiece<'_>,
    watch: &mut ProgressWatch<'_>,
) -> Result<Contoured, FieldError> {
    session.dataset().check_step(spec.step)?;
    let mut names = spec.scalars.clone();
    if let ContourKind::Iso { field, .. } = &spec.what {
        names.push(field.clone());
    }
    session.derive(&names)?;
    let dataset = match spec.near {
        Some(_) => session.located(watch)?,
        None => session.dataset(),
    };
    let sought = match &spec.what {
        ContourKind::Iso { field, values } => {
            if dataset.zones_with(field).next().is_none() {
                return Err(dataset.unknown_field(field));
            }
            match (&values[..], spec.near) {
                ([], Some(x)) => {
                    zone::Sought::Values(field.clone(), vec![value_at(session, field, x, spec.step, watch)?])
                }
                _ => zone::Sought::Values(field.clone(), checked(values)?),
            }
        }
        ContourKind::Plane { origin, normal } => {
            let double = dataset.zones.iter().all(|z| z.arrays[z.xyz].dtype == DType::Float64);
            zone::Sought::Plane(plane(*origin, *normal, Plane::TOLERANCES[usize::from(double)])?)
        }
    };
    let definitions = session.definitions();
    let (pager, step) = (&session.pager, spec.step);
    let common = zone::ZoneRun { dataset: &dataset, definitions: &definitions, pager, sought: &sought, step };
    let mut grids: Vec<Box<dyn Grid + '_>> = Vec::new();
    let mut thin = 0;
    for (n, z) in dataset.zones.iter().enumerate() {
        let has = match &sought {
            zone::Sought::Values(field, _) => dataset.quantity(n, field).is_ok(),
            zone::Sought::Plane(_) => true,
        };
        if z.thin().contains(&true) {
            thin += usize::from(has);
        } else if has {
            grids.push(Box::new(zone::ZoneGrid::new(common.clone(), n, &spec.scalars, spec.normals)?));
        }
    }
    if grids.is_empty() {
        let what = "every zone that has the field is one point thick: it has no surfaces there, only lines";
        return Err(FieldError::Usage(what.into()));
    }
    let mut bare: Vec<Box<dyn Grid + '_>> = Vec::new();
    let near = match spec.near {
        Some(x) => {
            let (grid, index) = near(session, &dataset, &grids, x, spec.step)?;
            for g in &grids {
                bare.push(Box::new(zone::ZoneGrid::new(common.clone(), g.zone(), &[], false)?));
            }
            let across = match &sought {
                zone::Sought::Values(field, values) => {
                    Some(Across::new(session, &dataset, &grids, (field, values), spec.step)?)
                }
                zone::Sought::Plane(_) => None,
            };
            Some(Near { grid, at: ZonePoint { index, x }, bare: &bare, across })
        }
        None => None,
    };
    let mut told = |phase: &str, done: u64, all: u64| watch(phase, done as f64, all as f64);
    let job =
        ContourJob { pager, workers: session.resources.threads(), grids: &grids, near, spill: spec.spill.clone() };
    let made = job.draw(each, &mut told)?;
    session.add_wait(made.run.wait_s);
    Ok(Contoured { thin_zones: thin, ..made })
}

/// Values for which a surface can be drawn.
fn checked(values: &[f64]) -> Result<Vec<f64>, FieldError> {
    if values.is_empty() {
        return Err(FieldError::Usage("an isosurface needs a value".into()));
    }
    match values.iter().find(|v| !v.is_finite()) {
        Some(v) => Err(FieldError::Usage(format!("{v} is no value of which there is an isosurface"))),
        None => {
            // A repeated surface would have all its points twice.
            let mut once: Vec<f64> = Vec::with_capacity(values.len());
            for value in values {
                if !once.contains(value) {
                    once.push(*value);
                }
            }
            Ok(once)
        }
    }
}

/// A plane from a normal of any length.
fn plane(origin: [f64; 3], normal: [f64; 3], tolerance: f64) -> Result<Plane, FieldError> {
    let most = normal.iter().fold(0.0, |m: f64, c| m.max(c.abs()));
    let known = |v: &[f64; 3]| v.iter().all(|c| c.is_finite());
    if !(known(&origin) && known(&normal) && most > 0.0) {
        return Err(FieldError::Usage("a plane needs a point and a normal that is not 0".into()));
    }
    let normal = normal.map(|c| c / most);
    let length = normal.iter().map(|c| c * c).sum::<f64>().sqrt();
    Ok(Plane { origin, normal: normal.map(|c| c / length), tolerance })
}

/// Bytes of pages that a step requests together: enough to keep readers busy, and no more than an elder may hold.
fn at_once(limit: u64) -> u64 {
    (limit / 64).clamp(64 << 10, 4 << 20)
}

/// Most active tasks: enough for readers and workers. More would only use memory.
const MOST_ACTIVE: u64 = 32;

/// Temporary bytes of a step of a block, and of passing it on, which are not charged separately: growing triangles,
/// values beside their vertices. For blocks of a plane they exceed half a mebibyte a thread. With that reserve, a slice
/// of 3840 x 2160 pixels was 0.1 MiB over the limit. This reserve is held during drawing, at most up to the given part
/// of the limit.
const FOR_A_MOMENT: u64 = 1 << 20;
const OF_MOMENTS: u64 = 64;

/// The part of a surface to be drawn.
struct Near<'a> {
    /// The point to which it is nearest, and its grid.
    at: ZonePoint,
    grid: usize,
    /// The grids with the surface's field only: the choice of the part does not depend on other fields.
    bare: &'a [Box<dyn Grid + 'a>],
    /// Its continuation in other grids.
    across: Option<Across<'a>>,
}

/// The grids and options of a run.
struct ContourJob<'a> {
    pager: &'a Arc<Pager>,
    workers: usize,
    grids: &'a [Box<dyn Grid + 'a>],
    near: Option<Near<'a>>,
    spill: Option<PathBuf>,
}

/// Progress: a phase, the finished work and all of it.
type PhaseProgress<'a> = dyn FnMut(&str, u64, u64) -> bool + 'a;

impl ContourJob<'_> {
    fn draw(self, each: &mut TakePiece<'_>, told: &mut PhaseProgress<'_>) -> Result<Contoured, FieldError> {
        let Self { pager, workers, grids, near, spill } = self;
        let limit = pager.ledger().limit();
        let reads = || grids.iter().flat_map(|g| g.sign_reads().into_iter().chain(g.value_reads()));
        let page = reads().map(|r| r.bytes).max().unwrap_or(0);
        let making = reads().map(|r| r.making).max().unwrap_or(0);
        let block = grids.iter().map(|g| block_bytes(&**g)).max().unwrap_or(0);
        let least = least_limit(2 * page + making + block);
        if limit < least {
            let needs = enough_limit(4 * page + making + workers as u64 * (page + 4 * block)).max(least);
            let what = "a page of each field and a block of the surface".into();
            return Err(FieldError::LimitTooSmall { limit, needs, what });
        }
        let mut firsts = Vec::with_capacity(grids.len());
        let mut tasks = 0u64;
        for g in grids {
            firsts.push(tasks);
            tasks += blocks(g.dims()).iter().map(|n| u64::from(*n)).product::<u64>();
        }
        let step = at_once(limit).max(page);
        let active = |limit: u64| {
            let most = MOST_ACTIVE.max(2 * workers as u64);
            (limit / 2 / (step + 4 * block)).clamp(2 * workers as u64, most) as usize
        };
        // Without room for it, blocks have less for themselves, too.
        let mut moments = LedgerShare::new(pager.clone());
        let _held_back = moments.try_charge(workers * FOR_A_MOMENT.min(limit / OF_MOMENTS) as usize);
        let directory = spill.unwrap_or_else(|| SpoolOptions::spill_directory(None));
        let mut sink = PieceSink::new(grids, pager, &directory, each)?;
        let mut _held = Vec::new();
        let parts = match near {
            Some(Near { grid: n, at, bare, mut across }) => {
                let mut parts: Vec<Vec<ConnectedRegion>> = Vec::new();
                parts.resize_with(grids.len(), Vec::new);
                for value in 0..grids[n].values() {
                    parts.iter_mut().for_each(|of| of.push(ConnectedRegion::default()));
                    // The parts of zones in their order: the place of growth does not depend on the order of joints.
                    let mut seeds = BTreeMap::from([(n, Seeds::Nearest(at))]);
                    let mut before = 0;
                    while let Some((n, from)) = seeds.pop_first() {
                        let grid = &*bare[n];
                        let Some(reads) = grid.sign_reads().filter(|_| !grid.is_plane()) else {
                            return Err(FieldError::Usage("of a plane there is no part near a point".into()));
                        };
                        let part = core::mem::take(&mut parts[n][value]);
                        let mut cells = 0;
                        let mut grown =
                            PartGrowth::new(grid, reads, value, pager, step, part).grow(&from, &mut |found| {
                                cells = found;
                                told("growing", before + found, 0)
                            })?;
                        before += cells;
                        sink.failed(core::mem::take(&mut grown.part.failed));
                        parts[n][value] = grown.part;
                        _held.push(grown.share);
                        let Some(across) = &mut across else { continue };
                        for exit in grown.exits {
                            for (other, joint) in across.beyond(n, value, exit)? {
                                add_joint(&mut seeds, other, joint);
                            }
                            if !told("growing", before, 0) {
                                return Err(FieldError::Interrupted);
                            }
                        }
                    }
                }
                if let Some(across) = across {
                    // They have no page of a grid: each gets a number that no page has.
                    let lost = across.lost.into_iter().enumerate();
                    sink.failed(lost.map(|(n, e)| (PageId::new(ArrayId(u32::MAX), 0, n as u64), e)).collect());
                }
                Some(parts)
            }
            None => None,
        };
        let (sink, largest) = (Mutex::new(sink), AtomicUsize::new(0));
        let work = Contouring {
            pager,
            grids,
            firsts: &firsts,
            at_once: step,
            active: &active,
            parts: parts.as_deref(),
            sink: &sink,
            largest: &largest,
        };
        let load = RunLoad { tasks, workers, active: active(limit) };
        let run = executor::run(&work, pager, load, &mut |done| told("drawing", done, tasks));
        let run = run.map_err(|e| match more_than(e, limit + limit / 2) {
            // The refused charge is a part of a block's need up to its hand-over.
            FieldError::LimitTooSmall { limit, needs, .. } => {
                let whole = largest.load(Relaxed) as u64 + 2 * page + making + block;
                let needs = needs.max(would_do(pager, whole));
                FieldError::LimitTooSmall { limit, needs, what: "a block of the surface with its points".into() }
            }
            e => e,
        })?;
        let drawn = sink.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        Ok(Contoured { drawn, run, thin_zones: 0 })
    }
}

/// Adds a place where a part continues in another grid.
fn add_joint(seeds: &mut BTreeMap<usize, Seeds>, grid: usize, joint: Joint) {
    match seeds.entry(grid).or_insert_with(|| Seeds::Joints(Vec::new())) {
        Seeds::Joints(joints) => joints.push(joint),
        // The first seed is used before any joint comes.
        Seeds::Nearest(_) => {}
    }
}

/// The value of a scalar field at a point.
fn value_at(
    session: &Session,
    field: &str,
    x: [f64; 3],
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<f64, FieldError> {
    let found = probe(session, x, Some(&[field.to_owned()]), step, watch)?;
    let value = found.as_ref().and_then(|p| p.values.first()).and_then(|(_, v)| v.first());
    match value {
        Some(v) if v.is_finite() => Ok(*v),
        Some(v) => Err(FieldError::Usage(format!("'{field}' is {v} at the point: say a value"))),
        None => Err(outside(x)),
    }
}

fn outside(x: [f64; 3]) -> FieldError {
    FieldError::Usage(format!("the point ({}, {}, {}) lies in no zone", x[0], x[1], x[2]))
}

/// The grid of a point, and its place in the computational space.
fn near(
    session: &Session,
    dataset: &Dataset,
    grids: &[Box<dyn Grid + '_>],
    x: [f64; 3],
    step: usize,
) -> Result<(usize, [f64; 3]), FieldError> {
    let fields = dataset.fields_by_zone(step, &|_| Vec::new())?;
    let spot = BlockingFlow::new(session, dataset, fields, step)?.until_here(|f| f.start(x))?;
    let spot = spot.ok_or_else(|| outside(x))?;
    let zone = spot.cell.zone as usize;
    let grid = grids.iter().position(|g| g.zone() == zone).ok_or_else(|| {
        FieldError::Usage(format!("{} has no surface of the field near the point", dataset.zones[zone].name))
    })?;
    Ok((grid, spot.index()))
}

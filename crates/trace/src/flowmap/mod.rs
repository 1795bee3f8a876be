//! Flow maps: end points of the particles of a grid of seeds, their residence times, and the stretching of their
//! surroundings.
//!
//! # Theory
//! No computation has more particles, so only files grow with their number. Seeds are numbers, not lists. They are
//! traced block by block, and each block is a shard of the result. A block's particles go together from one time of the
//! series to the next ([`crate::advect`]), as many at a time as fit. So each block reads the pages that it touches once
//! a time step. A particle keeps only its place and time.
//!
//! Exponents ([`ftle`]) are differences between neighbours, which may lie in other blocks. So end points go to an
//! unnamed file beside the result. A second pass reads each block of it with one layer of seeds around. With an offset,
//! each seed has neighbours of its own, released beside it. That is the auxiliary grid of M. Farazmand and G. Haller,
//! Computing Lagrangian coherent structures from their variational theory, Chaos 22, 2012. It needs no second pass.
//!
//! Invariant: the result depends on seeds and data alone. The grid of seeds determines the blocks, never the memory
//! limit.

pub mod ftle;
mod grid;
mod options;
mod volume;

pub use grid::{SeedAxis, SeedGrid};

use crate::advect::{Flock, March};
use crate::seeds::Seeds;
use crate::{OverTime, PathSpec, TraceSpec};
use field::error::FieldError;
use ftle::{exponent, quotient};
use kernels::particle::Particle;
use kernels::streamline::{Direction, Options, Seed};
use output::Reason;
use runtime::limits::charge_other;
use runtime::session::{ProgressWatch, Session};
use serde_json::{json, Map, Value};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use volume::{Volume, VolumeArray};

/// The specification of a flow map.
#[derive(Clone, Debug)]
pub struct FlowMapSpec {
    /// The seeds.
    pub grid: SeedGrid,
    /// The vector's name.
    pub field: String,
    /// Options of integration. The direction is that of time; both means from the first time to the second and back.
    pub options: Options,
    /// Times of the particles.
    pub path: PathSpec,
    /// Quantities of the result.
    pub quantities: Vec<MapQuantity>,
    /// A box that ends particles which leave it; `None`: the dataset's grid.
    pub within: Option<[[f64; 3]; 2]>,
    /// Distance of a seed's own neighbours, for exponents; `None`: its neighbours are those of the grid.
    pub offset: Option<f64>,
    /// Whether to replace a Zarr store of the output's name.
    pub overwrite: bool,
}

/// A quantity of a flow map.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MapQuantity {
    /// Finite-time Lyapunov exponent.
    Ftle,
    /// Time until the particle leaves.
    Residence,
    /// End point minus seed.
    Displacement,
    /// End point.
    EndPosition,
}

impl MapQuantity {
    /// All quantities.
    pub const ALL: [Self; 4] = [Self::Ftle, Self::Residence, Self::Displacement, Self::EndPosition];

    /// The name that users write and files contain.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftle => "ftle",
            Self::Residence => "residence",
            Self::Displacement => "displacement",
            Self::EndPosition => "end_position",
        }
    }
}

/// One part in this many of the limit is for the particles of a batch.
const FLOCK_SHARE: u64 = 8;

/// Bytes of a seed's result: end point, time, exponent, and reason of its end.
const RESULT_BYTES: u64 = 24 + 8 + 8 + 1;

/// Bytes of a seed in the unnamed file: end point. Reasons follow all of these.
const POINT_BYTES: u64 = 24;

/// Results of a block's seeds, in its order (x fastest).
struct SeedEnds {
    block: [Range<u64>; 3],
    x: Vec<[f64; 3]>,
    stayed: Vec<f64>,
    why: Vec<u8>,
    ftle: Vec<f64>,
}

impl SeedEnds {
    fn place(&self, ijk: [u64; 3]) -> usize {
        let n: [usize; 3] = core::array::from_fn(|a| (ijk[a] - self.block[a].start) as usize);
        let edge = |a: usize| (self.block[a].end - self.block[a].start) as usize;
        (n[2] * edge(1) + n[1]) * edge(0) + n[0]
    }
}

/// Seeds of a block, in its order.
fn seeds_of(block: &[Range<u64>; 3]) -> impl Iterator<Item = [u64; 3]> + use<> {
    let [i, j, k] = block.clone();
    k.flat_map(move |k| {
        let i = i.clone();
        j.clone().flat_map(move |j| i.clone().map(move |i| [i, j, k]))
    })
}

/// The code of a particle's end in the file.
fn code(p: &Particle) -> u8 {
    match p.ended() {
        Some(Reason::Left) if p.last().is_none() => Reason::Outside.code(),
        Some(reason) => reason.code(),
        None => Reason::Unfinished.code(),
    }
}

const WHOLE: u8 = Reason::Time as u8;

/// Writes a flow map as a Zarr v3 volume.
///
/// # Errors
/// [`FieldError`]: invalid options, before anything is read; a limit that is too small; a failed write; an
/// interruption. The output then does not exist, or is unchanged.
pub fn flow_map(
    session: &Session,
    spec: &FlowMapSpec,
    output: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    check(session, spec)?;
    let mut volume = Volume::create(output, spec.grid, spec.overwrite)?;
    let both = spec.options.direction == Direction::Both;
    let ways: &[Direction] = match spec.options.direction {
        Direction::Forward => &[Direction::Forward],
        Direction::Backward => &[Direction::Backward],
        Direction::Both => &[Direction::Forward, Direction::Backward],
    };
    let (mut arrays, mut reasons, mut failure) = (Vec::new(), Map::new(), None);
    for (n, way) in ways.iter().enumerate() {
        let path = match (both, way) {
            (true, Direction::Backward) => PathSpec { from: spec.path.to, to: spec.path.from, ..spec.path.clone() },
            _ => spec.path.clone(),
        };
        let options = Options { direction: *way, ..spec.options.clone() };
        let mut pass = TimePass::new(session, spec, options, path, both, watch)?;
        let mut told = |phase: &str, share: f64| watch(phase, n as f64 + share, ways.len() as f64);
        pass.run(&mut volume, &mut told)?;
        let name = if *way == Direction::Forward { "forward" } else { "backward" };
        let counted = Reason::ALL.iter().map(|r| (r.name().to_owned(), pass.reasons[usize::from(r.code())]));
        let counted: Map<String, Value> = counted.filter(|(_, n)| *n > 0).map(|(r, n)| (r, n.into())).collect();
        reasons.insert(name.into(), counted.into());
        failure = failure.or(pass.failure);
        arrays.extend(pass.arrays.into_iter().map(|(_, a)| a));
    }
    let dataset = session.dataset();
    let mut attributes = Map::new();
    attributes.insert("Conventions".into(), "CF-1.11".into());
    attributes.insert("title".into(), format!("flow map of {}", spec.field).into());
    attributes.insert("source".into(), concat!("farfield ", env!("CARGO_PKG_VERSION")).into());
    let bytes = volume.finish(&arrays, &dataset.length_unit(), attributes)?;
    Ok(json!({
        "output": output, "seeds": spec.grid.len(), "dims": spec.grid.dims(), "reasons": reasons, "bytes_written": bytes,
        "arrays": arrays.iter().map(|a| a.name.clone()).collect::<Vec<_>>(), "partial": failure.is_some(), "failure": failure,
        "stats": session.stats(),
    }))
}

fn check(session: &Session, spec: &FlowMapSpec) -> Result<(), FieldError> {
    let wrong = |what: &str| Err(FieldError::Usage(what.into()));
    let z = spec.grid.axes[2];
    if session.dataset().catalog.dimension == 2 && (z.count > 1 || z.from != 0.0) {
        return wrong("the data lie in a plane: the grid of seeds has x and y only");
    }
    if spec.quantities.is_empty() {
        return wrong("nothing is asked of the flow map; name quantities: ftle, residence, displacement, end_position");
    }
    if (1..spec.quantities.len()).any(|n| spec.quantities[..n].contains(&spec.quantities[n])) {
        return wrong("a quantity of the flow map is named twice");
    }
    let ftle = spec.quantities.contains(&MapQuantity::Ftle);
    if ftle && spec.offset.is_none() && spec.grid.spanned().next().is_none() {
        return wrong("one seed has no neighbours, so nothing says how they stretch; take more seeds, or an offset");
    }
    if spec.offset.is_some_and(|o| !(o > 0.0 && o.is_finite())) {
        return wrong("the offset of a seed's neighbours must be a positive number");
    }
    if spec.offset.is_some() && !ftle {
        return wrong("an offset is for quantity ftle, which is not asked for");
    }
    if spec.within.is_some_and(|[low, high]| (0..3).any(|a| !(low[a] < high[a]))) {
        return wrong("the box that particles leave goes from its lower to its higher corner");
    }
    Ok(())
}

/// One direction of time.
struct TimePass<'a> {
    session: &'a Session,
    spec: &'a FlowMapSpec,
    march: March,
    _held: Box<dyn std::any::Any>,
    /// Times to which the particles of a batch go, one after the other.
    windows: Vec<f64>,
    arrays: Vec<(Option<MapQuantity>, VolumeArray)>,
    reasons: [u64; Reason::ALL.len()],
    failure: Option<String>,
}

/// Progress: a phase, and the finished share of it.
type MapProgress<'a> = dyn FnMut(&str, f64) -> bool + 'a;

impl<'a> TimePass<'a> {
    fn new(
        session: &'a Session,
        spec: &'a FlowMapSpec,
        options: Options,
        path: PathSpec,
        both: bool,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        let trace = TraceSpec {
            // Seeds are made by number, so this one is not used.
            seeds: Seeds::Point([0.0; 3]),
            field: spec.field.clone(),
            step: 0,
            scalars: Vec::new(),
            options,
            stop: None,
            path: None,
            over: OverTime::default(),
        };
        let (mut march, held) = March::new(session, &trace, &path, watch)?;
        march.within = spec.within;
        let [from, to] = march.path.times;
        if from == to {
            return Err(FieldError::Usage(format!(
                "the flow map begins and ends at the time {from}; it takes some time"
            )));
        }
        // As many steps at once as fit: where memory is ample, particles are stored seldom.
        let dataset = session.dataset();
        let of_step = (dataset.bytes() / march.series.times.len().max(1) as u64).max(1);
        let at_once = (session.pager.ledger().limit() / 2 / of_step).max(1);
        let (mut windows, mut at) = (Vec::new(), from);
        while at != to {
            for _ in 0..at_once {
                at = march.series.edge_after(at, to);
                if at == to {
                    break;
                }
            }
            windows.push(at);
        }
        let arrays = arrays(session, spec, &march, both);
        Ok(Self { session, spec, march, _held: held, windows, arrays, reasons: [0; Reason::ALL.len()], failure: None })
    }

    fn wants(&self, quantity: MapQuantity) -> bool {
        self.spec.quantities.contains(&quantity)
    }

    fn run(&mut self, volume: &mut Volume, told: &mut MapProgress<'_>) -> Result<(), FieldError> {
        let grid = self.spec.grid;
        let seeds = grid.block().iter().product::<u64>();
        let second = self.wants(MapQuantity::Ftle) && self.spec.offset.is_none();
        let around: u64 = grid.block().iter().map(|n| n + 2).product();
        let halo = if second { around * (POINT_BYTES + 1) } else { 0 };
        let bytes = seeds * RESULT_BYTES + Volume::block_bytes(&grid, 3).max(halo + Volume::block_bytes(&grid, 1));
        let _charged = charge_other(&self.session.pager, bytes, "a block of the flow map")?;
        let scratch = second.then(|| volume.scratch()).transpose()?;
        // Tracing particles takes nearly all the time.
        let part = if second { 0.98 } else { 1.0 };
        let mut done = 0;
        for block in grid.blocks() {
            let ends = self.follow(block, &mut |seeds| {
                told("following particles", part * (done as f64 + seeds) / grid.len() as f64)
            })?;
            done += ends.x.len() as u64;
            self.write(volume, &ends)?;
            if let Some(file) = &scratch {
                keep(file, &grid, &ends)?;
            }
        }
        if let Some(file) = &scratch {
            let mut done = 0;
            for block in grid.blocks() {
                if !told("differences of neighbours", part + (1.0 - part) * done as f64 / grid.len() as f64) {
                    return Err(FieldError::Interrupted);
                }
                done += block.iter().map(|r| r.end - r.start).product::<u64>();
                self.differences(volume, file, &block)?;
            }
        }
        Ok(())
    }

    /// Traces the particles of a block, a batch at a time.
    fn follow(&mut self, block: [Range<u64>; 3], told: &mut dyn FnMut(f64) -> bool) -> Result<SeedEnds, FieldError> {
        let (session, grid) = (self.session, self.spec.grid);
        let count = block.iter().map(|r| r.end - r.start).product::<u64>() as usize;
        let mut ends = SeedEnds {
            block: block.clone(),
            x: Vec::with_capacity(count),
            stayed: Vec::with_capacity(count),
            why: Vec::with_capacity(count),
            ftle: Vec::new(),
        };
        let axes: Vec<usize> = match self.spec.offset {
            Some(_) => (0..session.dataset().catalog.dimension).collect(),
            None => Vec::new(),
        };
        let each = 1 + 2 * axes.len();
        let batch = Flock::fitting(session.pager.ledger().limit() / FLOCK_SHARE, 0).div_ceil(each).min(count);
        let mut flock = Flock::new(&session.pager, 0, 0)?;
        flock.reserve(&session.pager, batch * each)?;
        let [from, to] = self.march.path.times;
        let mut seeds = seeds_of(&block).peekable();
        while seeds.peek().is_some() {
            flock.particles.clear();
            let some: Vec<[f64; 3]> = seeds.by_ref().take(batch).map(|ijk| grid.at(ijk)).collect();
            for x in &some {
                let release = |x| Particle::released_at(Seed::Physical(x), from, 0).timed();
                flock.particles.push(release(*x));
                for a in &axes {
                    for sign in [-1.0, 1.0] {
                        let mut beside = *x;
                        beside[*a] += sign * self.spec.offset.unwrap_or(0.0);
                        flock.particles.push(release(beside));
                    }
                }
            }
            let before = ends.x.len() as f64;
            for (n, until) in self.windows.iter().enumerate() {
                let mut watch = |done: u64, total: u64| {
                    let share = (n as f64 + done as f64 / total as f64) / self.windows.len() as f64;
                    told(before + share * some.len() as f64)
                };
                let marched = self.march.go_to(session, &mut flock, *until, None, &mut watch)?;
                if self.failure.is_none() {
                    self.failure = marched.failure;
                }
            }
            for (x, own) in some.iter().zip(flock.particles.chunks_exact(each)) {
                let p = &own[0];
                let why = code(p);
                self.reasons[usize::from(why)] += 1;
                let there = p.last().map_or([f64::NAN; 3], |l| l.0);
                let outside = why == Reason::Outside.code();
                ends.x.push(there);
                ends.stayed.push(if outside { f64::NAN } else { (p.time() - from).abs() });
                ends.why.push(why);
                if !axes.is_empty() {
                    let place = |n: usize, at: f64| {
                        let p = &own[n];
                        (code(p) == WHOLE).then(|| p.last().map(|l| (at, l.0))).flatten()
                    };
                    let columns = axes.iter().enumerate().map(|(n, a)| {
                        let offset = self.spec.offset.unwrap_or(0.0);
                        // The actual distance, with rounding.
                        let [low, high] = [x[*a] - offset, x[*a] + offset];
                        quotient(place(1 + 2 * n, low), place(0, x[*a])?, place(2 + 2 * n, high))
                    });
                    let columns = columns.collect::<Option<Vec<_>>>();
                    ends.ftle.push(columns.map_or(f64::NAN, |c| exponent(&c, to - from)));
                }
            }
        }
        Ok(ends)
    }

    /// Writes the results of a block.
    fn write(&self, volume: &mut Volume, ends: &SeedEnds) -> Result<(), FieldError> {
        let grid = self.spec.grid;
        for (quantity, array) in &self.arrays {
            let value = |c: usize, ijk: [u64; 3]| -> [u8; 8] {
                let n = ends.place(ijk);
                match quantity {
                    None => [ends.why[n]; 8],
                    Some(MapQuantity::Residence) => ends.stayed[n].to_le_bytes(),
                    Some(MapQuantity::EndPosition) => ends.x[n][c].to_le_bytes(),
                    Some(MapQuantity::Displacement) => (ends.x[n][c] - grid.axes[c].at(ijk[c])).to_le_bytes(),
                    Some(MapQuantity::Ftle) => ends.ftle[n].to_le_bytes(),
                }
            };
            if *quantity != Some(MapQuantity::Ftle) || self.spec.offset.is_some() {
                volume.block(array, &ends.block, &value)?;
            }
        }
        Ok(())
    }

    /// Exponents of a block, from end points of it and its neighbours.
    fn differences(&self, volume: &mut Volume, file: &File, block: &[Range<u64>; 3]) -> Result<(), FieldError> {
        let grid = self.spec.grid;
        let dims = grid.dims();
        let wide: [Range<u64>; 3] =
            core::array::from_fn(|a| block[a].start.saturating_sub(1)..(block[a].end + 1).min(dims[a]));
        let ends = kept(file, &grid, wide)?;
        let [from, to] = self.march.path.times;
        let place = |ijk: [u64; 3], a: usize| {
            let n = ends.place(ijk);
            (ends.why[n] == WHOLE).then(|| (grid.axes[a].at(ijk[a]), ends.x[n]))
        };
        let value = |_: usize, ijk: [u64; 3]| -> [u8; 8] {
            let columns = grid.spanned().map(|a| {
                let beside = |at: Option<u64>| {
                    let mut other = ijk;
                    other[a] = at.filter(|at| *at < dims[a])?;
                    place(other, a)
                };
                quotient(beside(ijk[a].checked_sub(1)), place(ijk, a)?, beside(ijk[a].checked_add(1)))
            });
            let columns = columns.collect::<Option<Vec<_>>>();
            columns.map_or(f64::NAN, |c| exponent(&c, to - from)).to_le_bytes()
        };
        for (_, array) in self.arrays.iter().filter(|(q, _)| *q == Some(MapQuantity::Ftle)) {
            volume.block(array, block, &value)?;
        }
        Ok(())
    }
}

/// Runs of a block's seeds that are contiguous in the whole grid: number of the first, and place in the block.
fn runs<'g>(grid: &'g SeedGrid, block: &[Range<u64>; 3]) -> impl Iterator<Item = (u64, usize)> + use<'g> {
    let [i, j, k] = block.clone();
    let length = (i.end - i.start) as usize;
    let firsts = k.flat_map(move |k| j.clone().map(move |j| grid.number([i.start, j, k])));
    firsts.enumerate().map(move |(n, first)| (first, n * length))
}

fn unread(e: std::io::Error) -> FieldError {
    FieldError::output(format!("end points of the flow map cannot be kept beside its output: {e}"), &e)
}

/// Stores end points for the second pass: all of them, then the reasons.
fn keep(file: &File, grid: &SeedGrid, ends: &SeedEnds) -> Result<(), FieldError> {
    let length = (ends.block[0].end - ends.block[0].start) as usize;
    for (first, at) in runs(grid, &ends.block) {
        let bytes: Vec<u8> = ends.x[at..at + length].iter().flatten().flat_map(|v| v.to_ne_bytes()).collect();
        file.write_all_at(&bytes, first * POINT_BYTES).map_err(unread)?;
        file.write_all_at(&ends.why[at..at + length], grid.len() * POINT_BYTES + first).map_err(unread)?;
    }
    Ok(())
}

/// Reads a box of seeds that [`keep`] stored.
fn kept(file: &File, grid: &SeedGrid, block: [Range<u64>; 3]) -> Result<SeedEnds, FieldError> {
    let length = (block[0].end - block[0].start) as usize;
    let count = block.iter().map(|r| r.end - r.start).product::<u64>() as usize;
    let (mut x, mut why) = (Vec::with_capacity(count), vec![0; count]);
    let mut bytes = vec![0; length * POINT_BYTES as usize];
    for (first, at) in runs(grid, &block) {
        file.read_exact_at(&mut bytes, first * POINT_BYTES).map_err(unread)?;
        let word = |b: &[u8], n: usize| f64::from_ne_bytes(core::array::from_fn(|m| b[8 * n + m]));
        x.extend(bytes.chunks_exact(POINT_BYTES as usize).map(|b| core::array::from_fn(|c| word(b, c))));
        file.read_exact_at(&mut why[at..at + length], grid.len() * POINT_BYTES + first).map_err(unread)?;
    }
    Ok(SeedEnds { block, x, stayed: Vec::new(), why, ftle: Vec::new() })
}

/// The arrays of a direction: the requested quantities, and the reason of each particle's end.
fn arrays(session: &Session, spec: &FlowMapSpec, march: &March, both: bool) -> Vec<(Option<MapQuantity>, VolumeArray)> {
    let dataset = session.dataset();
    let (length, time) = (dataset.length_unit(), dataset.catalog.time_units.clone());
    let [from, to] = march.path.times;
    let way = if march.forward() { "forward" } else { "backward" };
    let named = |name: &str| if both { format!("{name}_{way}") } else { name.to_owned() };
    let about = |long: &str, unit: String| {
        json!({
            "long_name": long, "units": unit, "direction": way, "release_time": from, "end_time": to, "time_units": time,
            "vector": spec.field,
        })
    };
    let per_time = match time.as_str() {
        "1" | "" => "1".to_owned(),
        unit if unit.chars().all(char::is_alphabetic) => format!("{unit}-1"),
        unit => format!("({unit})-1"),
    };
    let mut all: Vec<(Option<MapQuantity>, VolumeArray)> = Vec::new();
    for quantity in &spec.quantities {
        let (name, components, attributes) = match quantity {
            MapQuantity::Ftle => {
                let mut about = about("finite-time Lyapunov exponent", per_time.clone());
                about["method"] = match spec.offset {
                    Some(offset) => format!("differences of particles {offset} beside each seed").into(),
                    None => "differences of neighbours in the grid of seeds".into(),
                };
                ("ftle", 1, about)
            }
            MapQuantity::Residence => {
                let mut about = about("time until the particle leaves, or until the end time", time.clone());
                about["ancillary_variables"] = named("status").into();
                if let Some(within) = spec.within {
                    about["within"] = json!(within);
                }
                ("residence_time", 1, about)
            }
            MapQuantity::Displacement => ("displacement", 3, about("end position less seed", length.clone())),
            MapQuantity::EndPosition => ("end_position", 3, about("where the particle is at last", length.clone())),
        };
        all.push((Some(*quantity), VolumeArray { name: named(name), components, size: 8, attributes }));
    }
    let mut about = about("why the particle ended", "1".into());
    let of_particles = || Reason::ALL.iter().filter(|r| **r != Reason::Closed);
    about["flag_values"] = of_particles().map(|r| r.code()).collect::<Vec<_>>().into();
    about["flag_meanings"] = of_particles().map(|r| r.name()).collect::<Vec<_>>().join(" ").into();
    all.push((None, VolumeArray { name: named("status"), components: 1, size: 1, attributes: about }));
    all
}

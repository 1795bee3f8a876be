//! From a seed's number to where its line begins, and in which order lines are begun.

use crate::seeds::{SeedPoint, SeedStream, Seeds};
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::CellId;
use field::nodes::Zone;
use kernels::streamline::Seed;
use pager::{Charge, ChargeKind, Pager};
use runtime::gridface::AXES;
use runtime::session::ProgressWatch;
use std::sync::Arc;

/// Draws of a random seed before it is given up: with half of the cells blanked out, one seed in four thousand million.
const DRAWS: usize = 32;

/// Where the lines of a trace begin, as tasks take it. Random seeds are even over the cells of all zones, so that a zone
/// counts for what its grid resolves, not for the volume of its far field.
pub struct SeedRule<'a> {
    seeds: &'a Seeds,
    /// Of the dataset.
    pub(crate) zones: Arc<[Zone]>,
    /// Cells of all zones up to and with each, for random seeds.
    cells: Vec<u64>,
    /// The zone of seeds in computational space.
    zone: Option<u32>,
}

impl<'a> SeedRule<'a> {
    /// For the zones of a dataset.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] if the seeds name a zone that is not there, [`FieldError::Usage`] if they lie beyond it.
    pub fn new(seeds: &'a Seeds, dataset: &Dataset) -> Result<Self, FieldError> {
        let mut cells = Vec::with_capacity(dataset.zones.len());
        let mut total = 0u64;
        for z in dataset.zones.iter() {
            total += z.cells().iter().map(|n| u64::from(*n)).product::<u64>();
            cells.push(total);
        }
        let zone = seeds.zone().map(|z| zone_of_seeds(dataset, z)).transpose()?;
        if let (Some(zone), Seeds::Ijk { axes, .. }) = (zone, seeds) {
            let z = &dataset.zones[zone as usize];
            for ((r, n), axis) in axes.iter().zip(z.dims()).zip(AXES) {
                if ![r.first, r.last].iter().all(|v| (0.0..=f64::from(n - 1)).contains(v)) {
                    let (a, b) = (r.first + 1.0, r.last + 1.0);
                    return Err(FieldError::Usage(format!(
                        "seeds: {axis} = {a} to {b} is not within 1 to {n} of {}",
                        z.name
                    )));
                }
            }
        }
        Ok(Self { seeds, zones: dataset.zones.clone(), cells, zone })
    }

    /// Seed number `n`.
    ///
    /// # Errors
    /// What [`Seeds::get`] says.
    pub fn seed(&self, n: u64) -> Result<Seed, FieldError> {
        Ok(match self.seeds.get(n).map_err(|e| e.in_run(None))? {
            SeedPoint::Physical(x) => Seed::Physical(x),
            SeedPoint::Computational { ijk, .. } => Seed::Computational { zone: self.zone.unwrap_or(0), ijk },
            SeedPoint::Place { zone, ijk } => Seed::Computational { zone, ijk },
            SeedPoint::Random(mut stream) => Seed::FirstUsable((0..DRAWS).map(|_| self.draw(&mut stream)).collect()),
        })
    }

    /// What seed number `n` is.
    ///
    /// # Errors
    /// What [`Seeds::get`] says.
    pub(crate) fn point(&self, n: u64) -> Result<SeedPoint<'_>, FieldError> {
        self.seeds.get(n).map_err(|e| e.in_run(None))
    }

    /// The zone of seeds in computational space.
    pub(crate) fn zone(&self) -> u32 {
        self.zone.unwrap_or(0)
    }

    /// A random place in computational space: zone and 0-based ijk.
    pub(crate) fn draw(&self, stream: &mut SeedStream) -> (u32, [f64; 3]) {
        let total = self.cells.last().copied().unwrap_or(0);
        let n = ((stream.next_f64() * total as f64) as u64).min(total.saturating_sub(1));
        let zone = self.cells.partition_point(|c| *c <= n).min(self.zones.len() - 1);
        let c = self.zones[zone].cells().map(u64::from);
        let n = n - if zone == 0 { 0 } else { self.cells[zone - 1] };
        let low = [n % c[0], n / c[0] % c[1], n / c[0] / c[1]];
        let dims = self.zones[zone].dims();
        let ijk = core::array::from_fn(|a| low[a] as f64 + if dims[a] > 1 { stream.next_f64() } else { 0.0 });
        (zone as u32, ijk)
    }

    /// About where seed number `n` lies: the zone and a place in it, physical for seeds in physical space.
    fn about(&self, n: u64) -> Result<(u32, [f64; 3]), FieldError> {
        Ok(match self.seeds.get(n).map_err(|e| e.in_run(None))? {
            SeedPoint::Physical(x) => (0, x),
            SeedPoint::Computational { ijk, .. } => (0, ijk),
            SeedPoint::Place { zone, ijk } => (zone, ijk),
            SeedPoint::Random(mut stream) => self.draw(&mut stream),
        })
    }
}

fn zone_of_seeds(dataset: &Dataset, name: &str) -> Result<u32, FieldError> {
    if let Ok(z) = dataset.zone_named(name) {
        return Ok(z as u32);
    }
    match name.parse::<usize>() {
        Ok(n) if n >= 1 && n <= dataset.zones.len() => Ok(n as u32 - 1),
        _ => dataset.zone_named(name).map(|z| z as u32),
    }
}

/// Lines that start near each other use the same pages for a while, so seeds are admitted along a space-filling curve
/// (Morton's). Results come in seed order all the same.
pub struct SeedOrder {
    order: Vec<u32>,
    _charge: Charge,
}

/// Bits an axis of the curve.
const BITS: u32 = 14;

impl SeedOrder {
    /// The order; none where it would not fit in a sixteenth of the memory, or is nothing to speak of.
    ///
    /// # Errors
    /// What [`SeedRule::seed`] says.
    pub fn near(
        rule: &SeedRule<'_>,
        pager: &Arc<Pager>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Option<Self>, FieldError> {
        let n = rule.seeds.len();
        // Keys and order while sorting.
        let bytes = n.saturating_mul(16);
        if n < 2 || n > u64::from(u32::MAX) || bytes > pager.ledger().limit() / 16 {
            return Ok(None);
        }
        let Ok(mut charge) = pager.charge(ChargeKind::Tasks, bytes) else { return Ok(None) };
        let mut told = |s: u64, pass: u64| {
            let go_on = !s.is_multiple_of(65_536) || watch("sorting seeds", (pass * n + s) as f64, (2 * n) as f64);
            if go_on {
                Ok(())
            } else {
                Err(FieldError::Interrupted)
            }
        };
        let (mut lo, mut hi) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for s in 0..n {
            told(s, 0)?;
            let (_, x) = rule.about(s)?;
            for a in 0..3 {
                lo[a] = lo[a].min(x[a]);
                hi[a] = hi[a].max(x[a]);
            }
        }
        let mut keyed = Vec::with_capacity(n as usize);
        for s in 0..n {
            told(s, 1)?;
            let (zone, x) = rule.about(s)?;
            let cell = |a: usize| {
                let f = (x[a] - lo[a]) / (hi[a] - lo[a]);
                // A flat or broken axis gives 0.
                if f.is_finite() {
                    (f * f64::from((1u32 << BITS) - 1)) as u64
                } else {
                    0
                }
            };
            keyed.push((along(zone, [cell(0), cell(1), cell(2)]), s as u32));
        }
        keyed.sort_unstable();
        let order = keyed.into_iter().map(|k| k.1).collect();
        charge.shrink(n * 4);
        Ok(Some(Self { order, _charge: charge }))
    }

    /// The seed that is admitted as number `n`.
    pub fn get(&self, n: u64) -> u64 {
        u64::from(self.order[n as usize])
    }
}

/// Where on the curve through the pages of its zone a cell is: of two in one page only the lowest twelve bits differ.
pub(crate) fn place_of(zones: &[Zone], cell: CellId) -> u64 {
    let page = zones.get(cell.zone as usize).map_or([16; 3], |z| z.translation.page);
    let at = |a: usize| {
        let (n, within) = (u64::from(cell.ijk[a] / page[a]), u64::from(cell.ijk[a] % page[a]));
        ((n << 4) | (within * 16 / u64::from(page[a]))).min((1 << BITS) - 1)
    };
    along(cell.zone, [at(0), at(1), at(2)])
}

fn along(zone: u32, at: [u64; 3]) -> u64 {
    u64::from(zone) << (3 * BITS) | spread(at[0]) | spread(at[1]) << 1 | spread(at[2]) << 2
}

/// Puts two zeros between the low bits.
fn spread(x: u64) -> u64 {
    (0..BITS).fold(0, |s, b| s | ((x >> b) & 1) << (3 * b))
}

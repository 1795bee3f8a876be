//! From a seed's number to its position, and the order in which lines begin.

use crate::seeds::{SeedPoint, SeedStream, Seeds};
use field::curve::{morton_key, BITS};
use field::dataset::Dataset;
use field::domain::Domains;
use field::error::FieldError;
use field::nodes::Zone;
use kernels::streamline::Seed;
use pager::{Charge, ChargeKind, Pager};
use runtime::gridface::AXES;
use runtime::session::ProgressWatch;
use std::sync::Arc;

/// Draws of a random seed before it counts as outside. With half of the cells blanked out, one seed in four thousand
/// million does.
const DRAWS: usize = 32;

/// Random places, even over the cells of all domains of one kind. So a domain counts by its cells, and not by the
/// volume of its far field.
pub struct RandomCells {
    /// Number of cells up to the end of each domain.
    ends: Vec<u64>,
}

impl RandomCells {
    /// For the cells of `domains`.
    pub fn of<D: Domains + ?Sized>(domains: &D) -> Self {
        let mut total = 0;
        let ends = (0..domains.count()).map(|domain| {
            total += domains.cells(domain);
            total
        });
        Self { ends: ends.collect() }
    }

    /// A random place: number of its domain, and index there. `domains` are those of [`Self::of`].
    pub fn draw<D: Domains + ?Sized>(&self, domains: &D, stream: &mut SeedStream) -> (u32, [f64; 3]) {
        let total = self.ends.last().copied().unwrap_or(0);
        let n = ((stream.next_f64() * total as f64) as u64).min(total.saturating_sub(1));
        let domain = self.ends.partition_point(|end| *end <= n).min(self.ends.len() - 1);
        let n = n - if domain == 0 { 0 } else { self.ends[domain - 1] };
        (domain as u32, domains.index_in(domain, n, &mut || stream.next_f64()))
    }
}

/// The seeds of a trace for tasks. Random seeds are places of [`RandomCells`].
pub struct SeedRule<'a> {
    seeds: &'a Seeds,
    pub(crate) zones: Arc<[Zone]>,
    random: RandomCells,
    /// The zone of seeds in computational space.
    zone: Option<u32>,
}

impl<'a> SeedRule<'a> {
    /// For the zones of a dataset.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] if the seeds name a zone that does not exist, [`FieldError::Usage`] if they lie outside
    /// it.
    pub fn new(seeds: &'a Seeds, dataset: &Dataset) -> Result<Self, FieldError> {
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
        Ok(Self { seeds, zones: dataset.zones.clone(), random: RandomCells::of(&*dataset.zones), zone })
    }

    /// Seed number `n`, for a task.
    ///
    /// # Errors
    /// As [`Seeds::get`].
    pub fn seed(&self, n: u64) -> Result<Seed, FieldError> {
        Ok(match self.seeds.get(n).map_err(|e| e.in_run(None))? {
            SeedPoint::Physical(x) => Seed::Physical(x),
            SeedPoint::Computational { ijk, .. } => Seed::Computational { zone: self.zone.unwrap_or(0), ijk },
            SeedPoint::Place { zone, ijk } => Seed::Computational { zone, ijk },
            SeedPoint::Random(mut stream) => Seed::FirstUsable((0..DRAWS).map(|_| self.draw(&mut stream)).collect()),
        })
    }

    /// Seed number `n`, as the seeds have it.
    ///
    /// # Errors
    /// As [`Seeds::get`].
    pub(crate) fn point(&self, n: u64) -> Result<SeedPoint<'_>, FieldError> {
        self.seeds.get(n).map_err(|e| e.in_run(None))
    }

    /// The zone of seeds in computational space.
    pub(crate) fn zone(&self) -> u32 {
        self.zone.unwrap_or(0)
    }

    /// A random place in computational space: zone and 0-based ijk.
    pub(crate) fn draw(&self, stream: &mut SeedStream) -> (u32, [f64; 3]) {
        self.random.draw(&*self.zones, stream)
    }

    /// The approximate place of seed number `n`: its zone and a place in it, physical for seeds in physical space.
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

/// The order of admission, along a space-filling curve (Morton's): lines that start near each other use the same pages
/// for a while. Results are in seed order all the same.
pub struct SeedOrder {
    order: Vec<u32>,
    _charge: Charge,
}

impl SeedOrder {
    /// The order. `None` if it does not fit into a sixteenth of the memory, or for fewer than two seeds.
    ///
    /// # Errors
    /// As [`SeedRule::seed`].
    pub fn near(
        rule: &SeedRule<'_>,
        pager: &Arc<Pager>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Option<Self>, FieldError> {
        let n = rule.seeds.len();
        // Keys and order during sorting.
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
                // A flat or invalid axis gives 0.
                if f.is_finite() {
                    (f * f64::from((1u32 << BITS) - 1)) as u64
                } else {
                    0
                }
            };
            keyed.push((morton_key(zone, [cell(0), cell(1), cell(2)]), s as u32));
        }
        keyed.sort_unstable();
        let order = keyed.into_iter().map(|k| k.1).collect();
        charge.shrink(n * 4);
        Ok(Some(Self { order, _charge: charge }))
    }

    /// The seed admitted as number `n`.
    pub fn get(&self, n: u64) -> u64 {
        u64::from(self.order[n as usize])
    }
}

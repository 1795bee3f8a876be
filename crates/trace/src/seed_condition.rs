//! Random seeds where a condition holds.
//!
//! # Theory
//! Each cell of the grid offers one random point and a random key. Both depend on the generator's seed and the cell's
//! number alone. Of the usable cells at whose point the condition holds, those with the smallest keys are chosen. This
//! is the bottom-k sample of Cohen and Kaplan (2007): without repetition, even over the cells, and the same for any
//! order of cells. So the first seeds of many are those of few.
//!
//! # Practice
//! Cells are tested page by page. A page is not read if the bounds of its fields exclude the condition.

use crate::seed_importance::of_interest;
use crate::seeds::{SeedCells, SeedStream, Seeds};
use crate::TraceSpec;
use field::cell::interpolate_scalar;
use field::dataset::Dataset;
use field::error::FieldError;
use field::expression::bounds::Interval;
use field::plot3d::iblank::hides_cell;
use field::quantity::Quantity;
use kernels::streamline::Direction;
use pager::ChargeKind;
use runtime::derived::StopCondition;
use runtime::limits::{charge_other, would_do};
use runtime::session::{ProgressWatch, Session};
use runtime::values::{read_box, NodeBox};
use std::collections::BinaryHeap;

/// Bytes of a candidate during the choice, and of a seed.
const OF_SEED: u64 = 16 + 32;

/// The trace with its seeds chosen, if they depend on a condition or the flow. For streamlines the condition is
/// evaluated at their first time step; for particles at the step of their release, or the last before it.
///
/// # Errors
/// [`FieldError::Usage`] for an invalid condition, or one that holds nowhere; [`FieldError::LimitTooSmall`]; a failed
/// page.
pub fn seeded(
    session: &Session,
    spec: &TraceSpec,
    watch: &mut ProgressWatch<'_>,
) -> Result<Option<TraceSpec>, FieldError> {
    if let Seeds::Interest { count, seed } = spec.seeds {
        let dataset = session.located(watch)?;
        let step = step_of(&dataset, spec);
        dataset.check_step(step)?;
        let seeds = of_interest(session, &dataset, &spec.field, step, [count, seed], watch)?;
        return Ok(Some(TraceSpec { seeds, ..spec.clone() }));
    }
    let Seeds::Where { count, seed, condition } = &spec.seeds else { return Ok(None) };
    let asked = session.condition(condition)?;
    let dataset = session.located(watch)?;
    let step = step_of(&dataset, spec);
    dataset.check_step(step)?;
    let found = find(session, &dataset, &asked, step, (*count, *seed), watch)?;
    if found.is_empty() {
        return Err(FieldError::Usage(format!("seeds: '{condition}' holds nowhere at time step {step}")));
    }
    Ok(Some(TraceSpec { seeds: Seeds::Found(found.into()), ..spec.clone() }))
}

fn find(
    session: &Session,
    dataset: &Dataset,
    asked: &StopCondition,
    step: usize,
    (count, seed): (u64, u64),
    watch: &mut ProgressWatch<'_>,
) -> Result<SeedCells, FieldError> {
    let cells = |zone: usize| dataset.zones[zone].cells().map(u64::from);
    let all: u64 = (0..dataset.zones.len()).map(|zone| cells(zone).iter().product::<u64>()).sum();
    let bytes = count.min(all).saturating_mul(OF_SEED);
    let held = session.pager.charge(ChargeKind::Other, bytes).map_err(|f| FieldError::LimitTooSmall {
        limit: f.limit,
        needs: would_do(&session.pager, bytes),
        what: "the seeds that are looked for".into(),
    })?;
    let count = count.min(all) as usize;
    let mut best: BinaryHeap<(u64, u64)> = BinaryHeap::with_capacity(count + 1);
    let (mut first, mut looked) = (0u64, 0u64);
    let pages: u64 = dataset.zones.iter().map(|z| z.translation.count()).sum();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let n = cells(zone);
        let sides: Option<Vec<Quantity>> = asked.names.iter().map(|name| Quantity::named(z, name)).collect();
        let Some(mut wanted) = sides else {
            // The zone lacks a field of the condition.
            first += n.iter().product::<u64>();
            looked += z.translation.count();
            continue;
        };
        wanted.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
        for page in 0..z.translation.count() {
            looked += 1;
            if !watch("finding seeds", looked as f64, pages as f64) {
                return Err(FieldError::Interrupted);
            }
            let mut within = Vec::with_capacity(asked.names.len());
            for name in &asked.names {
                let known = session.bounds(name, zone, step, page)?.and_then(|b| b.first().copied());
                within.push(known.unwrap_or(Interval::ALL));
            }
            if !asked.condition.may_hold(|side| within[side]) {
                continue;
            }
            let (lo, inside) = z.translation.extent(page);
            let dims = z.dims();
            // The cells whose low corners lie in the page, with all their corners.
            let end: [u32; 3] = core::array::from_fn(|a| (lo[a] + inside[a]).min(n[a] as u32));
            let hi: [u32; 3] = core::array::from_fn(|a| (end[a] + 1).min(dims[a]));
            if (0..3).any(|a| lo[a] >= end[a]) {
                continue;
            }
            let at = NodeBox { zone, step, lo, hi };
            let nodes = at.count();
            let _values =
                charge_other(&session.pager, (nodes * wanted.len() * 8) as u64, "a page where seeds are looked for")?;
            let values = read_box(session, dataset, at, &wanted, &mut |_, _, _| true)?;
            let [ni, nj, _]: [usize; 3] = core::array::from_fn(|a| (hi[a] - lo[a]) as usize);
            // Along an axis of one point both corners are that point.
            let corner = |cell: [u32; 3], c: usize| -> usize {
                let [i, j, k]: [usize; 3] =
                    core::array::from_fn(|a| (((cell[a] + (c >> a & 1) as u32).min(dims[a] - 1)) - lo[a]) as usize);
                (k * nj + j) * ni + i
            };
            for (k, j, i) in boxed(lo, end) {
                let cell = [i, j, k];
                let number = first + (u64::from(k) * n[1] + u64::from(j)) * n[0] + u64::from(i);
                let (key, rst) = offered(seed, number, dims);
                let full = best.len() >= count;
                if full && best.peek().is_none_or(|worst| (key, number) >= *worst) {
                    continue;
                }
                let of = |row: usize| -> [f64; 8] { core::array::from_fn(|c| values[row * nodes + corner(cell, c)]) };
                let blank = z.iblank.map(|_| of(asked.names.len()));
                if blank.is_some_and(|b| b.contains(&0.0) || hides_cell(b[0])) {
                    continue;
                }
                if asked.condition.holds(|side| interpolate_scalar(&of(side), rst)) {
                    if full {
                        best.pop();
                    }
                    best.push((key, number));
                }
            }
        }
        first += n.iter().product::<u64>();
    }
    let place = |(_, number): (u64, u64)| {
        let (mut zone, mut left) = (0, number);
        while left >= cells(zone).iter().product::<u64>() {
            left -= cells(zone).iter().product::<u64>();
            zone += 1;
        }
        let n = cells(zone);
        let (_, rst) = offered(seed, number, dataset.zones[zone].dims());
        let low = [left % n[0], left / n[0] % n[1], left / n[0] / n[1]];
        (zone as u32, core::array::from_fn(|a| low[a] as f64 + rst[a]))
    };
    Ok(SeedCells::new(best.into_sorted_vec().into_iter().map(place).collect(), held))
}

/// The key of a cell, and its random point.
fn offered(seed: u64, number: u64, dims: [u32; 3]) -> (u64, [f64; 3]) {
    let mut stream = SeedStream::new(seed, number);
    let key = stream.next_u64();
    (key, core::array::from_fn(|a| if dims[a] > 1 { stream.next_f64() } else { 0.0 }))
}

fn boxed(lo: [u32; 3], hi: [u32; 3]) -> impl Iterator<Item = (u32, u32, u32)> {
    (lo[2]..hi[2]).flat_map(move |k| (lo[1]..hi[1]).flat_map(move |j| (lo[0]..hi[0]).map(move |i| (k, j, i))))
}

/// The time step of the condition.
fn step_of(dataset: &Dataset, spec: &TraceSpec) -> usize {
    let Some(path) = &spec.path else {
        return spec.over.steps.as_ref().and_then(|s| s.first()).copied().unwrap_or(spec.step);
    };
    let times = &dataset.catalog.times;
    let back = spec.options.direction == Direction::Backward;
    match path.from {
        None if back => times.len().saturating_sub(1),
        None => 0,
        Some(t) => times.partition_point(|s| *s <= t).saturating_sub(1),
    }
}

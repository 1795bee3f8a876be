//! Random seeds where the flow changes.
//!
//! # Theory
//! Several places a seed are drawn, even over the cells. The weight of a place is the speed there times the difference
//! of the vector across its cell. It is zero in even flow, as far from a body. It is small in dead water and next to a
//! wall, and largest in shear layers, wakes and vortices. Places are then chosen by weight, without repetition
//! (Efraimidis and Spirakis, 2006). Each place and its draw follow from the generator's seed and its number alone.
//!
//! # Practice
//! Places are weighed in the order of their pages.

use crate::admission::SeedRule;
use crate::seeds::{SeedCells, SeedStream, Seeds};
use field::dataset::Dataset;
use field::domain::Domains;
use field::error::FieldError;
use field::quantity::Quantity;
use pager::ChargeKind;
use runtime::limits::would_do;
use runtime::session::{ProgressWatch, Session};
use runtime::values::{read_box, NodeBox};

/// Places weighed for each seed.
const LOOKED_AT: u64 = 4;

/// The least weight, as a share of the mean. So an even flow has seeds, too.
const LEAST: f64 = 0.02;

/// Bytes of a place while seeds are chosen.
const OF_PLACE: u64 = size_of::<WeightedCell>() as u64 + 16;

struct WeightedCell {
    zone: u32,
    ijk: [f64; 3],
    /// Uniform in [0, 1).
    draw: f64,
    /// `None` where no line can begin.
    weight: Option<f64>,
}

/// `count` seeds for lines of a vector at a time step, where it changes.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Places with failed pages are left out: lines that meet
/// these pages report them.
pub(crate) fn of_interest(
    session: &Session,
    dataset: &Dataset,
    vector: &str,
    step: usize,
    [count, seed]: [u64; 2],
    watch: &mut ProgressWatch<'_>,
) -> Result<Seeds, FieldError> {
    let plain = Seeds::Random { count, seed };
    let rule = SeedRule::new(&plain, dataset)?;
    let looked_at = count.saturating_mul(LOOKED_AT);
    let bytes = looked_at.saturating_mul(OF_PLACE);
    let mut held = session.pager.charge(ChargeKind::Other, bytes).map_err(|f| FieldError::LimitTooSmall {
        limit: f.limit,
        needs: would_do(&session.pager, bytes),
        what: "the seeds that are looked for".into(),
    })?;
    let mut places: Vec<WeightedCell> = (0..looked_at)
        .map(|number| {
            let mut stream = SeedStream::new(seed, number);
            let (zone, ijk) = rule.draw(&mut stream);
            WeightedCell { zone, ijk, draw: stream.next_f64(), weight: None }
        })
        .collect();
    let key = |p: &WeightedCell| rule.zones.curve_key(rule.zones.spot(p.zone, p.ijk).cell);
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|n| (key(&places[*n]), *n));
    for (done, n) in order.into_iter().enumerate() {
        if !watch("finding seeds", done as f64, looked_at as f64) {
            return Err(FieldError::Interrupted);
        }
        let found = weight(session, dataset, vector, step, &places[n], watch);
        places[n].weight = match found {
            Err(e @ (FieldError::LimitTooSmall { .. } | FieldError::Interrupted)) => return Err(e),
            Err(_) => None,
            Ok(weight) => weight,
        };
    }
    places.retain(|p| p.weight.is_some());
    if places.is_empty() {
        return Ok(plain);
    }
    let mean = places.iter().filter_map(|p| p.weight).sum::<f64>() / places.len() as f64;
    let floor = if mean > 0.0 && mean.is_finite() { LEAST * mean } else { 1.0 };
    let key = |p: &WeightedCell| p.draw.max(f64::MIN_POSITIVE).ln() / (p.weight.unwrap_or(0.0) + floor);
    let mut keyed: Vec<(f64, usize)> = places.iter().enumerate().map(|(n, p)| (key(p), n)).collect();
    keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    keyed.truncate(count as usize);
    let chosen: Vec<(u32, [f64; 3])> = keyed.iter().map(|(_, n)| (places[*n].zone, places[*n].ijk)).collect();
    held.shrink(chosen.len() as u64 * 32);
    Ok(Seeds::Found(SeedCells::new(chosen, held).into()))
}

/// Speed times difference in the cell of a place. `None` in a hole, and where the vector is missing or not finite.
fn weight(
    session: &Session,
    dataset: &Dataset,
    vector: &str,
    step: usize,
    place: &WeightedCell,
    watch: &mut ProgressWatch<'_>,
) -> Result<Option<f64>, FieldError> {
    let zone = place.zone as usize;
    let z = &dataset.zones[zone];
    let Some(vector) = Quantity::named(z, vector) else { return Ok(None) };
    let mut wanted = vec![vector];
    wanted.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
    let dims = z.dims();
    let lo: [u32; 3] = core::array::from_fn(|a| (place.ijk[a] as u32).min(dims[a].saturating_sub(2)));
    let hi = core::array::from_fn(|a| (lo[a] + 2).min(dims[a]));
    let at = NodeBox { zone, step, lo, hi };
    let corners = at.count();
    let values = read_box(session, dataset, at, &wanted, watch)?;
    let rows: Vec<&[f64]> = values.chunks_exact(corners).collect();
    let (vector, blank) = rows.split_at(vector.components());
    if blank.iter().any(|b| b.contains(&0.0)) {
        return Ok(None);
    }
    let mean: Vec<f64> = vector.iter().map(|row| row.iter().sum::<f64>() / corners as f64).collect();
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|c| c * c).sum::<f64>().sqrt();
    let speed = length(&mut mean.iter().copied());
    let differs =
        (0..corners).map(|n| length(&mut vector.iter().zip(&mean).map(|(row, m)| row[n] - m))).fold(0.0, f64::max);
    let weight = speed * differs;
    Ok(weight.is_finite().then_some(weight))
}

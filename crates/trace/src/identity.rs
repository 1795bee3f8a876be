//! The identity of a state of particles, by data and options, and whether a run may continue from it.

use crate::admission::SeedRule;
use crate::seeds::SeedPoint;
use crate::trace_times::is_within;
use crate::{OutputTimes, PathSpec, Releases, TraceSpec};
use field::dataset::Dataset;
use field::error::FieldError;
use field::file::{identities, Digest};
use kernels::pathline::PathOptions;
use kernels::unsteady::Series;
use pager::{Lookup, PageId};
use runtime::limits::fetch_error;
use runtime::session::{ProgressWatch, Session};
use serde_json::{json, Map, Value};
use std::path::Path;

/// The identity of a run whose particles may continue.
///
/// # Errors
/// [`FieldError::Usage`] if they cannot: the end must be a time of the series. Otherwise a longer run would not make
/// the same last step.
pub(crate) fn document(
    session: &Session,
    dataset: &Dataset,
    spec: &TraceSpec,
    path: &PathSpec,
    (series, options): (&Series, &PathOptions),
    seeds: &SeedRule<'_>,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let zone = |z: &field::catalog::ZoneInfo| {
        let arrays = z.arrays.iter().map(|a| json!([a.name, a.components, a.dtype.name(), a.units]));
        json!({"name": z.name, "dims": z.dims, "arrays": arrays.collect::<Vec<_>>()})
    };
    Ok(json!({
        "program": concat!("farfield ", env!("CARGO_PKG_VERSION")),
        "kind": if path.streak.is_some() { "streakline" } else { "pathline" },
        "end": options.times[1],
        "times": &*series.times,
        "zones": dataset.catalog.zones.iter().map(zone).collect::<Vec<_>>(),
        "files": contents(session, dataset, series, options)?,
        "options": of_options(session, spec, path, options),
        "seeds": of_seeds(seeds, spec.seeds.len(), watch)?,
    }))
}

/// Refuses an end from which particles cannot continue.
pub(crate) fn check_end(series: &Series, options: &PathOptions) -> Result<(), FieldError> {
    let end = options.times[1];
    if series.times.len() < 2 {
        return Err(FieldError::Usage(
            "--save-state: the dataset has one time step, so its particles cannot go on when there are more; trace without it".into(),
        ));
    }
    if series.times.contains(&end) {
        return Ok(());
    }
    let n = series.times.partition_point(|t| *t < end);
    let near: Vec<String> =
        [n.checked_sub(1), Some(n)].iter().flatten().filter_map(|n| series.times.get(*n)).map(f64::to_string).collect();
    Err(FieldError::Usage(format!(
        "--save-state: the end time {end} lies between two time steps, and a run that went on would not have stopped there; end at a \
         time step, such as {}",
        near.join(" or ")
    )))
}

/// The options that must be equal. The end may differ.
fn of_options(session: &Session, spec: &TraceSpec, path: &PathSpec, o: &PathOptions) -> Value {
    let releases = path.streak.as_ref().map(|r| match r {
        Releases::Every(span) => json!({"every": span}),
        Releases::Steps(n) => json!({"steps": n}),
        // Later releases are left to the runs that continue.
        Releases::At(times) => {
            let mut times: Vec<f64> = times.iter().copied().filter(|t| is_within(*t, o.times)).collect();
            times.sort_by(f64::total_cmp);
            json!({"at": times})
        }
    });
    let outputs = spec.over.outputs.as_ref().map(|outputs| match outputs {
        OutputTimes::At(_) => json!({"at": &*o.stops}),
        outputs => json!(format!("{outputs:?}")),
    });
    json!({
        "field": spec.field,
        "scalars": spec.scalars,
        "stop": spec.stop,
        "integrator": format!("{:?}", o.method),
        "tolerance": o.tolerance,
        "max_length": bounded(o.max_length),
        "max_steps": o.max_steps,
        "time_step": o.time_step,
        "step_cells": o.step_cells,
        "t0": o.times[0],
        "direction": format!("{:?}", spec.options.direction),
        "hold_steps": path.held,
        "zone_order": session.spec.zone_order,
        "releases": releases,
        "outputs": outputs,
        // Whether a streakline's state is of the end alone or of every output time.
        "several": path.streak.is_some() && !o.stops.is_empty(),
        "points": if o.every_step { "all" } else { "steps" },
    })
}

/// Times of an option up to the earlier end of two runs. Later ones make no difference to their common part.
fn up_to(value: &Value, from: f64, ends: [f64; 2]) -> Value {
    let Some(times) = value["at"].as_array() else { return value.clone() };
    let end = if (ends[0] - from).abs() <= (ends[1] - from).abs() { ends[0] } else { ends[1] };
    let early = |t: &&Value| t.as_f64().is_some_and(|t| is_within(t, [from, end]));
    json!({"at": times.iter().filter(early).collect::<Vec<_>>()})
}

fn bounded(x: f64) -> Value {
    if x.is_finite() {
        json!(x)
    } else {
        Value::Null
    }
}

/// Number of seeds, and a digest of their positions.
fn of_seeds(rule: &SeedRule<'_>, count: u64, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let mut digest = Digest::default();
    for n in 0..count {
        if n.is_multiple_of(65_536) && !watch("comparing seeds", n as f64, count as f64) {
            return Err(FieldError::Interrupted);
        }
        digest = match rule.point(n)? {
            SeedPoint::Physical(x) => digest.text("x").words(&x.map(f64::to_bits)),
            SeedPoint::Computational { ijk, .. } => {
                digest.text("i").words(&[u64::from(rule.zone())]).words(&ijk.map(f64::to_bits))
            }
            SeedPoint::Place { zone, ijk } => digest.text("p").words(&[u64::from(zone)]).words(&ijk.map(f64::to_bits)),
            SeedPoint::Random(mut stream) => digest.text("r").words(&[(); 4].map(|()| stream.next_f64().to_bits())),
        };
    }
    Ok(json!({"lines": count, "digest": digest.to_string()}))
}

/// A digest of the content of each step that the run reads, in order of time; empty for the others. For files: sizes,
/// times of change and inode numbers. For a store: ranges of values, which do not depend on its paging or place, or on
/// added steps.
fn contents(
    session: &Session,
    dataset: &Dataset,
    series: &Series,
    options: &PathOptions,
) -> Result<Vec<String>, FieldError> {
    let steps = series.times.len();
    if dataset.is_in_place() {
        return files(dataset, steps);
    }
    let [from, to] = options.times.map(|t| series.interval(t, options.times[1] >= options.times[0]).unwrap_or(0));
    let met = from.min(to)..=series.next(from.max(to));
    (0..steps as u32)
        .map(|step| if met.contains(&step) { ranges(session, dataset, step) } else { Ok(String::new()) })
        .collect()
}

/// A digest of the smallest and largest value of each component of each array at a step.
fn ranges(session: &Session, dataset: &Dataset, step: u32) -> Result<String, FieldError> {
    let mut digest = Digest::default();
    let mut worker = session.pager.worker();
    for (zone, arrays) in dataset.zones.iter().zip(&dataset.ranges) {
        for (array, levels) in zone.arrays.iter().zip(arrays) {
            // The coarsest level: usually one page.
            let Some(level) = levels.last() else { continue };
            let n = array.components;
            let (mut lo, mut hi) = (vec![f64::INFINITY; n], vec![f64::NEG_INFINITY; n]);
            let step = if array.steady { 0 } else { step };
            for number_of_page in 0..level.paging.pages.iter().product::<usize>() as u64 {
                let id = PageId::new(level.id, step, number_of_page);
                let bytes = (level.paging.page.iter().product::<usize>() * n * 16) as u64;
                let _hold = session.pager.fetch(&[id]).map_err(|e| fetch_error(&session.pager, e, bytes, 0))?;
                if let Lookup::Here(page) = worker.page(id) {
                    let number = |word: &[u8]| word.try_into().map_or(f64::NAN, f64::from_ne_bytes);
                    let inside = level.paging.extent(level.paging.coords(number_of_page));
                    let element = |at: [usize; 3]| level.paging.locate(at).1;
                    let mut take = |at: [usize; 3]| {
                        let Some(entry) = page.chunks_exact(16 * n).nth(element(at)) else { return };
                        for c in 0..n {
                            lo[c] = lo[c].min(number(&entry[8 * c..8 * c + 8]));
                            hi[c] = hi[c].max(number(&entry[8 * (n + c)..8 * (n + c) + 8]));
                        }
                    };
                    for k in inside[2].clone() {
                        for j in inside[1].clone() {
                            inside[0].clone().for_each(|i| take([i, j, k]));
                        }
                    }
                }
                worker.release();
            }
            digest = digest.text(&array.name);
            digest = lo.iter().chain(&hi).fold(digest, |d, v| d.words(&[v.to_bits()]));
        }
    }
    Ok(digest.to_string())
}

/// A digest of the files of each step: size, time of change and inode number of each.
fn files(dataset: &Dataset, steps: usize) -> Result<Vec<String>, FieldError> {
    let Some(format) = &dataset.format else { return Ok(Vec::new()) };
    let known = identities(&format.files())?;
    let used = format.files_by_step(steps);
    let digest = |files: &Vec<usize>| files.iter().fold(Digest::default(), |d, f| d.file(&known[*f])).to_string();
    Ok(used.iter().map(digest).collect())
}

/// Refuses to continue from a state of other data, options or seeds, and names the difference.
///
/// # Errors
/// [`FieldError::Usage`].
pub(crate) fn check(state: &Path, then: &Value, now: &Value) -> Result<(), FieldError> {
    let refused = |what: String| Err(FieldError::Usage(format!("{}: {what}", state.display())));
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or("").to_owned();
    if then["kind"] != now["kind"] {
        return refused(format!("this is the state of {}s, not of {}s", text(then, "kind"), text(now, "kind")));
    }
    let empty = Map::new();
    let (old, new) = (then["options"].as_object().unwrap_or(&empty), now["options"].as_object().unwrap_or(&empty));
    let [was, is] = [then, now].map(|v| v["end"].as_f64().unwrap_or(f64::NAN));
    let from = now["options"]["t0"].as_f64().unwrap_or(f64::NAN);
    for (key, value) in new {
        let [was, value] = [old.get(key).unwrap_or(&Value::Null), value].map(|v| up_to(v, from, [was, is]));
        if was != value {
            return refused(format!(
                "the state was saved with {key} {was}, and now it is {value}; say the same again, or trace from the beginning"
            ));
        }
    }
    if then["seeds"] != now["seeds"] {
        return refused(format!(
            "the state is of {} other seeds; give the same again, or trace from the beginning",
            then["seeds"]["lines"]
        ));
    }
    if then["zones"] != now["zones"] {
        return refused("the state is of a dataset with other zones or fields; trace from the beginning".into());
    }
    let none = Vec::new();
    let (times, now_times) = (then["times"].as_array().unwrap_or(&none), now["times"].as_array().unwrap_or(&none));
    if times.len() > now_times.len() {
        return refused(format!(
            "the dataset had {} time steps when the state was saved and has {} now; trace from the beginning",
            times.len(),
            now_times.len()
        ));
    }
    if let Some(n) = (0..times.len()).find(|n| times[*n] != now_times[*n]) {
        return refused(format!(
            "time step {n} was at {} when the state was saved and is at {} now; trace from the beginning",
            times[n], now_times[n]
        ));
    }
    let (files, now_files) = (then["files"].as_array().unwrap_or(&none), now["files"].as_array().unwrap_or(&none));
    if let Some(n) = (0..files.len()).find(|n| files[*n] != "" && now_files.get(*n) != Some(&files[*n])) {
        return refused(format!(
            "time step {n} does not hold what it held when the state was saved: its files were written, moved or replaced since, or this \
             is another store; trace from the beginning"
        ));
    }
    if !((is - from).abs() >= (was - from).abs()) {
        return refused(format!(
            "the state is at {was}, and the run is to end at {is}, before it; choose a later end time"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(end: f64, t0: f64, releases: &[f64]) -> Value {
        json!({"kind": "streakline", "end": end, "options": {"t0": t0, "releases": {"at": releases}}})
    }

    #[test]
    fn times_behind_the_end_of_a_state_are_free() {
        let state = Path::new("a.state");
        let then = saved(2.0, 0.0, &[0.1, 2.0]);
        for list in [&[0.1, 2.0][..], &[0.1, 2.0, 2.5, 4.0]] {
            assert!(check(state, &then, &saved(4.0, 0.0, list)).is_ok(), "{list:?}");
        }
        for list in [&[0.1][..], &[0.1, 1.5, 2.0, 4.0], &[2.0, 4.0]] {
            let refused = check(state, &then, &saved(4.0, 0.0, list)).unwrap_err().to_string();
            assert!(refused.contains("releases") && !refused.contains("4.0"), "{refused}");
        }
        // An earlier end has its own error.
        let refused = check(state, &then, &saved(1.0, 0.0, &[0.1])).unwrap_err().to_string();
        assert!(refused.contains("choose a later end time"), "{refused}");
        let back = |end, list: &[f64]| saved(end, 4.0, list);
        assert!(check(state, &back(2.0, &[3.0]), &back(0.0, &[1.0, 3.0])).is_ok());
        assert!(check(state, &back(2.0, &[3.0]), &back(0.0, &[2.5, 3.0])).is_err());
    }
}

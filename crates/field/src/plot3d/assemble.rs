//! From readings to a catalog and layouts.

use super::blocks::ZoneBlocks;
use super::dataset::Plot3d;
use super::headers::{self, flow_headers, velocity};
use super::measure::{Measure, Scales};
use super::names::group;
use super::options::{Dimension, Format, Precision};
use super::parts::{OpenedFile, Parts};
use super::reading::{Encoding, FileReading, AVERAGED};
use super::sniff::file_name;
use crate::array_layout::ArrayLayout;
use crate::catalog::{
    untimed_steps, ArrayInfo, Catalog, DType, FlowHeader, Role, ZoneInfo, COUNTED, NUMBERED, SAY_DT, SORTED,
};
use crate::data_files::DataFiles;
use crate::decimal::Multiples;
use crate::error::FieldError;
use crate::series::SeriesFiles;
use crate::unique_names::{none_taken, plain};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// An array before it has a place: its description, its first variable, its factor.
struct Variable {
    info: ArrayInfo,
    first: u64,
    /// Factor on its numbers.
    factor: f64,
}

/// Common properties of a file's arrays.
struct Maker<'a> {
    dtype: DType,
    scales: &'a Scales,
}

impl Maker<'_> {
    fn array(&self, name: &str, role: Role, components: usize, first: usize, m: Measure, label: &str) -> Variable {
        let (factor, units, long_name, standard_name) = self.scales.apply(m, label);
        let info = ArrayInfo {
            name: name.to_owned(),
            role,
            components,
            dtype: if role == Role::Iblank { DType::Int32 } else { self.dtype },
            units: units.to_owned(),
            standard_name: standard_name.to_owned(),
            long_name,
        };
        Variable { info, first: first as u64, factor }
    }
    fn field(&self, name: &str, components: usize, first: usize, measure: Measure, label: &str) -> Variable {
        self.array(name, Role::Field, components, first, measure, label)
    }
}

const fn dtype(e: &Encoding) -> DType {
    match e.precision {
        Precision::Single => DType::Float32,
        Precision::Double => DType::Float64,
    }
}

fn grid_variables(reading: &FileReading, scales: &Scales, zone_scale: f64) -> Vec<Variable> {
    let e = &reading.encoding;
    let dim = e.dimension.count();
    let make = Maker { dtype: dtype(e), scales };
    let mut xyz = make.array("xyz", Role::Coordinates, dim, 0, Measure::Length, "position");
    xyz.factor *= zone_scale;
    let mut all = vec![xyz];
    if e.iblank {
        all.push(make.array("iblank", Role::Iblank, 1, dim, Measure::Plain, "iblank"));
    }
    all
}

/// Density, momentum, energy, and OVERFLOW's additions: gamma, NQC species densities, then turbulence variables. Its
/// averages (`q.avg`) have fluctuations instead of turbulence variables.
fn q_variables(reading: &FileReading, count: usize, scales: &Scales) -> Vec<Variable> {
    let e = &reading.encoding;
    let dim = e.dimension.count();
    let make = Maker { dtype: dtype(e), scales };
    let mut all = vec![
        make.field("density", 1, 0, Measure::Density, "density"),
        make.field("momentum", dim, 1, Measure::Momentum, "momentum a volume"),
        make.field("energy", 1, dim + 1, Measure::Energy, "total energy a volume"),
    ];
    if count > 5 {
        all.push(make.field("gamma", 1, 5, Measure::Plain, "ratio of specific heats"));
    }
    if reading.tail == AVERAGED && count == 11 {
        let velocity = Measure::VelocitySquared;
        let measures = [Measure::DensitySquared, velocity, velocity, velocity, Measure::PressureSquared];
        let names = ["density", "velocity_x", "velocity_y", "velocity_z", "pressure"];
        for (n, (name, measure)) in names.iter().zip(measures).enumerate() {
            let long = format!("mean square fluctuation of {}", name.replace('_', " "));
            all.push(make.field(&format!("{name}_variance"), 1, 6 + n, measure, &long));
        }
        return all;
    }
    let species = (reading.species as usize).min(count.saturating_sub(6));
    for n in 0..species {
        let (name, long) = (format!("species{}", n + 1), format!("density of species {}", n + 1));
        all.push(make.field(&name, 1, 6 + n, Measure::Density, &long));
    }
    for (n, first) in (6 + species..count).enumerate() {
        let (name, long) = (format!("turbulence{}", n + 1), format!("turbulence variable {}", n + 1));
        all.push(make.field(&name, 1, first, Measure::Plain, &long));
    }
    all
}

fn function_variables(reading: &FileReading, count: usize, names: &[String], scales: &Scales) -> Vec<Variable> {
    let e = &reading.encoding;
    let make = Maker { dtype: dtype(e), scales };
    group(names, count, e.dimension.count())
        .into_iter()
        .map(|a| make.field(&a.name, a.components, a.first, Measure::Plain, &a.label))
        .collect()
}

/// Data of the files of one kind: blocks by zone, then by step or one for all steps.
type Series = Vec<Vec<ZoneBlocks>>;

pub(super) fn assemble(mut parts: Parts) -> Result<Plot3d, FieldError> {
    for (what, list) in [("grid", &parts.grids), ("solution", &parts.q), ("function", &parts.functions)] {
        for other in list.iter().skip(1) {
            if let Some(difference) = other.part.reading.difference(&list[0].part.reading) {
                let message = format!(
                    "this {what} file has {}, but {} has {}: the steps of a dataset must hold the same arrays with the \
                     same precision",
                    difference.0,
                    file_name(&list[0].given),
                    difference.1
                );
                return Err(FieldError::format(&other.given, message));
            }
        }
    }
    let scales = Scales::new(&parts.settings.reference, !parts.q.is_empty()).map_err(|e| parts.in_settings(e))?;
    let mut headers = flow_headers(&parts)?;
    let velocity = velocity(&parts, &headers).map_err(|e| parts.in_settings(e))?;
    let scales = scales.of_velocity(velocity);
    let Timing { mut times, order, physical } = timing(&mut parts, &headers);
    let said = headers::remarks(&parts, &headers, physical, velocity)?;
    parts.guessed.extend(said);
    let seconds = scales.time().filter(|_| physical);
    // OVERFLOW's times are read in L / a_inf; the unit of its velocities does not matter.
    let of_velocity = parts.q.first().is_some_and(|q| !q.part.reading.encoding.overflow) && physical;
    let unit_of_time = seconds.unwrap_or(1.0) / if of_velocity { velocity } else { 1.0 };
    if unit_of_time != 1.0 {
        times.iter_mut().for_each(|t| *t *= unit_of_time);
        headers.iter_mut().flatten().for_each(|h| h.time *= unit_of_time);
    }
    if (scales.has_flow() || scales.time().is_some()) && !parts.functions.is_empty() {
        parts.guessed.push(
            "The reference values make SI units of the grid and of q; functions stay as their file has them."
                .to_owned(),
        );
    }
    let mut paths = Vec::new();
    let mut numbers = HashMap::new();
    let mut series = |list: &[OpenedFile]| series(list, &order, &mut paths, &mut numbers);
    let (grids, q, functions) = (series(&parts.grids), series(&parts.q), series(&parts.functions));
    let files = Arc::new(DataFiles::new(paths));

    let first = &parts.grids[0];
    let names = zone_names(&parts, first.part.reading.zones.len())?;
    let zone_scales: HashMap<&str, f64> = parts.settings.scales.iter().map(|(name, s)| (name.as_str(), *s)).collect();
    let mut zones = Vec::new();
    let mut layouts = Vec::new();
    for (n, zone) in first.part.reading.zones.iter().enumerate() {
        let mut all: Vec<(Variable, &Series)> = Vec::new();
        let scale = zone_scales.get(names[n].as_str()).copied().unwrap_or(1.0);
        all.extend(grid_variables(&first.part.reading, &scales, scale).into_iter().map(|v| (v, &grids)));
        if let Some(file) = parts.q.first() {
            let r = &file.part.reading;
            all.extend(q_variables(r, r.zones[n].variables as usize, &scales).into_iter().map(|v| (v, &q)));
        }
        if let Some(file) = parts.functions.first() {
            let r = &file.part.reading;
            let count = r.zones[n].variables as usize;
            all.extend(function_variables(r, count, &parts.names, &scales).into_iter().map(|v| (v, &functions)));
        }
        let mut taken = none_taken();
        let mut arrays = Vec::new();
        let mut places = Vec::new();
        for (mut v, from) in all {
            v.info.name = taken.free(v.info.name, false);
            places.push(Arc::new(ArrayLayout {
                name: format!("{}/{}", names[n], v.info.name),
                files: files.clone(),
                dims: zone.dims.map(u64::from),
                first: v.first,
                components: v.info.components as u64,
                dtype: v.info.dtype,
                factor: v.factor,
                apart: 1,
                blocks: from[n].iter().map(|b| b.of(v.info.role)).collect(),
                tally: Arc::default(),
            }));
            arrays.push(v.info);
        }
        layouts.push(places);
        let headers = order.iter().filter_map(|&s| headers.get(s).map(|h| h[n])).collect();
        zones.push(ZoneInfo { name: names[n].clone(), dims: zone.dims.map(|d| d as usize), arrays, headers });
    }
    let catalog = Catalog {
        format: format_words(&first.text),
        guessed: std::mem::take(&mut parts.guessed),
        order_assumed: std::mem::take(&mut parts.order_assumed),
        dimension: if first.text.dimension == Dimension::Two { 2 } else { 3 },
        zones,
        times,
        times_counted: !physical,
        time_units: if seconds.is_some() { "s" } else { "1" }.to_owned(),
        settings: parts.settings.to_json(),
    };
    let series = series_files(&parts, &order);
    Ok(Plot3d { catalog, settings: parts.settings, series, files, layouts })
}

fn format_words(e: &Encoding) -> String {
    match e.format {
        Format::Ascii => "PLOT3D, ASCII".to_owned(),
        format => {
            let how = if format == Format::Fortran { "Fortran unformatted" } else { "plain binary" };
            format!("PLOT3D, {how}, {}-endian, {}", e.byte_order.word(), dtype(e).name())
        }
    }
}

/// Advice on steps that may be counted.
const SAY_DT_IF: &str = "--dt says how far apart these are.";

/// Times of the steps.
struct Timing {
    times: Vec<f64>,
    /// Order of the files by their times.
    order: Vec<usize>,
    /// Whether these are times, and not numbers of steps.
    physical: bool,
}

fn timing(parts: &mut Parts, headers: &[Vec<FlowHeader>]) -> Timing {
    let steps = parts.steps;
    let order: Vec<usize> = (0..steps).collect();
    let list = [&parts.q, &parts.functions, &parts.grids].into_iter().find(|list| list.len() == steps && steps > 1);
    let left_out = list.and_then(|list| left_out(list));
    if let Some(dt) = parts.dt {
        let said = left_out.map(|which| format!("{which}; {COUNTED}, so that it is too little there."));
        parts.guessed.extend(said);
        // Three steps of 0.1 give exactly 0.3, so users find a step by its time.
        let each = Multiples::new(0.0, dt);
        return Timing { times: (0..steps as u32).map(|s| each.at(s)).collect(), order, physical: true };
    }
    if let Some(times) = &parts.times {
        return Timing { times: times.clone(), order, physical: true };
    }
    let counts = left_out.map(|which| format!("{which}."));
    let numbered = |order| Timing { times: (0..steps).map(|s| s as f64).collect(), order, physical: steps == 1 };
    if headers.is_empty() || parts.q.len() < steps {
        if steps > 1 {
            parts.guessed.push(untimed_steps(steps, &parts.untimed));
            parts.guessed.extend(counts);
        }
        return numbered(order);
    }
    let times: Vec<f64> = headers.iter().map(|h| h.first().map_or(f64::NAN, |h| h.time)).collect();
    if steps == 1 {
        let time = if times[0].is_finite() { times[0] } else { 0.0 };
        return Timing { times: vec![time], order, physical: true };
    }
    let names: Vec<String> = parts.q.iter().map(|o| file_name(&o.given)).collect();
    let mut sorted = order.clone();
    sorted.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    if let Some(why) = no_times(&times, &sorted, &names) {
        parts.guessed.push(why);
        parts.guessed.extend(counts);
        return numbered(order);
    }
    if let Some(n) = sorted.windows(2).position(|w| w[0] > w[1]) {
        let [a, b] = [sorted[n], sorted[n + 1]];
        parts.guessed.push(format!(
            "The steps {SORTED}, not by the names: {} ({}) comes before {} ({}).",
            names[a], times[a], names[b], times[b]
        ));
    }
    let in_order: Vec<f64> = sorted.iter().map(|&s| times[s]).collect();
    if counts_steps(&in_order) {
        let (first, last) = (sorted[0], sorted[steps - 1]);
        parts.guessed.push(format!(
            "The q headers only count the steps: {} has {}, {} has {}; steps {NUMBERED}. {SAY_DT} (--dt 1 if these are their times).",
            names[first], times[first], names[last], times[last]
        ));
        parts.guessed.extend(counts);
        return numbered(sorted);
    }
    let whole = in_order.iter().all(|t| t.fract() == 0.0);
    if whole && in_order.windows(2).all(|w| w[1] - w[0] == in_order[1] - in_order[0]) {
        parts
            .guessed
            .push(format!("The times in the q headers are whole numbers. Where they count steps, {SAY_DT_IF}"));
    }
    Timing { times: in_order, order: sorted, physical: true }
}

/// Whether times, in order, are consecutive whole numbers, as of a counter. Two times may be so by chance.
fn counts_steps(times: &[f64]) -> bool {
    times.len() > 2 && times[0].fract() == 0.0 && times.windows(2).all(|w| w[1] - w[0] == 1.0)
}

/// The headers without a time of their own, and advice. `sorted` has the steps in the order of their times.
fn no_times(times: &[f64], sorted: &[usize], names: &[String]) -> Option<String> {
    let more = |n: usize, what: &str| match n {
        0 => String::new(),
        1 => format!(" (and 1 more {what})"),
        n => format!(" (and {n} more {what}s)"),
    };
    let odd: Vec<usize> = (0..times.len()).filter(|&s| !times[s].is_finite()).collect();
    if let Some(&s) = odd.first() {
        return Some(format!(
            "The time in the header of {}{} is no finite number but {}; steps {NUMBERED}. Leave such files out; or, where the headers \
             cannot be trusted, {SAY_DT}.",
            names[s],
            more(odd.len() - 1, "file"),
            times[s]
        ));
    }
    let alike: Vec<[usize; 2]> =
        sorted.windows(2).map(|w| [w[0], w[1]]).filter(|[a, b]| times[*a] == times[*b]).collect();
    let &[a, b] = alike.first()?;
    let both = format!("{} and {} both have {}", names[a], names[b], times[a]);
    // If a writer gives all steps the same time, no file should be left out.
    Some(if alike.len() + 1 == times.len() {
        format!("The q headers give all {} steps the same time ({both}); steps {NUMBERED}. {SAY_DT}.", times.len())
    } else {
        format!(
            "The q headers do not give each step a time of its own: {both}{}; steps {NUMBERED}. Leave one of the two out; or, where the \
             headers cannot be trusted, {SAY_DT}.",
            more(alike.len() - 1, "pair")
        )
    })
}

/// The first gap in the numbers of file names, in words. The names differ in one run of digits, which mostly rises by
/// the same amount.
fn left_out(list: &[OpenedFile]) -> Option<String> {
    let names: Vec<String> = list.iter().map(|o| file_name(&o.given)).collect();
    let (first, second) = (names.first()?, names.get(1)?);
    let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let start = first[..same].trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = |name: &String| -> Option<u64> {
        let rest = name.get(start..).filter(|_| name.get(..start) == first.get(..start))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let end = first.get(start..)?.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.get(digits..) == Some(end)).then(|| rest[..digits].parse().ok()).flatten()
    };
    let numbers: Vec<u64> = names.iter().map(number).collect::<Option<_>>()?;
    let spans: Vec<u64> = numbers.windows(2).map(|w| w[1].checked_sub(w[0])).collect::<Option<_>>()?;
    let least = spans.iter().copied().min().filter(|least| *least > 0)?;
    let gaps = spans.iter().filter(|s| **s != least).count();
    let at = spans.iter().position(|s| *s != least)?;
    let more = if gaps > 1 { format!(" (and {} more places)", gaps - 1) } else { String::new() };
    Some(format!("The numbers of the files leave some out: {} follows {}{more}", names[at + 1], names[at]))
}

fn series(
    list: &[OpenedFile],
    order: &[usize],
    paths: &mut Vec<PathBuf>,
    numbers: &mut HashMap<PathBuf, usize>,
) -> Series {
    let zones = list.first().map_or(0, |o| o.part.reading.zones.len());
    let mut blocks = vec![Vec::new(); zones];
    // One file for all steps is stored once, even if it is given for each step.
    let steady = list.iter().all(|o| o.part.path == list[0].part.path);
    let order = if steady { &[0][..] } else { order };
    for &step in order {
        let Some(opened) = list.get(step) else { continue };
        let path = &opened.part.path;
        let number = *numbers.entry(path.clone()).or_insert_with(|| {
            paths.push(path.clone());
            paths.len() - 1
        });
        for (zone, all) in opened.part.reading.zones.iter().zip(&mut blocks) {
            all.push(ZoneBlocks::new(number, &opened.part.reading, zone));
        }
    }
    blocks
}

/// The given files, by step in the order of time. A single grid is for all steps.
fn series_files(parts: &Parts, order: &[usize]) -> SeriesFiles {
    let steady = |list: &[OpenedFile]| list.len() == 1 && order.len() > 1;
    let mut files = SeriesFiles { steady: Vec::new(), steps: vec![Vec::new(); order.len()] };
    for (n, list) in [&parts.grids, &parts.q, &parts.functions].into_iter().enumerate() {
        if steady(list) || n == 0 && list.len() == 1 {
            files.steady.extend(list.first().map(|o| o.given.clone()));
        } else if !list.is_empty() {
            for (step, &from) in order.iter().enumerate() {
                files.steps[step].extend(list.get(from).map(|o| o.given.clone()));
            }
        }
    }
    files
}

/// Names of the zones. Checks that scales name existing zones.
fn zone_names(parts: &Parts, count: usize) -> Result<Vec<String>, FieldError> {
    let settings = &parts.settings;
    let mut taken = none_taken();
    let names: Vec<String> = (0..count)
        .map(|n| {
            let given = settings.zone_names.get(n).map(|s| plain(s));
            taken.free(given.unwrap_or_else(|| format!("zone{}", n + 1)), false)
        })
        .collect();
    if settings.zone_names.len() > count {
        let zones = if count == 1 { "is 1".to_owned() } else { format!("are {count}") };
        return Err(parts.in_settings(format!("names {} zones, but there {zones}", settings.zone_names.len())));
    }
    for (name, _) in &settings.scales {
        if !taken.has(name) {
            let known = names.join(", ");
            return Err(parts.in_settings(format!("'zones' scales '{name}', but the zones are: {known}")));
        }
    }
    Ok(names)
}

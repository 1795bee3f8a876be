//! From readings to a catalog and layouts.

use super::bytes::FileBytes;
use super::layout::{ArrayLayout, Block, Files};
use super::names::{group, plain, unique};
use super::options::{Dimension, Format, Precision};
use super::reading::{Encoding, Reading, AVERAGED};
use super::settings::Plot3dSettings;
use super::sniff::file_name;
use super::Plot3d;
use crate::catalog::{ArrayInfo, Catalog, DType, FlowHeader, Role, ZoneInfo};
use crate::error::FieldError;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A binary file (what the user gave, or what its text was converted to) and how it is read.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub path: PathBuf,
    pub reading: Reading,
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    /// How the user's file is written.
    pub text: Encoding,
    pub part: Part,
}

/// Everything that makes a dataset.
pub(super) struct Parts {
    pub grids: Vec<Opened>,
    pub q: Vec<Opened>,
    pub functions: Vec<Opened>,
    /// Names of functions.
    pub names: Vec<String>,
    pub steps: usize,
    pub times: Option<Vec<f64>>,
    pub settings: Plot3dSettings,
    /// The file that they come from.
    pub settings_file: PathBuf,
    pub guessed: Vec<String>,
}

/// An array before it has a place: what it is, its first variable, its components.
struct Variable {
    info: ArrayInfo,
    first: u64,
}

fn variable(name: &str, role: Role, components: usize, dtype: DType, first: usize, long_name: &str) -> Variable {
    let info = ArrayInfo {
        name: name.to_owned(),
        role,
        components,
        dtype,
        units: "1".to_owned(),
        standard_name: String::new(),
        long_name: long_name.to_owned(),
    };
    Variable { info, first: first as u64 }
}

const fn dtype(e: &Encoding) -> DType {
    match e.precision {
        Precision::Single => DType::Float32,
        Precision::Double => DType::Float64,
    }
}

fn grid_variables(reading: &Reading) -> Vec<Variable> {
    let e = &reading.encoding;
    let dim = e.dimension.count();
    let mut all = vec![variable("xyz", Role::Coordinates, dim, dtype(e), 0, "position")];
    if e.iblank {
        all.push(variable("iblank", Role::Iblank, 1, DType::Int32, dim, "iblank"));
    }
    all
}

/// Density, momentum, energy, and what OVERFLOW adds: gamma, NQC species densities, then turbulence variables; in its
/// averages (`q.avg`), fluctuations instead of the latter.
fn q_variables(reading: &Reading, count: usize) -> Vec<Variable> {
    let e = &reading.encoding;
    let (dim, dtype) = (e.dimension.count(), dtype(e));
    let field = |name: &str, components, first, long: &str| variable(name, Role::Field, components, dtype, first, long);
    let mut all = vec![
        field("density", 1, 0, "density"),
        field("momentum", dim, 1, "momentum per unit volume"),
        field("energy", 1, dim + 1, "stagnation energy per unit volume"),
    ];
    if count > 5 {
        all.push(field("gamma", 1, 5, "ratio of specific heats"));
    }
    if reading.tail == AVERAGED && count == 11 {
        for (n, name) in ["density", "velocity_x", "velocity_y", "velocity_z", "pressure"].iter().enumerate() {
            let long = format!("mean square fluctuation of {}", name.replace('_', " "));
            all.push(field(&format!("{name}_variance"), 1, 6 + n, &long));
        }
        return all;
    }
    let species = (reading.species as usize).min(count.saturating_sub(6));
    for n in 0..species {
        all.push(field(&format!("species{}", n + 1), 1, 6 + n, &format!("density of species {}", n + 1)));
    }
    for (n, first) in (6 + species..count).enumerate() {
        all.push(field(&format!("turbulence{}", n + 1), 1, first, &format!("turbulence variable {}", n + 1)));
    }
    all
}

fn function_variables(reading: &Reading, count: usize, names: &[String]) -> Vec<Variable> {
    let e = &reading.encoding;
    group(names, count, e.dimension.count())
        .into_iter()
        .map(|a| variable(&a.name, Role::Field, a.components, dtype(e), a.first, &a.label))
        .collect()
}

/// The data of files of one kind: blocks by zone, and by step or one for all steps.
type Series = Vec<Vec<Arc<Block>>>;

pub(super) fn assemble(mut parts: Parts) -> Result<Plot3d, FieldError> {
    for (what, list) in [("grid", &parts.grids), ("solution", &parts.q), ("function", &parts.functions)] {
        for other in list.iter().skip(1) {
            if !other.part.reading.same_shape(&list[0].part.reading) {
                return Err(FieldError::format(
                    &other.part.path,
                    format!(
                        "this {what} file is written as {}, but {} as {}: the steps of a dataset must hold the same \
                         arrays with the same precision",
                        other.text.describe(),
                        file_name(&list[0].part.path),
                        list[0].text.describe()
                    ),
                ));
            }
        }
    }
    let headers = flow_headers(&parts)?;
    let (times, order) = times(&mut parts, &headers);
    let mut paths = Vec::new();
    let mut numbers = HashMap::new();
    let mut series = |list: &[Opened]| series(list, &order, &mut paths, &mut numbers);
    let (grids, q, functions) = (series(&parts.grids), series(&parts.q), series(&parts.functions));
    let files = Arc::new(Files::new(paths));

    let first = &parts.grids[0];
    let names = zone_names(&parts, first.part.reading.zones.len())?;
    let mut zones = Vec::new();
    let mut layouts = Vec::new();
    for (n, zone) in first.part.reading.zones.iter().enumerate() {
        let mut all: Vec<(Variable, &Series)> = Vec::new();
        all.extend(grid_variables(&first.part.reading).into_iter().map(|v| (v, &grids)));
        if let Some(file) = parts.q.first() {
            let r = &file.part.reading;
            all.extend(q_variables(r, r.zones[n].variables as usize).into_iter().map(|v| (v, &q)));
        }
        if let Some(file) = parts.functions.first() {
            let r = &file.part.reading;
            let count = r.zones[n].variables as usize;
            all.extend(function_variables(r, count, &parts.names).into_iter().map(|v| (v, &functions)));
        }
        let mut taken = HashSet::new();
        let mut arrays = Vec::new();
        let mut places = Vec::new();
        for (mut v, from) in all {
            v.info.name = unique(v.info.name, &mut taken);
            places.push(Arc::new(ArrayLayout {
                name: format!("{}/{}", names[n], v.info.name),
                files: files.clone(),
                dims: zone.dims.map(u64::from),
                first: v.first,
                components: v.info.components as u64,
                dtype: v.info.dtype,
                blocks: from[n].clone(),
            }));
            arrays.push(v.info);
        }
        layouts.push(places);
        let headers = order.iter().filter_map(|&s| headers.get(s).map(|h| h[n])).collect();
        zones.push(ZoneInfo { name: names[n].clone(), dims: zone.dims.map(|d| d as usize), arrays, headers });
    }
    let catalog = Catalog {
        format: format_words(&first.text),
        guessed: parts.guessed,
        dimension: if first.text.dimension == Dimension::Two { 2 } else { 3 },
        zones,
        times,
        time_units: "1".to_owned(),
        settings: parts.settings.to_json(),
    };
    Ok(Plot3d { catalog, settings: parts.settings, files, layouts })
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

/// Header numbers by step and zone.
fn flow_headers(parts: &Parts) -> Result<Vec<Vec<FlowHeader>>, FieldError> {
    let gamma = parts.settings.reference.gamma;
    let mut steps = Vec::with_capacity(parts.q.len());
    for file in &parts.q {
        let path = &file.part.path;
        let source = FileBytes::open(path).map_err(|e| FieldError::io(path, e))?;
        let mut zones = Vec::with_capacity(file.part.reading.zones.len());
        for n in 0..file.part.reading.zones.len() {
            let mut header = file.part.reading.header(&source, n).map_err(|e| FieldError::io(path, e))?;
            header.gamma = gamma.unwrap_or(header.gamma);
            zones.push(header);
        }
        steps.push(zones);
    }
    if steps.len() == 1 && parts.steps > 1 {
        steps = vec![steps.remove(0); parts.steps];
    }
    Ok(steps)
}

/// Times of the steps and the order of the files that they ask for.
fn times(parts: &mut Parts, headers: &[Vec<FlowHeader>]) -> (Vec<f64>, Vec<usize>) {
    let steps = parts.steps;
    let plain: Vec<usize> = (0..steps).collect();
    if let Some(times) = &parts.times {
        return (times.clone(), plain);
    }
    if headers.is_empty() || parts.q.len() < steps {
        if steps > 1 {
            parts.guessed.push(format!("No file gives the times of the {steps} steps; they are numbered from 0."));
        }
        return ((0..steps).map(|s| s as f64).collect(), plain);
    }
    let times: Vec<f64> = headers.iter().map(|h| h.first().map_or(f64::NAN, |h| h.time)).collect();
    if steps == 1 {
        let time = if times[0].is_finite() { times[0] } else { 0.0 };
        return (vec![time], plain);
    }
    let mut order = plain.clone();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    let distinct = times.iter().all(|t| t.is_finite()) && order.windows(2).all(|w| times[w[0]] < times[w[1]]);
    if !distinct {
        let sentence = "The q headers do not give each step a time of its own; steps are numbered from 0.";
        parts.guessed.push(sentence.to_owned());
        return ((0..steps).map(|s| s as f64).collect(), plain);
    }
    if order != plain {
        parts.guessed.push("The steps are sorted by the times in the q headers.".to_owned());
    }
    (order.iter().map(|&s| times[s]).collect(), order)
}

fn series(list: &[Opened], order: &[usize], paths: &mut Vec<PathBuf>, numbers: &mut HashMap<PathBuf, usize>) -> Series {
    let zones = list.first().map_or(0, |o| o.part.reading.zones.len());
    let mut blocks = vec![Vec::new(); zones];
    // One file for all steps, however it is given, is kept once.
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
            all.push(Arc::new(Block::new(number, &opened.part.reading, zone)));
        }
    }
    blocks
}

/// Names of the zones; scales are checked against them.
fn zone_names(parts: &Parts, count: usize) -> Result<Vec<String>, FieldError> {
    let settings = &parts.settings;
    let mut taken = HashSet::new();
    let names: Vec<String> = (0..count)
        .map(|n| {
            let given = settings.zone_names.get(n).map(|s| plain(s));
            unique(given.unwrap_or_else(|| format!("zone{}", n + 1)), &mut taken)
        })
        .collect();
    let bad = |message: String| Err(FieldError::format(&parts.settings_file, message));
    if settings.zone_names.len() > count {
        return bad(format!("names {} zones, but there are {count}", settings.zone_names.len()));
    }
    match settings.scales.iter().find(|(name, _)| !names.contains(name)) {
        Some((name, _)) => bad(format!("'zones' has no zone named '{name}' to scale; there are: {}", names.join(", "))),
        None => Ok(names),
    }
}

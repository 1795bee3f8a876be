//! A document that describes zones, checked against the files.

use super::spec::{ArraySpec, Place, RuleSpec, StoredSpec, ZoneSpec, ZonesSpec};
use crate::array_layout::{ArrayLayout, StoredBlock};
use crate::byte_runs::Spans;
use crate::catalog::{check_dt, check_times, untimed_steps, ArrayInfo, Catalog, Role, RowReader, ZoneInfo};
use crate::computed_array::{ComputedArray, Rule};
use crate::data_files::DataFiles;
use crate::decimal::Multiples;
use crate::error::FieldError;
use crate::file::stats;
use crate::format::{Format, Storage};
use crate::heap_size;
use crate::series::SeriesFiles;
use crate::stored_numbers::StoredNumbers;
use crate::unique_names::{none_taken, plain};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit of points along an axis: page numbers and indices have 32 bits.
const LONGEST: u64 = 1 << 31;

/// An array and its place.
#[derive(Debug)]
enum PlacedArray {
    Stored(Arc<ArrayLayout>),
    Computed(Arc<ComputedArray>),
}

/// Zones described by a document. No data are read.
#[derive(Debug)]
pub struct DescribedZones {
    /// Zones, arrays and times.
    pub catalog: Catalog,
    series: SeriesFiles,
    /// The files of [`SeriesFiles`], each once.
    named: Vec<PathBuf>,
    files: Arc<DataFiles>,
    arrays: Vec<Vec<PlacedArray>>,
}

impl DescribedZones {
    /// Checks a document. `dt`: the time between steps, if the user gives it.
    ///
    /// # Errors
    /// - [`FieldError::Io`] for a missing file;
    /// - [`FieldError::Format`] for a file shorter than its description;
    /// - [`FieldError::Usage`] for a document that does not add up, or times that do not rise.
    pub fn open(spec: ZonesSpec, dt: Option<f64>) -> Result<Self, FieldError> {
        let steps = spec.sources.steps.len();
        if steps == 0 || spec.zones.is_empty() || !(2..=3).contains(&spec.dimension) {
            let (zones, axes) = (spec.zones.len(), spec.dimension);
            return Err(wrong("the dataset", format!("{steps} steps, {zones} zones and {axes} dimensions make none")));
        }
        check_dt(dt)?;
        check_times(&spec.times, steps)?;
        let mut lengths = Vec::with_capacity(spec.files.len());
        for (path, stat) in spec.files.iter().zip(stats(&spec.files)) {
            lengths.push(stat.map_err(|e| FieldError::io(path, e))?.version.size);
        }
        let series = SeriesFiles { steady: spec.sources.steady, steps: spec.sources.steps };
        let files = Arc::new(DataFiles::new(spec.files));
        let maker = Maker { files: &files, lengths, steps, dimension: spec.dimension };
        let mut names = none_taken();
        let (mut zones, mut arrays) = (Vec::with_capacity(spec.zones.len()), Vec::with_capacity(spec.zones.len()));
        for (n, zone) in spec.zones.into_iter().enumerate() {
            let given = if zone.name.is_empty() { format!("zone{}", n + 1) } else { plain(&zone.name) };
            let (info, held) = maker.zone(names.free(given, false), zone)?;
            zones.push(info);
            arrays.push(held);
        }
        let mut guessed = Vec::new();
        let physical = steps == 1 || dt.is_some() || !spec.times.is_empty();
        let times = match dt {
            Some(dt) => {
                let each = Multiples::new(0.0, dt);
                (0..steps as u32).map(|s| each.at(s)).collect()
            }
            None if !spec.times.is_empty() => spec.times,
            None => (0..steps).map(|s| s as f64).collect(),
        };
        if !physical {
            guessed.push(untimed_steps(steps, &spec.untimed));
        }
        let catalog = Catalog {
            format: spec.format,
            guessed,
            order_assumed: Vec::new(),
            dimension: spec.dimension,
            zones,
            times,
            times_counted: !physical,
            time_units: "1".into(),
            settings: serde_json::Value::Null,
        };
        let mut named: Vec<PathBuf> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for path in series.steady.iter().chain(series.steps.iter().flatten()) {
            if seen.insert(path) {
                named.push(path.clone());
            }
        }
        Ok(Self { catalog, series, named, files, arrays })
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        let each = |a: &PlacedArray| match a {
            PlacedArray::Stored(layout) => layout.held(),
            PlacedArray::Computed(rule) => rule.held(),
        };
        let arrays = self.arrays.iter().map(|z| heap_size::list(z) + z.iter().map(each).sum::<u64>());
        let paths = |list: &[PathBuf]| {
            list.iter().map(|p| heap_size::grown::<u8>(p.as_os_str().len() / 2 + 1) + 24).sum::<u64>()
        };
        heap_size::catalog(&self.catalog)
            + self.series.held()
            + paths(&self.named)
            + paths(self.files.paths())
            + heap_size::list(&self.arrays)
            + arrays.sum::<u64>()
    }
}

fn wrong(what: &str, why: impl std::fmt::Display) -> FieldError {
    FieldError::Usage(format!("the description of {what} does not add up: {why}"))
}

/// Data common to all arrays.
struct Maker<'a> {
    files: &'a Arc<DataFiles>,
    lengths: Vec<u64>,
    steps: usize,
    dimension: usize,
}

impl Maker<'_> {
    fn zone(&self, name: String, zone: ZoneSpec) -> Result<(ZoneInfo, Vec<PlacedArray>), FieldError> {
        let points = zone.dims.iter().try_fold(1_u64, |n, d| n.checked_mul(*d));
        if zone.dims.iter().any(|d| !(1..LONGEST).contains(d)) || points.is_none_or(|n| n > u64::MAX >> 8) {
            return Err(wrong(&name, format!("{:?} are no numbers of points", zone.dims)));
        }
        let mut taken = none_taken();
        let (mut arrays, mut held) = (Vec::with_capacity(zone.arrays.len()), Vec::with_capacity(zone.arrays.len()));
        for (n, array) in zone.arrays.into_iter().enumerate() {
            let info = ArrayInfo {
                name: taken.free(plain(&array.name), false),
                role: array.role,
                components: array.components,
                dtype: array.dtype,
                units: array.units.clone(),
                standard_name: String::new(),
                long_name: if array.long_name.is_empty() { array.name.clone() } else { array.long_name.clone() },
            };
            let what = format!("{name}/{}", info.name);
            let places = array.role == Role::Coordinates;
            let fits = match array.role {
                Role::Coordinates => array.components == self.dimension,
                Role::Iblank => array.components == 1,
                Role::Field => array.components == 1 || array.components == self.dimension,
            };
            if places != (n == 0) || !fits {
                let why = format!("array {} is {:?} of {} numbers a point", n + 1, array.role, array.components);
                return Err(wrong(&what, why));
            }
            held.push(self.array(what, zone.dims, array)?);
            arrays.push(info);
        }
        if arrays.is_empty() {
            return Err(wrong(&name, "it has no coordinates"));
        }
        Ok((ZoneInfo { name, dims: zone.dims.map(|d| d as usize), arrays, headers: Vec::new() }, held))
    }

    fn array(&self, name: String, dims: [u64; 3], array: ArraySpec) -> Result<PlacedArray, FieldError> {
        let count = array.steps.len();
        if count != 1 && count != self.steps {
            return Err(wrong(&name, format!("it has {count} steps of {}", self.steps)));
        }
        if let Some(Place::Computed(_)) = array.steps.first() {
            let each = array.steps.iter().map(|place| match place {
                Place::Computed(rules) if rules.len() == array.components => {
                    rules.iter().map(|rule| computed(&name, dims, rule)).collect::<Result<Vec<_>, _>>()
                }
                _ => Err(wrong(&name, "each component has a rule at all steps, or none has")),
            });
            let steps = each.collect::<Result<Vec<_>, _>>()?;
            let dims = dims.map(|d| d as usize);
            return Ok(PlacedArray::Computed(Arc::new(ComputedArray::new(name, dims, array.dtype, steps))));
        }
        let components = array.components as u64;
        let parts = |place: &Place| match place {
            Place::Stored(parts) => parts.len(),
            Place::Computed(_) => 0,
        };
        // If one step has its components apart, all steps do.
        let apart = if array.steps.iter().all(|place| parts(place) == 1) { 1 } else { array.components };
        let mut blocks = Vec::with_capacity(count * apart);
        for place in &array.steps {
            match place {
                Place::Stored(list) if list.len() == 1 && apart == 1 => {
                    blocks.push(Arc::new(self.block(&name, dims, components, 0, &list[0])?));
                }
                Place::Stored(list) if list.len() == 1 => {
                    for c in 0..components {
                        blocks.push(Arc::new(self.block(&name, dims, 1, c, &list[0])?));
                    }
                }
                Place::Stored(list) if list.len() == array.components => {
                    for part in list {
                        blocks.push(Arc::new(self.block(&name, dims, 1, 0, part)?));
                    }
                }
                _ => {
                    return Err(wrong(&name, "it is in files at all steps, all components together or each by itself"))
                }
            }
        }
        let (files, tally) = (self.files.clone(), Arc::default());
        let (dtype, factor) = (array.dtype, 1.0);
        Ok(PlacedArray::Stored(Arc::new(ArrayLayout {
            name,
            files,
            dims,
            first: 0,
            components,
            apart,
            dtype,
            factor,
            blocks,
            tally,
        })))
    }

    /// Numbers of `components` components, from component `first` on.
    fn block(
        &self,
        name: &str,
        [ni, nj, nk]: [u64; 3],
        components: u64,
        first: u64,
        of: &StoredSpec,
    ) -> Result<StoredBlock, FieldError> {
        let numbers = StoredNumbers { number: of.number, big_endian: of.big_endian };
        let size = numbers.size() as u64;
        let element = of.point_bytes.unwrap_or(size);
        let too_much = || wrong(name, "its distances between numbers are beyond any file");
        let row = of.row_bytes.map_or_else(|| ni.checked_mul(element), Some).ok_or_else(too_much)?;
        let plane = of.plane_bytes.map_or_else(|| nj.checked_mul(row), Some).ok_or_else(too_much)?;
        let variable = of.component_bytes.map_or_else(|| nk.checked_mul(plane), Some).ok_or_else(too_much)?;
        if element < size || row < ni.checked_mul(element).ok_or_else(too_much)? {
            return Err(wrong(name, format!("points {element} and rows {row} bytes apart lie on one another")));
        }
        let end = [(first + components - 1, variable), (nk - 1, plane), (nj - 1, row), (ni - 1, element)]
            .into_iter()
            .try_fold(size, |sum, (n, apart)| n.checked_mul(apart)?.checked_add(sum))
            .ok_or_else(too_much)?;
        let Some(&length) = self.lengths.get(of.file) else {
            return Err(wrong(name, format!("there is no file {}", of.file)));
        };
        let path = self.files.path(of.file);
        let mut data = Spans::new();
        let mut skip = first * variable;
        for &[offset, len] in &of.runs {
            let last = offset.checked_add(len).ok_or_else(too_much)?;
            if last > length {
                return Err(cut_off(path, name, last, length));
            }
            let left = skip.min(len);
            skip -= left;
            if !data.push(offset + left, len - left) {
                return Err(wrong(name, "it lies in too many pieces"));
            }
        }
        if data.len() < end - first * variable {
            return Err(wrong(name, format!("it has {} of {end} bytes", data.len())));
        }
        Ok(StoredBlock { file: of.file, data, numbers, variable, element, row: of.row_bytes, plane: of.plane_bytes })
    }
}

fn cut_off(path: &Path, name: &str, needs: u64, length: u64) -> FieldError {
    let message = format!(
        "{name} needs bytes up to {needs}, and the file ends at {length}: it was cut off; copy or write it again"
    );
    FieldError::format(path, message)
}

fn computed(name: &str, dims: [u64; 3], rule: &RuleSpec) -> Result<Rule, FieldError> {
    Ok(match rule {
        RuleSpec::Constant(value) => Rule::Constant(value.unwrap_or(f64::NAN)),
        RuleSpec::Line { axis, values } => {
            if dims.get(*axis) != Some(&(values.len() as u64)) {
                return Err(wrong(name, format!("{} values along axis {axis} of {dims:?} points", values.len())));
            }
            Rule::Line { axis: *axis, values: values.as_slice().into() }
        }
        RuleSpec::Uniform { origin, steps } => Rule::Uniform { origin: *origin, steps: *steps },
    })
}

impl Format for DescribedZones {
    fn files(&self) -> Vec<PathBuf> {
        self.named.clone()
    }

    fn data_files(&self) -> Vec<PathBuf> {
        self.files.paths().to_vec()
    }

    fn files_by_step(&self, steps: usize) -> Vec<Vec<usize>> {
        let number = |path: &PathBuf| self.named.iter().position(|p| p == path);
        let of_step = |step| {
            let mut files: Vec<usize> = self.series.of_step(step).filter_map(number).collect();
            files.sort_unstable();
            files.dedup();
            files
        };
        (0..steps).map(of_step).collect()
    }

    fn series(&self) -> SeriesFiles {
        self.series.clone()
    }

    fn layout(&self, zone: usize, array: usize) -> Option<Arc<ArrayLayout>> {
        match self.arrays.get(zone)?.get(array)? {
            PlacedArray::Stored(layout) => Some(layout.clone()),
            PlacedArray::Computed(_) => None,
        }
    }

    fn computed(&self, zone: usize, array: usize) -> Option<Arc<ComputedArray>> {
        match self.arrays.get(zone)?.get(array)? {
            PlacedArray::Computed(rule) => Some(rule.clone()),
            PlacedArray::Stored(_) => None,
        }
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn rows(&self, zone: usize, array: usize) -> Result<Arc<dyn RowReader>, FieldError> {
        match self.arrays.get(zone).and_then(|z| z.get(array)) {
            Some(PlacedArray::Stored(layout)) => Ok(layout.clone()),
            Some(PlacedArray::Computed(rule)) => Ok(rule.clone()),
            None => Err(FieldError::Usage(format!("no array {array} in zone {zone}"))),
        }
    }

    fn storage(&self) -> Storage {
        Storage { layout: "in place", ..Storage::default() }
    }
}

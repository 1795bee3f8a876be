//! Input of conversions from a dataset as it is: all of it, or its grid alone.

use convert::{ArraySource, ConvertInput};
use field::catalog::Role;
use field::dataset::Dataset;
use field::error::FieldError;

/// Without the fields, which are most of the data: boxes need coordinates and iblank alone.
pub(crate) fn only_geometry(mut input: ConvertInput) -> ConvertInput {
    for (zone, sources) in input.catalog.zones.iter_mut().zip(&mut input.arrays) {
        let keep: Vec<bool> = zone.arrays.iter().map(|a| a.role != Role::Field).collect();
        let mut k = keep.iter();
        zone.arrays.retain(|_| k.next().copied().unwrap_or(false));
        let mut k = keep.iter();
        sources.retain(|_| k.next().copied().unwrap_or(false));
    }
    input
}

/// The input of a conversion of a dataset.
///
/// # Errors
/// [`FieldError`] if its rows cannot be read.
pub fn convert_input(dataset: &Dataset) -> Result<ConvertInput, FieldError> {
    let rows = dataset.rows()?;
    let steps = dataset.catalog.times.len().max(1);
    let arrays = rows.into_iter().zip(dataset.zones.iter()).map(|(rows, z)| {
        let each = rows.into_iter().zip(&z.arrays);
        each.map(|(rows, a)| ArraySource { rows, steps: if a.steady { 1 } else { steps } }).collect()
    });
    let (files, series) = dataset.format.as_ref().map(|f| (f.files(), f.series())).unwrap_or_default();
    Ok(ConvertInput { catalog: dataset.catalog.clone(), arrays: arrays.collect(), files, series, made: String::new() })
}

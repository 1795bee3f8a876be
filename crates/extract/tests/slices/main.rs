//! Slices as pictures: values against independent references, equality for all settings, whole files.

mod grid;
mod simulated_volumes;
mod volume;

/// Bits of numbers: NaN equals itself.
pub fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

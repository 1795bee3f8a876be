//! Slices as pictures: values against references of their own, the same for every means, whole files.

mod grid;
mod made;
mod volume;

/// Bits of numbers: what is no number is equal to itself.
pub fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

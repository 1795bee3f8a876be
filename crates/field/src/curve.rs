//! Morton's curve: numbers of places in space. Near numbers are near places.

/// Bits of each coordinate.
pub const BITS: u32 = 14;

/// The number of a place in a domain. Each coordinate is below two to the power of [`BITS`].
///
/// ```
/// # use field::curve::morton_key;
/// assert_eq!(morton_key(0, [1, 0, 1]), 0b101);
/// assert!(morton_key(0, [3, 3, 3]) < morton_key(0, [0, 0, 4]) && morton_key(0, [9, 9, 9]) < morton_key(1, [0, 0, 0]));
/// ```
pub fn morton_key(domain: u32, at: [u64; 3]) -> u64 {
    u64::from(domain) << (3 * BITS) | spread(at[0]) | spread(at[1]) << 1 | spread(at[2]) << 2
}

/// Puts two zeros between the low bits.
fn spread(x: u64) -> u64 {
    (0..BITS).fold(0, |s, b| s | ((x >> b) & 1) << (3 * b))
}

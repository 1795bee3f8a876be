//! Patterns for incomplete pixels, the same in slices and in pictures: pixels that lack unreadable pages, and pixels
//! still unknown.

use super::Srgb8;

/// Two alternating stripes: no colour map has both next to each other.
const COLOURS: [Srgb8; 2] = [[255, 0, 255], [0, 0, 0]];
/// Pixels across a stripe.
const STRIPE: u32 = 4;

/// The stripe (0 or 1) of a pixel at a column and a row of the whole picture.
pub fn stripe([column, row]: [u32; 2]) -> usize {
    ((column + row) / STRIPE % 2) as usize
}

/// The colour of a pixel.
pub fn colour(at: [u32; 2]) -> Srgb8 {
    COLOURS[stripe(at)]
}

/// The same in linear light: each number is 0 or 1.
pub fn linear(at: [u32; 2]) -> [f32; 3] {
    colour(at).map(|c| f32::from(c) / 255.0)
}

/// Light and opacity of grey stripes, which leave the background visible: a milder warning.
const UNKNOWN: [[f32; 2]; 2] = [[0.09, 0.45], [0.02, 0.45]];

/// The layer over a pixel that is unknown at the picture's deadline: light, premultiplied, and opacity.
pub fn unknown(at: [u32; 2]) -> [f32; 4] {
    let [light, opacity] = UNKNOWN[stripe(at)];
    [light, light, light, opacity]
}

//! How pixels look that lack something, since pages could not be had, alike in slices and in pictures; and of which nothing is known yet.

use super::Srgb8;

/// Two stripes in turn: no colour map has both beside each other.
const COLOURS: [Srgb8; 2] = [[255, 0, 255], [0, 0, 0]];
/// Pixels across a stripe.
const STRIPE: u32 = 4;

/// Which of the two stripes a pixel, at a column and a row of the whole picture, lies in.
pub fn stripe([column, row]: [u32; 2]) -> usize {
    ((column + row) / STRIPE % 2) as usize
}

/// The colour of a pixel.
pub fn colour(at: [u32; 2]) -> Srgb8 {
    COLOURS[stripe(at)]
}

/// The same in linear light: the numbers of both colours are nothing and everything.
pub fn linear(at: [u32; 2]) -> [f32; 3] {
    colour(at).map(|c| f32::from(c) / 255.0)
}

/// Light and opacity of grey stripes, through which what is behind is seen: less of a warning.
const UNKNOWN: [[f32; 2]; 2] = [[0.09, 0.45], [0.02, 0.45]];

/// What is laid over a pixel of which nothing is known by the time that a picture has to be there: light, premultiplied, and opacity.
pub fn unknown(at: [u32; 2]) -> [f32; 4] {
    let [light, opacity] = UNKNOWN[stripe(at)];
    [light, light, light, opacity]
}

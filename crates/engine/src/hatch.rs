//! How pixels look that lack something, since pages could not be had: alike in slices and in pictures.

use kernels::draw::Srgb8;

/// Two stripes in turn: no colour map has both beside each other.
const COLOURS: [Srgb8; 2] = [[255, 0, 255], [0, 0, 0]];
/// Pixels across a stripe.
const STRIPE: u32 = 4;

/// Which of the two stripes a pixel, at a column and a row of the whole picture, lies in.
pub(crate) fn stripe([column, row]: [u32; 2]) -> usize {
    ((column + row) / STRIPE % 2) as usize
}

/// The colour of a pixel.
pub(crate) fn colour(at: [u32; 2]) -> Srgb8 {
    COLOURS[stripe(at)]
}

/// The same in linear light: the numbers of both colours are nothing and everything.
pub(crate) fn linear(at: [u32; 2]) -> [f32; 3] {
    colour(at).map(|c| f32::from(c) / 255.0)
}

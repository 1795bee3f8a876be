//! Decoding steps that only move or add bytes: shuffle, differences, predictors, PackBits, Fletcher-32, half precision.

use super::chain::Element;
use pager::error::PageErrorKind;

/// Undoes byte shuffle: byte `b` of element `n` is at `b * elements + n` of `from`. Bytes after the last whole element
/// are copied.
pub(super) fn unshuffle(size: usize, from: &[u8], to: &mut [u8]) {
    match size {
        2 => unshuffle_of::<2>(from, to),
        4 => unshuffle_of::<4>(from, to),
        8 => unshuffle_of::<8>(from, to),
        _ => {
            let elements = from.len() / size.max(1);
            for (n, element) in to.chunks_exact_mut(size.max(1)).enumerate() {
                for (b, byte) in element.iter_mut().enumerate() {
                    *byte = from[b * elements + n];
                }
            }
            let whole = elements * size;
            to[whole..].copy_from_slice(&from[whole..]);
        }
    }
}

/// A constant size lets the compiler vectorize the loop over elements.
fn unshuffle_of<const N: usize>(from: &[u8], to: &mut [u8]) {
    let elements = from.len() / N;
    let planes: [&[u8]; N] = std::array::from_fn(|b| &from[b * elements..][..elements]);
    let (whole, rest) = to.split_at_mut(elements * N);
    for (n, element) in whole.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *element = std::array::from_fn(|b| planes[b][n]);
    }
    rest.copy_from_slice(&from[elements * N..]);
}

/// Undoes Bitshuffle of a multiple of eight elements. Bit `b` of byte `y` of element `n` is bit `n % 8` of one byte of
/// `from`: byte `(y * 8 + b) * elements / 8 + n / 8`.
pub(super) fn bitunshuffle(size: usize, from: &[u8], to: &mut [u8]) {
    let row = from.len() / size.max(1) / 8;
    for y in 0..size {
        let planes = &from[y * 8 * row..(y + 1) * 8 * row];
        for n in 0..row {
            let bits: [u8; 8] = std::array::from_fn(|b| planes[b * row + n]);
            let bytes = transpose(u64::from_le_bytes(bits)).to_le_bytes();
            for (e, byte) in bytes.into_iter().enumerate() {
                to[(n * 8 + e) * size + y] = byte;
            }
        }
    }
}

/// Bit `c` of byte `r` becomes bit `r` of byte `c` (Hacker's Delight, 7-3).
fn transpose(mut x: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0u64)] {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    }
    x
}

macro_rules! sums {
    ($bytes:expr, $big:expr, $t:ty, $n:literal, $stride:expr, $add:expr) => {{
        let add: fn($t, $t) -> $t = $add;
        let (elements, _) = $bytes.as_chunks_mut::<$n>();
        for at in $stride..elements.len() {
            let read = |e: [u8; $n]| if $big { <$t>::from_be_bytes(e) } else { <$t>::from_le_bytes(e) };
            let sum = add(read(elements[at - $stride]), read(elements[at]));
            elements[at] = if $big { sum.to_be_bytes() } else { sum.to_le_bytes() };
        }
    }};
}

/// Type of the sums.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// Integers of this many bytes, modulo their range.
    Integer(usize),
    /// Floating point of this many bytes.
    Float(usize),
}

/// Adds to each element the one `stride` before it, in place.
pub(super) fn accumulate(sum: Sum, big: bool, stride: usize, bytes: &mut [u8]) {
    match sum {
        Sum::Integer(1) => {
            for at in stride..bytes.len() {
                bytes[at] = bytes[at].wrapping_add(bytes[at - stride]);
            }
        }
        Sum::Integer(2) => sums!(bytes, big, u16, 2, stride, u16::wrapping_add),
        Sum::Integer(4) => sums!(bytes, big, u32, 4, stride, u32::wrapping_add),
        Sum::Integer(_) => sums!(bytes, big, u64, 8, stride, u64::wrapping_add),
        Sum::Float(4) => sums!(bytes, big, f32, 4, stride, |a, b| a + b),
        Sum::Float(_) => sums!(bytes, big, f64, 8, stride, |a, b| a + b),
    }
}

/// Undoes TIFF's floating-point predictor. Each row (of `row` bytes) has byte differences of bytes sorted by their
/// place in the element, the highest first.
pub(super) fn float_predictor(element: Element, samples: usize, row: usize, from: &[u8], to: &mut [u8]) {
    let Element { size, big, .. } = element;
    let elements = row / size;
    for (from, to) in from.chunks_exact(row).zip(to.chunks_exact_mut(row)) {
        // Each sample has one sum through the row, across places and elements.
        for sample in 0..samples {
            let mut sum = 0u8;
            for n in (sample..row).step_by(samples) {
                sum = sum.wrapping_add(from[n]);
                let (place, element) = (n / elements, n % elements);
                let place = if big { place } else { size - 1 - place };
                to[element * size + place] = sum;
            }
        }
    }
}

/// Decodes PackBits. Returns the number of decoded bytes.
pub(super) fn packbits(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let bad = |m: &str| PageErrorKind::Decode(format!("packbits: {m}"));
    let (mut at, mut out) = (0, 0);
    while at < from.len() && out < to.len() {
        let head = from[at] as i8;
        at += 1;
        if head >= 0 {
            let n = head as usize + 1;
            let run = from.get(at..at + n).ok_or_else(|| bad("ends within a run"))?;
            to.get_mut(out..out + n).ok_or_else(|| bad("more bytes than the chunk has"))?.copy_from_slice(run);
            (at, out) = (at + n, out + n);
        } else if head != i8::MIN {
            let n = 1 + usize::from(head.unsigned_abs());
            let byte = *from.get(at).ok_or_else(|| bad("ends within a run"))?;
            to.get_mut(out..out + n).ok_or_else(|| bad("more bytes than the chunk has"))?.fill(byte);
            (at, out) = (at + 1, out + n);
        }
    }
    Ok(out)
}

/// HDF5's Fletcher-32, over big-endian words. An odd last byte counts as the high one of a word.
pub(super) fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u32, 0u32);
    let (words, rest) = bytes.as_chunks::<2>();
    // The most words whose sums fit 32 bits.
    for words in words.chunks(360) {
        for w in words {
            low += u32::from(u16::from_be_bytes(*w));
            high += low;
        }
        (low, high) = ((low & 0xffff) + (low >> 16), (high & 0xffff) + (high >> 16));
    }
    if let [odd] = rest {
        low += u32::from(*odd) << 8;
        high += low;
        (low, high) = ((low & 0xffff) + (low >> 16), (high & 0xffff) + (high >> 16));
    }
    let fold = |x: u32| (x & 0xffff) + (x >> 16);
    fold(high) << 16 | fold(low)
}

/// A half-precision number in single precision, exactly.
pub(super) fn half_to_f32(half: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(half >> 15) << 31, u32::from(half >> 10 & 31), u32::from(half & 0x3ff));
    match (exponent, fraction) {
        (0, 0) => f32::from_bits(sign),
        // Subnormal: a multiple of 2^-24, exact in single precision.
        (0, f) => {
            let magnitude = f as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(sign | magnitude.to_bits())
        }
        (31, f) => f32::from_bits(sign | 0x7f80_0000 | f << 13),
        (e, f) => f32::from_bits(sign | (e + 112) << 23 | f << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (half, single) in [
            (0x0000u16, 0.0f32),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half_to_f32(half), single, "{half:#x}");
        }
        assert!(half_to_f32(0x7e00).is_nan());
        assert_eq!(half_to_f32(0x8000).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn shuffles_undo_what_was_shuffled() {
        for size in [1usize, 2, 3, 4, 8, 16] {
            for elements in [0usize, 1, 8, 64, 77] {
                for rest in [0, size - 1] {
                    let truth: Vec<u8> = (0..elements * size + rest).map(|n| (n * 31 % 251) as u8).collect();
                    let mut sorted = truth.clone();
                    for n in 0..elements {
                        for b in 0..size {
                            sorted[b * elements + n] = truth[n * size + b];
                        }
                    }
                    let mut back = vec![0; truth.len()];
                    unshuffle(size, &sorted, &mut back);
                    assert_eq!(back, truth, "{size} {elements} {rest}");
                }
                if elements % 8 == 0 {
                    let truth: Vec<u8> = (0..elements * size).map(|n| (n * 37 % 253) as u8).collect();
                    let mut bits = vec![0u8; truth.len()];
                    for n in 0..elements {
                        for b in 0..size * 8 {
                            let bit = truth[n * size + b / 8] >> (b % 8) & 1;
                            bits[b * elements / 8 + n / 8] |= bit << (n % 8);
                        }
                    }
                    let mut back = vec![0; truth.len()];
                    bitunshuffle(size, &bits, &mut back);
                    assert_eq!(back, truth, "{size} {elements}");
                }
            }
        }
    }

    #[test]
    fn packed_bits_are_unpacked_and_not_past_the_end() {
        // The example of Apple's note.
        let packed = [0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7, 0xAA];
        let mut out = [0; 24];
        assert_eq!(packbits(&packed, &mut out), Ok(24));
        assert_eq!(out[..8], [0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA]);
        assert!(packbits(&packed, &mut [0; 23]).is_err());
        assert!(packbits(&packed[..4], &mut out).is_err());
    }

    #[test]
    fn fletcher_is_hdf5s() {
        // Sums by hand: words 0x0102, 0x0304.
        let (a, b) = (0x0102 + 0x0304, 0x0102 + 0x0102 + 0x0304);
        assert_eq!(fletcher32(&[1, 2, 3, 4]), (b << 16) | a);
        let (a, b) = (a + 0x0500, b + a + 0x0500);
        assert_eq!(fletcher32(&[1, 2, 3, 4, 5]), (b << 16) | a);
    }
}

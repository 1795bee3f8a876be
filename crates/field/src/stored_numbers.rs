//! From the numbers of a file to those of a dataset: byte order, type, factor.

use crate::catalog::DType;
use crate::volume::{Voxel, VoxelType};
use crate::with_voxel;

/// Type and byte order of numbers in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoredNumbers {
    /// Their type.
    pub number: VoxelType,
    /// Whether they are big-endian.
    pub big_endian: bool,
}

impl StoredNumbers {
    /// Bytes of a number.
    pub const fn size(self) -> usize {
        self.number.size()
    }

    /// Whether they differ from the numbers of frames in byte order alone.
    pub const fn is_of(self, dtype: DType) -> bool {
        matches!(
            (self.number, dtype),
            (VoxelType::Uint8, DType::Uint8)
                | (VoxelType::Int32, DType::Int32)
                | (VoxelType::Float32, DType::Float32)
                | (VoxelType::Float64, DType::Float64)
        )
    }

    const fn is_foreign(self) -> bool {
        self.big_endian != cfg!(target_endian = "big")
    }

    /// Converts numbers of this type, `from` bytes apart in `bytes`, to native `dtype`, `to` bytes apart in `out`, as
    /// many as the shorter side holds. A number that `dtype` cannot represent becomes the nearest.
    pub fn convert(self, bytes: &[u8], from: usize, dtype: DType, out: &mut [u8], to: usize) {
        let (item, size) = (self.size(), dtype.size());
        if self.is_of(dtype) {
            match size {
                1 => return copied::<1>(bytes, from, out, to, false),
                4 => return copied::<4>(bytes, from, out, to, self.is_foreign()),
                _ => return copied::<8>(bytes, from, out, to, self.is_foreign()),
            }
        }
        let count = held(bytes.len(), from, item).min(held(out.len(), to, size));
        with_voxel!(self.number, T => {
                    const N: usize = size_of::<T>();
                    for n in 0..count {
                        let mut own = [0; N];
                        own.copy_from_slice(&bytes[n * from..n * from + N]);
                        let value = if self.big_endian { T::from_be_bytes(own) } else { T::from_le_bytes(own) };
                        let place = &mut out[n * to..n * to + size];
                        match dtype {
                            DType::Uint8 => place.copy_from_slice(&(value.to_whole().clamp(0, 255) as u8).to_ne_bytes()),
                            DType::Int32 => {
         let whole = value.to_whole().clamp(i128::from(i32::MIN), i128::from(i32::MAX));
         place.copy_from_slice(&(whole as i32).to_ne_bytes());
        }
                            DType::Float32 => place.copy_from_slice(&value.to_f32().to_ne_bytes()),
                            DType::Float64 => place.copy_from_slice(&value.to_f64().to_ne_bytes()),
                        }
                    }
                });
    }
}

/// Count of numbers of `size` bytes in `bytes`, with `apart` bytes from one to the next.
const fn held(bytes: usize, apart: usize, size: usize) -> usize {
    if bytes < size {
        0
    } else {
        (bytes - size) / apart + 1
    }
}

fn copied<const N: usize>(bytes: &[u8], from: usize, out: &mut [u8], to: usize, foreign: bool) {
    let count = held(bytes.len(), from, N).min(held(out.len(), to, N));
    for n in 0..count {
        let mut own = [0; N];
        own.copy_from_slice(&bytes[n * from..n * from + N]);
        if foreign {
            own.reverse();
        }
        out[n * to..n * to + N].copy_from_slice(&own);
    }
}

/// Multiplies native floating-point numbers by `factor`, in double precision, rounded once. Integers stay unchanged.
pub(crate) fn scale(bytes: &mut [u8], dtype: DType, factor: f64) {
    match dtype {
        DType::Float32 => {
            for four in bytes.chunks_exact_mut(4) {
                let v = f32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
                four.copy_from_slice(&((f64::from(v) * factor) as f32).to_ne_bytes());
            }
        }
        DType::Float64 => {
            for eight in bytes.chunks_exact_mut(8) {
                let mut own = [0; 8];
                own.copy_from_slice(eight);
                eight.copy_from_slice(&(f64::from_ne_bytes(own) * factor).to_ne_bytes());
            }
        }
        DType::Int32 | DType::Uint8 => {}
    }
}

/// Reverses each element of `size` bytes in place.
pub(crate) fn swap(bytes: &mut [u8], size: usize) {
    match size {
        4 => {
            for four in bytes.chunks_exact_mut(4) {
                four.reverse();
            }
        }
        8 => {
            for eight in bytes.chunks_exact_mut(8) {
                eight.reverse();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_change_type_and_place() {
        let stored = |number, big_endian| StoredNumbers { number, big_endian };
        let bytes: Vec<u8> = [-3_i16, 7, 300, 0, 1, 2].iter().flat_map(|v| v.to_be_bytes()).collect();
        let mut out = [0_u8; 24];
        // Every other number, into every other place.
        stored(VoxelType::Int16, true).convert(&bytes, 4, DType::Float32, &mut out, 8);
        let got = |n: usize| f32::from_ne_bytes(out[4 * n..4 * n + 4].try_into().unwrap());
        assert_eq!([0, 1, 2, 3, 4, 5].map(got), [-3.0, 0.0, 300.0, 0.0, 1.0, 0.0]);
        let wide = [(1_i64 << 53) + 1, -1].map(i64::to_le_bytes).concat();
        let mut out = [0_u8; 16];
        stored(VoxelType::Int64, false).convert(&wide, 8, DType::Float64, &mut out, 8);
        assert_eq!(f64::from_ne_bytes(out[..8].try_into().unwrap()), 9_007_199_254_740_992.0);
        assert_eq!(f64::from_ne_bytes(out[8..].try_into().unwrap()), -1.0);
        let same = [1.5_f64, -2.5].map(f64::to_be_bytes).concat();
        stored(VoxelType::Float64, true).convert(&same, 8, DType::Float64, &mut out, 8);
        assert_eq!(out, *[1.5_f64, -2.5].map(f64::to_ne_bytes).concat().as_slice());
        // The shorter side ends it.
        stored(VoxelType::Uint8, false).convert(&[9, 9, 9], 1, DType::Uint8, &mut out[..2], 1);
        assert_eq!(out[..2], [9, 9]);
        stored(VoxelType::Float64, true).convert(&[1; 7], 8, DType::Float64, &mut [], 8);
    }
}

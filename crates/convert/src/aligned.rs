//! Memory aligned for every element type.

use field::boxes::Xyz;
use field::catalog::DType;

/// A buffer of bytes aligned for doubles.
#[derive(Default)]
pub(super) struct AlignedBytes(Vec<u64>);

impl AlignedBytes {
    /// A zeroed buffer of at least `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.div_ceil(8)])
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised memory of that many bytes; bytes have no alignment.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and every byte pattern is a valid word.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 8) }
    }
}

/// Elements of one type.
#[derive(Copy, Clone)]
pub(super) enum ElementSlice<'a> {
    U8(&'a [u8]),
    I32(&'a [i32]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl<'a> ElementSlice<'a> {
    /// The bytes as elements. Unaligned bytes, and those behind the last whole element, are omitted.
    pub fn of(dtype: DType, bytes: &'a [u8]) -> Self {
        // SAFETY: every bit pattern is a valid integer or float, and `align_to` handles alignment and length.
        unsafe {
            match dtype {
                DType::Uint8 => Self::U8(bytes),
                DType::Int32 => Self::I32(bytes.align_to().1),
                DType::Float32 => Self::F32(bytes.align_to().1),
                DType::Float64 => Self::F64(bytes.align_to().1),
            }
        }
    }

    /// As coordinates, if they are floats.
    pub fn xyz(self) -> Option<Xyz<'a>> {
        match self {
            Self::F32(v) => Some(Xyz::F32(v)),
            Self::F64(v) => Some(Xyz::F64(v)),
            Self::U8(_) | Self::I32(_) => None,
        }
    }
}

//! The nodes of a block that are inside, one bit each: rows of voxels compared by vector instructions.
//!
//! # Theory
//! Whether and how a cell is crossed depends on one bit a corner. So the first pass over the data keeps bits only.
//! (This is the first pass of Flying Edges, Schroeder, Maynard and Geveci 2015, with a row of cells in a machine word.)
//! A block of 64^3 cells takes 68 KiB for any type. Values are read a second time only at the ends of crossed edges.

use field::volume::Voxel;

/// Calls `each` with the places of the set bits, lowest first.
#[inline(always)]
pub fn each_bit(bits: u128, mut each: impl FnMut(u32)) {
    for (base, mut word) in [(0, bits as u64), (64, (bits >> 64) as u64)] {
        while word != 0 {
            each(base + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

/// Bits of the nodes of a block.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    /// Nodes along i, j, k: 2 to 65 each in a block.
    nodes: [usize; 3],
    /// A row of nodes each, `[k][j]`, bit i.
    rows: Vec<u128>,
}

impl Signs {
    /// All zero.
    pub fn new(nodes: [usize; 3]) -> Self {
        debug_assert!(nodes[0] <= 128);
        Self { nodes, rows: vec![0; nodes[1] * nodes[2]] }
    }

    /// Nodes along i, j, k.
    pub fn nodes(&self) -> [usize; 3] {
        self.nodes
    }

    /// Bytes for a block of this many nodes.
    pub fn bytes(nodes: [usize; 3]) -> usize {
        nodes[1] * nodes[2] * size_of::<u128>()
    }

    /// The row at (j, k).
    #[inline(always)]
    pub fn row(&self, j: usize, k: usize) -> u128 {
        self.rows[k * self.nodes[1] + j]
    }

    /// The rows of a layer of nodes.
    #[inline(always)]
    pub fn layer(&self, k: usize) -> &[u128] {
        &self.rows[k * self.nodes[1]..][..self.nodes[1]]
    }

    /// As [`Self::layer`], mutable.
    #[inline(always)]
    pub fn layer_mut(&mut self, k: usize) -> &mut [u128] {
        &mut self.rows[k * self.nodes[1]..][..self.nodes[1]]
    }

    /// As [`Self::new`], in the same memory.
    pub fn clear(&mut self, nodes: [usize; 3]) {
        self.nodes = nodes;
        self.rows.clear();
        self.rows.resize(nodes[1] * nodes[2], 0);
    }

    /// All rows, `[k][j]`.
    pub fn rows(&self) -> &[u128] {
        &self.rows
    }

    /// Sets the bits of nodes from `i` on that are set in `bits`.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, bits: u64) {
        self.rows[k * self.nodes[1] + j] |= u128::from(bits) << i;
    }

    /// One node's bit.
    pub fn get(&self, at: [usize; 3]) -> bool {
        self.row(at[1], at[2]) >> at[0] & 1 == 1
    }

    /// Whether any bit is set.
    pub fn any(&self) -> bool {
        self.rows.iter().any(|r| *r != 0)
    }
}

/// Removes cells with a marked corner; `usable` has a word a row of cells, `[k][j]`.
pub fn without_corners(marked: &Signs, usable: &mut [u64]) {
    let [_, nj, nk] = marked.nodes;
    for k in 0..nk - 1 {
        for j in 0..nj - 1 {
            let any = marked.row(j, k) | marked.row(j + 1, k) | marked.row(j, k + 1) | marked.row(j + 1, k + 1);
            usable[k * (nj - 1) + j] &= !((any | any >> 1) as u64);
        }
    }
}

/// Removes cells with a marked low corner; `usable` as for [`without_corners`].
pub fn without_cells(marked: &Signs, usable: &mut [u64]) {
    let [_, nj, nk] = marked.nodes;
    for k in 0..nk - 1 {
        for j in 0..nj - 1 {
            usable[k * (nj - 1) + j] &= !(marked.row(j, k) as u64);
        }
    }
}

/// The value from which on a number is inside, in its own type: values are compared without conversion.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Threshold<T> {
    /// All numbers are inside.
    All,
    /// None is.
    Nothing,
    /// Those from this one on.
    From(T),
}

/// Comparison of numbers and of rows of them.
pub trait Compared: Voxel {
    /// Whether the type has NaN.
    const HAS_NAN: bool;
    /// The numbers not below `value`.
    fn cut(value: f64) -> Threshold<Self>;
    /// Bits of at most 64 numbers that are at least `from`, and of those that are NaN.
    fn at_least(row: &[Self], from: Self) -> (u64, u64);
}

/// Bits of up to 64 numbers: inside, and NaN.
#[inline]
pub fn row_signs<T: Compared>(row: &[T], cut: Threshold<T>) -> (u64, u64) {
    let all = if row.len() >= 64 { u64::MAX } else { (1 << row.len()) - 1 };
    match cut {
        Threshold::From(v) => T::at_least(row, v),
        Threshold::All => (all, 0),
        Threshold::Nothing => (0, 0),
    }
}

/// The same for numbers at a stride.
pub fn strided_signs<T: Compared>(numbers: &[T], stride: usize, count: usize, cut: Threshold<T>) -> (u64, u64) {
    let mut row = [None; 64];
    for (to, from) in row.iter_mut().zip(numbers.iter().step_by(stride)).take(count) {
        *to = Some(*from);
    }
    let mut bits = (0, 0);
    for (n, v) in row.iter().flatten().enumerate() {
        let (inside, none) = row_signs(core::slice::from_ref(v), cut);
        bits = (bits.0 | inside << n, bits.1 | none << n);
    }
    bits
}

macro_rules! integers {
    ($($t:ty => $at_least:path),*) => { $(
        impl Compared for $t {
            const HAS_NAN: bool = false;
            fn cut(value: f64) -> Threshold<Self> {
                let from = value.ceil();
                if from.is_nan() || from > <$t>::MAX as f64 {
                    Threshold::Nothing
                } else if from <= <$t>::MIN as f64 {
                    Threshold::All
                } else {
                    // For 64-bit numbers the highest is rounded up to one that does not exist: the conversion
                    // saturates.
                    Threshold::From(from as $t)
                }
            }
            #[inline]
            fn at_least(row: &[Self], from: Self) -> (u64, u64) {
                ($at_least(row, from), 0)
            }
        }
    )* };
}

integers!(u8 => wide::u8_at_least, i8 => one_by_one, u16 => wide::u16_at_least, i16 => wide::i16_at_least, u32 => one_by_one,
    i32 => one_by_one, u64 => one_by_one, i64 => one_by_one);

fn one_by_one<T: PartialOrd + Copy>(row: &[T], from: T) -> u64 {
    row.iter().take(64).enumerate().fold(0, |bits, (n, v)| bits | u64::from(*v >= from) << n)
}

impl Compared for f32 {
    const HAS_NAN: bool = true;
    fn cut(value: f64) -> Threshold<Self> {
        if value.is_nan() {
            return Threshold::Nothing;
        }
        // The smallest that is not below `value`.
        let near = value as f32;
        Threshold::From(if f64::from(near) < value { near.next_up() } else { near })
    }
    #[inline]
    fn at_least(row: &[Self], from: Self) -> (u64, u64) {
        wide::f32_at_least(row, from)
    }
}

impl Compared for f64 {
    const HAS_NAN: bool = true;
    fn cut(value: f64) -> Threshold<Self> {
        if value.is_nan() {
            Threshold::Nothing
        } else {
            Threshold::From(value)
        }
    }
    #[inline]
    fn at_least(row: &[Self], from: Self) -> (u64, u64) {
        let none = row.iter().take(64).enumerate().fold(0, |bits, (n, v)| bits | u64::from(v.is_nan()) << n);
        (one_by_one(row, from), none)
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
mod wide {
    use core::arch::x86_64::*;

    /// Runs `compare` on each 32 bytes of a row, the last padded with zeros, and joins the bits.
    #[inline(always)]
    fn by_32_bytes<T: Copy + Default, const N: usize>(row: &[T], compare: impl Fn(*const T) -> u64) -> u64 {
        let row = &row[..row.len().min(64)];
        let (whole, rest) = row.as_chunks::<N>();
        let mut bits = 0;
        for (n, chunk) in whole.iter().enumerate() {
            bits |= compare(chunk.as_ptr()) << (n * N);
        }
        if !rest.is_empty() {
            let mut last = [T::default(); N];
            last[..rest.len()].copy_from_slice(rest);
            bits |= (compare(last.as_ptr()) & ((1 << rest.len()) - 1)) << (whole.len() * N);
        }
        bits
    }

    #[inline]
    pub fn u8_at_least(row: &[u8], from: u8) -> u64 {
        // SAFETY: `by_32_bytes` gives places of 32 bytes; the cfg on this module guarantees AVX2.
        by_32_bytes::<u8, 32>(row, |p| unsafe {
            let (v, from) = (_mm256_loadu_si256(p.cast()), _mm256_set1_epi8(from as i8));
            u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(v, from), v)) as u32)
        })
    }

    /// A bit for each of sixteen masks of 16 bits.
    #[inline(always)]
    fn bits_of_16(mask: __m256i) -> u64 {
        // SAFETY: the cfg on this module guarantees AVX2.
        let bits = unsafe {
            let packed = _mm256_packs_epi16(mask, _mm256_setzero_si256());
            _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed))
        };
        u64::from(bits as u32 & 0xffff)
    }

    #[inline]
    pub fn u16_at_least(row: &[u16], from: u16) -> u64 {
        // SAFETY: `by_32_bytes` gives places of 32 bytes; the cfg on this module guarantees AVX2.
        by_32_bytes::<u16, 16>(row, |p| unsafe {
            let (v, from) = (_mm256_loadu_si256(p.cast()), _mm256_set1_epi16(from as i16));
            bits_of_16(_mm256_cmpeq_epi16(_mm256_max_epu16(v, from), v))
        })
    }

    #[inline]
    pub fn i16_at_least(row: &[i16], from: i16) -> u64 {
        // SAFETY: `by_32_bytes` gives places of 32 bytes; the cfg on this module guarantees AVX2.
        by_32_bytes::<i16, 16>(row, |p| unsafe {
            let (v, from) = (_mm256_loadu_si256(p.cast()), _mm256_set1_epi16(from));
            bits_of_16(_mm256_cmpeq_epi16(_mm256_max_epi16(v, from), v))
        })
    }

    #[inline]
    pub fn f32_at_least(row: &[f32], from: f32) -> (u64, u64) {
        // SAFETY: `by_32_bytes` gives places of 32 bytes; the cfg on this module guarantees AVX2.
        let inside = by_32_bytes::<f32, 8>(row, |p| unsafe {
            let (v, from) = (_mm256_loadu_ps(p), _mm256_set1_ps(from));
            u64::from(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(v, from)) as u32)
        });
        // SAFETY: `by_32_bytes` gives places of 32 bytes; the cfg on this module guarantees AVX2.
        let none = by_32_bytes::<f32, 8>(row, |p| unsafe {
            let v = _mm256_loadu_ps(p);
            u64::from(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v)) as u32)
        });
        (inside, none)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
mod wide {
    use super::one_by_one;

    pub(super) use super::one_by_one as u8_at_least;
    pub(super) use super::one_by_one as u16_at_least;
    pub(super) use super::one_by_one as i16_at_least;

    pub fn f32_at_least(row: &[f32], from: f32) -> (u64, u64) {
        let none = row.iter().take(64).enumerate().fold(0, |bits, (n, v)| bits | u64::from(v.is_nan()) << n);
        (one_by_one(row, from), none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Compared>(row: &[T], value: f64) {
        let (inside, none) = row_signs(row, T::cut(value));
        for (n, v) in row.iter().enumerate() {
            assert_eq!(inside >> n & 1 == 1, v.to_f64() >= value, "{n} of {}: {} {value}", row.len(), v.to_f64());
            assert_eq!(none >> n & 1 == 1, v.to_f64().is_nan());
        }
        if row.len() < 64 {
            assert_eq!((inside >> row.len(), none >> row.len()), (0, 0));
        }
        let spread: Vec<T> = row.iter().flat_map(|v| [*v; 3]).collect();
        assert_eq!(strided_signs(&spread, 3, row.len(), T::cut(value)), (inside, none));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: prop::test_runner::RngSeed::Fixed(0x5169_6e73), ..ProptestConfig::default() })]
        #[test]
        fn bits_are_comparisons(row in prop::collection::vec(any::<i64>(), 0..65), value in -300.0f64..300.0, whole: bool) {
            let value = if whole { value.round() } else { value };
            let each = |n: &i64| n % 256;
            check(&row.iter().map(|n| each(n) as u8).collect::<Vec<_>>(), value);
            check(&row.iter().map(|n| each(n) as i8).collect::<Vec<_>>(), value);
            check(&row.iter().map(|n| (each(n) * 200) as u16).collect::<Vec<_>>(), value * 200.0);
            check(&row.iter().map(|n| (each(n) * 100) as i16).collect::<Vec<_>>(), value * 100.0);
            check(&row.iter().map(|n| each(n) as i32).collect::<Vec<_>>(), value);
            check(&row.iter().map(|n| each(n).unsigned_abs()).collect::<Vec<_>>(), value);
            check(&row.iter().map(|n| if n % 11 == 0 { f32::NAN } else { each(n) as f32 }).collect::<Vec<_>>(), value);
            check(&row.iter().map(|n| if n % 11 == 0 { f64::NAN } else { each(n) as f64 }).collect::<Vec<_>>(), value);
        }
    }

    #[test]
    fn cuts_at_the_ends_of_types() {
        assert_eq!(u8::cut(0.0), Threshold::All);
        assert_eq!(u8::cut(254.5), Threshold::From(255));
        assert_eq!(u8::cut(255.5), Threshold::Nothing);
        assert_eq!(i8::cut(f64::NAN), Threshold::Nothing);
        assert_eq!(f32::cut(0.1), Threshold::From(0.1f32));
        assert!(matches!(f32::cut(f64::from(0.1f32) + 1e-12), Threshold::From(v) if v == 0.1f32.next_up()));
    }
}

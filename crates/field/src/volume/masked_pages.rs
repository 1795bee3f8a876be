//! Pages of values: the pages of stored numbers, with NaN for each number that means a missing value.
//!
//! # Theory
//! A fill value (`_FillValue` of NetCDF, such as 1e20 or -32768) is an ordinary number to code that interpolates,
//! compares or skips. The land in an ocean model would be a block of it, with all intermediate numbers at its shores.
//! Every kernel already has a rule for voxels without a value: NaN. So fill values become NaN once, at decoding, and
//! kernels do not depend on them. Arrays without fill values are read as stored, at no cost.
//!
//! # Practice
//! Integers have no NaN. Those of up to 16 bits become single precision, which is exact. Wider ones become double
//! precision (above 2^53 the nearest number, as in every conversion to values). The frame of such a page is larger than
//! the stored numbers. They are read and decoded into the frame's end, then spread from its beginning on, without
//! further memory. Ranges of blocks are those of values.

use super::missing_values::Missing;
use super::ranges::{typed, typed_mut, write_ranges, Extremes};
use super::voxel::{Brick, Voxel, VoxelType};
use crate::translate::Translation;
use crate::with_voxel;
use pager::error::PageError;
use pager::id::PageId;
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use std::sync::Arc;

/// The type that has NaN and all numbers of `voxel`, above 2^53 the nearest.
const fn with_nan(voxel: VoxelType) -> VoxelType {
    match voxel {
        VoxelType::Uint8 | VoxelType::Int8 | VoxelType::Uint16 | VoxelType::Int16 | VoxelType::Float32 => {
            VoxelType::Float32
        }
        VoxelType::Uint32 | VoxelType::Int32 | VoxelType::Uint64 | VoxelType::Int64 | VoxelType::Float64 => {
            VoxelType::Float64
        }
    }
}

/// Page map of values: see the module.
pub(super) struct ValuePages {
    /// Pages of the stored numbers, without ranges after them.
    stored: Arc<dyn PageMap>,
    /// Their brick.
    of: Brick,
    brick: Brick,
    translation: Translation,
    /// The numbers that mean a missing value, by component.
    missing: Vec<Missing>,
}

impl ValuePages {
    /// Values over pages of stored numbers with brick `of`, with missing values in at least one component.
    pub(super) fn new(stored: Arc<dyn PageMap>, of: Brick, translation: Translation, missing: &[Missing]) -> Self {
        Self { stored, of, brick: Self::brick(of), translation, missing: missing.to_vec() }
    }

    /// The brick of a frame of values.
    pub(super) fn brick(of: Brick) -> Brick {
        Brick { voxel: with_nan(of.voxel), ..of }
    }

    /// Offset of stored numbers in a frame. Numbers of equal size are replaced in place. Larger values never overwrite
    /// unread numbers: for n numbers, the first at `at`, n times the growth of one is at most `at`.
    fn at(&self) -> usize {
        if self.brick.voxel.size() == self.of.voxel.size() {
            0
        } else {
            self.brick.bytes() - self.of.voxel_bytes()
        }
    }

    fn stored_in<'f>(&self, frame: &'f mut [u8]) -> &'f mut [u8] {
        &mut frame[self.at()..][..self.of.voxel_bytes()]
    }

    /// Turns the stored numbers in a frame into values.
    fn finish(&self, page: PageId, frame: &mut [u8]) {
        let (at, count) = (self.at(), self.of.voxels() * self.of.components);
        match self.brick.voxel {
            VoxelType::Float32 => with_voxel!(self.of.voxel, S => turned::<S, f32>(frame, at, count, &self.missing)),
            _ => with_voxel!(self.of.voxel, S => turned::<S, f64>(frame, at, count, &self.missing)),
        }
        let (_, inside) = self.translation.extent(page.page);
        write_ranges(&self.brick, inside, frame);
    }
}

/// A type of values.
trait MissingValue: Extremes {
    const NONE: Self;
    fn of<S: Voxel>(stored: S) -> Self;
}

impl MissingValue for f32 {
    const NONE: Self = Self::NAN;
    #[inline(always)]
    fn of<S: Voxel>(stored: S) -> Self {
        stored.to_f32()
    }
}

impl MissingValue for f64 {
    const NONE: Self = Self::NAN;
    #[inline(always)]
    fn of<S: Voxel>(stored: S) -> Self {
        stored.to_f64()
    }
}

/// Numbers read before any is written.
const PIECE: usize = 256;

/// Writes values from the beginning of a frame, from the `count` numbers stored from byte `at` on.
fn turned<S: Voxel, D: MissingValue>(frame: &mut [u8], at: usize, count: usize, missing: &[Missing]) {
    let mut values = [D::NONE; PIECE];
    for first in (0..count).step_by(PIECE) {
        let n = PIECE.min(count - first);
        let stored: &[S] = typed(&frame[at + first * size_of::<S>()..][..n * size_of::<S>()]);
        let value = |v: S, none: &Missing| if none.holds(v) { D::NONE } else { D::of(v) };
        match missing {
            [none] => match none.ranges() {
                // Most files have one such number: a loop without a branch.
                [[one, last]] if one == last && !S::TYPE.is_wide() => {
                    let value = |v: S| if v.to_f64() == *one { D::NONE } else { D::of(v) };
                    stored.iter().zip(&mut values).for_each(|(v, to)| *to = value(*v));
                }
                _ => stored.iter().zip(&mut values).for_each(|(v, to)| *to = value(*v, none)),
            },
            all => {
                let each = all.iter().cycle().skip(first % all.len());
                stored.iter().zip(&mut values).zip(each).for_each(|((v, to), none)| *to = value(*v, none));
            }
        }
        typed_mut(&mut frame[first * size_of::<D>()..][..n * size_of::<D>()]).copy_from_slice(&values[..n]);
    }
}

impl PageMap for ValuePages {
    fn name(&self) -> &str {
        self.stored.name()
    }
    fn page_name(&self, page: PageId) -> String {
        self.stored.page_name(page)
    }
    fn pages(&self) -> u64 {
        self.stored.pages()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        self.stored.pages_along()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.brick.bytes()
    }
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let moved = |to| match to {
            ExtentTarget::Frame(n) => ExtentTarget::Frame(self.at() + n),
            encoded => encoded,
        };
        match self.stored.locate(page, index) {
            Located::Extents { segments, encoded_len, scratch_len, found } => {
                let segments = segments.into_iter().map(|s| Extent { to: moved(s.to), ..s }).collect();
                Located::Extents { segments, encoded_len, scratch_len, found }
            }
            other => other,
        }
    }
    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        self.stored.decode(page, found, encoded, scratch, self.stored_in(frame))?;
        self.finish(page, frame);
        Ok(())
    }
    fn fill(&self, page: PageId, frame: &mut [u8]) {
        self.stored.fill(page, self.stored_in(frame));
        self.finish(page, frame);
    }
    fn checked(&self) -> bool {
        self.stored.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::error::PageErrorKind;

    /// A page of given numbers, read into the frame or encoded.
    struct FillPage {
        bytes: Vec<u8>,
        encoded: bool,
    }

    impl PageMap for FillPage {
        fn name(&self) -> &str {
            "given"
        }
        fn pages(&self) -> u64 {
            1
        }
        fn page_bytes(&self, _: PageId) -> usize {
            self.bytes.len()
        }
        fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
            let (len, source) = (self.bytes.len(), pager::id::SourceId(0));
            let to = if self.encoded { ExtentTarget::Encoded(0) } else { ExtentTarget::Frame(0) };
            let segments = vec![Extent { source, offset: 0, len, to }];
            Located::Extents {
                segments,
                encoded_len: if self.encoded { len } else { 0 },
                scratch_len: 0,
                found: Box::default(),
            }
        }
        fn decode(
            &self,
            page: PageId,
            _: &[u64],
            encoded: &[u8],
            _: &mut [u8],
            frame: &mut [u8],
        ) -> Result<(), PageError> {
            let bad = || PageError::new(self.page_name(page), PageErrorKind::Decode("other bytes".into()));
            if self.encoded {
                frame.copy_from_slice(encoded);
            }
            (*frame == self.bytes[..]).then_some(()).ok_or_else(bad)
        }
        fn fill(&self, _: PageId, frame: &mut [u8]) {
            frame.copy_from_slice(&self.bytes);
        }
        fn checked(&self) -> bool {
            true
        }
    }

    fn check<T: Voxel>(page: [u32; 3], missing: &[Missing], number: impl Fn(usize) -> T) {
        let of = Brick { page, components: missing.len(), voxel: T::TYPE };
        let numbers: Vec<T> = (0..of.voxels() * of.components).map(number).collect();
        let translation = Translation::new(page.map(|n| n as usize), page.map(|n| n as usize));
        let brick = ValuePages::brick(of);
        // SAFETY: plain numbers, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), size_of_val(&numbers[..])) };
        let id = PageId::new(pager::id::ArrayId(0), 0, 0);
        for (encoded, fill) in [(false, false), (true, false), (false, true)] {
            let stored = FillPage { bytes: bytes.to_vec(), encoded };
            let map = ValuePages::new(Arc::new(stored), of, translation, missing);
            let mut words = vec![0x5555_5555_5555_5555u64; map.page_bytes(id).div_ceil(8)];
            // SAFETY: plain memory, as bytes; aligned for every type.
            let frame = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), map.page_bytes(id)) };
            if fill {
                map.fill(id, frame);
            } else {
                let Located::Extents { segments, encoded_len, .. } = map.locate(id, &mut |_| None) else { panic!() };
                let mut room = vec![0; encoded_len];
                for s in segments {
                    match s.to {
                        ExtentTarget::Frame(at) => frame[at..at + s.len].copy_from_slice(bytes),
                        ExtentTarget::Encoded(at) => room[at..at + s.len].copy_from_slice(bytes),
                    }
                }
                map.decode(id, &[], &room, &mut [], frame).unwrap();
            }
            let values: Vec<f64> = match brick.voxel {
                VoxelType::Float32 => {
                    typed::<f32>(&frame[..brick.voxel_bytes()]).iter().map(|v| f64::from(*v)).collect()
                }
                _ => typed::<f64>(&frame[..brick.voxel_bytes()]).to_vec(),
            };
            for (n, (v, stored)) in values.iter().zip(&numbers).enumerate() {
                let none = missing[n % missing.len()].holds(*stored);
                let stored = stored.to_f64();
                if none || stored.is_nan() {
                    assert!(v.is_nan(), "{page:?} {n}: {v} for {stored}");
                } else {
                    assert_eq!(*v, stored, "{page:?} {n}");
                }
            }
            let mut same = vec![0u64; words.len()];
            // SAFETY: as above.
            let same = unsafe { core::slice::from_raw_parts_mut(same.as_mut_ptr().cast::<u8>(), words.len() * 8) };
            // SAFETY: as above.
            let frame = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), brick.bytes()) };
            same[..brick.voxel_bytes()].copy_from_slice(&frame[..brick.voxel_bytes()]);
            write_ranges(&brick, page, &mut same[..brick.bytes()]);
            assert!(same[brick.ranges_at()..brick.bytes()] == frame[brick.ranges_at()..], "ranges of {page:?}");
        }
    }

    #[test]
    fn values_are_the_stored_numbers_but_for_those_that_stand_for_none() {
        check([32, 16, 9], &[Missing::one(255.0)], |n| (n * 7) as u8);
        check([1, 1, 1], &[Missing::one(3.0)], |_| 3u8);
        check([1, 2, 1], &[Missing::one(3.0)], |n| n as i8 + 3);
        check([33, 5, 7], &[Missing::one(-32768.0)], |n| if n % 3 == 0 { i16::MIN } else { n as i16 });
        check([9, 10, 11], &[Missing::one(0.0)], |n| n as u16 % 5);
        check([7, 8, 9], &[Missing::one(-9999.0)], |n| if n % 4 == 0 { -9999i32 } else { n as i32 * 1_000_003 });
        check([7, 8, 9], &[Missing::one(f64::from(u32::MAX))], |n| u32::MAX - n as u32 % 3);
        check([5, 4, 3], &[Missing::one(i64::MIN as f64)], |n| if n % 2 == 0 { i64::MIN } else { n as i64 - 40 });
        check([5, 4, 3], &[Missing::one(7.0)], |n| n as u64 % 9);
        check([5, 4, 3], &[Missing::one((1u64 << 60) as f64)], |n| (1u64 << 60) + n as u64 % 3);
        check([40, 9, 3], &[Missing::one(1e20f32.into())], |n| if n % 5 == 0 { 1e20f32 } else { n as f32 });
        check([20, 9, 3], &[Missing::one(f64::INFINITY)], |n| [f64::INFINITY, f64::NAN, n as f64][n % 3]);
        // Each component has its own, or none.
        check([13, 7, 30], &[Missing::one(5.0), Missing::none(), Missing::one(6.0)], |n| (n % 11) as u8);
        check([13, 7, 30], &[Missing::none(), Missing::one(-1.0)], |n| if n % 7 == 0 { -1.0 } else { n as f32 });
        // Several, and a range.
        let several = Missing::of([[1e20f32.into(), 1e20f32.into()], [-999.0, -999.0], [-888.0, -888.0]]);
        check([9, 10, 11], std::slice::from_ref(&several), |n| [1e20f32, -999.0, -888.0, f32::NAN, n as f32][n % 5]);
        check([9, 10, 11], &[several, Missing::none()], |n| [1e20f32, -999.0, -888.0, n as f32][n % 4]);
        check([9, 10, 11], &[Missing::of([[-2000.0, -1990.0], [7.0, 7.0]])], |n| (n % 40) as i16 - 2010);
        check([9, 10, 11], &[Missing::of([[f64::NEG_INFINITY, -0.5]])], |n| n as f64 - 400.0);
    }
}

//! The voxels of an open volume, read through its pager, as input of conversions from any reader.

use crate::limits::{charge_other, fetch_error, would_do};
use crate::session::Session;
use convert::volume::{VolumeInput, VoxelRows};
use field::catalog::ReadCounter;
use field::error::FieldError;
use field::volume::store::grouped;
use field::volume::{Brick, VolumeArray, VolumeFiles, Voxel, VoxelType};
use field::with_voxel;
use pager::{ChargeKind, Lookup, PageId};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Pages in memory at a time take at most one part in this many of the memory that the conversion leaves free. One is
/// in memory encoded and decoded, and pages of the row before serve the next row.
const SHARE: u64 = 4;
/// Bytes to read a page, beside its own.
const BESIDE: u64 = 256 << 10;

/// The input of a conversion of an open volume: its finest level.
///
/// # Errors
/// [`FieldError::Usage`] for channels without a common type that holds all their numbers.
pub fn paged_input(session: &Arc<Session>) -> Result<VolumeInput, FieldError> {
    let spec = &session.volume()?.spec;
    let voxel = common_type(session)?;
    let (_, components) = grouped(spec.kind, spec.channels.len());
    let VolumeFiles { files, folders } = VolumeFiles::of(spec);
    let rows = PagedVoxels { session: session.clone(), voxel, components, tally: ReadCounter::default() };
    let mut about = (**spec).clone();
    about.levels.truncate(1);
    about.levels.iter_mut().for_each(|l| l.arrays.clear());
    Ok(VolumeInput { rows: Arc::new(rows), spec: about, voxel, files, folders })
}

/// Charges a conversion of an open volume to its ledger, and leaves room for pages.
pub fn charge_beside_pages(
    session: &Session,
) -> Result<impl Fn(u64) -> Result<Box<dyn Any>, FieldError> + '_, FieldError> {
    let pager = &session.pager;
    let arrays = session.volume()?.levels.first().map_or(&[][..], |l| &l.arrays);
    let room = 4 * arrays.iter().map(|a| a.brick.bytes() as u64).max().unwrap_or(0) + BESIDE;
    Ok(move |bytes: u64| {
        // Charged and released at once, so that a refusal names the whole.
        let probe = pager.charge(ChargeKind::Other, bytes.saturating_add(room));
        if let Err(f) = probe {
            let (needs, what) = (would_do(pager, bytes.saturating_add(room)), "the conversion".into());
            return Err(FieldError::LimitTooSmall { limit: f.limit, needs, what });
        }
        drop(probe);
        charge_other(pager, bytes, "the conversion")
    })
}

/// The type that holds the numbers of all channels exactly.
fn common_type(session: &Session) -> Result<VoxelType, FieldError> {
    let spec = &session.volume()?.spec;
    let arrays = session.volume()?.levels.first().map_or(&[][..], |l| &l.arrays);
    let mut found: Option<VoxelType> = None;
    for array in arrays {
        let own = array.brick.voxel;
        found = match found.map_or(Some(own), |f| joined(f, own)) {
            Some(both) => Some(both),
            None => {
                let names: Vec<String> =
                    arrays.iter().map(|a| format!("'{}' {}", a.name, a.brick.voxel.name())).collect();
                return Err(FieldError::Usage(format!(
                    "{}: no type holds the numbers of all its channels ({}), and a store has one type; convert them one by one, as \
                     in SRC::NAME",
                    spec.path,
                    names.join(", ")
                )));
            }
        };
    }
    found.ok_or_else(|| FieldError::format(&spec.path, "it has no array to convert"))
}

/// The smallest type that holds all numbers of both.
fn joined(a: VoxelType, b: VoxelType) -> Option<VoxelType> {
    use VoxelType::*;
    VoxelType::ALL.into_iter().filter(|t| [a, b].into_iter().all(|of| holds(*t, of))).min_by_key(|t| {
        // Of types of one size, integers stay integers.
        (t.size(), matches!(t, Float32 | Float64))
    })
}

fn holds(t: VoxelType, of: VoxelType) -> bool {
    use VoxelType::*;
    let signed = |t| matches!(t, Int8 | Int16 | Int32 | Int64);
    let real = |t| matches!(t, Float32 | Float64);
    match (real(t), real(of)) {
        (_, true) => real(t) && t.size() >= of.size(),
        // Single precision has 24 binary digits, double 53.
        (true, false) => of.size() < t.size(),
        (false, false) if signed(t) == signed(of) => t.size() >= of.size(),
        (false, false) => signed(t) && t.size() > of.size(),
    }
}

/// See [`paged_input`].
struct PagedVoxels {
    session: Arc<Session>,
    voxel: VoxelType,
    components: usize,
    /// Always zero: the pager counts its reads.
    tally: ReadCounter,
}

/// Pairs of a component of an array and a component of a group.
type Pairs = Vec<(usize, usize)>;

impl PagedVoxels {
    /// The arrays with channels of a group.
    fn arrays(&self, group: usize) -> Result<Vec<(&VolumeArray, Pairs)>, FieldError> {
        let volume = self.session.volume()?;
        let mut arrays: Vec<(&VolumeArray, Pairs)> = Vec::new();
        for c in 0..self.components {
            let channel = group * self.components + c;
            let found = volume.levels.first().and_then(|l| l.channel(channel));
            let (array, component) =
                found.ok_or_else(|| FieldError::format(&volume.spec.path, format!("it has no channel {channel}")))?;
            match arrays.iter_mut().find(|(a, _)| a.id == array.id) {
                Some((_, pairs)) => pairs.push((component, c)),
                None => arrays.push((array, vec![(component, c)])),
            }
        }
        Ok(arrays)
    }

    fn read_pages(
        &self,
        array: &VolumeArray,
        pairs: &Pairs,
        pages: &[([u32; 3], PageId)],
        wanted: &VoxelBox<'_>,
        out: &mut [u8],
    ) -> Result<(), FieldError> {
        let pager = &self.session.pager;
        let ids: Vec<PageId> = pages.iter().map(|(_, id)| *id).collect();
        let begun = Instant::now();
        let held = pager.fetch(&ids);
        self.session.add_wait(begun.elapsed().as_secs_f64());
        let hold = match held.map_err(|e| fetch_error(pager, e, (ids.len() * array.brick.bytes()) as u64, 0)) {
            Ok(hold) => hold,
            // One page at a time then.
            Err(FieldError::LimitTooSmall { .. }) if pages.len() > 1 => {
                return pages.iter().try_for_each(|one| self.read_pages(array, pairs, &[*one], wanted, out));
            }
            Err(e) => return Err(e),
        };
        let mut worker = pager.worker();
        for (at, id) in pages {
            match worker.page(*id) {
                Lookup::Here(frame) => {
                    let low = [0, 1, 2].map(|a| (at[a] * array.translation.page[a]) as usize);
                    wanted.copy(&VoxelPage { brick: &array.brick, frame, low }, pairs, out);
                }
                Lookup::Failed(e) => return Err(FieldError::Page(e.clone())),
                Lookup::Absent => return Err(FieldError::Internal("a held page is absent")),
            }
        }
        worker.release();
        drop(hold);
        Ok(())
    }
}

impl VoxelRows for PagedVoxels {
    fn read_box(
        &self,
        step: usize,
        group: usize,
        points: &[Range<usize>; 3],
        out: &mut [u8],
    ) -> Result<(), FieldError> {
        if points.iter().any(|p| p.is_empty()) {
            return Ok(());
        }
        let ledger = self.session.pager.ledger();
        let wanted = VoxelBox { points, components: self.components, voxel: self.voxel };
        for (array, pairs) in self.arrays(group)? {
            let t = &array.translation;
            let step = if array.steady { 0 } else { step as u32 };
            let page = t.page.map(|n| n as usize);
            let [is, js, ks] =
                [0, 1, 2].map(|a| (points[a].start / page[a]) as u32..points[a].end.div_ceil(page[a]) as u32);
            let mut pages = Vec::new();
            for k in ks {
                for j in js.clone() {
                    for i in is.clone() {
                        let n = (u64::from(k) * u64::from(t.pages[1]) + u64::from(j)) * u64::from(t.pages[0]);
                        pages.push(([i, j, k], PageId::new(array.id, step, n + u64::from(i))));
                    }
                }
            }
            let others = ledger.used().saturating_sub(ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached));
            let free = ledger.limit().saturating_sub(others);
            let at_once = (free / SHARE / (2 * array.brick.bytes() as u64)).clamp(1, 4096) as usize;
            for some in pages.chunks(at_once) {
                self.read_pages(array, &pairs, some, &wanted, out)?;
            }
        }
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

/// A page with its numbers.
struct VoxelPage<'a> {
    brick: &'a Brick,
    frame: &'a [u8],
    /// Its first voxel.
    low: [usize; 3],
}

/// A box of voxels as a conversion wants it.
struct VoxelBox<'a> {
    /// Voxels along each axis.
    points: &'a [Range<usize>; 3],
    /// Numbers of a voxel.
    components: usize,
    /// Their type.
    voxel: VoxelType,
}

impl VoxelBox<'_> {
    /// Copies the part of the box that lies in a page.
    fn copy(&self, from: &VoxelPage<'_>, pairs: &Pairs, out: &mut [u8]) {
        let Self { points, components, voxel } = *self;
        let VoxelPage { brick, frame, low } = *from;
        let page = brick.page.map(|n| n as usize);
        let [is, js, ks] = [0, 1, 2].map(|a| points[a].start.max(low[a])..points[a].end.min(low[a] + page[a]));
        let (from_size, to_size) = (brick.voxel.size(), voxel.size());
        let same = brick.voxel == voxel;
        let whole = same && components == brick.components && pairs.iter().enumerate().all(|(n, p)| *p == (n, n));
        let count = is.len();
        for k in ks {
            for j in js.clone() {
                let row = ((k - low[2]) * page[1] + j - low[1]) * page[0] + is.start - low[0];
                let target = ((k - points[2].start) * points[1].len() + j - points[1].start) * points[0].len()
                    + is.start
                    - points[0].start;
                let from = &frame[row * brick.components * from_size..][..count * brick.components * from_size];
                let to = &mut out[target * components * to_size..][..count * components * to_size];
                if whole {
                    to.copy_from_slice(from);
                    continue;
                }
                for (component, at) in pairs {
                    let from = from.chunks_exact(brick.components * from_size).map(|v| &v[component * from_size..]);
                    let to = to.chunks_exact_mut(components * to_size).map(|v| &mut v[at * to_size..]);
                    if same {
                        from.zip(to).for_each(|(from, to)| to[..to_size].copy_from_slice(&from[..from_size]));
                    } else {
                        with_voxel!(brick.voxel, F => from.zip(to).for_each(|(from, to)| widen::<F>(from, voxel, to)));
                    }
                }
            }
        }
    }
}

/// Converts a number to a type that holds it.
fn widen<F: Voxel + bytes::Bytes>(from: &[u8], voxel: VoxelType, to: &mut [u8]) {
    let number = F::of(from);
    match voxel {
        VoxelType::Float32 => to[..4].copy_from_slice(&number.to_f32().to_ne_bytes()),
        VoxelType::Float64 => to[..8].copy_from_slice(&number.to_f64().to_ne_bytes()),
        // An integer in a longer type: its bytes, and its sign extended above them.
        _ => {
            let size = F::TYPE.size();
            let negative = number.to_f64() < 0.0;
            to[..voxel.size()].fill(if negative { 0xff } else { 0 });
            to[..size].copy_from_slice(&from[..size]);
        }
    }
}

/// Numbers from unaligned bytes.
mod bytes {
    pub(super) trait Bytes: Sized {
        fn of(bytes: &[u8]) -> Self;
    }

    macro_rules! bytes {
        ($($t:ty),*) => { $(
            impl Bytes for $t {
                fn of(bytes: &[u8]) -> Self {
                    let mut own = [0; size_of::<$t>()];
                    own.copy_from_slice(&bytes[..size_of::<$t>()]);
                    Self::from_ne_bytes(own)
                }
            }
        )* };
    }

    bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use VoxelType::*;

    #[test]
    fn types_that_hold_both() {
        for (a, b, want) in [
            (Uint8, Uint8, Some(Uint8)),
            (Uint8, Int8, Some(Int16)),
            (Uint8, Uint16, Some(Uint16)),
            (Int16, Uint16, Some(Int32)),
            (Uint32, Int8, Some(Int64)),
            (Uint64, Uint32, Some(Uint64)),
            (Uint64, Int8, None),
            (Float32, Int16, Some(Float32)),
            (Float32, Int32, Some(Float64)),
            (Float64, Float32, Some(Float64)),
            (Int64, Float32, None),
        ] {
            assert_eq!(joined(a, b), want, "{a:?} and {b:?}");
            assert_eq!(joined(b, a), want, "{b:?} and {a:?}");
        }
    }

    #[test]
    fn numbers_stay_what_they_are() {
        let mut to = [0; 8];
        widen::<i8>(&(-3i8).to_ne_bytes(), Int16, &mut to);
        assert_eq!(i16::from_ne_bytes([to[0], to[1]]), -3);
        widen::<u8>(&[200], Int16, &mut to);
        assert_eq!(i16::from_ne_bytes([to[0], to[1]]), 200);
        widen::<i32>(&i32::MIN.to_ne_bytes(), Float64, &mut to);
        assert_eq!(f64::from_ne_bytes(to), f64::from(i32::MIN));
        widen::<u32>(&u32::MAX.to_ne_bytes(), Int64, &mut to);
        assert_eq!(i64::from_ne_bytes(to), i64::from(u32::MAX));
    }

    #[test]
    fn a_page_of_two_components_goes_to_the_places_of_two_others() {
        let brick = Brick { page: [2, 2, 1], components: 2, voxel: Uint8 };
        let frame: Vec<u8> = (0..64).collect();
        // Voxels (3, 1..3) of a box that begins at (3, 1); the page begins at (2, 2).
        let points = [3..4, 1..3, 0..1];
        let mut out = vec![255u8; 2 * 3 * 2];
        let page = VoxelPage { brick: &brick, frame: &frame, low: [2, 2, 0] };
        VoxelBox { points: &points, components: 3, voxel: Int16 }.copy(&page, &vec![(0, 2), (1, 0)], &mut out);
        let numbers: Vec<i16> = out.chunks_exact(2).map(|b| i16::from_ne_bytes([b[0], b[1]])).collect();
        assert_eq!(numbers, [-1, -1, -1, 3, -1, 2], "only row 2 lies in the page, and there is no component 1");
    }
}

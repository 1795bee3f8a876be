//! The comparison: a PLOT3D file mapped into memory, or read whole, under the same kernel. The system does the paging.

use field::array_layout::Affine;
use field::catalog::DType;
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::{Each, Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::simd::V4;
use pager::error::PageError;
use pager::{PageId, Pager};
use runtime::limits::pager_error;
use runtime::session::Session;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// How a file comes into memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Mapped, with the system's own read-ahead.
    Mapped,
    /// Mapped with `MADV_RANDOM`: no read-ahead.
    MappedRandom,
    /// Read whole before anything else.
    Read,
}

/// Bytes of a file.
pub(super) struct Region {
    base: *mut libc::c_void,
    len: usize,
}

// SAFETY: the memory is only read once it is made.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// # Errors
    /// [`FieldError::Io`].
    pub(super) fn new(path: &Path, how: Whole) -> Result<Self, FieldError> {
        let io = |e| FieldError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let len = usize::try_from(file.metadata().map_err(io)?.len()).unwrap_or(usize::MAX);
        let (flags, number) = match how {
            Whole::Read => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
            _ => (libc::MAP_SHARED, file.as_raw_fd()),
        };
        let protection = if how == Whole::Read { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping that nothing else refers to.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, number, 0) };
        if base == libc::MAP_FAILED {
            return Err(io(std::io::Error::last_os_error()));
        }
        let region = Self { base, len };
        match how {
            // SAFETY: the range is the mapping.
            Whole::MappedRandom => drop(unsafe { libc::madvise(base, len, libc::MADV_RANDOM) }),
            Whole::Mapped => {}
            Whole::Read => {
                // SAFETY: writable, zeroed, and known to nobody else yet.
                let bytes = unsafe { std::slice::from_raw_parts_mut(base.cast::<u8>(), len) };
                let mut at = 0;
                for piece in bytes.chunks_mut(READ) {
                    file.read_exact_at(piece, at).map_err(io)?;
                    at += piece.len() as u64;
                }
            }
        }
        Ok(region)
    }
}

impl Region {
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives, and nobody writes once it is made.
        unsafe { std::slice::from_raw_parts(self.base.cast::<u8>(), self.len) }
    }
}

/// Bytes of one read of a whole file.
const READ: usize = 1 << 20;

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: made by `new`; nothing that borrows from it outlives it.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

/// One array within a region.
#[derive(Copy, Clone)]
struct Strided {
    base: *const u8,
    component: usize,
    plane: usize,
    row: usize,
    element: usize,
    dtype: DType,
    components: usize,
}

// SAFETY: points into a region, which is only read.
unsafe impl Send for Strided {}
// SAFETY: as above.
unsafe impl Sync for Strided {}

/// The files of a dataset as memory.
pub(super) struct Memory {
    zones: Arc<[Zone]>,
    /// The first time step in memory.
    first: usize,
    /// Arrays of each step and, within it, of each zone.
    arrays: Vec<Vec<Strided>>,
    /// Kept as long as `arrays` point into them.
    _regions: Vec<Region>,
}

impl Memory {
    /// Maps or reads all files of the dataset for the time steps `steps`.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for anything but PLOT3D in native byte order with constant strides.
    pub fn new(dataset: &Dataset, steps: Range<usize>, how: Whole) -> Result<Self, FieldError> {
        let format = dataset.format.as_ref().filter(|f| f.is_in_place());
        let Some(files) = format else {
            return Err(FieldError::Usage("only files that are paged in place can be mapped".into()));
        };
        let paths = files.data_files();
        let regions = paths.iter().map(|p| Region::new(p, how)).collect::<Result<Vec<_>, _>>()?;
        let mut arrays = Vec::with_capacity(steps.len() * dataset.zones.len());
        for (step, (z, zone)) in steps.clone().flat_map(|step| dataset.zones.iter().enumerate().map(move |z| (step, z)))
        {
            let each = (0..zone.arrays.len()).map(|a| {
                let layout =
                    files.layout(z, a).ok_or_else(|| FieldError::Usage(format!("no array {a} in {}", zone.name)))?;
                let unfit = || {
                    FieldError::Usage(format!(
                        "{}: not in native order with constant strides and unscaled numbers",
                        layout.path(step).display()
                    ))
                };
                let affine = layout
                    .affine(step)
                    .filter(|_| layout.big_endian(step) == cfg!(target_endian = "big"))
                    .ok_or_else(unfit)?;
                let region = &regions[layout.file(step, 0)];
                let last = last_byte(&affine, layout.components(), layout.dims())
                    .filter(|n| *n <= region.len as u64)
                    .ok_or_else(unfit)?;
                debug_assert!(last > affine.base);
                Ok(Strided {
                    base: region.base.cast::<u8>().wrapping_add(affine.base as usize),
                    component: affine.component as usize,
                    plane: affine.plane as usize,
                    row: affine.row as usize,
                    element: affine.element as usize,
                    dtype: layout.dtype(),
                    components: layout.components(),
                })
            });
            arrays.push(each.collect::<Result<Vec<_>, FieldError>>()?);
        }
        Ok(Self { zones: dataset.zones.clone(), first: steps.start, arrays, _regions: regions })
    }
}

/// One past the last byte of an array.
fn last_byte(a: &Affine, components: usize, dims: [usize; 3]) -> Option<u64> {
    let d = dims.map(|n| n.max(1) as u64);
    let far = [(a.component, components.max(1) as u64), (a.plane, d[2]), (a.row, d[1]), (a.element, d[0])];
    far.iter().try_fold(a.base + a.element, |sum, (stride, n)| sum.checked_add(stride.checked_mul(n - 1)?))
}

/// Nodes over files in memory. The boxes of point location come from index pages, when needed.
pub(super) struct MmapNodes {
    memory: Arc<Memory>,
    /// First array of the present step.
    at: usize,
    boxes: PagedNodes,
    pager: Arc<Pager>,
    held: Vec<pager::Hold>,
    failure: Option<PageError>,
}

impl MmapNodes {
    pub fn new(memory: Arc<Memory>, session: &Session) -> Self {
        let pager = session.pager.clone();
        let boxes = PagedNodes::new(memory.zones.clone(), pager.worker(), memory.first as u32);
        Self { memory, at: 0, boxes, pager, held: Vec::new(), failure: None }
    }

    #[inline(always)]
    fn steps(&self, zone: usize, a: &Strided) -> [usize; 3] {
        let d = self.memory.zones[zone].dims();
        [if d[0] > 1 { a.element } else { 0 }, if d[1] > 1 { a.row } else { 0 }, if d[2] > 1 { a.plane } else { 0 }]
    }

    #[inline(always)]
    fn first(a: &Strided, cell: [u32; 3]) -> *const u8 {
        a.base.wrapping_add(cell[2] as usize * a.plane + cell[1] as usize * a.row + cell[0] as usize * a.element)
    }
}

/// One value as a double.
///
/// # Safety
/// `p` points to a value of that type.
#[inline(always)]
unsafe fn value(p: *const u8, dtype: DType) -> f64 {
    // SAFETY: the caller promises a value of that type.
    unsafe {
        match dtype {
            DType::Float32 => f64::from(p.cast::<f32>().read_unaligned()),
            DType::Float64 => p.cast::<f64>().read_unaligned(),
            DType::Int32 => f64::from(p.cast::<i32>().read_unaligned()),
            DType::Uint8 => f64::from(*p),
        }
    }
}

impl Nodes for MmapNodes {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        &self.memory.zones
    }
    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }

    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let a = &self.memory.arrays[self.at + zone][array];
        let (p, step) = (Self::first(a, cell), self.steps(zone, a));
        if a.dtype == DType::Float32 && a.components == 3 && step[0] == 4 {
            for (row, pair) in out.chunks_exact_mut(2).enumerate() {
                let q = p.wrapping_add((row & 1) * step[1] + (row >> 1) * step[2]);
                let c = |n: usize| q.wrapping_add(n * a.component).cast::<f32>();
                // SAFETY: the pair is two corners of a cell of the zone, and `Memory::new` checked the array's last
                // byte.
                let [u, v] = unsafe { V4::pair_of_planes_f32([c(0), c(1), c(2)]) };
                pair[0] = u;
                pair[1] = v;
            }
            return Ok(());
        }
        for (c, v) in out.iter_mut().enumerate() {
            let q = p.wrapping_add((c & 1) * step[0] + ((c >> 1) & 1) * step[1] + (c >> 2) * step[2]);
            let x = |n: usize| {
                if n < a.components {
                    // SAFETY: as above.
                    unsafe { value(q.wrapping_add(n * a.component), a.dtype) }
                } else {
                    0.0
                }
            };
            *v = V4::new(x(0), x(1), x(2), 0.0);
        }
        Ok(())
    }

    #[inline(always)]
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let a = &self.memory.arrays[self.at + zone][array];
        let (p, step) = (Self::first(a, cell).wrapping_add(component * a.component), self.steps(zone, a));
        for (c, v) in out.iter_mut().enumerate() {
            let q = p.wrapping_add((c & 1) * step[0] + ((c >> 1) & 1) * step[1] + (c >> 2) * step[2]);
            // SAFETY: as above.
            *v = unsafe { value(q, a.dtype) };
        }
        Ok(())
    }

    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        loop {
            match self.boxes.block(zone, level, block) {
                Err(Miss::Absent) => {
                    let wanted = core::mem::take(self.boxes.missing());
                    match self.pager.fetch(&wanted).map_err(pager_error) {
                        Ok(hold) => self.held.push(hold),
                        Err(FieldError::Page(e)) => {
                            self.failure = Some(e);
                            return Err(Miss::Failed);
                        }
                        Err(_) => return Err(Miss::Failed),
                    }
                }
                other => return other,
            }
        }
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        self.boxes.missing()
    }
    fn failure(&mut self) -> Option<PageError> {
        self.failure.take()
    }
    fn set_step(&mut self, step: u32) {
        self.at = (step as usize).saturating_sub(self.memory.first) * self.memory.zones.len();
        self.boxes.set_step(step);
    }
}

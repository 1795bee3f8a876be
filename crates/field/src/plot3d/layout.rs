//! Where the bytes of one array lie, for paging in place and for reading rows in order.
//!
//! Memory is a few numbers a zone and step (a list only for records split in sub-records), never anything a point.

use super::bytes::{scale, swap};
use super::options::{ByteOrder, Order};
use super::reading::{FileReading, ZoneReading};
use super::spans::{ByteRun, Spans};
use crate::catalog::{DType, ReadCounter, RowReader};
use crate::error::FieldError;
use crate::heap_size;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files kept open for sequential reading.
const OPEN: usize = 16;

/// The files of a dataset, in the order in which layouts number them.
#[derive(Debug)]
pub struct DataFiles {
    paths: Vec<PathBuf>,
    /// The last ones used, newest last. Only [`RowReader`] uses it; pages are read through the pager's sources.
    open: Mutex<Vec<(usize, Arc<File>)>>,
}

impl DataFiles {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, open: Mutex::new(Vec::new()) }
    }

    /// Path of each file.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn get(&self, n: usize) -> Result<Arc<File>, FieldError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|o| o.0 == n) {
            let hit = open.remove(at);
            let file = hit.1.clone();
            open.push(hit);
            return Ok(file);
        }
        let path = self.path(n);
        let file = Arc::new(File::open(path).map_err(|e| FieldError::io(path, e))?);
        if open.len() == OPEN {
            open.remove(0);
        }
        open.push((n, file.clone()));
        Ok(file)
    }

    fn path(&self, n: usize) -> &Path {
        self.paths.get(n).map_or(Path::new(""), PathBuf::as_path)
    }
}

/// One zone's data in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneData {
    /// Number of the file.
    pub file: usize,
    pub data: Spans,
    pub big_endian: bool,
    pub order: Order,
    /// Bytes of a floating-point number.
    pub width: u64,
    /// Floating-point variables a point.
    pub variables: u64,
    /// Whether an int32 a point follows them.
    pub iblank: bool,
}

impl ZoneData {
    pub(super) fn new(file: usize, reading: &FileReading, zone: &ZoneReading) -> Self {
        let e = &reading.encoding;
        Self {
            file,
            data: zone.data.clone(),
            big_endian: e.byte_order == ByteOrder::Big,
            order: e.order,
            width: e.precision.bytes(),
            variables: u64::from(zone.variables),
            iblank: e.iblank,
        }
    }
}

/// Where an array's elements are, when distances between them are constant: byte offset of element (c, k, j, i) is
/// `base + c * component + k * plane + j * row + i * element`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Byte offset of the first element.
    pub base: u64,
    /// Bytes from a component to the next.
    pub component: u64,
    /// Bytes from a plane (k) to the next.
    pub plane: u64,
    /// Bytes from a row (j) to the next.
    pub row: u64,
    /// Bytes an element.
    pub element: u64,
}

/// How one array of one zone lies in its files, one file a step.
#[derive(Clone, Debug)]
pub struct ArrayLayout {
    pub(super) name: String,
    pub(super) files: Arc<DataFiles>,
    pub(super) dims: [u64; 3],
    /// First variable in the zone's data; iblank is the one after the last.
    pub(super) first: u64,
    pub(super) components: u64,
    pub(super) dtype: DType,
    /// What the numbers in the file are multiplied by; 1 for integers.
    pub(super) factor: f64,
    /// One a step, or a single one for all.
    pub(super) blocks: Vec<Arc<ZoneData>>,
    /// What was read of it by rows.
    pub(super) tally: Arc<ReadCounter>,
}

impl ArrayLayout {
    /// Bytes of it on the heap. Blocks are shared among the arrays of a file, so each has its part of them.
    pub(crate) fn held(&self) -> u64 {
        let block =
            |b: &Arc<ZoneData>| (heap_size::shared::<ZoneData>() + b.data.held()).div_ceil(Arc::strong_count(b) as u64);
        let blocks = heap_size::list(&self.blocks) + self.blocks.iter().map(block).sum::<u64>();
        heap_size::shared::<Self>() + heap_size::text(&self.name) + heap_size::shared::<ReadCounter>() + blocks
    }
    /// `zone1/momentum`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Element type, on disk and in frames.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }
    /// Components of the array.
    pub const fn components(&self) -> usize {
        self.components as usize
    }
    /// Points along i, j, k.
    pub fn dims(&self) -> [usize; 3] {
        self.dims.map(|d| d as usize)
    }
    /// Steps that differ; 1 if the array is the same at every step.
    pub fn steps(&self) -> usize {
        self.blocks.len()
    }
    /// How its numbers are found in the file of each step and what becomes of them: what else than the files themselves the array's
    /// values depend on.
    pub fn reading(&self) -> String {
        format!("{} {} {:?} {} {:?}", self.first, self.components, self.dtype, self.factor, self.blocks)
    }
    /// All files of the dataset.
    pub fn files(&self) -> &Arc<DataFiles> {
        &self.files
    }
    /// Number of the file that holds `step`, an index of [`DataFiles::paths`].
    pub fn file(&self, step: usize) -> usize {
        self.block(step).file
    }
    /// Path of the file that holds `step`.
    pub fn path(&self, step: usize) -> &Path {
        self.files.path(self.file(step))
    }
    /// What the numbers in the file are multiplied by to give those of the dataset.
    pub const fn factor(&self) -> f64 {
        self.factor
    }
    /// Makes the dataset's numbers, in native order, of the bytes that the file holds for `step`. The only way from the one
    /// to the other, so that pages, rows and indexes agree to the last bit.
    pub fn finish(&self, step: usize, bytes: &mut [u8]) {
        if self.big_endian(step) != cfg!(target_endian = "big") {
            swap(bytes, self.dtype.size());
        }
        if self.factor != 1.0 {
            scale(bytes, self.dtype, self.factor);
        }
    }
    /// Whether the bytes at `step` are big-endian.
    pub fn big_endian(&self, step: usize) -> bool {
        self.block(step).big_endian
    }

    /// Steady arrays have one block; a step past the last takes the last, callers check steps against the catalog.
    fn block(&self, step: usize) -> &ZoneData {
        &self.blocks[step.min(self.blocks.len() - 1)]
    }

    /// Offset of element (c, k, j, i = 0) in the zone's data, and bytes an element.
    fn logical(&self, b: &ZoneData, c: u64, k: u64, j: u64) -> (u64, u64) {
        let [ni, nj, nk] = self.dims;
        let size = self.dtype.size() as u64;
        let variable = self.first + c;
        // iblank comes after the floating-point variables, so only those stand before any variable.
        let offset = match b.order {
            Order::Whole => variable * b.width * ni * nj * nk + k * ni * nj * size,
            Order::Planes => {
                let point = b.variables * b.width + if b.iblank { 4 } else { 0 };
                k * ni * nj * point + variable * b.width * ni * nj
            }
        };
        (offset + j * ni * size, size)
    }

    /// Calls `each` with the runs of file [`Self::file`]`(step)` that hold rows `j` (all i) of plane `k` of component
    /// `c`, in order. Runs are cut only where the file has record marks between.
    ///
    /// Indices are 0-based and lie inside the array.
    pub fn extents(&self, step: usize, c: usize, k: usize, j: Range<usize>, each: &mut dyn FnMut(ByteRun)) {
        let ni = self.dims[0];
        let b = self.block(step);
        let (start, size) = self.logical(b, c as u64, k as u64, j.start as u64);
        b.data.runs(start, j.len() as u64 * ni * size, each);
    }

    /// Like [`Self::extents`] for part of one row: elements `i` of row `j`.
    pub fn row_extents(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: usize,
        i: Range<usize>,
        each: &mut dyn FnMut(ByteRun),
    ) {
        let b = self.block(step);
        let (start, size) = self.logical(b, c as u64, k as u64, j as u64);
        b.data.runs(start + i.start as u64 * size, i.len() as u64 * size, each);
    }

    /// The distances between elements at `step`, unless records split within planes make them vary, or the numbers of the
    /// dataset are not those of the file.
    pub fn affine(&self, step: usize) -> Option<Affine> {
        if self.factor != 1.0 {
            return None;
        }
        let [ni, nj, nk] = self.dims;
        let b = self.block(step);
        let (offset, piece, stride) = b.data.regular()?;
        let (start, element) = self.logical(b, 0, 0, 0);
        let whole = piece >= b.data.len();
        let (component, plane) = match b.order {
            Order::Whole if whole => (b.width * ni * nj * nk, ni * nj * element),
            Order::Planes => {
                let point = b.variables * b.width + if b.iblank { 4 } else { 0 };
                let plane = ni * nj * point;
                if !whole && piece != plane {
                    return None;
                }
                (b.width * ni * nj, if whole { plane } else { stride })
            }
            Order::Whole => return None,
        };
        Some(Affine { base: offset + start, component, plane, row: ni * element, element })
    }
}

impl RowReader for ArrayLayout {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        let [ni, nj, nk] = self.dims();
        let size = self.dtype.size();
        let fits = c < self.components() && k < nk && j.start <= j.end && j.end <= nj;
        if !fits || j.len().checked_mul(ni * size) != Some(out.len()) {
            return Err(FieldError::Usage(format!(
                "{}: rows {j:?} of plane {k} of component {c} do not fit in {ni} x {nj} x {nk} and {} bytes",
                self.name,
                out.len()
            )));
        }
        let b = self.block(step);
        let file = self.files.get(b.file)?;
        let path = self.files.path(b.file);
        let mut at = 0;
        let mut result = Ok(());
        self.extents(step, c, k, j, &mut |run| {
            let end = at + run.len as usize;
            if result.is_ok() {
                result = file.read_exact_at(&mut out[at..end], run.offset);
                self.tally.add(run.len);
            }
            at = end;
        });
        result.map_err(|e| {
            if e.kind() == std::io::ErrorKind::UnexpectedEof {
                let message = format!("{} ends early: the file has become shorter since it was opened", self.name);
                FieldError::format(path, message)
            } else {
                FieldError::io(path, e)
            }
        })?;
        self.finish(step, out);
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

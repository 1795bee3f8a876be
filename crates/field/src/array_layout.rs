//! The bytes of one array in its files, for paging in place and for reading rows. PLOT3D files and described zones
//! share it.
//!
//! It takes a few numbers per zone and step (a list only for records split in sub-records), and none per point.

use crate::byte_runs::{ByteRun, Spans};
use crate::catalog::{DType, ReadCounter, RowReader};
use crate::data_files::DataFiles;
use crate::error::FieldError;
use crate::file::FileBytes;
use crate::heap_size;
use crate::stored_numbers::{scale, swap, StoredNumbers};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a piece of rows whose numbers need conversion.
const PIECE: u64 = 64 << 10;

/// Numbers of one zone in one file, by variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    /// Number of the file.
    pub file: usize,
    pub data: Spans,
    pub numbers: StoredNumbers,
    /// Bytes from one variable to the next.
    pub variable: u64,
    /// Bytes from one point to the next along i: more than a number if variables are interleaved.
    pub element: u64,
    /// Bytes from one row (j) to the next; none if rows are contiguous.
    pub row: Option<u64>,
    /// Bytes from one plane (k) to the next; none if planes are contiguous.
    pub plane: Option<u64>,
}

/// Places of an array's elements at constant strides. Element (c, k, j, i) begins at byte `base + c * component + k *
/// plane + j * row + i * element`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Byte offset of the first element.
    pub base: u64,
    /// Bytes from one component to the next.
    pub component: u64,
    /// Bytes from one plane (k) to the next.
    pub plane: u64,
    /// Bytes from one row (j) to the next.
    pub row: u64,
    /// Bytes per element.
    pub element: u64,
}

/// The layout of one array of one zone.
#[derive(Clone, Debug)]
pub struct ArrayLayout {
    pub(crate) name: String,
    pub(crate) files: Arc<DataFiles>,
    pub(crate) dims: [u64; 3],
    /// First variable of each block.
    pub(crate) first: u64,
    pub(crate) components: u64,
    /// Blocks per step: one with all components, or one per component.
    pub(crate) apart: usize,
    pub(crate) dtype: DType,
    /// The factor from numbers in the file to those of the dataset; 1 for integers.
    pub(crate) factor: f64,
    /// The blocks of each step, or of one step for all.
    pub(crate) blocks: Vec<Arc<StoredBlock>>,
    pub(crate) tally: Arc<ReadCounter>,
}

impl ArrayLayout {
    /// Bytes on the heap. Blocks are shared among the arrays of a file, so each counts its share.
    pub(crate) fn held(&self) -> u64 {
        let block = |b: &Arc<StoredBlock>| {
            (heap_size::shared::<StoredBlock>() + b.data.held()).div_ceil(Arc::strong_count(b) as u64)
        };
        let blocks = heap_size::list(&self.blocks) + self.blocks.iter().map(block).sum::<u64>();
        heap_size::shared::<Self>() + heap_size::text(&self.name) + heap_size::shared::<ReadCounter>() + blocks
    }
    /// `zone1/momentum`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Element type in frames.
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
    /// Steps that differ; 1 if it is steady.
    pub fn steps(&self) -> usize {
        self.blocks.len() / self.apart
    }
    /// How the numbers are found and converted at each step: with the files, this determines the array's values.
    pub fn reading(&self) -> String {
        format!("{} {} {:?} {} {:?}", self.first, self.components, self.dtype, self.factor, self.blocks)
    }
    /// All files of the dataset.
    pub fn files(&self) -> &Arc<DataFiles> {
        &self.files
    }
    /// Number of the file with a component at `step`, an index of [`DataFiles::paths`].
    pub fn file(&self, step: usize, c: usize) -> usize {
        self.block(step, c).0.file
    }
    /// Path of the file with the first component at `step`.
    pub fn path(&self, step: usize) -> &Path {
        self.files.path(self.file(step, 0))
    }
    /// The factor from the file's numbers to the dataset's.
    pub const fn factor(&self) -> f64 {
        self.factor
    }
    /// Type and byte order of a component's numbers at `step`.
    pub fn numbers(&self, step: usize, c: usize) -> StoredNumbers {
        self.block(step, c).0.numbers
    }
    /// Bytes from one point of a row to the next at `step`: more than a number if variables are interleaved.
    pub fn point_bytes(&self, step: usize, c: usize) -> usize {
        self.block(step, c).0.element as usize
    }
    /// Whether all components of a point lie together in one file at `step`.
    pub fn is_interleaved(&self, step: usize) -> bool {
        let b = self.block(step, 0).0;
        self.apart == 1 && self.components > 1 && b.element >= b.variable.saturating_mul(self.components)
    }
    /// Bytes from one component of a point to the next, if they lie together.
    pub fn component_bytes(&self, step: usize) -> usize {
        self.block(step, 0).0.variable as usize
    }
    /// Whether the rows of a component at `step` equal those of the dataset up to byte order.
    pub fn is_plain(&self, step: usize, c: usize) -> bool {
        let b = self.block(step, c).0;
        b.numbers.is_of(self.dtype) && b.element == self.dtype.size() as u64
    }
    /// Converts bytes of a component in the dataset's type to its numbers in native order. The only such conversion, so
    /// that pages, rows and indexes agree to the last bit.
    pub fn finish(&self, step: usize, bytes: &mut [u8]) {
        if self.big_endian(step) != cfg!(target_endian = "big") {
            swap(bytes, self.dtype.size());
        }
        self.scaled(bytes);
    }
    /// Multiplies numbers in native order by [`Self::factor`].
    pub fn scaled(&self, bytes: &mut [u8]) {
        if self.factor != 1.0 {
            scale(bytes, self.dtype, self.factor);
        }
    }
    /// Whether the bytes of the first component at `step` are big-endian.
    pub fn big_endian(&self, step: usize) -> bool {
        self.block(step, 0).0.numbers.big_endian
    }

    /// The block of a component, and the component's number in it. Steady arrays have one step. Later steps give the
    /// last one: callers check steps against the catalog.
    fn block(&self, step: usize, c: usize) -> (&StoredBlock, u64) {
        let at = step.min(self.steps() - 1) * self.apart;
        match self.apart {
            1 => (&self.blocks[at], self.first + c as u64),
            _ => (&self.blocks[at + c], self.first),
        }
    }

    /// Bytes from one row, and from one plane, to the next.
    fn strides(&self, b: &StoredBlock) -> (u64, u64) {
        let row = b.row.unwrap_or(self.dims[0] * b.element);
        (row, b.plane.unwrap_or(self.dims[1] * row))
    }

    /// Offset of element (c, k, j, i = 0) in the data of its block.
    fn logical(&self, b: &StoredBlock, variable: u64, k: u64, j: u64) -> u64 {
        let (row, plane) = self.strides(b);
        variable * b.variable + k * plane + j * row
    }

    /// Calls `each` with the runs of file [`Self::file`]`(step, c)` that hold rows `j` (all i) of plane `k` of
    /// component `c`. Runs are in order, from the first number to the last, with all bytes between. They are cut only
    /// between rows, and at record marks.
    ///
    /// Indices are 0-based and lie inside the array.
    pub fn extents(&self, step: usize, c: usize, k: usize, j: Range<usize>, each: &mut dyn FnMut(ByteRun)) {
        self.spread_extents(step, c, k, j, 1, each);
    }

    /// As [`Self::extents`], for `components` interleaved components.
    pub fn spread_extents(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: Range<usize>,
        components: usize,
        each: &mut dyn FnMut(ByteRun),
    ) {
        let (b, variable) = self.block(step, c);
        let own = b.numbers.size() as u64 + (components as u64 - 1) * b.variable;
        let all = self.dims[0] * b.element;
        let (row, _) = self.strides(b);
        let start = self.logical(b, variable, k as u64, j.start as u64);
        if row == all {
            return b.data.runs(start, j.len() as u64 * all - (b.element - own), each);
        }
        for n in 0..j.len() as u64 {
            // Whole rows, so that each begins as in a page; of the last row only the numbers.
            let rest = if n + 1 == j.len() as u64 { b.element - own } else { 0 };
            b.data.runs(start + n * row, all - rest, each);
        }
    }

    /// As [`Self::extents`], for elements `i` of row `j`.
    pub fn row_extents(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: usize,
        i: Range<usize>,
        each: &mut dyn FnMut(ByteRun),
    ) {
        let (b, variable) = self.block(step, c);
        let start = self.logical(b, variable, k as u64, j as u64);
        let len = (i.len() as u64 * b.element).saturating_sub(b.element - b.numbers.size() as u64);
        b.data.runs(start + i.start as u64 * b.element, len, each);
    }

    /// The strides at `step`. `None` if split records, several files, or conversions prevent constant ones.
    pub fn affine(&self, step: usize) -> Option<Affine> {
        let (b, variable) = self.block(step, 0);
        if self.factor != 1.0 || self.apart > 1 || !b.numbers.is_of(self.dtype) {
            return None;
        }
        let (offset, piece, stride) = b.data.regular()?;
        let (row, mut plane) = self.strides(b);
        if piece < b.data.len() {
            // The pieces must be planes.
            if b.plane != Some(piece) {
                return None;
            }
            plane = stride;
        }
        let base = offset + self.logical(b, variable, 0, 0);
        Some(Affine { base, component: b.variable, plane, row, element: b.element })
    }

    fn read(
        &self,
        from: (&FileBytes, &Path),
        runs: impl FnOnce(&mut dyn FnMut(ByteRun)),
        out: &mut [u8],
    ) -> Result<usize, FieldError> {
        let (file, path) = from;
        let (mut at, mut result) = (0, Ok(()));
        runs(&mut |run| {
            let end = at + run.len as usize;
            if result.is_ok() {
                result = file.read_exact_at(run.offset, &mut out[at..end]);
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
        Ok(at)
    }

    /// Reads rows of interleaved or converted numbers, piece by piece.
    fn read_converted(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: Range<usize>,
        from: (&FileBytes, &Path),
        out: &mut [u8],
    ) -> Result<(), FieldError> {
        let (numbers, apart, size) = (self.numbers(step, c), self.point_bytes(step, c), self.dtype.size());
        let ni = self.dims[0] as usize;
        let most = ((PIECE / apart as u64) as usize).clamp(1, ni);
        let mut bytes = vec![0; most * apart];
        for (row, out) in j.zip(out.chunks_exact_mut(ni * size)) {
            for start in (0..ni).step_by(most) {
                let i = start..ni.min(start + most);
                let part = &mut out[i.start * size..i.end * size];
                let read = self.read(from, |each| self.row_extents(step, c, k, row, i.clone(), each), &mut bytes)?;
                numbers.convert(&bytes[..read], apart, self.dtype, part, size);
            }
        }
        self.scaled(out);
        Ok(())
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
        if out.is_empty() {
            return Ok(());
        }
        let number = self.file(step, c);
        let file = self.files.get(number)?;
        let from = (&*file, self.files.path(number));
        if !self.is_plain(step, c) {
            return self.read_converted(step, c, k, j, from, out);
        }
        self.read(from, |each| self.extents(step, c, k, j.clone(), each), out)?;
        if self.numbers(step, c).big_endian != cfg!(target_endian = "big") {
            swap(out, size);
        }
        self.scaled(out);
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

//! Arrays of a picture's pixels, row by row: NumPy's `.npy` and `.npz`.
//!
//! An `.npz` has one array a quantity, (rows, columns) or (rows, columns, components). It is in single precision, or in
//! double for labels. Further arrays:
//!
//! | array | type and shape | |
//! |---|---|---|
//! | `pixels` | uint8 (rows, columns) | 1: a value, 2: outside, 3: unreadable |
//! | `origin`, `across`, `down` | float64 (3,) | middle of the first pixel, steps to the next of its row and to the next row |
//! | `extent` | float64 (4,) | left, right, bottom and top edge |
//! | `partial` | bool () | |
//! | `meta` | string () | JSON |
//!
//! An `.npy` has the numbers alone, all quantities side by side.

use super::columns::ColumnWriter;
use super::log::HeldMemory;
use super::zip::ZipPlan;
use super::{array_names, npy, npz, FieldSpec, FieldType, MemoryAccount, NewFile, OutputError, Provenance};
use std::path::Path;

/// Names of our own arrays; a field with such a name gets the prefix `field_`.
const RESERVED: [&str; 7] = ["pixels", "origin", "across", "down", "extent", "partial", "meta"];

/// Bytes of a buffer. Each array has one, and there is one for incoming numbers.
const BUFFER_BYTES: usize = 64 << 10;

/// The layout of a picture's pixels.
#[derive(Clone, Debug)]
pub struct RasterLayout {
    /// Pixels of a row, and rows.
    pub size: [u32; 2],
    /// Quantities, in the order of a pixel's numbers, with their stored types.
    pub fields: Vec<FieldSpec>,
    /// Middle of the first pixel, step to the next of its row, step to the next row.
    pub steps: [[f64; 3]; 3],
    /// Left, right, bottom and top edge.
    pub extent: [f64; 4],
    /// NumPy's type of 64-bit integers whose bits the numbers of pixels have, if any. Their fields are doubles.
    pub words: Option<&'static str>,
}

/// Writes the numbers of pixels row by row, in bounded memory.
pub struct RasterWriter {
    file: NewFile,
    layout: RasterLayout,
    names: Vec<String>,
    provenance: Provenance,
    columns: ColumnWriter,
    /// The arrays of an archive with their headers.
    #[allow(clippy::type_complexity)] // place of each header, and the header
    archive: Option<(ZipPlan, Vec<(u64, Vec<u8>)>)>,
    rows: u64,
    scratch: Vec<u8>,
    _held: HeldMemory,
}

impl RasterWriter {
    /// Whether a path has the extension of an array.
    pub fn writes(path: &Path) -> bool {
        matches!(ending(path).as_deref(), Some("npy" | "npz"))
    }

    /// Creates the temporary file and lays it out.
    ///
    /// # Errors
    /// [`OutputError`] for another extension, an unwritable target, or memory that is not granted.
    pub fn create(
        path: &Path,
        layout: RasterLayout,
        provenance: Provenance,
        charge: Box<dyn MemoryAccount>,
    ) -> Result<Self, OutputError> {
        if !Self::writes(path) {
            return Err(OutputError::Target {
                path: path.to_path_buf(),
                reason: "the name must end in .npy or .npz".into(),
            });
        }
        let names = array_names(&layout.fields, &RESERVED)?;
        let mut held = HeldMemory::new(charge);
        let needs = (layout.fields.len() + 2) * BUFFER_BYTES;
        if !held.grow(needs) {
            return Err(OutputError::Memory { needs: needs as u64 });
        }
        let file = NewFile::create(path)?;
        let mut columns = ColumnWriter::on(&file, BUFFER_BYTES);
        let [w, h] = layout.size.map(u64::from);
        let bytes = |field: &FieldSpec| (w * h).checked_mul(field.bytes()).filter(|bytes| *bytes < 1 << 62);
        let too_large = || OutputError::Layout("the picture is too large for one file".into());
        let shape = |components: u64| -> Vec<u64> {
            [h, w].into_iter().chain((components > 1).then_some(components)).collect()
        };
        let archive = if ending(path).as_deref() == Some("npz") {
            let (mut plan, mut headers) = (ZipPlan::default(), Vec::new());
            let mut add = |name: &str, header: Vec<u8>, bytes: u64| {
                let at = plan.add(&format!("{name}.npy"), header.len() as u64 + bytes);
                columns.add(at + header.len() as u64, Some(bytes), &header);
                headers.push((at, header));
            };
            for (field, name) in layout.fields.iter().zip(&names) {
                let header =
                    npy::header(layout.words.unwrap_or(descr(field.dtype)), &shape(field.components as u64), 0);
                add(name, header, bytes(field).ok_or_else(too_large)?);
            }
            add("pixels", npy::header("|u1", &[h, w], 0), w * h);
            Some((plan, headers))
        } else {
            let components: usize = layout.fields.iter().map(|field| field.components).sum();
            let (dtype, size) = match wide(&layout) {
                true => (FieldType::F64, 8),
                false => (FieldType::F32, 4),
            };
            let header = npy::header(layout.words.unwrap_or(descr(dtype)), &shape(components as u64), 0);
            let bytes = (w * h * size).checked_mul(components as u64).filter(|b| *b < 1 << 62).ok_or_else(too_large)?;
            columns.add(header.len() as u64, Some(bytes), &header);
            columns.put_at(0, &header)?;
            None
        };
        let scratch = Vec::with_capacity(BUFFER_BYTES);
        Ok(Self { file, layout, names, provenance, columns, archive, rows: 0, scratch, _held: held })
    }

    /// Adds whole rows: the numbers of each pixel side by side, and the states of pixels.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot be written, or for a count that is not of whole rows.
    pub fn push(&mut self, values: &[f64], pixels: &[u8]) -> Result<(), OutputError> {
        let components: usize = self.layout.fields.iter().map(|field| field.components).sum();
        let width = self.layout.size[0] as usize;
        if !pixels.len().is_multiple_of(width) || values.len() != pixels.len() * components {
            return Err(OutputError::Layout("what came of a picture are not whole rows".into()));
        }
        self.rows += (pixels.len() / width) as u64;
        if self.archive.is_none() {
            let dtype = if wide(&self.layout) { FieldType::F64 } else { FieldType::F32 };
            return self.put(0, dtype, values.chunks(1 << 12));
        }
        let mut first = 0;
        for column in 0..self.layout.fields.len() {
            let FieldSpec { components: own, dtype, .. } = self.layout.fields[column];
            self.put(column, dtype, values.chunks_exact(components).map(|pixel| &pixel[first..first + own]))?;
            first += own;
        }
        self.columns.put(self.layout.fields.len(), pixels)
    }

    fn put<'v>(
        &mut self,
        column: usize,
        dtype: FieldType,
        values: impl Iterator<Item = &'v [f64]>,
    ) -> Result<(), OutputError> {
        for some in values {
            if self.scratch.len() + 8 * some.len() > BUFFER_BYTES {
                self.columns.put(column, &self.scratch)?;
                self.scratch.clear();
            }
            match dtype {
                FieldType::F32 => self.scratch.extend(some.iter().flat_map(|v| (*v as f32).to_le_bytes())),
                FieldType::F64 => self.scratch.extend(some.iter().flat_map(|v| v.to_le_bytes())),
            }
        }
        self.columns.put(column, &self.scratch)?;
        self.scratch.clear();
        Ok(())
    }

    /// Completes the file and gives it its name. Returns its bytes. `meta` is added to the provenance.
    ///
    /// # Errors
    /// [`OutputError`] when rows are missing or it cannot be written.
    pub fn finish(self, partial: bool, meta: serde_json::Map<String, serde_json::Value>) -> Result<u64, OutputError> {
        let Self { file, layout, names, provenance, columns, archive, rows, .. } = self;
        if rows != u64::from(layout.size[1]) {
            return Err(OutputError::Layout(format!("of {} rows of a picture {rows} came", layout.size[1])));
        }
        let mut checksums = columns.finish()?;
        let Some((mut plan, mut headers)) = archive else { return file.commit() };
        let rest = ColumnWriter::on(&file, 0);
        let mut units = serde_json::Map::new();
        units.insert("origin".into(), provenance.length_unit.clone().into());
        for (field, name) in layout.fields.iter().zip(&names) {
            units.insert(name.clone(), field.unit.clone().into());
        }
        let text = npz::meta_json(&provenance, partial, units, "slice");
        let text = match serde_json::from_str(&text) {
            Ok(serde_json::Value::Object(mut all)) => {
                all.extend(meta);
                serde_json::Value::Object(all).to_string()
            }
            _ => text,
        };
        let text: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let numbers = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let [first, across, down] = layout.steps;
        let small: [(&str, Vec<u8>, Vec<u8>); 6] = [
            ("origin", npy::header("<f8", &[3], 0), numbers(&first)),
            ("across", npy::header("<f8", &[3], 0), numbers(&across)),
            ("down", npy::header("<f8", &[3], 0), numbers(&down)),
            ("extent", npy::header("<f8", &[4], 0), numbers(&layout.extent)),
            ("partial", npy::header("|b1", &[], 0), vec![u8::from(partial)]),
            ("meta", npy::header(&format!("<U{}", text.len() / 4), &[], 0), text),
        ];
        for (name, header, bytes) in small {
            let at = plan.add(&format!("{name}.npy"), (header.len() + bytes.len()) as u64);
            rest.put_at(at + header.len() as u64, &bytes)?;
            let mut crc = crc32fast::Hasher::new();
            crc.update(&header);
            crc.update(&bytes);
            checksums.push(crc.finalize());
            headers.push((at, header));
        }
        for (at, bytes) in headers.into_iter().chain(plan.headers(&checksums)) {
            rest.put_at(at, &bytes)?;
        }
        file.commit()
    }
}

fn descr(dtype: FieldType) -> &'static str {
    match dtype {
        FieldType::F32 => "<f4",
        FieldType::F64 => "<f8",
    }
}

/// Whether any quantity is in double precision: then an array of all of them is.
fn wide(layout: &RasterLayout) -> bool {
    layout.fields.iter().any(|field| field.dtype == FieldType::F64)
}

fn ending(path: &Path) -> Option<String> {
    path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase)
}

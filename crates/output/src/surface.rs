//! Grid surfaces, written to a file row of points by row.
//!
//! The number of quadrilaterals is known only at the end, since cells at holes are left out. So the list of
//! quadrilaterals is the last array of the file, and the text in front has room for its numbers.

use super::columns::ColumnWriter;
use super::log::HeldMemory;
use super::zip::ZipPlan;
use super::{
    array_names, npy, npz, vtp, FieldSpec, FieldType, FieldValues, MemoryAccount, OutputError, OutputFile,
    OutputFormat, Provenance,
};
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;

/// Names of our own arrays; a field with such a name gets the prefix `field_`.
const RESERVED: [&str; 5] = ["points", "quads", "zone", "partial", "meta"];

/// Bytes of a buffer; each array has one.
const BUFFER_BYTES: usize = 32 << 10;

/// Numbers of the columns: points, zones, then fields, and the quadrilaterals last.
const POINTS: usize = 0;
const ZONE: usize = 1;
const FIELDS: usize = 2;

/// Bytes of a quadrilateral: four point numbers of 64 bits.
const QUAD_BYTES: u64 = 32;

/// One rectangular patch of the surface: a face of a zone, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The zone, in the numbering of the output.
    pub zone: i32,
    /// Points a row.
    pub ni: usize,
    /// Rows.
    pub nj: usize,
}

/// The layout of a surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurfaceLayout {
    /// The patches, in the order of their rows.
    pub patches: Vec<Patch>,
    /// Fields at each point, in the order of the rows' fields.
    pub fields: Vec<FieldSpec>,
    /// The type of positions.
    pub positions: FieldType,
}

/// Counts of a written surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurfaceStats {
    /// Points.
    pub points: u64,
    /// Quadrilaterals.
    pub quads: u64,
    /// Bytes of the file; 0 before it is complete.
    pub bytes: u64,
}

/// The layout of the present file.
enum SurfaceFilePlan {
    /// The text in front is written again at the end, padded to `text_bytes`.
    Vtp { blocks: vtp::AppendedBlocks, field_data: vtp::FieldData, text_bytes: usize },
    /// Headers of the arrays with their places. That of the quadrilaterals, the last, is written again at the end.
    Npz { plan: ZipPlan, headers: Vec<(u64, Vec<u8>)> },
}

/// Writes points, fields and quadrilaterals as rows come, in bounded memory: a small buffer an array and a flag a point
/// of a row.
///
/// As `.vtp`: points, polygons, point data `zone` and the fields. As `.npz`: `points` (N, 3), `quads` int64 (M, 4), `zone` int32
/// (N,), one array a field, `partial`, `meta`.
pub struct SurfaceWriter {
    output: OutputFile,
    layout: SurfaceLayout,
    names: Vec<String>,
    provenance: Provenance,
    plan: SurfaceFilePlan,
    columns: ColumnWriter,
    quads: usize,
    /// Patch and row that come next.
    patch: usize,
    row: usize,
    stats: SurfaceStats,
    /// The drawn points of the row before.
    drawn: Vec<bool>,
    /// The hidden quadrilaterals between it and the next row.
    hidden: Vec<bool>,
    scratch: Vec<u8>,
    _held: HeldMemory,
}

impl SurfaceWriter {
    /// Lays out the file.
    ///
    /// # Errors
    /// [`OutputError`] for invalid fields, a format without surfaces (`.csv`), or memory that is not granted.
    pub fn new(
        output: OutputFile,
        layout: SurfaceLayout,
        provenance: Provenance,
        charge: Box<dyn MemoryAccount>,
    ) -> Result<Self, OutputError> {
        let names = array_names(&layout.fields, &RESERVED)?;
        let widest = layout.patches.iter().map(|patch| patch.ni).max().unwrap_or(0);
        let mut held = HeldMemory::new(charge);
        // The arrays' buffers, two for bytes in transit, two flags a point.
        let needs = (layout.fields.len() + 5) * BUFFER_BYTES + 2 * widest;
        if !held.grow(needs) {
            return Err(OutputError::Memory { needs: needs as u64 });
        }
        let too_large = || OutputError::Layout("the surface is too large for one file".into());
        let (mut n, mut most_quads) = (0u64, 0u64);
        for patch in &layout.patches {
            let (ni, nj) = (patch.ni as u64, patch.nj as u64);
            n = ni.checked_mul(nj).and_then(|points| points.checked_add(n)).ok_or_else(too_large)?;
            // Fewer than points, so it cannot overflow either.
            most_quads += ni.saturating_sub(1) * nj.saturating_sub(1);
        }
        // A point has less than 2^13 bytes (some dozens of fields of 9 numbers) under this bound, and all sums fit 64
        // bits.
        if n > 1 << 48 || layout.fields.len() > 64 {
            return Err(too_large());
        }
        let mut columns = ColumnWriter::new(&output, BUFFER_BYTES);
        let (plan, quads) = match output.format() {
            OutputFormat::Vtp => {
                let arrays = NamedArrays { layout: &layout, names: &names, provenance: &provenance };
                arrays.plan_vtp(n, most_quads, &mut columns)?
            }
            OutputFormat::Npz => plan_npz(&layout, &names, n, most_quads, &mut columns),
            OutputFormat::Csv | OutputFormat::Parquet | OutputFormat::Pvd | OutputFormat::Ply | OutputFormat::Glb => {
                return Err(OutputError::Target {
                    path: output.path().to_path_buf(),
                    reason: "a surface is written as .vtp or .npz".into(),
                })
            }
        };
        let stats = SurfaceStats::default();
        let mut writer = Self {
            output,
            layout,
            names,
            provenance,
            plan,
            columns,
            quads,
            patch: 0,
            row: 0,
            stats,
            drawn: Vec::with_capacity(widest),
            hidden: Vec::with_capacity(widest),
            scratch: Vec::with_capacity(BUFFER_BYTES),
            _held: held,
        };
        writer.skip_empty();
        Ok(writer)
    }

    /// Adds the next row of the present patch: `ni` positions, their fields, and the usable points. And the hidden
    /// quadrilaterals, by their low corner (empty: none is). A quadrilateral is drawn if all four corners are usable.
    ///
    /// # Errors
    /// [`OutputError::Layout`] for a row of another length or one too many. Other errors when it cannot be written.
    pub fn push_row(
        &mut self,
        points: &[[f64; 3]],
        fields: &[FieldValues],
        usable: Option<[&[bool]; 2]>,
    ) -> Result<(), OutputError> {
        let wrong = |what: String| Err(OutputError::Layout(what));
        let Some(patch) = self.layout.patches.get(self.patch).copied() else {
            return wrong("a surface got more rows than it has".into());
        };
        if points.len() != patch.ni || usable.is_some_and(|usable| usable.iter().any(|u| u.len() != patch.ni)) {
            return wrong(format!("a row of {} points came where {} were due", points.len(), patch.ni));
        }
        let fits = |(spec, values): (&FieldSpec, &FieldValues)| {
            values.len() == patch.ni * spec.components
                && matches!(
                    (spec.dtype, values),
                    (FieldType::F32, FieldValues::F32(_)) | (FieldType::F64, FieldValues::F64(_))
                )
        };
        if fields.len() != self.layout.fields.len() || !self.layout.fields.iter().zip(fields).all(fits) {
            return wrong("the fields of a row are not those of the surface".into());
        }
        let flat = points.as_flattened();
        match self.layout.positions {
            FieldType::F32 => self.put(POINTS, flat, |v| (v as f32).to_le_bytes())?,
            FieldType::F64 => self.put(POINTS, flat, f64::to_le_bytes)?,
        }
        for _ in 0..patch.ni {
            self.columns.put(ZONE, &patch.zone.to_le_bytes())?;
        }
        for (i, values) in fields.iter().enumerate() {
            match values {
                FieldValues::F32(values) => self.put(FIELDS + i, values, f32::to_le_bytes)?,
                FieldValues::F64(values) => self.put(FIELDS + i, values, f64::to_le_bytes)?,
            }
        }
        let here = |i: usize| usable.is_none_or(|[usable, _]| usable[i]);
        if self.row > 0 {
            let first = self.stats.points - patch.ni as u64;
            for i in 1..patch.ni {
                if self.drawn[i - 1] && self.drawn[i] && here(i - 1) && here(i) && !self.hidden[i - 1] {
                    let (below, above) = (first + i as u64, self.stats.points + i as u64);
                    for corner in [below - 1, below, above, above - 1] {
                        self.columns.put(self.quads, &corner.to_le_bytes())?;
                    }
                    self.stats.quads += 1;
                }
            }
        }
        self.drawn.clear();
        self.drawn.extend((0..patch.ni).map(here));
        self.hidden.clear();
        self.hidden.extend((0..patch.ni).map(|i| usable.is_some_and(|[_, hidden]| hidden[i])));
        self.stats.points += patch.ni as u64;
        self.row += 1;
        self.skip_empty();
        Ok(())
    }

    /// Moves to the next patch when this one is complete, and over those without points.
    fn skip_empty(&mut self) {
        while self.layout.patches.get(self.patch).is_some_and(|patch| self.row == patch.nj || patch.ni == 0) {
            self.patch += 1;
            self.row = 0;
        }
    }

    fn put<T: Copy, const B: usize>(
        &mut self,
        column: usize,
        values: &[T],
        encode: impl Fn(T) -> [u8; B],
    ) -> Result<(), OutputError> {
        for piece in values.chunks(BUFFER_BYTES / B) {
            self.scratch.clear();
            self.scratch.extend(piece.iter().flat_map(|value| encode(*value)));
            self.columns.put(column, &self.scratch)?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name. A `partial` surface may lack rows: their points are NaN, no
    /// quadrilateral uses them, and the file is marked as partial.
    ///
    /// # Errors
    /// [`OutputError::Layout`] when rows are missing and `partial` is false. Other errors when it cannot be written.
    pub fn finish(mut self, partial: bool) -> Result<SurfaceStats, OutputError> {
        while let Some(patch) = self.layout.patches.get(self.patch).copied() {
            if !partial {
                return Err(OutputError::Layout(format!("rows of the surface of zone {} are missing", patch.zone)));
            }
            self.push_missing_row(patch.ni)?;
        }
        let quads = self.stats.quads;
        match self.plan {
            SurfaceFilePlan::Vtp { mut blocks, field_data, text_bytes } => {
                let connectivity = blocks.add(quads * QUAD_BYTES);
                let offsets = blocks.add(quads * 8);
                debug_assert_eq!(connectivity + 1, offsets);
                let points = self.stats.points;
                let arrays = NamedArrays { layout: &self.layout, names: &self.names, provenance: &self.provenance };
                let text = arrays.vtp_text(points, quads, &blocks, &field_data, text_bytes);
                vtp::frame(&self.columns, &text, &blocks)?;
                field_data.write(&self.columns, &blocks, text_bytes, partial)?;
                let mut at = blocks.data_at(offsets, text_bytes);
                let mut next = 0;
                while next < quads {
                    let part = (quads - next).min(BUFFER_BYTES as u64 / 8);
                    self.scratch.clear();
                    self.scratch.extend((next + 1..=next + part).flat_map(|quad| (4 * quad).to_le_bytes()));
                    self.columns.put_at(at, &self.scratch)?;
                    at += self.scratch.len() as u64;
                    next += part;
                }
                self.columns.finish()?;
            }
            SurfaceFilePlan::Npz { mut plan, mut headers } => {
                // The text of `meta` is known only now: it and `partial` follow the quadrilaterals.
                let mut units = serde_json::Map::new();
                units.insert("points".into(), self.provenance.length_unit.clone().into());
                for (field, name) in self.layout.fields.iter().zip(&self.names) {
                    units.insert(name.clone(), field.unit.clone().into());
                }
                let meta = npz::meta_json(&self.provenance, partial, units, "surface");
                let meta: Vec<u8> = meta.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
                let mut checksums = self.columns.finish()?;
                let rest = ColumnWriter::new(&self.output, 0);
                if let Some((at, header)) = headers.last_mut() {
                    *header = npy::header_of_length("<i8", &[quads, 4], header.len());
                    plan.set_last_size(header.len() as u64 + quads * QUAD_BYTES);
                    rest.put_at(*at, header)?;
                    if let Some(crc) = checksums.last_mut() {
                        let data = crc32fast::Hasher::new_with_initial_len(*crc, quads * QUAD_BYTES);
                        let mut whole = crc32fast::Hasher::new();
                        whole.update(header);
                        whole.combine(&data);
                        *crc = whole.finalize();
                    }
                }
                headers.pop();
                let flag = npy::header("|b1", &[], 0);
                let descr = format!("<U{}", meta.len() / 4);
                for (name, header, bytes) in
                    [("partial", flag, vec![u8::from(partial)]), ("meta", npy::header(&descr, &[], 0), meta)]
                {
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
            }
        }
        let bytes = self.output.commit()?;
        Ok(SurfaceStats { bytes, ..self.stats })
    }

    /// A row of points of NaN, in pieces of bounded size.
    fn push_missing_row(&mut self, ni: usize) -> Result<(), OutputError> {
        let nan = f64::NAN;
        let zone = self.layout.patches[self.patch].zone;
        for _ in 0..ni {
            match self.layout.positions {
                FieldType::F32 => self.put(POINTS, &[nan; 3], |v| (v as f32).to_le_bytes())?,
                FieldType::F64 => self.put(POINTS, &[nan; 3], f64::to_le_bytes)?,
            }
            self.columns.put(ZONE, &zone.to_le_bytes())?;
            for i in 0..self.layout.fields.len() {
                let (components, dtype) = (self.layout.fields[i].components, self.layout.fields[i].dtype);
                for _ in 0..components {
                    match dtype {
                        FieldType::F32 => self.columns.put(FIELDS + i, &f32::NAN.to_le_bytes())?,
                        FieldType::F64 => self.columns.put(FIELDS + i, &nan.to_le_bytes())?,
                    }
                }
            }
        }
        self.drawn.clear();
        self.drawn.resize(ni, false);
        self.stats.points += ni as u64;
        self.row += 1;
        self.skip_empty();
        Ok(())
    }
}

/// The arrays of a surface, with their names and units in a file.
struct NamedArrays<'a> {
    layout: &'a SurfaceLayout,
    /// Names of the fields.
    names: &'a [String],
    provenance: &'a Provenance,
}

impl NamedArrays<'_> {
    fn plan_vtp(
        &self,
        n: u64,
        most_quads: u64,
        columns: &mut ColumnWriter,
    ) -> Result<(SurfaceFilePlan, usize), OutputError> {
        let layout = self.layout;
        let mut blocks = vtp::AppendedBlocks::default();
        blocks.add(3 * n * layout.positions.bytes() as u64);
        blocks.add(4 * n);
        for field in &layout.fields {
            blocks.add(n * field.bytes());
        }
        let streamed = FIELDS + layout.fields.len();
        let field_data = vtp::FieldData::new(&mut blocks, self.provenance, &[], None);
        // The longest possible text: with the most quadrilaterals.
        let mut most = blocks.clone();
        let quads_block = most.add(most_quads * QUAD_BYTES);
        most.add(most_quads * 8);
        if !most.fit() {
            return Err(OutputError::Layout("the surface is too large for one file".into()));
        }
        let text_bytes = self.vtp_text(n, most_quads, &most, &field_data, 0).len();
        let (lengths, _) = most.lengths(text_bytes);
        for (block, (_, bytes)) in lengths.iter().enumerate().take(streamed) {
            columns.add(most.data_at(block, text_bytes), Some(*bytes), b"");
        }
        let quads = columns.add(most.data_at(quads_block, text_bytes), None, b"");
        Ok((SurfaceFilePlan::Vtp { blocks, field_data, text_bytes }, quads))
    }

    /// The text in front of the data, padded with spaces to `pad_to` bytes. The last two blocks are the polygons'.
    fn vtp_text(
        &self,
        n: u64,
        quads: u64,
        blocks: &vtp::AppendedBlocks,
        field_data: &vtp::FieldData,
        pad_to: usize,
    ) -> String {
        let Self { layout, names, provenance } = *self;
        let mut text = String::from(vtp::HEAD);
        field_data.text(&mut text, blocks);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    <Piece NumberOfPoints=\"{n}\" NumberOfVerts=\"0\" NumberOfLines=\"0\" NumberOfStrips=\"0\" NumberOfPolys=\"{quads}\">"
        );
        let _ = writeln!(text, "      <PointData{}>", vtp::active(&layout.fields, names));
        vtp::data_array(&mut text, "Int32", "zone", 1, None, "", blocks.offset(ZONE));
        for (i, (field, name)) in layout.fields.iter().zip(names).enumerate() {
            let kind = vtp::vtk_type(field.dtype);
            vtp::data_array(&mut text, kind, name, field.components, None, &field.unit, blocks.offset(FIELDS + i));
        }
        text.push_str("      </PointData>\n      <Points>\n");
        let kind = vtp::vtk_type(layout.positions);
        vtp::data_array(&mut text, kind, "Points", 3, None, &provenance.length_unit, blocks.offset(POINTS));
        text.push_str("      </Points>\n      <Polys>\n");
        let last = blocks.count() - 1;
        vtp::data_array(&mut text, "Int64", "connectivity", 1, None, "", blocks.offset(last - 1));
        vtp::data_array(&mut text, "Int64", "offsets", 1, None, "", blocks.offset(last));
        text.push_str("      </Polys>\n    </Piece>\n  </PolyData>\n");
        let end = vtp::APPENDED;
        let padding = pad_to.saturating_sub(text.len() + end.len());
        text.extend(std::iter::repeat_n(' ', padding));
        text.push_str(end);
        text
    }
}

fn plan_npz(
    layout: &SurfaceLayout,
    names: &[String],
    n: u64,
    most_quads: u64,
    columns: &mut ColumnWriter,
) -> (SurfaceFilePlan, usize) {
    let mut plan = ZipPlan::default();
    let mut headers = Vec::new();
    let mut add = |name: &str, descr: &str, shape: &[u64], bytes: u64| {
        let header = npy::header(descr, shape, 0);
        let at = plan.add(&format!("{name}.npy"), header.len() as u64 + bytes);
        columns.add(at + header.len() as u64, Some(bytes), &header);
        headers.push((at, header));
    };
    let descr = |dtype| match dtype {
        FieldType::F32 => "<f4",
        FieldType::F64 => "<f8",
    };
    add("points", descr(layout.positions), &[n, 3], 3 * n * layout.positions.bytes() as u64);
    add("zone", "<i4", &[n], 4 * n);
    for (field, name) in layout.fields.iter().zip(names) {
        let shape = [n, field.components as u64];
        let shape = &shape[..if field.components == 1 { 1 } else { 2 }];
        add(name, descr(field.dtype), shape, n * field.bytes());
    }
    // The checksum of this one is completed at the end, when its header is known.
    let header = npy::header("<i8", &[most_quads, 4], 0);
    let at = plan.add("quads.npy", header.len() as u64);
    let quads = columns.add(at + header.len() as u64, None, b"");
    headers.push((at, header));
    (SurfaceFilePlan::Npz { plan, headers }, quads)
}

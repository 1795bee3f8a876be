//! Lines as VTK XML PolyData, with appended raw data.
//!
//! One poly-line for each seed with points (one point is enough). Point data: `time`, `zone` and the fields. Cell data:
//! `seed`, `reason` (strings) and `reason_code` (as [`super::Reason::code`]), and the same with `_backward` if lines
//! run both ways. Field data: `program`, `source`, `seeds` (their number), `partial`, and the notes. Units are VTK's
//! information keys `UNITS_LABEL`.

use super::columns::ColumnWriter;
use super::spooled_line::SpooledLine;
use super::totals::{LineStride, Totals};
use super::{FieldSpec, FieldType, LineLayout, LineSpool, Moments, OutputError, OutputFile, Provenance};
use std::borrow::Cow;
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;
use std::ops::ControlFlow;

/// Blocks of the appended data: eight bytes of length, then the bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppendedBlocks {
    /// Offset from the underscore, and bytes, of each block.
    blocks: Vec<(u64, u64)>,
    next: u64,
}

impl AppendedBlocks {
    /// Adds a block of `bytes`.
    pub(crate) fn add(&mut self, bytes: u64) -> usize {
        self.blocks.push((self.next, bytes));
        self.next = self.next.saturating_add(8).saturating_add(bytes);
        self.blocks.len() - 1
    }

    /// Offset of a block in the XML text.
    pub(crate) fn offset(&self, block: usize) -> u64 {
        self.blocks[block].0
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Where a block's bytes begin, for text of `text_bytes` in front.
    pub(crate) fn data_at(&self, block: usize, text_bytes: usize) -> u64 {
        text_bytes as u64 + self.blocks[block].0 + 8
    }

    /// The lengths with their places, and where the data ends.
    pub(crate) fn lengths(&self, text_bytes: usize) -> (Vec<(u64, u64)>, u64) {
        let places = self.blocks.iter().map(|(offset, bytes)| (text_bytes as u64 + offset, *bytes)).collect();
        (places, text_bytes as u64 + self.next)
    }

    /// Whether the sum of all sizes stays well within 64 bits.
    pub(crate) fn fit(&self) -> bool {
        self.next < 1 << 62
    }
}

/// The text behind the appended data.
pub(crate) const TAIL: &[u8] = b"\n  </AppendedData>\n</VTKFile>\n";

/// The text between the tags and the appended data.
pub(crate) const APPENDED: &str = "  <AppendedData encoding=\"raw\">\n   _";

/// Text in front of the pieces.
pub(crate) const HEAD: &str = "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">\n  <PolyData>\n";

/// Escapes a name or value in an attribute or element.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has no way to write most control characters.
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// A `DataArray` element; `tuples` only in field data, which has no count of its own.
pub(crate) fn data_array(
    text: &mut String,
    kind: &str,
    name: &str,
    components: usize,
    tuples: Option<u64>,
    unit: &str,
    offset: u64,
) {
    let _ = write!(text, "        <DataArray type=\"{kind}\" Name=\"{}\"", escape(name));
    if components > 1 {
        let _ = write!(text, " NumberOfComponents=\"{components}\"");
    }
    if let Some(tuples) = tuples {
        let _ = write!(text, " NumberOfTuples=\"{tuples}\"");
    }
    let _ = write!(text, " format=\"appended\" offset=\"{offset}\"");
    if unit.is_empty() {
        text.push_str("/>\n");
    } else {
        let unit = escape(unit);
        let _ = write!(
            text,
            ">\n          <InformationKey name=\"UNITS_LABEL\" location=\"vtkDataArray\">{unit}</InformationKey>\n        </DataArray>\n"
        );
    }
}

/// An `Array` of strings, each ended by a zero byte.
pub(crate) fn string_array(text: &mut String, name: &str, tuples: Option<u64>, offset: u64) {
    let _ = write!(text, "        <Array type=\"String\" Name=\"{}\"", escape(name));
    if let Some(tuples) = tuples {
        let _ = write!(text, " NumberOfTuples=\"{tuples}\"");
    }
    let _ = writeln!(text, " format=\"appended\" offset=\"{offset}\"/>");
}

/// VTK's name of a field's type.
pub(crate) fn vtk_type(dtype: FieldType) -> &'static str {
    match dtype {
        FieldType::F32 => "Float32",
        FieldType::F64 => "Float64",
    }
}

/// The attributes by which viewers show the first scalar and the first vector.
pub(crate) fn active(fields: &[FieldSpec], names: &[String]) -> String {
    let mut out = String::new();
    for (attribute, components) in [("Scalars", 1), ("Vectors", 3)] {
        if let Some((_, name)) = fields.iter().zip(names).find(|(field, _)| field.components == components) {
            let _ = write!(out, " {attribute}=\"{}\"", escape(name));
        }
    }
    out
}

/// The array that marks a partial result.
const PARTIAL: &str = "partial";

/// Small arrays of the field data with their bytes, the same for lines and surfaces.
pub(crate) struct FieldData {
    /// Name, VTK type (none for strings), block, bytes.
    arrays: Vec<(String, Option<&'static str>, usize, Vec<u8>)>,
}

impl FieldData {
    pub(crate) fn new(
        blocks: &mut AppendedBlocks,
        provenance: &Provenance,
        counts: &[(&str, u64)],
        time: Option<f64>,
    ) -> Self {
        let mut arrays: Vec<(String, Option<&'static str>, usize, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, kind, bytes: Vec<u8>| {
            if arrays.iter().all(|(known, ..)| known != name) {
                let block = blocks.add(bytes.len() as u64);
                arrays.push((name.to_owned(), kind, block, bytes));
            }
        };
        let string = |value: &str| value.bytes().map(|b| if b == 0 { b'?' } else { b }).chain([0]).collect();
        add("program", None, string(&provenance.program));
        if !provenance.source.is_empty() {
            add("source", None, string(&provenance.source));
        }
        // Its value is known only at the end.
        add(PARTIAL, Some("Int32"), 0i32.to_le_bytes().to_vec());
        for (name, count) in counts {
            add(name, Some("Int64"), count.to_le_bytes().to_vec());
        }
        if let Some(time) = time {
            // The name that VTK's readers expect.
            add("TimeValue", Some("Float64"), time.to_le_bytes().to_vec());
        }
        for (name, value) in &provenance.notes {
            add(name, None, string(value));
        }
        Self { arrays }
    }

    pub(crate) fn text(&self, text: &mut String, blocks: &AppendedBlocks) {
        text.push_str("    <FieldData>\n");
        for (name, kind, block, _) in &self.arrays {
            match kind {
                Some(kind) => data_array(text, kind, name, 1, Some(1), "", blocks.offset(*block)),
                None => string_array(text, name, Some(1), blocks.offset(*block)),
            }
        }
        text.push_str("    </FieldData>\n");
    }

    pub(crate) fn write(
        &self,
        columns: &ColumnWriter,
        blocks: &AppendedBlocks,
        text_bytes: usize,
        partial: bool,
    ) -> Result<(), OutputError> {
        for ((_, _, block, _), bytes) in self.arrays.iter().zip(self.bytes(partial)) {
            columns.put_at(blocks.data_at(*block, text_bytes), &bytes)?;
        }
        Ok(())
    }

    /// The bytes of the arrays' blocks, in order.
    pub(crate) fn bytes(&self, partial: bool) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.arrays.iter().map(move |(name, _, _, bytes)| match name.as_str() {
            PARTIAL => Cow::Owned(i32::from(partial).to_le_bytes().to_vec()),
            _ => Cow::Borrowed(&bytes[..]),
        })
    }
}

/// Writes the text, the lengths of the blocks and the end.
pub(crate) fn frame(columns: &ColumnWriter, text: &str, blocks: &AppendedBlocks) -> Result<(), OutputError> {
    columns.put_at(0, text.as_bytes())?;
    let (lengths, end) = blocks.lengths(text.len());
    for (at, bytes) in lengths {
        columns.put_at(at, &bytes.to_le_bytes())?;
    }
    columns.put_at(end, TAIL)
}

/// Numbers of the blocks of lines, which are those of the columns too.
struct LineBlocks {
    connectivity: usize,
    offsets: usize,
    seed: usize,
    /// Name and code of the reason at an end.
    reason: [usize; 2],
    reason_backward: Option<[usize; 2]>,
    time: Option<usize>,
    step: Option<usize>,
}

impl LineBlocks {
    /// Adds them behind those of points.
    fn new(blocks: &mut AppendedBlocks, layout: &LineLayout, totals: &Totals) -> Self {
        let lines = totals.drawn;
        Self {
            connectivity: blocks.add(8 * totals.points),
            offsets: blocks.add(8 * lines),
            seed: blocks.add(8 * lines),
            reason: [blocks.add(totals.reason_bytes), blocks.add(lines)],
            reason_backward: layout.both.then(|| [blocks.add(totals.reason_backward_bytes), blocks.add(lines)]),
            time: layout.moments.time(0).map(|_| blocks.add(8 * lines)),
            step: layout.moments.step(0).map(|_| blocks.add(8 * lines)),
        }
    }

    /// The arrays of cells.
    fn cell_data(&self, text: &mut String, layout: &LineLayout, blocks: &AppendedBlocks) {
        data_array(text, "Int64", "seed", 1, None, "", blocks.offset(self.seed));
        let [reason, code] = self.reason;
        string_array(text, "reason", None, blocks.offset(reason));
        data_array(text, "UInt8", "reason_code", 1, None, "", blocks.offset(code));
        if let Some([reason, code]) = self.reason_backward {
            string_array(text, "reason_backward", None, blocks.offset(reason));
            data_array(text, "UInt8", "reason_code_backward", 1, None, "", blocks.offset(code));
        }
        if let Some(block) = self.time {
            data_array(text, "Float64", "line_time", 1, None, layout.moments.unit(), blocks.offset(block));
        }
        if let Some(block) = self.step {
            data_array(text, "Int64", "line_step", 1, None, "", blocks.offset(block));
        }
    }

    /// Writes a line with points. Its first point has number `first_point`.
    fn put(
        &self,
        columns: &mut ColumnWriter,
        moments: &Moments,
        line: u64,
        entry: &SpooledLine,
        first_point: u64,
    ) -> Result<(), OutputError> {
        let end = first_point + entry.points;
        for point in first_point..end {
            columns.put(self.connectivity, &point.to_le_bytes())?;
        }
        columns.put(self.offsets, &end.to_le_bytes())?;
        columns.put(self.seed, &moments.seed(line).to_le_bytes())?;
        if let (Some(column), Some(time)) = (self.time, moments.time(line)) {
            columns.put(column, &time.to_le_bytes())?;
        }
        if let (Some(column), Some(step)) = (self.step, moments.step(line)) {
            columns.put(column, &i64::from(step).to_le_bytes())?;
        }
        let backward = self.reason_backward.map(|ends| (ends, entry.reason_backward));
        for ([reason, code], value) in [Some((self.reason, entry.reason)), backward].into_iter().flatten() {
            columns.put(reason, value.name().as_bytes())?;
            columns.put(reason, &[0])?;
            columns.put(code, &[value.code()])?;
        }
        Ok(())
    }
}

/// The text in front of the data.
fn line_text(
    spool: &LineSpool,
    totals: &Totals,
    provenance: &Provenance,
    lines: &LineBlocks,
    blocks: &AppendedBlocks,
    field_data: &FieldData,
) -> String {
    let layout = spool.layout();
    let (n, count) = (totals.points, totals.drawn);
    let mut text = String::from(HEAD);
    field_data.text(&mut text, blocks);
    let _ = writeln!(text, "    <Piece NumberOfPoints=\"{n}\" NumberOfVerts=\"0\" NumberOfLines=\"{count}\" NumberOfStrips=\"0\" NumberOfPolys=\"0\">");
    let _ = writeln!(text, "      <PointData{}>", active(&layout.fields, spool.names()));
    data_array(&mut text, "Float64", "time", 1, None, &provenance.time_unit, blocks.offset(1));
    data_array(&mut text, "Int32", "zone", 1, None, "", blocks.offset(2));
    for (part, (field, name)) in layout.fields.iter().zip(spool.names()).enumerate() {
        let kind = vtk_type(field.dtype);
        data_array(&mut text, kind, name, field.components, None, &field.unit, blocks.offset(3 + part));
    }
    text.push_str("      </PointData>\n      <CellData>\n");
    lines.cell_data(&mut text, layout, blocks);
    text.push_str("      </CellData>\n      <Points>\n");
    data_array(&mut text, "Float64", "Points", 3, None, &provenance.length_unit, blocks.offset(0));
    text.push_str("      </Points>\n      <Lines>\n");
    data_array(&mut text, "Int64", "connectivity", 1, None, "", blocks.offset(lines.connectivity));
    data_array(&mut text, "Int64", "offsets", 1, None, "", blocks.offset(lines.offsets));
    text.push_str("      </Lines>\n    </Piece>\n  </PolyData>\n");
    text.push_str(APPENDED);
    text
}

pub(crate) fn write(
    spool: &LineSpool,
    which: LineStride,
    output: &OutputFile,
    provenance: &Provenance,
    partial: bool,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let (layout, totals) = (spool.layout(), spool.totals_of(which)?);
    let mut blocks = AppendedBlocks::default();
    // Blocks of points come first, in the order of the parts of a line: block and column numbers are the same.
    for bytes in spool.part_bytes() {
        blocks.add(totals.points * bytes);
    }
    let lines = LineBlocks::new(&mut blocks, layout, &totals);
    let streamed = blocks.count();
    // A file of its own for each moment.
    let time = layout.moments.time(which.first).filter(|_| which != LineStride::ALL);
    let seeds = spool.seeds() / layout.moments.lines_per_seed().max(1);
    let field_data = FieldData::new(&mut blocks, provenance, &[("seeds", seeds)], time);
    if !blocks.fit() {
        return Err(OutputError::Layout("the lines are too large for one file".into()));
    }

    let text = line_text(spool, &totals, provenance, &lines, &blocks, &field_data);
    let mut columns = ColumnWriter::new(output, spool.buffer_bytes());
    let (lengths, _) = blocks.lengths(text.len());
    for (block, (_, bytes)) in lengths.iter().enumerate().take(streamed) {
        columns.add(blocks.data_at(block, text.len()), Some(*bytes), b"");
    }
    spool.pass(which, &mut columns, output.path(), watch, |columns, line, entry, first_point| {
        if entry.points == 0 {
            return Ok(());
        }
        lines.put(columns, &layout.moments, line, entry, first_point)
    })?;
    frame(&columns, &text, &blocks)?;
    field_data.write(&columns, &blocks, text.len(), partial)?;
    columns.finish()?;
    Ok(())
}

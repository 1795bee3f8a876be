//! Lines as an Apache Parquet table, for data frames: one row a point, in seed order.
//!
//! Columns: `seed` int64, `time`, `x`, `y`, `z` float64, `zone` int32, and the fields (a vector has a column a
//! component: `velocity_x`, ...). Then `reason` (why the row's line ended) and, if lines run both ways,
//! `reason_backward`. `line_time` and `line_step` follow if a seed has a line at each of several times. A seed outside
//! has no row. Units and provenance are JSON in the file's metadata, under `farfield` and under `PANDAS_ATTRS`, which
//! pandas shows as `DataFrame.attrs`.
//!
//! A row group is written column after column, each by a pass over its lines. So at most a page of one column is in
//! memory at a time, whatever the size of the result. Only the footer grows, by about a kibibyte a column of a row
//! group of a million rows. It is charged before the file is written.

use super::npz::meta_json;
use super::spool::numbers;
use super::spooled_line::SpooledLine;
use super::{FieldType, LineSpool, OutputError, OutputFile, Provenance, Reason};
use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group. Readers load one at a time, and a million rows of a dozen columns are some 80 MB.
const GROUP_ROWS: u64 = 1 << 20;

/// Bytes of a page, and of a batch of values for it. Fixed, so that the file depends on the lines alone.
const PAGE_BYTES: usize = 64 << 10;

/// Bytes of pages and batches in memory at a time: values, their bytes, the encoder's state and output, with room to
/// grow.
const WORKING_BYTES: usize = 8 * PAGE_BYTES;

/// Bytes of the footer for a column of a row group: its description, with the least and the greatest value.
const FOOTER_BYTES: u64 = 1 << 10;

#[derive(Clone, Copy)]
enum ColumnSource {
    Seed,
    LineTime,
    LineStep,
    Reason,
    ReasonBackward,
    /// A component of a part of the lines: part, component.
    Number(usize, usize),
    Zone,
}

/// A part of the points of one line.
struct LineRun {
    line: u64,
    entry: SpooledLine,
    first: u64,
    count: u64,
}

/// The next row: a line, and a point of it.
#[derive(Clone, Copy)]
struct RowCursor {
    line: u64,
    point: u64,
}

pub(crate) fn write(
    spool: &LineSpool,
    output: &OutputFile,
    provenance: &Provenance,
    partial: bool,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let columns = columns(spool);
    let failed = |e: ParquetError| error(output.path(), e);
    let total = spool.totals.points;
    let footer = total.div_ceil(GROUP_ROWS).saturating_mul(columns.len() as u64 * FOOTER_BYTES);
    let needs = footer.saturating_add(WORKING_BYTES as u64);
    let mut held = spool.account();
    if !usize::try_from(needs).is_ok_and(|needs| held.grow(needs)) {
        return Err(OutputError::Memory { needs });
    }
    let schema = schema(spool, &columns).map_err(failed)?;
    let properties = Arc::new(properties(spool, &columns, provenance, partial));
    let mut writer = SerializedFileWriter::new(output.file().as_ref(), schema, properties).map_err(failed)?;
    let mut batch = Batch::new(spool);
    let (mut begin, mut written) = (RowCursor { line: 0, point: 0 }, 0);
    while written < total {
        let rows = GROUP_ROWS.min(total - written);
        let mut group = writer.next_row_group().map_err(failed)?;
        let mut end = begin;
        for (n, (_, source)) in columns.iter().enumerate() {
            let done = written + rows * n as u64 / columns.len() as u64;
            if watch(spool.seeds() * done / total.max(1), spool.seeds()).is_break() {
                return Err(OutputError::Cancelled { path: output.path().to_path_buf() });
            }
            let Some(mut column) = group.next_column().map_err(failed)? else { break };
            end = batch.column(&mut column, *source, begin, rows).map_err(|e| e.into_output(failed))?;
            column.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        (begin, written) = (end, written + rows);
    }
    writer.close().map_err(failed)?;
    // Finished: too late to stop.
    let _ = watch(spool.seeds(), spool.seeds());
    Ok(())
}

/// An error of writing a Parquet file.
pub fn error(path: &Path, e: ParquetError) -> OutputError {
    match e {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) => OutputError::io(path, "write", *e),
            Err(e) => OutputError::Layout(format!("{}: {e}", path.display())),
        },
        e => OutputError::Layout(format!("{}: {e}", path.display())),
    }
}

/// Columns with their unique names.
fn columns(spool: &LineSpool) -> Vec<(String, ColumnSource)> {
    let layout = spool.layout();
    let mut columns: Vec<(String, ColumnSource)> = vec![
        ("seed".into(), ColumnSource::Seed),
        ("time".into(), ColumnSource::Number(1, 0)),
        ("x".into(), ColumnSource::Number(0, 0)),
        ("y".into(), ColumnSource::Number(0, 1)),
        ("z".into(), ColumnSource::Number(0, 2)),
        ("zone".into(), ColumnSource::Zone),
    ];
    let mut rest = vec![("reason".to_owned(), ColumnSource::Reason)];
    if layout.both {
        rest.push(("reason_backward".into(), ColumnSource::ReasonBackward));
    }
    if layout.moments.time(0).is_some() {
        rest.push(("line_time".into(), ColumnSource::LineTime));
    }
    if layout.moments.step(0).is_some() {
        rest.push(("line_step".into(), ColumnSource::LineStep));
    }
    for (n, (field, name)) in layout.fields.iter().zip(spool.names()).enumerate() {
        for component in 0..field.components {
            let mut own = super::csv::column_name(name, component, field.components);
            while columns.iter().chain(&rest).any(|(known, _)| *known == own) {
                own.insert_str(0, "field_");
            }
            columns.push((own, ColumnSource::Number(n + 3, component)));
        }
    }
    columns.extend(rest);
    columns
}

fn physical(spool: &LineSpool, source: ColumnSource) -> Physical {
    match source {
        ColumnSource::Seed | ColumnSource::LineStep => Physical::INT64,
        ColumnSource::Zone => Physical::INT32,
        ColumnSource::Reason | ColumnSource::ReasonBackward => Physical::BYTE_ARRAY,
        ColumnSource::Number(part @ 3.., _) if spool.layout().fields[part - 3].dtype == FieldType::F32 => {
            Physical::FLOAT
        }
        ColumnSource::LineTime | ColumnSource::Number(..) => Physical::DOUBLE,
    }
}

fn schema(spool: &LineSpool, columns: &[(String, ColumnSource)]) -> Result<Arc<Type>, ParquetError> {
    let mut fields = Vec::with_capacity(columns.len());
    for (name, source) in columns {
        let kind = physical(spool, *source);
        let text = (kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let builder = Type::primitive_type_builder(name, kind).with_repetition(Repetition::REQUIRED);
        fields.push(Arc::new(builder.with_logical_type(text).build()?));
    }
    Ok(Arc::new(Type::group_type_builder("points").with_fields(fields).build()?))
}

fn properties(
    spool: &LineSpool,
    columns: &[(String, ColumnSource)],
    provenance: &Provenance,
    partial: bool,
) -> WriterProperties {
    let layout = spool.layout();
    let mut units = serde_json::Map::new();
    for (name, source) in columns {
        let unit = match source {
            ColumnSource::LineTime => layout.moments.unit(),
            ColumnSource::Number(1, _) => &provenance.time_unit,
            ColumnSource::Number(0, _) => &provenance.length_unit,
            ColumnSource::Number(part, _) => &layout.fields[part - 3].unit,
            _ => continue,
        };
        units.insert(name.clone(), unit.into());
    }
    let seeds = ("seeds".to_owned(), (spool.seeds() / layout.moments.lines_per_seed().max(1)).to_string());
    let mut provenance = provenance.clone();
    provenance.notes.push(seeds);
    let meta = meta_json(&provenance, partial, units, "points");
    let mut properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(vec![
            KeyValue::new("farfield".into(), meta.clone()),
            KeyValue::new("PANDAS_ATTRS".into(), meta),
        ]));
    for (name, source) in columns {
        // Runs of equal integers take almost no space as differences. Few distinct words and times do so as dictionary
        // indices.
        properties = match source {
            ColumnSource::Seed | ColumnSource::LineStep | ColumnSource::Zone => {
                properties.set_column_encoding(name.as_str().into(), Encoding::DELTA_BINARY_PACKED)
            }
            ColumnSource::Reason | ColumnSource::ReasonBackward | ColumnSource::LineTime => {
                properties.set_column_dictionary_enabled(name.as_str().into(), true)
            }
            ColumnSource::Number(..) => properties,
        };
    }
    properties.build()
}

/// The error of a column: of the spool or of the file.
enum Stopped {
    Spool(OutputError),
    File(ParquetError),
}

impl Stopped {
    fn into_output(self, of_file: impl FnOnce(ParquetError) -> OutputError) -> OutputError {
        match self {
            Self::Spool(e) => e,
            Self::File(e) => of_file(e),
        }
    }
}

/// A buffer of points between the spool and a column.
struct Batch<'a> {
    spool: &'a LineSpool,
    part_bytes: Vec<u64>,
    bytes: Vec<u8>,
}

impl<'a> Batch<'a> {
    fn new(spool: &'a LineSpool) -> Self {
        Self { spool, part_bytes: spool.part_bytes(), bytes: vec![0; PAGE_BYTES] }
    }

    /// Writes `rows` rows of a column from `begin` on. Returns the next row.
    fn column(
        &mut self,
        column: &mut SerializedColumnWriter<'_>,
        source: ColumnSource,
        begin: RowCursor,
        rows: u64,
    ) -> Result<RowCursor, Stopped> {
        let moments = &self.spool.layout().moments;
        match source {
            ColumnSource::Seed => {
                let value = |run: &LineRun| moments.seed(run.line) as i64;
                self.repeated::<Int64Type>(column, begin, rows, value)
            }
            ColumnSource::LineStep => {
                let value = |run: &LineRun| moments.step(run.line).map_or(-1, i64::from);
                self.repeated::<Int64Type>(column, begin, rows, value)
            }
            ColumnSource::LineTime => {
                let value = |run: &LineRun| moments.time(run.line).unwrap_or(f64::NAN);
                self.repeated::<DoubleType>(column, begin, rows, value)
            }
            ColumnSource::Reason => {
                let words = Reason::ALL.map(|r| ByteArray::from(r.name()));
                self.repeated::<ByteArrayType>(column, begin, rows, |run| words[run.entry.reason as usize].clone())
            }
            ColumnSource::ReasonBackward => {
                let words = Reason::ALL.map(|r| ByteArray::from(r.name()));
                let value = |run: &LineRun| words[run.entry.reason_backward as usize].clone();
                self.repeated::<ByteArrayType>(column, begin, rows, value)
            }
            ColumnSource::Zone => self.numbers::<Int32Type, 4>(column, (2, 0), begin, rows, i32::from_le_bytes),
            ColumnSource::Number(part, component) => match physical(self.spool, source) {
                Physical::FLOAT => {
                    self.numbers::<FloatType, 4>(column, (part, component), begin, rows, f32::from_le_bytes)
                }
                _ => self.numbers::<DoubleType, 8>(column, (part, component), begin, rows, f64::from_le_bytes),
            },
        }
    }

    /// One value a line.
    fn repeated<T: DataType>(
        &mut self,
        column: &mut SerializedColumnWriter<'_>,
        begin: RowCursor,
        rows: u64,
        value: impl Fn(&LineRun) -> T::T,
    ) -> Result<RowCursor, Stopped> {
        let mut values: Vec<T::T> = Vec::with_capacity(PAGE_BYTES / size_of::<T::T>());
        let most = values.capacity();
        let end = runs(self.spool, begin, rows, most as u64, |run| {
            if values.len() + run.count as usize > most {
                put::<T>(column, &mut values)?;
            }
            let one = value(&run);
            values.extend((0..run.count).map(|_| one.clone()));
            Ok(())
        })?;
        put::<T>(column, &mut values)?;
        Ok(end)
    }

    /// A component of a part, of each point.
    fn numbers<T: DataType, const B: usize>(
        &mut self,
        column: &mut SerializedColumnWriter<'_>,
        (part, component): (usize, usize),
        begin: RowCursor,
        rows: u64,
        decode: fn([u8; B]) -> T::T,
    ) -> Result<RowCursor, Stopped>
    where
        T::T: 'static,
    {
        let (spool, bytes) = (self.spool, &mut self.bytes);
        let each = self.part_bytes[part] as usize;
        let most = PAGE_BYTES / each;
        let mut values: Vec<T::T> = Vec::with_capacity(most);
        let end = runs(spool, begin, rows, most as u64, |run| {
            if values.len() + run.count as usize > most {
                put::<T>(column, &mut values)?;
            }
            let piece = &mut bytes[..run.count as usize * each];
            spool.read_part(&run.entry, part, run.first, piece).map_err(Stopped::Spool)?;
            for point in piece.chunks_exact(each) {
                values.extend(numbers(&point[component * B..(component + 1) * B], decode));
            }
            Ok(())
        })?;
        put::<T>(column, &mut values)?;
        Ok(end)
    }
}

fn put<T: DataType>(column: &mut SerializedColumnWriter<'_>, values: &mut Vec<T::T>) -> Result<(), Stopped> {
    if !values.is_empty() {
        column.typed::<T>().write_batch(values, None, None).map_err(Stopped::File)?;
        values.clear();
    }
    Ok(())
}

/// Passes on the parts of lines of the `rows` rows from `begin` on, with at most `most` points each.
fn runs(
    spool: &LineSpool,
    begin: RowCursor,
    rows: u64,
    most: u64,
    mut take: impl FnMut(LineRun) -> Result<(), Stopped>,
) -> Result<RowCursor, Stopped> {
    let (mut at, mut left) = (begin, rows);
    while left > 0 && at.line < spool.seeds() {
        let Some(entry) = spool.entry(at.line).map_err(Stopped::Spool)? else {
            at.line += 1;
            continue;
        };
        while left > 0 && at.point < entry.points {
            let count = most.min(left).min(entry.points - at.point);
            take(LineRun { line: at.line, entry: entry.clone(), first: at.point, count })?;
            at.point += count;
            left -= count;
        }
        if at.point == entry.points {
            at = RowCursor { line: at.line + 1, point: 0 };
        }
    }
    Ok(at)
}

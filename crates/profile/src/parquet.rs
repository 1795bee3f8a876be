//! Events as an Apache Parquet table, for data frames: one row an event, in their order.
//!
//! Columns: `at_us` int64, `thread` int32, `event` and `array` (its name) text. One int64 column follows for each field
//! name of any kind, null if the kind has no such field; an array's number is `array_id`. `text` is the one text that a
//! kind may have. The file's metadata has, under `farfield_crc32c`, the end of its row groups in bytes, and the crc32c
//! of these.

use super::{Events, Named};
use field::error::FieldError;
use output::parquet::error as parquet_error;
use pager::event::FieldSink;
use pager::log::LogEnd;
use pager::Event;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{get_typed_column_reader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Events of a row group: some three dozen columns of them have at most about 10 MiB.
const GROUP: usize = 1 << 16;

/// Names of the number columns, in their order.
fn columns() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for code in 0..Event::KINDS.len() {
        for (name, text) in Event::fields(code as u8) {
            if !text && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The key of the checksum: `BYTES:CRC`.
const CHECKSUM: &str = "farfield_crc32c";

/// An unfinished file, and the checksum of the written bytes.
struct ChecksummedFile {
    file: File,
    /// Bytes, and their crc32c. Shared, since the table writer owns the file.
    sum: Arc<Mutex<(u64, u32)>>,
}

impl Write for ChecksummedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = (sum.0 + written as u64, crc32c::crc32c_append(sum.1, &bytes[..written]));
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The crc32c of the first `bytes` of a file; `None` for a shorter file.
fn checksum(file: &mut File, bytes: u64) -> io::Result<Option<u32>> {
    let (mut part, mut left, mut crc) = (vec![0; 1 << 16], bytes, 0);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(part.len());
        let got = file.read(&mut part[..most])?;
        if got == 0 {
            return Ok(None);
        }
        crc = crc32c::crc32c_append(crc, &part[..got]);
        left -= got as u64;
    }
    Ok(Some(crc))
}

fn column_name(field: &str) -> &str {
    if field == "array" {
        "array_id"
    } else {
        field
    }
}

/// An unfinished column: non-null values, and their places.
#[derive(Default)]
struct EventColumn<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> EventColumn<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// A group of rows.
struct EventRows {
    names: Vec<&'static str>,
    at: Vec<i64>,
    thread: Vec<i32>,
    event: Vec<ByteArray>,
    array: EventColumn<ByteArray>,
    numbers: Vec<EventColumn<i64>>,
    text: EventColumn<ByteArray>,
}

struct EventRow<'a> {
    rows: &'a mut EventRows,
    text: Option<ByteArray>,
}

impl FieldSink for EventRow<'_> {
    fn number(&mut self, name: &'static str, value: u64) {
        if let Some(n) = self.rows.names.iter().position(|known| *known == name) {
            // Two's complement: numbers above 2^63 are read back unchanged.
            self.rows.numbers[n].push(Some(value as i64));
        }
    }
    fn text(&mut self, _: &'static str, value: &str) {
        self.text = Some(value.into());
    }
}

impl EventRows {
    fn new() -> Self {
        let names = columns();
        let numbers = names.iter().map(|_| EventColumn::default()).collect();
        let (at, thread, event) = (Vec::new(), Vec::new(), Vec::new());
        Self { names, at, thread, event, array: EventColumn::default(), numbers, text: EventColumn::default() }
    }

    fn push(&mut self, at_us: u64, thread: u32, event: &Event, arrays: &HashMap<i64, ByteArray>) {
        self.at.push(at_us as i64);
        self.thread.push(thread as i32);
        self.event.push(event.kind().into());
        let mut row = EventRow { rows: self, text: None };
        event.put(&mut row);
        let text = row.text;
        self.text.push(text);
        let rows = self.at.len();
        let mut array = None;
        for (name, column) in self.names.iter().zip(&mut self.numbers) {
            if column.levels.len() < rows {
                column.push(None);
            } else if *name == "array" {
                array = column.values.last().and_then(|id| arrays.get(id)).cloned();
            }
        }
        self.array.push(array);
    }

    fn write(
        &mut self,
        writer: &mut SerializedFileWriter<ChecksummedFile>,
    ) -> Result<(), parquet::errors::ParquetError> {
        fn put<T: DataType>(
            group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, ChecksummedFile>,
            values: &[T::T],
            levels: Option<&[i16]>,
        ) -> Result<(), parquet::errors::ParquetError> {
            if let Some(mut column) = group.next_column()? {
                column.typed::<T>().write_batch(values, levels, None)?;
                column.close()?;
            }
            Ok(())
        }
        let mut group = writer.next_row_group()?;
        put::<Int64Type>(&mut group, &self.at, None)?;
        put::<Int32Type>(&mut group, &self.thread, None)?;
        put::<ByteArrayType>(&mut group, &self.event, None)?;
        put::<ByteArrayType>(&mut group, &self.array.values, Some(&self.array.levels))?;
        for column in &self.numbers {
            put::<Int64Type>(&mut group, &column.values, Some(&column.levels))?;
        }
        put::<ByteArrayType>(&mut group, &self.text.values, Some(&self.text.levels))?;
        group.close()?;
        self.at.clear();
        self.thread.clear();
        self.event.clear();
        self.array.clear();
        self.text.clear();
        self.numbers.iter_mut().for_each(EventColumn::clear);
        Ok(())
    }
}

fn schema() -> Result<Arc<Type>, parquet::errors::ParquetError> {
    let field = |name: &str, kind: Physical, repetition: Repetition| {
        let text = (kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let builder = Type::primitive_type_builder(name, kind).with_repetition(repetition);
        builder.with_logical_type(text).build().map(Arc::new)
    };
    let mut fields = vec![
        field("at_us", Physical::INT64, Repetition::REQUIRED)?,
        field("thread", Physical::INT32, Repetition::REQUIRED)?,
        field("event", Physical::BYTE_ARRAY, Repetition::REQUIRED)?,
        field("array", Physical::BYTE_ARRAY, Repetition::OPTIONAL)?,
    ];
    for name in columns() {
        fields.push(field(column_name(name), Physical::INT64, Repetition::OPTIONAL)?);
    }
    fields.push(field("text", Physical::BYTE_ARRAY, Repetition::OPTIONAL)?);
    Ok(Arc::new(Type::group_type_builder("events").with_fields(fields).build()?))
}

pub(super) fn write(
    events: &Events,
    file: File,
    path: &Path,
    watch: &mut dyn FnMut(&str, f64, f64) -> bool,
) -> Result<LogEnd, FieldError> {
    let failed = |e| FieldError::from(parquet_error(path, e));
    let properties = Arc::new(WriterProperties::builder().build());
    let sum = Arc::new(Mutex::new((0, 0)));
    let file = ChecksummedFile { file, sum: Arc::clone(&sum) };
    let mut writer = SerializedFileWriter::new(file, schema().map_err(failed)?, properties).map_err(failed)?;
    let (mut rows, mut arrays, mut wrong) = (EventRows::new(), HashMap::new(), None);
    let (size, mut told, mut stopped, mut last_us) = (events.size() as f64, 0, false, 0);
    let ended = events.each(&mut |at, thread, event, read| {
        if let Event::Array { array, name, .. } = event {
            arrays.insert(i64::from(array.0), ByteArray::from(&**name));
        }
        last_us = at;
        rows.push(at, thread, event, &arrays);
        if rows.at.len() >= GROUP {
            wrong = rows.write(&mut writer).err();
        }
        if read != told {
            told = read;
            stopped = !watch("exporting", read as f64, size);
        }
        wrong.is_none() && !stopped
    })?;
    if stopped {
        return Err(FieldError::Interrupted);
    }
    if !ended.whole {
        rows.push(last_us, 0, &Event::Cut { lost_bytes: ended.lost_bytes }, &arrays);
    }
    if let Some(e) = wrong {
        return Err(failed(e));
    }
    if !rows.at.is_empty() {
        rows.write(&mut writer).map_err(failed)?;
    }
    writer.flush().map_err(|e| FieldError::io(path, e))?;
    let (bytes, crc) = *sum.lock().unwrap_or_else(PoisonError::into_inner);
    writer.append_key_value_metadata(KeyValue::new(CHECKSUM.to_owned(), format!("{bytes}:{crc:08x}")));
    writer.close().map_err(failed)?;
    Ok(ended)
}

pub(super) struct EventTable {
    path: PathBuf,
    rows: u64,
}

impl EventTable {
    /// # Errors
    /// [`FieldError`] when it is incomplete or no table of events.
    pub(super) fn open(path: &Path) -> Result<Self, FieldError> {
        let reader = Self::reader(path)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        if !["at_us", "thread", "event"].iter().all(|name| schema.columns().iter().any(|c| c.name() == *name)) {
            let what = "a Parquet file, but not one of events; --events FILE of a run makes one";
            return Err(FieldError::format(path, what));
        }
        let rows = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(Self { path: path.to_owned(), rows })
    }

    fn reader(path: &Path) -> Result<SerializedFileReader<File>, FieldError> {
        let file = File::open(path).map_err(|e| FieldError::io(path, e))?;
        SerializedFileReader::new(file).map_err(|e| FieldError::format(path, e.to_string()))
    }

    /// Whether the checksum of its rows is wrong. A table without one, as another program writes it, has no such
    /// guarantee.
    fn is_damaged(&self, reader: &SerializedFileReader<File>) -> Result<bool, FieldError> {
        let pairs = reader.metadata().file_metadata().key_value_metadata();
        let Some(said) = pairs.into_iter().flatten().find(|pair| pair.key == CHECKSUM) else { return Ok(false) };
        let parts = said.value.as_deref().and_then(|v| v.split_once(':'));
        let Some((Ok(bytes), Ok(crc))) = parts.map(|(b, c)| (b.parse(), u32::from_str_radix(c, 16))) else {
            return Ok(true);
        };
        let failed = |e| FieldError::io(&self.path, e);
        Ok(checksum(&mut File::open(&self.path).map_err(failed)?, bytes).map_err(failed)? != Some(crc))
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn each(&self, tell: &mut dyn FnMut(u64, u32, &Event, u64) -> bool) -> Result<LogEnd, FieldError> {
        let failed = |e: parquet::errors::ParquetError| FieldError::format(&self.path, e.to_string());
        let reader = Self::reader(&self.path)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let place = |name: &str| schema.columns().iter().position(|c| c.name() == name);
        let numbers: Vec<(&'static str, usize)> =
            columns().into_iter().filter_map(|name| Some((name, place(column_name(name))?))).collect();
        let damaged = self.is_damaged(&reader)?;
        let (mut ended, mut row) = (LogEnd { whole: !damaged, damaged, ..LogEnd::default() }, 0);
        for g in 0..reader.num_row_groups() {
            let group = reader.get_row_group(g).map_err(failed)?;
            let count = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let mut at = ColumnValues::<Int64Type>::new(&*group, place("at_us")).map_err(failed)?;
            let mut thread = ColumnValues::<Int32Type>::new(&*group, place("thread")).map_err(failed)?;
            let mut kind = ColumnValues::<ByteArrayType>::new(&*group, place("event")).map_err(failed)?;
            let mut text = ColumnValues::<ByteArrayType>::new(&*group, place("text")).map_err(failed)?;
            let mut columns = Vec::new();
            for (name, n) in &numbers {
                columns.push((*name, ColumnValues::<Int64Type>::new(&*group, Some(*n)).map_err(failed)?));
            }
            for _ in 0..count {
                let (Some(at), Some(thread), Some(kind)) =
                    (at.next().map_err(failed)?, thread.next().map_err(failed)?, kind.next().map_err(failed)?)
                else {
                    return Err(FieldError::format(&self.path, "its rows are not whole"));
                };
                let mut named = Named::default();
                for (name, column) in &mut columns {
                    named.numbers.extend(column.next().map_err(failed)?.map(|v| (*name, v as u64)));
                }
                named.text = text.next().map_err(failed)?.and_then(|t| t.as_utf8().ok().map(Arc::from));
                row += 1;
                match kind.as_utf8().ok().and_then(|kind| Event::pick(kind, &mut named)) {
                    Some(event) => {
                        ended.events += 1;
                        if !tell(at as u64, thread as u32, &event, row) {
                            return Ok(ended);
                        }
                    }
                    None => ended.unknown += 1,
                }
            }
        }
        Ok(ended)
    }
}

/// The values of a column of a row group, read in batches.
struct ColumnValues<T: DataType> {
    reader: Option<ColumnReaderImpl<T>>,
    nullable: bool,
    values: std::vec::IntoIter<T::T>,
    levels: std::vec::IntoIter<i16>,
}

impl<T: DataType> ColumnValues<T> {
    fn new(
        group: &dyn parquet::file::reader::RowGroupReader,
        place: Option<usize>,
    ) -> Result<Self, parquet::errors::ParquetError> {
        let (reader, nullable) = match place {
            Some(n) => {
                let column = group.metadata().column(n).column_descr();
                if column.physical_type() != T::get_physical_type() {
                    let what = format!("its column {} is of another type", column.name());
                    return Err(parquet::errors::ParquetError::General(what));
                }
                let nullable = column.max_def_level() > 0;
                (Some(get_typed_column_reader(group.get_column_reader(n)?)), nullable)
            }
            None => (None, true),
        };
        Ok(Self { reader, nullable, values: Vec::new().into_iter(), levels: Vec::new().into_iter() })
    }

    fn next(&mut self) -> Result<Option<T::T>, parquet::errors::ParquetError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let empty = if self.nullable { self.levels.len() == 0 } else { self.values.len() == 0 };
        if empty {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            let levels_to = self.nullable.then_some(&mut levels);
            reader.read_records(4096, levels_to, None, &mut values)?;
            (self.values, self.levels) = (values.into_iter(), levels.into_iter());
        }
        Ok(match self.nullable {
            true if self.levels.next() != Some(1) => None,
            _ => self.values.next(),
        })
    }
}

//! Many arrays of one file written side by side. Each has its place in the file and a small buffer.

use super::{NewFile, OutputError, OutputFile};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of our own arrays; a field with such a name gets the prefix `field_`.
pub(crate) const RESERVED: [&str; 13] = [
    "points",
    "offsets",
    "reason",
    "reason_backward",
    "reason_code",
    "reason_code_backward",
    "time",
    "zone",
    "seed",
    "partial",
    "meta",
    "line_time",
    "line_step",
];

/// One array of the file.
struct ColumnBuffer {
    /// The place of the next buffer.
    offset: u64,
    /// One past its place; `None` for a last array of unknown length.
    end: Option<u64>,
    buffer: Vec<u8>,
    crc: crc32fast::Hasher,
}

/// Writes arrays side by side. Each is written in order; the arrays advance together.
pub(crate) struct ColumnWriter {
    file: Arc<File>,
    path: PathBuf,
    columns: Vec<ColumnBuffer>,
    buffer_bytes: usize,
}

impl ColumnWriter {
    pub(crate) fn new(output: &OutputFile, buffer_bytes: usize) -> Self {
        Self::of(output.file(), output.path(), buffer_bytes)
    }

    /// As [`Self::new`], for a file without an [`OutputFile`] format.
    pub(crate) fn on(output: &NewFile, buffer_bytes: usize) -> Self {
        Self::of(output.file(), output.path(), buffer_bytes)
    }

    fn of(file: &Arc<File>, path: &Path, buffer_bytes: usize) -> Self {
        let (file, path) = (Arc::clone(file), path.to_path_buf());
        Self { file, path, columns: Vec::new(), buffer_bytes: buffer_bytes.max(64) }
    }

    /// Adds an array at `offset` of `length` bytes (`None`: unknown), and returns its number. `before` is text in front
    /// of the place that its checksum covers too.
    pub(crate) fn add(&mut self, offset: u64, length: Option<u64>, before: &[u8]) -> usize {
        let mut crc = crc32fast::Hasher::new();
        crc.update(before);
        let end = length.map(|length| offset.saturating_add(length));
        self.columns.push(ColumnBuffer { offset, end, buffer: Vec::with_capacity(self.buffer_bytes), crc });
        self.columns.len() - 1
    }

    /// Appends to one array.
    pub(crate) fn put(&mut self, column: usize, mut bytes: &[u8]) -> Result<(), OutputError> {
        let (file, path, limit) = (&self.file, &self.path, self.buffer_bytes);
        let column = &mut self.columns[column];
        while !bytes.is_empty() {
            if column.buffer.len() == limit {
                column.flush(file, path)?;
            }
            let part = bytes.len().min(limit - column.buffer.len());
            column.buffer.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
        }
        Ok(())
    }

    /// Writes bytes at a fixed place outside of all arrays.
    pub(crate) fn put_at(&self, offset: u64, bytes: &[u8]) -> Result<(), OutputError> {
        self.file.write_all_at(bytes, offset).map_err(|e| OutputError::io(&self.path, "write", e))
    }

    /// Writes the buffers. Returns the checksum (crc32 of zip) of each array with its `before`.
    pub(crate) fn finish(mut self) -> Result<Vec<u32>, OutputError> {
        let mut checksums = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            column.flush(&self.file, &self.path)?;
            if column.end.is_some_and(|end| end != column.offset) {
                // The lengths were counted when the lines came. A difference is a defect here, and no file must result.
                return Err(OutputError::Layout(format!(
                    "{}: an array ended at byte {} instead of its planned end",
                    self.path.display(),
                    column.offset
                )));
            }
            checksums.push(std::mem::take(&mut column.crc).finalize());
        }
        Ok(checksums)
    }
}

impl ColumnBuffer {
    fn flush(&mut self, file: &File, path: &Path) -> Result<(), OutputError> {
        file.write_all_at(&self.buffer, self.offset).map_err(|e| OutputError::io(path, "write", e))?;
        self.crc.update(&self.buffer);
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

//! The file of a mesh while it is written from its front to its back.

use super::sections::{each, Indices, Section};
use crate::{OutputError, OutputFile};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a buffer: the sink has one for what goes to the file and one for what comes from a log.
pub(super) const SINK_BYTES: usize = 64 << 10;

/// Takes the bytes of a file in order.
pub(super) struct ByteSink<'a> {
    output: &'a OutputFile,
    buffer: Vec<u8>,
    /// Where the buffer goes.
    at: u64,
    /// The zip checksum since it was asked for.
    crc: Option<crc32fast::Hasher>,
    /// Where a log's bytes are read to; lent while they are used.
    from: Vec<u8>,
    done: u64,
    total: u64,
    watch: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
}

impl<'a> ByteSink<'a> {
    /// At the beginning of the file. `scratch` becomes one of its two buffers; `total` bytes are in the logs.
    pub(super) fn new(
        output: &'a OutputFile,
        scratch: Vec<u8>,
        total: u64,
        watch: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Self {
        let mut buffer = scratch;
        buffer.clear();
        Self { output, buffer, at: 0, crc: None, from: vec![0; SINK_BYTES], done: 0, total, watch }
    }

    /// The path that the file will have.
    pub(super) fn path(&self) -> &Path {
        self.output.path()
    }

    /// Where the next byte goes.
    pub(super) fn position(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    /// Appends bytes.
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<(), OutputError> {
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
        while !bytes.is_empty() {
            if self.buffer.len() == SINK_BYTES {
                self.flush()?;
            }
            let part = bytes.len().min(SINK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
        }
        Ok(())
    }

    /// Leaves `bytes` out, to be written by [`ByteSink::put_at`].
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), OutputError> {
        self.flush()?;
        self.at += bytes;
        Ok(())
    }

    /// Writes something at a place that was left out.
    pub(super) fn put_at(&self, offset: u64, bytes: &[u8]) -> Result<(), OutputError> {
        self.output.file().write_all_at(bytes, offset).map_err(|e| OutputError::io(self.output.path(), "write", e))
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.put_at(self.at, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Begins a zip checksum.
    pub(super) fn begin_crc(&mut self) {
        self.crc = Some(crc32fast::Hasher::new());
    }

    /// The checksum of all bytes since then.
    pub(super) fn end_crc(&mut self) -> u32 {
        self.crc.take().map_or(0, crc32fast::Hasher::finalize)
    }

    /// Tells of `bytes` more of the logs that are in the file.
    pub(super) fn tell(&mut self, bytes: u64) -> Result<(), OutputError> {
        self.done += bytes;
        match (self.watch)(self.done.min(self.total), self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(OutputError::Cancelled { path: self.output.path().to_path_buf() }),
        }
    }

    /// Appends an array as it is, and gives its log back.
    pub(super) fn copy(&mut self, section: Section) -> Result<(), OutputError> {
        self.each(section, |sink, bytes| sink.put(bytes))
    }

    /// Shows an array in order, whole points at a time, and gives its log back.
    pub(super) fn each(
        &mut self,
        section: Section,
        mut take: impl FnMut(&mut Self, &[u8]) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let mut from = std::mem::take(&mut self.from);
        let shown = each(&section.log, section.item, &mut from, |bytes| {
            take(self, bytes)?;
            self.tell(bytes.len() as u64)
        });
        self.from = from;
        shown
    }

    /// Shows numbers of points in order, and gives their logs back.
    pub(super) fn each_index(
        &mut self,
        indices: Indices,
        mut take: impl FnMut(&mut Self, u64) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let mut from = std::mem::take(&mut self.from);
        let shown = indices.each(&mut from, |numbers| {
            let mut count = 0;
            for number in numbers {
                take(self, number)?;
                count += 1;
            }
            self.tell(4 * count)
        });
        self.from = from;
        shown
    }

    /// Appends numbers of points, in 64 bits if `wide`, else in 32.
    pub(super) fn put_indices(&mut self, indices: Indices, wide: bool) -> Result<(), OutputError> {
        self.each_index(indices, |sink, number| match wide {
            true => sink.put(&number.to_le_bytes()),
            // Whoever asks for 32 bits has seen that the largest fits.
            false => sink.put(&(number as u32).to_le_bytes()),
        })
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<(), OutputError> {
        self.flush()
    }
}

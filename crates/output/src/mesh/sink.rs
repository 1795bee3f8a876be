//! The file of a mesh, written from front to back.

use super::sections::{each, Indices, Section};
use crate::{OutputError, OutputFile};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a buffer: the sink has one for the file and one for a log.
pub(super) const SINK_BYTES: usize = 64 << 10;

/// Takes the bytes of a file in order.
pub(super) struct ByteSink<'a> {
    output: &'a OutputFile,
    buffer: Vec<u8>,
    /// The place of the buffer in the file.
    at: u64,
    /// The zip checksum since its begin.
    crc: Option<crc32fast::Hasher>,
    /// The buffer for a log's bytes, lent while they are used.
    from: Vec<u8>,
    done: u64,
    total: u64,
    watch: &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>,
}

impl<'a> ByteSink<'a> {
    /// A sink at the beginning of the file. `scratch` becomes one of its two buffers; `total` bytes are in the logs.
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

    /// The place of the next byte.
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

    /// Leaves `bytes` out, which [`ByteSink::put_at`] writes later.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), OutputError> {
        self.flush()?;
        self.at += bytes;
        Ok(())
    }

    /// Writes bytes at a place that was left out.
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

    /// Reports `bytes` more of the logs as written.
    pub(super) fn tell(&mut self, bytes: u64) -> Result<(), OutputError> {
        self.done += bytes;
        match (self.watch)(self.done.min(self.total), self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(OutputError::Cancelled { path: self.output.path().to_path_buf() }),
        }
    }

    /// Appends an array unchanged, and deletes its log.
    pub(super) fn copy(&mut self, section: Section) -> Result<(), OutputError> {
        self.each(section, |sink, bytes| sink.put(bytes))
    }

    /// Passes on an array in order, whole points at a time, and deletes its log.
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

    /// Passes on point numbers in order, and deletes their logs.
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

    /// Appends point numbers, in 64 bits if `wide`, else in 32.
    pub(super) fn put_indices(&mut self, indices: Indices, wide: bool) -> Result<(), OutputError> {
        self.each_index(indices, |sink, number| match wide {
            true => sink.put(&number.to_le_bytes()),
            // The caller has checked that the largest fits 32 bits.
            false => sink.put(&(number as u32).to_le_bytes()),
        })
    }

    /// Writes the last buffer.
    pub(super) fn finish(mut self) -> Result<(), OutputError> {
        self.flush()
    }
}

//! Bytes that are read by position, and a buffered stream over a part of them.

use field::file::FileBytes;
use std::io::{self, BufRead, Read};

/// Bytes of known length with random access.
pub trait ReadAt: Send + Sync {
    /// Number of bytes.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Fills `into` from byte `offset` on, or fails.
    ///
    /// # Errors
    /// The source's error; kind `UnexpectedEof` beyond its end.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for FileBytes {
    fn len(&self) -> u64 {
        self.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(offset, into)
    }
}

impl ReadAt for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(into.len())?));
        let part = from.and_then(|range| self.get(range)).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(part);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, into)
    }
}

/// Bytes `at..end` of a source as a stream.
pub struct Section<'a> {
    source: &'a dyn ReadAt,
    /// Where the next refill begins.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are read already.
    read: usize,
}

/// Long enough for sequential reading, small enough to be negligible.
const BUFFER_BYTES: usize = 64 << 10;

impl<'a> Section<'a> {
    /// The part of a source inside it.
    pub fn new(source: &'a dyn ReadAt, at: u64, end: u64) -> Self {
        let end = end.min(source.len());
        Self { source, at: at.min(end), end, buffer: Vec::new(), read: 0 }
    }

    /// Position in the source of the next byte.
    pub fn position(&self) -> u64 {
        self.at - (self.buffer.len() - self.read) as u64
    }

    /// The next byte, if there is one.
    pub(crate) fn byte(&mut self) -> io::Result<Option<u8>> {
        let next = self.fill_buf()?.first().copied();
        if next.is_some() {
            self.consume(1);
        }
        Ok(next)
    }
}

impl BufRead for Section<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.buffer.len() {
            let part = (self.end - self.at).min(BUFFER_BYTES as u64) as usize;
            self.buffer.resize(part, 0);
            self.read = 0;
            if let Err(e) = self.source.read_at(self.at, &mut self.buffer) {
                self.buffer.clear();
                return Err(e);
            }
            self.at += part as u64;
        }
        Ok(&self.buffer[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        self.read = (self.read + amount).min(self.buffer.len());
    }
}

impl Read for Section<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let have = self.fill_buf()?;
        let part = have.len().min(into.len());
        into[..part].copy_from_slice(&have[..part]);
        self.consume(part);
        Ok(part)
    }
}

//! The source of a file's bytes during sniffing: a file, or memory in tests and fuzzers.

use crate::file::FileBytes;
use std::io;

/// Random access to the bytes of one file. Nothing is buffered: sniffing reads a few dozen headers.
pub trait ByteSource {
    /// Length in bytes.
    fn size(&self) -> u64;
    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` past the end, or the system's error.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ByteSource for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let part = from.and_then(|a| a.checked_add(buf.len()).and_then(|b| self.get(a..b)));
        match part {
            Some(part) => {
                buf.copy_from_slice(part);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl ByteSource for FileBytes {
    fn size(&self) -> u64 {
        FileBytes::size(self)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        FileBytes::read_exact_at(self, offset, buf)
    }
}

/// Four bytes as an integer.
pub(super) fn int32(bytes: [u8; 4], big_endian: bool) -> i32 {
    if big_endian {
        i32::from_be_bytes(bytes)
    } else {
        i32::from_le_bytes(bytes)
    }
}

/// Four or eight bytes as a number; NaN for other lengths.
pub(super) fn real(bytes: &[u8], big_endian: bool) -> f64 {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return f64::from(if big_endian { f32::from_be_bytes(four) } else { f32::from_le_bytes(four) });
    }
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) if big_endian => f64::from_be_bytes(eight),
        Ok(eight) => f64::from_le_bytes(eight),
        Err(_) => f64::NAN,
    }
}

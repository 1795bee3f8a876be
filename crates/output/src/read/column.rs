//! One array of a file, read by ranges of tuples from any storage.

use super::source::ReadAt;
use crate::log::ByteLog;
use crate::number::Number;
use std::sync::Arc;

/// The storage of an array.
#[derive(Clone)]
pub enum Storage {
    /// The file itself, unencoded.
    Source(Arc<dyn ReadAt>),
    /// Decoded once, for encodings that can only be read from front to back.
    Decoded(Arc<ByteLog>),
}

impl Storage {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Source(source) => source.read_at(offset, into).map_err(|e| super::decode::said(&e)),
            Self::Decoded(log) => log.read_at(offset, into).map_err(|e| e.to_string()),
        }
    }
}

/// An array of numbers, `tuples * components` of them.
#[derive(Clone)]
pub struct Column {
    /// The storage of its bytes.
    pub storage: Storage,
    /// The begin of its bytes in the storage.
    pub at: u64,
    /// Type of a number.
    pub number: Number,
    /// Byte order.
    pub big_endian: bool,
    /// Numbers of a tuple.
    pub components: usize,
    /// Number of tuples.
    pub tuples: u64,
    /// Whether all first components come first (NumPy's Fortran order).
    pub fortran: bool,
}

impl Column {
    /// Appends the numbers of `count` tuples from `first` on, the components of a tuple adjacent.
    ///
    /// # Errors
    /// A message for tuples beyond the array, or unreadable bytes.
    pub fn read(&self, first: u64, count: usize, into: &mut Vec<f64>) -> Result<(), String> {
        if first.checked_add(count as u64).is_none_or(|end| end > self.tuples) {
            return Err("refers to a point that it does not have".into());
        }
        let start = into.len();
        if !self.fortran || self.components == 1 {
            return self.run(first * self.components as u64, count * self.components, |value| into.push(value));
        }
        into.resize(start + count * self.components, 0.0);
        for component in 0..self.components {
            let mut at = start + component;
            self.run(component as u64 * self.tuples + first, count, |value| {
                into[at] = value;
                at += self.components;
            })?;
        }
        Ok(())
    }

    /// Appends integers; an error for an array of another kind.
    pub(crate) fn read_whole(&self, first: u64, count: usize, into: &mut Vec<i64>) -> Result<(), String> {
        if first.checked_add(count as u64).is_none_or(|end| end > self.tuples) {
            return Err("ends within its list of lines".into());
        }
        let mut wrong = false;
        self.bytes(first, count, |bytes| match self.number.to_i64(bytes, self.big_endian) {
            Some(value) => into.push(value),
            None => wrong = true,
        })?;
        if wrong {
            return Err("has connectivity that is not whole numbers".into());
        }
        Ok(())
    }

    fn run(&self, first: u64, count: usize, mut take: impl FnMut(f64)) -> Result<(), String> {
        self.bytes(first, count, |bytes| take(self.number.to_f64(bytes, self.big_endian)))
    }

    /// Passes on the bytes of each of `count` numbers from the `first` on.
    fn bytes(&self, first: u64, count: usize, mut take: impl FnMut(&[u8])) -> Result<(), String> {
        let each = self.number.bytes();
        let mut buffer = [0; 16 << 10];
        let (mut at, mut left) = (self.at + first * each as u64, count);
        while left > 0 {
            let part = left.min(buffer.len() / each);
            let piece = &mut buffer[..part * each];
            self.storage.read_at(at, piece)?;
            piece.chunks_exact(each).for_each(&mut take);
            at += piece.len() as u64;
            left -= part;
        }
        Ok(())
    }
}

//! Encodings of numbers in VTK files: base64, zlib blocks, text.

use super::source::Section;
use crate::log::ByteLog;
use crate::number::Number;
use std::io::{self, BufRead, Read};

/// Decodes base64 from a stream. White space is skipped. Padding within only ends a group, since VTK encodes a header
/// and its data separately. Any other character ends the stream.
pub(crate) struct Base64<R> {
    inner: R,
    /// Decoded bytes of one group that are not read yet.
    ready: [u8; 3],
    from: usize,
    to: usize,
}

impl<R: BufRead> Base64<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, ready: [0; 3], from: 0, to: 0 }
    }

    /// Decodes the next group of four characters; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        let (mut word, mut digits, mut padding) = (0u32, 0, 0);
        while digits + padding < 4 {
            let have = self.inner.fill_buf()?;
            let Some(&byte) = have.first() else { break };
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => {
                    self.inner.consume(1);
                    padding += 1;
                    continue;
                }
                b' ' | b'\n' | b'\r' | b'\t' => {
                    self.inner.consume(1);
                    continue;
                }
                _ => break,
            };
            if padding > 0 {
                break;
            }
            self.inner.consume(1);
            word = (word << 6) | u32::from(digit);
            digits += 1;
        }
        word <<= 6 * (4 - digits);
        self.ready = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
        self.from = 0;
        self.to = [0, 0, 1, 2, 3][digits];
        Ok(self.to > 0)
    }
}

impl<R: BufRead> Read for Base64<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            if self.from == self.to && !self.refill()? {
                break;
            }
            let part = (self.to - self.from).min(into.len() - done);
            into[done..done + part].copy_from_slice(&self.ready[self.from..self.from + part]);
            self.from += part;
            done += part;
        }
        Ok(done)
    }
}

/// Width of the integers in front of VTK's binary data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderType {
    /// 4 or 8.
    pub(crate) bytes: usize,
    pub(crate) big_endian: bool,
}

impl HeaderType {
    pub(crate) fn read(self, from: &mut dyn Read) -> Result<u64, String> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..self.bytes];
        from.read_exact(bytes).map_err(|e| said(&e))?;
        let number = if self.bytes == 4 { Number::U32 } else { Number::U64 };
        let value = number.to_i64(bytes, self.big_endian);
        value.map(|v| v as u64).ok_or_else(|| "has a length that no file has".into())
    }
}

/// The message for a failed stream.
pub(crate) fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "ends before its data does".into(),
        _ => error.to_string(),
    }
}

/// Copies exactly `bytes` bytes into the log.
pub(crate) fn copy(from: &mut dyn Read, bytes: u64, log: &mut ByteLog) -> Result<(), String> {
    let mut buffer = [0; 8 << 10];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(buffer.len() as u64) as usize;
        from.read_exact(&mut buffer[..part]).map_err(|e| said(&e))?;
        log.append(&buffer[..part]).map_err(|e| e.to_string())?;
        left -= part as u64;
    }
    Ok(())
}

/// Most blocks, since their lengths are held in memory: 8 MiB, enough for arrays of 32 GiB at VTK's smallest usual
/// block.
const MAX_BLOCKS: u64 = 1 << 20;

/// Decodes VTK's zlib blocks. The stream begins with the number of blocks, and the bytes of a block and of a shorter
/// last one. The compressed bytes of each follow, then the blocks. They must hold `bytes` bytes in all; at most that
/// many are written.
pub(crate) fn zlib_blocks(
    from: &mut dyn Read,
    header: HeaderType,
    bytes: u64,
    log: &mut ByteLog,
) -> Result<(), String> {
    let blocks = header.read(from)?;
    let block_bytes = header.read(from)?;
    let last_bytes = header.read(from)?;
    let full = if last_bytes == 0 { blocks } else { blocks.saturating_sub(1) };
    let total = full.checked_mul(block_bytes).and_then(|total| total.checked_add(last_bytes));
    if total != Some(bytes) && !(blocks == 0 && bytes == 0) {
        return Err("has compressed data of another length than its array".into());
    }
    if blocks > MAX_BLOCKS {
        return Err(format!("has {blocks} compressed blocks, more than are read; save it without compression"));
    }
    // Grows with the bytes present, not with the claimed number.
    let mut compressed = Vec::new();
    for _ in 0..blocks {
        compressed.push(header.read(from)?);
    }
    for (i, bytes) in compressed.into_iter().enumerate() {
        let holds = if i as u64 == full { last_bytes } else { block_bytes };
        let mut limited = (&mut *from).take(bytes);
        copy(&mut flate2::read::ZlibDecoder::new(&mut limited), holds, log)?;
        io::copy(&mut limited, &mut io::sink()).map_err(|e| said(&e))?;
    }
    Ok(())
}

/// Reads `count` numbers written as text.
pub(crate) fn text_numbers(from: &mut Section, number: Number, count: u64, log: &mut ByteLog) -> Result<(), String> {
    let mut word = String::new();
    let mut encoded = Vec::with_capacity(8 << 10);
    for done in 0..count {
        word.clear();
        while let Some(byte) = from.byte().map_err(|e| said(&e))? {
            if byte.is_ascii_whitespace() {
                if word.is_empty() {
                    continue;
                }
                break;
            }
            word.push(char::from(byte));
            // The longest number that `{:?}` writes has 326 characters.
            if word.len() > 400 {
                return Err("has text where numbers should stand".into());
            }
        }
        if word.is_empty() {
            return Err(format!("ends after {done} of {count} numbers"));
        }
        number.parse_text(&word, &mut encoded).ok_or_else(|| {
            format!("has '{}' where a number should stand", word.chars().take(40).collect::<String>())
        })?;
        if encoded.len() > (8 << 10) - 8 {
            log.append(&encoded).map_err(|e| e.to_string())?;
            encoded.clear();
        }
    }
    log.append(&encoded).map_err(|e| e.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_with_padding_within() {
        let decode = |text: &str| {
            let mut out = Vec::new();
            Base64::new(text.as_bytes()).read_to_end(&mut out).unwrap();
            out
        };
        assert_eq!(decode("Zm9vYmFy"), b"foobar");
        assert_eq!(decode("Zm8=\n Zg==YmFy"), b"fofbar");
        assert_eq!(decode("Zm9v</DataArray>"), b"foo");
        assert_eq!(decode(""), b"");
        assert_eq!(decode("Zg"), b"f");
    }
}

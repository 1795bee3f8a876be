//! Walks a file section by section: records with their marks in Fortran files, plain runs of bytes in others.
//!
//! A Fortran record lies between two marks with its length. A record too long for its mark is split into sub-records. A
//! negative mark in front means that another sub-record follows; one behind means that another came before.

use super::bytes::{int32, ByteSource};
use super::options::Format;
use super::reading::Encoding;
use crate::byte_runs::{Spans, MAX_PIECES};
use std::io;

/// Why a reading does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// Progress of the reading. Errors show the reasons with the highest ranks.
    pub rank: u32,
    /// The reason in words.
    pub text: String,
    /// The tested encoding.
    pub encoding: Encoding,
}

/// Why a check stopped.
#[derive(Debug)]
pub enum Stop {
    /// The reading does not hold.
    Why(Why),
    /// The file cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Walks the sections of a file: records in Fortran, plain runs of bytes in a binary file.
pub(super) struct SectionWalk<'a> {
    pub source: &'a dyn ByteSource,
    pub encoding: Encoding,
    /// Length of the file.
    pub size: u64,
    /// The next byte.
    pub pos: u64,
    /// Measure of the data that fit so far.
    pub rank: u32,
}

impl<'a> SectionWalk<'a> {
    pub fn new(source: &'a dyn ByteSource, encoding: Encoding) -> Self {
        Self { source, encoding, size: source.size(), pos: 0, rank: 0 }
    }

    /// Ends the reading with this reason.
    pub fn stop(&self, text: String) -> Stop {
        Stop::Why(Why { rank: self.rank, text, encoding: self.encoding })
    }

    /// The record mark at `pos`, or `None` if the file ends before it.
    fn mark(&self, pos: u64) -> io::Result<Option<i64>> {
        let width = self.encoding.mark;
        if pos.checked_add(width).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = [0_u8; 8];
        let big = self.encoding.big();
        Ok(Some(if width == 8 {
            self.source.read_exact_at(pos, &mut bytes)?;
            if big {
                i64::from_be_bytes(bytes)
            } else {
                i64::from_le_bytes(bytes)
            }
        } else {
            let mut four = [0_u8; 4];
            self.source.read_exact_at(pos, &mut four)?;
            i64::from(int32(four, big))
        }))
    }

    /// Consumes the next `len` bytes of content, named by `what`, and appends their place to `spans`.
    pub fn section(&mut self, len: u64, what: &dyn Fn() -> String, spans: &mut Spans) -> Result<(), Stop> {
        if self.encoding.format != Format::Fortran {
            let end = self.pos.saturating_add(len);
            if end > self.size {
                return Err(self.stop(format!(
                    "{} needs bytes {} to {end}, but the file has {} bytes (truncated?)",
                    what(),
                    self.pos,
                    self.size
                )));
            }
            if !spans.push(self.pos, len) {
                return Err(self.stop(format!("{} is in more than {MAX_PIECES} pieces", what())));
            }
            self.pos = end;
            return Ok(());
        }
        let width = self.encoding.mark;
        let mut got = 0_u64;
        for piece in 0.. {
            let ends = |walk: &Self| {
                walk.stop(format!(
                    "the record of {} at byte {} needs {len} bytes, but the file has {} bytes (truncated?)",
                    what(),
                    walk.pos,
                    walk.size
                ))
            };
            if piece > MAX_PIECES {
                return Err(self.stop(format!("{} is in more than {MAX_PIECES} sub-records", what())));
            }
            let Some(lead) = self.mark(self.pos)? else { return Err(ends(self)) };
            let wants = len - got;
            // A negative mark means that the record continues in another sub-record. Some writers use unsigned marks
            // (unsplit records of 2 to 4 GiB); the mark behind distinguishes them.
            let unsigned = width == 4 && piece == 0 && wants > 0x7fff_ffff && lead == (wants as i64) - (1 << 32);
            let take = if unsigned { wants } else { lead.unsigned_abs() };
            let more = lead < 0 && !unsigned;
            if take > wants || (!more && take != wants) || (more && width == 8) {
                return Err(self.stop(format!(
                    "the record at byte {} has {take} bytes, but {} needs {wants}",
                    self.pos,
                    what()
                )));
            }
            let start = self.pos + width;
            let trail = match start.checked_add(take) {
                Some(end) => self.mark(end)?,
                None => None,
            };
            let Some(trail) = trail else {
                // The length in front is right, so this reading is probable.
                self.rank += 8;
                return Err(ends(self));
            };
            let end = start + take;
            if trail != lead && trail.unsigned_abs() != take {
                self.rank += 8;
                return Err(self.stop(format!(
                    "the record of {} at byte {} starts with the length {lead} but ends with {trail}",
                    what(),
                    self.pos
                )));
            }
            if !spans.push(start, take) {
                return Err(self.stop(format!("{} is in more than {MAX_PIECES} pieces", what())));
            }
            self.pos = end + width;
            got += take;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Reads integers of a section, from number `from` on.
    pub fn integers(&self, spans: &Spans, from: u64, out: &mut [i32]) -> io::Result<()> {
        let mut bytes = vec![0_u8; out.len() * 4];
        read_spans(self.source, spans, from * 4, &mut bytes)?;
        for (n, four) in bytes.chunks_exact(4).enumerate() {
            out[n] = int32([four[0], four[1], four[2], four[3]], self.encoding.big());
        }
        Ok(())
    }
}

/// Fills `out` from byte `from` of a payload.
pub(super) fn read_spans(source: &dyn ByteSource, spans: &Spans, from: u64, out: &mut [u8]) -> io::Result<()> {
    let mut at = 0_usize;
    let mut failed = None;
    spans.runs(from, out.len() as u64, &mut |run| {
        let end = at + run.len as usize;
        if failed.is_none() {
            failed = source.read_exact_at(run.offset, &mut out[at..end]).err();
        }
        at = end;
    });
    match failed {
        Some(e) => Err(e),
        None if at < out.len() => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Ok(()),
    }
}

//! The place of each line of a spool and the reasons of its end: sixteen bytes a line.

use super::new_file::anonymous;
use super::{OutputError, Reason};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of an entry: place of the line or of its last piece (8), points (4), the two reasons (2), state (1), padding
/// (1).
pub(super) const ENTRY_BYTES: usize = 16;

/// How complete a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LineCompleteness {
    Nothing = 0,
    /// Complete, with adjacent arrays.
    Whole = 1,
    /// Some pieces; more will come.
    Growing = 2,
    /// All its pieces.
    Pieces = 3,
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineEntry {
    /// For a whole line the begin of its arrays, else the place of its last piece's head.
    pub(super) offset: u64,
    pub(super) points: u32,
    pub(super) reason: Reason,
    pub(super) reason_backward: Reason,
    pub(super) state: LineCompleteness,
}

impl LineEntry {
    fn of(bytes: [u8; ENTRY_BYTES]) -> Self {
        let (offset, rest) = bytes.split_at(8);
        let reason = |code| Reason::from_code(code).unwrap_or(Reason::Failed);
        Self {
            offset: offset.try_into().map_or(0, u64::from_le_bytes),
            points: rest[..4].try_into().map_or(0, u32::from_le_bytes),
            reason: reason(bytes[12]),
            reason_backward: reason(bytes[13]),
            state: match bytes[14] {
                1 => LineCompleteness::Whole,
                2 => LineCompleteness::Growing,
                3 => LineCompleteness::Pieces,
                _ => LineCompleteness::Nothing,
            },
        }
    }

    fn bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.points.to_le_bytes());
        bytes[12..15].copy_from_slice(&[self.reason.code(), self.reason_backward.code(), self.state as u8]);
        bytes
    }

    /// Points of a complete line, else 0.
    pub(super) fn complete_points(self) -> u64 {
        match self.state {
            LineCompleteness::Whole | LineCompleteness::Pieces => self.points.into(),
            LineCompleteness::Nothing | LineCompleteness::Growing => 0,
        }
    }
}

/// The entries, in memory or, if they exceed their share of the budget, in a sparse file.
pub(super) struct LineIndex {
    directory: PathBuf,
    entries: Entries,
}

enum Entries {
    Memory(Vec<[u8; ENTRY_BYTES]>),
    File(File),
}

impl LineIndex {
    /// An index without entries, in memory that the caller has charged.
    pub(super) fn in_memory(directory: &Path, lines: usize) -> Self {
        Self { directory: directory.to_path_buf(), entries: Entries::Memory(vec![[0; ENTRY_BYTES]; lines]) }
    }

    /// An index without entries in a file of `directory`.
    pub(super) fn in_file(directory: &Path) -> Result<Self, OutputError> {
        let file = anonymous(directory).map_err(|e| OutputError::spill(directory, "make a temporary file in", e))?;
        Ok(Self { directory: directory.to_path_buf(), entries: Entries::File(file) })
    }

    /// Bytes of the entries in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.entries {
            Entries::Memory(entries) => entries.len() * ENTRY_BYTES,
            Entries::File(_) => 0,
        }
    }

    /// Moves the entries into a file.
    pub(super) fn leave_memory(&mut self) -> Result<(), OutputError> {
        if let Entries::Memory(entries) = &self.entries {
            let file = anonymous(&self.directory).and_then(|f| f.write_all_at(entries.as_flattened(), 0).map(|()| f));
            self.entries = Entries::File(
                file.map_err(|e| OutputError::spill(&self.directory, "write results to a temporary file in", e))?,
            );
        }
        Ok(())
    }

    pub(super) fn get(&self, line: u64) -> Result<LineEntry, OutputError> {
        let mut bytes = [0; ENTRY_BYTES];
        match &self.entries {
            Entries::Memory(entries) => bytes = entries[line as usize],
            Entries::File(file) => {
                // The file ends behind the last written entry: entries beyond were never written.
                let mut read = 0;
                while read < ENTRY_BYTES {
                    let part = file.read_at(&mut bytes[read..], line * ENTRY_BYTES as u64 + read as u64);
                    match part {
                        Ok(0) => break,
                        Ok(part) => read += part,
                        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(OutputError::spill(&self.directory, "read back results from", e)),
                    }
                }
            }
        }
        Ok(LineEntry::of(bytes))
    }

    pub(super) fn set(&mut self, line: u64, place: LineEntry) -> Result<(), OutputError> {
        match &mut self.entries {
            Entries::Memory(entries) => entries[line as usize] = place.bytes(),
            Entries::File(file) => file
                .write_all_at(&place.bytes(), line * ENTRY_BYTES as u64)
                .map_err(|e| OutputError::spill(&self.directory, "write results to a temporary file in", e))?,
        }
        Ok(())
    }
}

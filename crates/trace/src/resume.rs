//! The state of particles at the end of a run. Particles continue from it when the dataset has more steps. The lines of
//! both runs together are then those of one run, bit for bit.
//!
//! # Theory
//! Particles' steps end at the times of the series. So a run that ends at one of them makes no step that a longer run
//! would not. The state of a particle is its line so far, its position and cell, and the step size of the error
//! control. It also has the number of steps, the length, and the reason of its end. Particles that only ran out of time
//! continue. Particles released at the very end are released again: a longer run looks for them between other steps.
//!
//! # The file
//! All numbers are little-endian.
//!
//! | part | content |
//! |---|---|
//! | magic | `FFSTATE2` |
//! | length | of the document |
//! | document | JSON: the identity of data and options |
//! | index | 16 bytes a seed: position, length and crc32c of its state |
//! | states | in the order of the seeds |
//! | checksum | crc32c of document and index |
//!
//! The identity is compared before anything is read. The file gets its name when it is complete and the run is done.
//! Until then an earlier file keeps the name, and stays open. So a run may continue from a state and save its own under
//! the same name. If a line met a failed page, no state is saved: the line would have failed for good.

use crate::admission::SeedRule;
use crate::identity;
use crate::{PathSpec, TraceSpec};
use field::dataset::Dataset;
use field::error::FieldError;
use kernels::pathline::PathOptions;
use kernels::unsteady::Series;
use output::{NewFile, OutputError};
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"FFSTATE2";

/// Bytes of an entry of the index: position (8), length (4), checksum (4).
const ENTRY: u64 = 16;

/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;

/// Bytes of the longest document: times, names and digests of a series of a million steps.
const LONGEST_DOCUMENT: u64 = 256 << 20;

/// Stores states in any order until all are there.
pub(crate) struct StateWriter {
    file: NewFile,
    states: File,
    index: File,
    seeds: u64,
    end: u64,
}

impl StateWriter {
    /// A file at `path` for `seeds`. Temporary files lie in `directory`.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot be made.
    pub(crate) fn create(path: &Path, directory: &Path, seeds: u64) -> Result<Self, OutputError> {
        let file = NewFile::create(path)?;
        let spill = |e| OutputError::spill(directory, "make a temporary file in", e);
        let states = output::anonymous(directory).map_err(spill)?;
        let index = output::anonymous(directory).map_err(spill)?;
        Ok(Self { file, states, index, seeds, end: 0 })
    }

    pub(crate) fn add(&mut self, seed: u64, state: &[u8]) -> Result<(), OutputError> {
        let failed = |e| OutputError::io(self.file.path(), "write", e);
        let length = u32::try_from(state.len())
            .map_err(|_| OutputError::Line { seed, reason: "its state is longer than a state can be".into() })?;
        self.states.write_all_at(state, self.end).map_err(failed)?;
        let mut entry = [0; ENTRY as usize];
        entry[..8].copy_from_slice(&self.end.to_le_bytes());
        entry[8..12].copy_from_slice(&length.to_le_bytes());
        entry[12..].copy_from_slice(&crc32c::crc32c(state).to_le_bytes());
        self.index.write_all_at(&entry, seed * ENTRY).map_err(failed)?;
        self.end += state.len() as u64;
        Ok(())
    }

    /// Writes the states in order, and gives the file its name.
    pub(crate) fn finish(self, document: &Value) -> Result<(), OutputError> {
        let path = self.file.path().to_path_buf();
        let failed = |e| OutputError::io(&path, "write", e);
        let to = self.file.file().clone();
        let text = document.to_string();
        let mut crc = crc32c::crc32c(text.as_bytes());
        to.write_all_at(MAGIC, 0).map_err(failed)?;
        to.write_all_at(&(text.len() as u64).to_le_bytes(), 8).map_err(failed)?;
        to.write_all_at(text.as_bytes(), 16).map_err(failed)?;
        let index_at = 16 + text.len() as u64;
        let mut at = index_at + self.seeds * ENTRY;
        let mut piece = vec![0; PIECE];
        for seed in 0..self.seeds {
            let mut entry = [0; ENTRY as usize];
            self.index.read_exact_at(&mut entry, seed * ENTRY).map_err(failed)?;
            let (mut from, mut left) = (u64_of(&entry, 0), u64::from(u32_of(&entry, 8)));
            entry[..8].copy_from_slice(&at.to_le_bytes());
            to.write_all_at(&entry, index_at + seed * ENTRY).map_err(failed)?;
            crc = crc32c::crc32c_append(crc, &entry);
            while left > 0 {
                let part = &mut piece[..left.min(PIECE as u64) as usize];
                self.states.read_exact_at(part, from).map_err(failed)?;
                to.write_all_at(part, at).map_err(failed)?;
                from += part.len() as u64;
                at += part.len() as u64;
                left -= part.len() as u64;
            }
        }
        to.write_all_at(&crc.to_le_bytes(), at).map_err(failed)?;
        self.file.commit()?;
        Ok(())
    }
}

/// A file of saved states.
pub(crate) struct StateReader {
    path: PathBuf,
    file: File,
    /// The identity of data and options.
    pub document: Value,
    pub seeds: u64,
    index_at: u64,
    /// Position of the last checksum.
    end: u64,
    /// Bytes of the longest state.
    pub longest: u64,
}

impl StateReader {
    /// Opens a file and checks all of it except the states, which are checked when they are read.
    ///
    /// # Errors
    /// [`FieldError`] for a file that is missing, unreadable, of another kind, or damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, FieldError> {
        let broken = |what: &str| FieldError::Usage(format!("{}: {what}", path.display()));
        let failed = |e| FieldError::io(path, e);
        let file = File::open(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => FieldError::format(
                path,
                "there is no such file, and so no state to go on from; name one that --save-state wrote, or trace from the beginning, \
                 without --resume",
            ),
            _ => failed(e),
        })?;
        let about = file.metadata().map_err(failed)?;
        let size = about.len();
        let damaged = || broken("the state is damaged or cut off; trace from the beginning");
        let mut head = [0; 16];
        if !about.is_file() || size < 20 || file.read_exact_at(&mut head, 0).is_err() || &head[..8] != MAGIC {
            return Err(broken("this is no state of particles that --save-state wrote"));
        }
        let length = u64_of(&head, 8);
        if length > LONGEST_DOCUMENT || length > size - 20 {
            return Err(damaged());
        }
        let mut text = vec![0; length as usize];
        file.read_exact_at(&mut text, 16).map_err(failed)?;
        let document: Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
        let seeds = document["seeds"]["lines"].as_u64().ok_or_else(damaged)?;
        let (index_at, end) = (16 + length, size - 4);
        if seeds > (end - index_at) / ENTRY {
            return Err(damaged());
        }
        let mut crc = crc32c::crc32c(&text);
        let mut reader = Self { path: path.to_path_buf(), file, document, seeds, index_at, end, longest: 0 };
        let mut next = index_at + seeds * ENTRY;
        let mut piece = vec![0; PIECE];
        let mut seed = 0;
        while seed < seeds {
            let count = (seeds - seed).min(PIECE as u64 / ENTRY);
            let part = &mut piece[..(count * ENTRY) as usize];
            reader.file.read_exact_at(part, index_at + seed * ENTRY).map_err(failed)?;
            crc = crc32c::crc32c_append(crc, part);
            for entry in part.chunks_exact(ENTRY as usize) {
                let length = u64::from(u32_of(entry, 8));
                // Contiguous, without gaps.
                if u64_of(entry, 0) != next || length > end - next {
                    return Err(damaged());
                }
                next += length;
                reader.longest = reader.longest.max(length);
            }
            seed += count;
        }
        let mut last = [0; 4];
        reader.file.read_exact_at(&mut last, end).map_err(failed)?;
        if next != end || u32::from_le_bytes(last) != crc {
            return Err(damaged());
        }
        Ok(reader)
    }

    /// The state of a seed's line.
    ///
    /// # Errors
    /// [`FieldError`] if it cannot be read, or has changed.
    pub(crate) fn state(&self, seed: u64) -> Result<Vec<u8>, FieldError> {
        let failed = |e| FieldError::io(&self.path, e);
        if seed >= self.seeds {
            return Err(self.damaged(seed));
        }
        let mut entry = [0; ENTRY as usize];
        self.file.read_exact_at(&mut entry, self.index_at + seed * ENTRY).map_err(failed)?;
        let (at, length) = (u64_of(&entry, 0), u64::from(u32_of(&entry, 8)));
        // The file may have been overwritten since it was opened.
        if at.checked_add(length).is_none_or(|end| end > self.end) {
            return Err(self.damaged(seed));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, at).map_err(failed)?;
        if crc32c::crc32c(&bytes) != u32_of(&entry, 12) {
            return Err(self.damaged(seed));
        }
        Ok(bytes)
    }

    /// The error for a changed state.
    pub(crate) fn damaged(&self, seed: u64) -> FieldError {
        FieldError::Usage(format!(
            "{}: the state of seed {seed} is damaged; trace from the beginning",
            self.path.display()
        ))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The state from which a run continues, and the state that it saves.
#[derive(Default)]
pub(crate) struct ResumeState {
    reader: Option<StateReader>,
    /// Path and identity of the state to save.
    save: Option<(PathBuf, Value)>,
}

impl ResumeState {
    /// For a run of particles.
    ///
    /// # Errors
    /// [`FieldError`] for a state of another run, or an end from which particles cannot continue.
    pub(crate) fn of(
        session: &Session,
        dataset: &Dataset,
        spec: &TraceSpec,
        path: &PathSpec,
        (series, options): (&Series, &PathOptions),
        seeds: &SeedRule<'_>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        let over = &spec.over;
        if over.save_state.is_some() {
            identity::check_end(series, options)?;
        }
        let document = identity::document(session, dataset, spec, path, (series, options), seeds, watch)?;
        let reader = over.resume.as_deref().map(StateReader::open).transpose()?;
        if let Some(reader) = &reader {
            identity::check(reader.path(), &reader.document, &document)?;
        }
        Ok(Self { reader, save: over.save_state.clone().map(|path| (path, document)) })
    }

    /// The states from which lines continue.
    pub(crate) fn reader(&self) -> Option<&StateReader> {
        self.reader.as_ref()
    }

    /// Bytes of the longest of these.
    pub(crate) fn longest(&self) -> u64 {
        self.reader.as_ref().map_or(0, |r| r.longest)
    }

    /// The writer for `seeds` states, if they are saved. It is made before the run, so that a path that cannot be
    /// written is an error at once.
    ///
    /// # Errors
    /// [`FieldError`] if it cannot be made.
    pub(crate) fn writer(&self, directory: &Path, seeds: u64) -> Result<Option<StateWriter>, FieldError> {
        let make = |(path, _): &(PathBuf, Value)| StateWriter::create(path, directory, seeds);
        self.save.as_ref().map(make).transpose().map_err(FieldError::from)
    }

    /// Gives the file its name, after all states are stored.
    ///
    /// # Errors
    /// [`FieldError`] if it cannot be written.
    pub(crate) fn finish(&self, states: StateWriter) -> Result<(), FieldError> {
        let Some((_, document)) = &self.save else { return Ok(()) };
        states.finish(document).map_err(FieldError::from)
    }
}

fn u64_of(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn u32_of(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use testing::{mutations, Lcg, TestDir};

    fn kept(dir: &TestDir, order: &[u64]) -> Vec<u8> {
        let path = dir.path("a.state");
        // The first time there is none.
        let _ = std::fs::remove_file(&path);
        let mut writer = StateWriter::create(&path, dir.at(), order.len() as u64).unwrap();
        for seed in order {
            writer.add(*seed, &state(*seed)).unwrap();
        }
        assert!(!path.exists());
        writer.finish(&json!({"seeds": {"lines": order.len()}, "times": [0.1, 0.2]})).unwrap();
        std::fs::read(path).unwrap()
    }

    fn state(seed: u64) -> Vec<u8> {
        let mut random = Lcg(seed);
        (0..if seed == 3 { 200_000 } else { random.below(99) }).map(|_| random.next() as u8).collect()
    }

    #[test]
    fn states_come_back_whatever_their_order() {
        let dir = TestDir::new("state");
        let bytes = kept(&dir, &[0, 1, 2, 3, 4, 5]);
        assert_eq!(bytes, kept(&dir, &[5, 3, 1, 0, 4, 2]));
        let reader = StateReader::open(&dir.path("a.state")).unwrap();
        assert_eq!((reader.seeds, reader.longest), (6, 200_000));
        for seed in 0..6 {
            assert_eq!(reader.state(seed).unwrap(), state(seed));
        }
        assert_eq!(dir.names(), ["a.state"]);
    }

    #[test]
    fn damaged_states_are_refused() {
        let dir = TestDir::new("state-damaged");
        let bytes = kept(&dir, &[2, 1, 0]);
        let path = dir.path("b.state");
        let mut refused = 0;
        mutations(&bytes, 600, |damaged| {
            std::fs::write(&path, damaged).unwrap();
            let all =
                StateReader::open(&path).and_then(|r| (0..r.seeds).map(|n| r.state(n)).collect::<Result<Vec<_>, _>>());
            match all {
                Ok(all) => assert!(all.iter().enumerate().all(|(n, s)| *s == state(n as u64)), "damage went unseen"),
                Err(_) => refused += 1,
            }
        });
        assert!(refused > 500, "{refused}");
    }
}

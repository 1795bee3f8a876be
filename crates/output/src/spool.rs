//! Finished lines, added in any order and read in seed order.

use super::columns::{ColumnWriter, RESERVED};
use super::gather::{gather, GatherJob, Head};
use super::index::{LineCompleteness, LineEntry, LineIndex, ENTRY_BYTES};
use super::line::{FinishedLine, LineLayout};
use super::log::{ByteLog, HeldMemory};
use super::log_window::LogWindow;
use super::spooled_line::SpooledLine;
use super::totals::{LineStride, Totals};
use super::{
    array_names, FieldSpec, FieldType, FieldValues, LineArrays, LineColumn, MemoryAccount, OutputError, OutputFile,
    Reason,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Options of a spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// Lines of the run, numbered `0..seeds`: one a seed, or as [`super::Moments`] says.
    pub seeds: u64,
    /// The layout of all lines.
    pub layout: LineLayout,
    /// Most bytes of memory (an eighth of the ledger by design); the rest is on disk.
    pub budget_bytes: usize,
    /// The directory of the anonymous file. See [`SpoolOptions::spill_directory`].
    pub directory: PathBuf,
}

impl SpoolOptions {
    /// The directory of temporary files: `$TMPDIR` if it is set. Otherwise beside the output, which must have room for
    /// the result anyway. Otherwise `/var/tmp`, which unlike `/tmp` is never in memory.
    pub fn spill_directory(output: Option<&OutputFile>) -> PathBuf {
        if let Some(chosen) = std::env::var_os("TMPDIR").filter(|value| !value.is_empty()) {
            return PathBuf::from(chosen);
        }
        if let Some(output) = output {
            return output.directory();
        }
        let kept = PathBuf::from("/var/tmp");
        if kept.is_dir() {
            kept
        } else {
            std::env::temp_dir()
        }
    }
}

/// Counts of a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolStats {
    /// Stored lines, with those without points.
    pub lines: u64,
    /// Their points.
    pub points: u64,
    /// Bytes in the temporary file.
    pub spilled_bytes: u64,
    /// Bytes of memory held.
    pub held_bytes: u64,
}

/// Stores finished lines in bounded memory and writes them in seed order.
pub struct LineSpool {
    options: SpoolOptions,
    names: Vec<String>,
    index: LineIndex,
    log: ByteLog,
    /// Whether lines came in pieces.
    in_pieces: bool,
    /// Whether lines are being joined, or were: no further line is accepted. False after a failure of that, or of
    /// storing a line: none can be read.
    gathered: Option<bool>,
    /// The error of storing a line.
    failure: Option<OutputError>,
    /// Whether the lines in the log are adjacent and in order.
    in_order: bool,
    /// The index in memory and the buffers of the final writing. They are charged before the run, so that the end
    /// cannot fail for lack of memory.
    reserved: HeldMemory,
    buffer_bytes: usize,
    /// A buffer for encoding a line, a piece at a time.
    scratch: Vec<u8>,
    /// Sums over the stored lines, from which the writers plan.
    pub(crate) totals: Totals,
}

impl LineSpool {
    /// An empty spool.
    ///
    /// # Errors
    /// [`OutputError::Layout`] for invalid fields. [`OutputError::Memory`] when the budget or the account does not hold
    /// the buffers (about 4 KiB an array).
    pub fn new(options: SpoolOptions, charge: Box<dyn MemoryAccount>) -> Result<Self, OutputError> {
        let names = array_names(&options.layout.fields, &RESERVED)?;
        let buffers = buffers(&options);
        let buffer_bytes = buffer_bytes(&options);
        let mut reserved = HeldMemory::new(charge);
        let least = (buffers + 1) * buffer_bytes + ByteLog::chunk_bytes(options.budget_bytes);
        if least > options.budget_bytes || !reserved.grow((buffers + 1) * buffer_bytes) {
            return Err(OutputError::Memory { needs: least as u64 });
        }
        let index_bytes = usize::try_from(options.seeds).ok().and_then(|n| n.checked_mul(ENTRY_BYTES));
        let index = match index_bytes {
            Some(bytes) if bytes <= options.budget_bytes / 4 && reserved.grow(bytes) => {
                LineIndex::in_memory(&options.directory, bytes / ENTRY_BYTES)
            }
            _ => LineIndex::in_file(&options.directory)?,
        };
        let for_log = options.budget_bytes - reserved.bytes();
        let log = ByteLog::new(&options.directory, for_log, reserved.sibling())?;
        let scratch = Vec::with_capacity(buffer_bytes);
        let totals = Totals::default();
        Ok(Self {
            options,
            names,
            index,
            log,
            in_pieces: false,
            gathered: None,
            failure: None,
            in_order: false,
            reserved,
            buffer_bytes,
            scratch,
            totals,
        })
    }

    /// Stores a complete line. Earlier pieces of it come from before a restart and are dropped. Lines come in any
    /// order, each seed's once.
    ///
    /// # Errors
    /// [`OutputError::Line`] for a line that does not fit the layout or comes twice. Other errors when it must be
    /// stored on disk and cannot be.
    pub fn add(&mut self, line: &FinishedLine) -> Result<(), OutputError> {
        self.end(line, false)
    }

    /// Stores the last piece of a line, behind the earlier ones.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn finish(&mut self, line: &FinishedLine) -> Result<(), OutputError> {
        self.end(line, true)
    }

    fn end(&mut self, line: &FinishedLine, follows: bool) -> Result<(), OutputError> {
        let points = self.keep(line, follows, false)?;
        let reason_backward = if self.options.layout.both { line.reason_backward } else { Reason::Unfinished };
        self.totals.add(&SpooledLine { pieces: Vec::new(), points, reason: line.reason, reason_backward });
        Ok(())
    }

    /// Stores a piece of a line that continues; its reasons are ignored. Pieces of other lines may come between. The
    /// `first` piece of a restarted line replaces all before it.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn extend(&mut self, piece: &FinishedLine, first: bool) -> Result<(), OutputError> {
        self.keep(piece, !first, true).map(|_| ())
    }

    /// Stores points of a line; they may follow others, and the line may continue. Returns the number of its points
    /// now. After a failure to store a line it fails with the same error: of several threads any may report first.
    fn keep(&mut self, line: &FinishedLine, follows: bool, goes_on: bool) -> Result<u64, OutputError> {
        self.check(line)?;
        if let Some(cause) = &self.failure {
            return Err(cause.clone());
        }
        let kept = self.append_line(line, follows, goes_on);
        if let (Err(e), Some(false)) = (&kept, self.gathered) {
            self.failure.get_or_insert_with(|| e.clone());
        }
        kept
    }

    fn append_line(&mut self, line: &FinishedLine, follows: bool, goes_on: bool) -> Result<u64, OutputError> {
        let wrong = |reason: &str| Err(OutputError::Line { seed: line.seed, reason: reason.into() });
        match self.gathered {
            None => {}
            Some(true) => return wrong("it came when all were written"),
            Some(false) => return wrong("it came after lines that could not be put in order"),
        }
        let there = match self.index.get(line.seed)? {
            place if place.state == LineCompleteness::Growing && follows => Some(place),
            place if matches!(place.state, LineCompleteness::Nothing | LineCompleteness::Growing) => None,
            _ => return wrong("it came twice"),
        };
        let before = there.map_or(0, |place| u64::from(place.points));
        let Ok(points) = u32::try_from(before + line.points.len() as u64) else {
            return wrong("it has more points than a line can have");
        };
        let before = there.map_or(Head::FIRST, |place| place.offset);
        let head = Head { before, line: line.seed, points: line.points.len() as u32 };
        // Until all of it is there: the log is read from its beginning to its end, and half a piece would be in the
        // way.
        self.gathered = Some(false);
        let at = self.log.append(&head.to_bytes())?;
        append(&mut self.log, &mut self.scratch, line.points.as_flattened(), |v| v.to_le_bytes())?;
        append(&mut self.log, &mut self.scratch, line.time, |v| v.to_le_bytes())?;
        append(&mut self.log, &mut self.scratch, line.zone, |v| v.to_le_bytes())?;
        for field in line.fields {
            match field {
                FieldValues::F32(values) => append(&mut self.log, &mut self.scratch, values, |v| v.to_le_bytes())?,
                FieldValues::F64(values) => append(&mut self.log, &mut self.scratch, values, |v| v.to_le_bytes())?,
            }
        }
        let reason_backward = if self.options.layout.both { line.reason_backward } else { Reason::Unfinished };
        let (state, offset) = match (goes_on, there) {
            (true, _) => (LineCompleteness::Growing, at),
            (false, Some(_)) => (LineCompleteness::Pieces, at),
            (false, None) => (LineCompleteness::Whole, at + Head::BYTES as u64),
        };
        (self.gathered, self.in_order) = (None, false);
        self.in_pieces |= state != LineCompleteness::Whole;
        self.index.set(line.seed, LineEntry { offset, points, reason: line.reason, reason_backward, state })?;
        Ok(u64::from(points))
    }

    fn check(&self, line: &FinishedLine) -> Result<(), OutputError> {
        let wrong = |reason: String| Err(OutputError::Line { seed: line.seed, reason });
        // The byte offset of an index entry must not overflow either.
        if line.seed >= self.options.seeds || line.seed > u64::MAX / (2 * ENTRY_BYTES as u64) {
            return wrong(format!("there are only {} seeds", self.options.seeds));
        }
        let n = line.points.len();
        if u32::try_from(n).is_err() {
            return wrong(format!("it has {n} points, more than a line can have"));
        }
        if line.time.len() != n || line.zone.len() != n || line.fields.len() != self.options.layout.fields.len() {
            return wrong("its arrays do not have the same length".into());
        }
        for (spec, values) in self.options.layout.fields.iter().zip(line.fields) {
            let dtype = match values {
                FieldValues::F32(_) => FieldType::F32,
                FieldValues::F64(_) => FieldType::F64,
            };
            if values.len() != n * spec.components || dtype != spec.dtype {
                return wrong(format!("field '{}' is not {n} x {} of {:?}", spec.name, spec.components, spec.dtype));
            }
        }
        Ok(())
    }

    /// Changes the budget during a run; the excess is written to disk.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot.
    pub fn set_budget(&mut self, budget_bytes: usize) -> Result<(), OutputError> {
        self.options.budget_bytes = budget_bytes;
        let buffer = buffer_bytes(&self.options);
        if buffer < self.buffer_bytes {
            self.reserved.shrink((buffers(&self.options) + 1) * (self.buffer_bytes - buffer));
            self.buffer_bytes = buffer;
            self.scratch = Vec::with_capacity(buffer);
        }
        let bytes = self.index.memory_bytes();
        if bytes > budget_bytes / 4 {
            self.index.leave_memory()?;
            self.reserved.shrink(bytes);
        }
        self.log.set_budget(budget_bytes.saturating_sub(self.reserved.bytes()))
    }

    /// Its present counts.
    pub fn stats(&self) -> SpoolStats {
        SpoolStats {
            lines: self.totals.lines,
            points: self.totals.points,
            spilled_bytes: self.log.spilled_bytes(),
            held_bytes: (self.log.held_bytes() + self.reserved.bytes()) as u64,
        }
    }

    /// All lines in seed order, in memory of the caller that is not charged here.
    ///
    /// # Errors
    /// As [`LineSpool::write`].
    pub fn arrays(&mut self, partial: bool) -> Result<LineArrays, OutputError> {
        if !partial {
            self.check_complete()?;
        }
        self.gather(&mut || Ok(()))?;
        let mut arrays = LineArrays::with_capacity(self.options.seeds, self.totals.points, &self.options.layout)?;
        let mut window = LogWindow::new(self.buffer_bytes);
        for seed in 0..self.options.seeds {
            let entry = self.entry(seed)?.unwrap_or(SpooledLine::NONE);
            self.for_parts(&entry, &mut window, |part, bytes| {
                match part {
                    0 => arrays.points.extend(numbers(bytes, f64::from_le_bytes)),
                    1 => arrays.time.extend(numbers(bytes, f64::from_le_bytes)),
                    2 => arrays.zone.extend(numbers(bytes, i32::from_le_bytes)),
                    field => match &mut arrays.fields[field - 3].1 {
                        LineColumn::F32(values) => values.extend(numbers(bytes, f32::from_le_bytes)),
                        LineColumn::F64(values) => values.extend(numbers(bytes, f64::from_le_bytes)),
                    },
                }
                Ok(())
            })?;
            arrays.end_line(entry.points, entry.reason, entry.reason_backward);
        }
        Ok(arrays)
    }

    /// Refuses a spool with missing lines.
    pub(super) fn check_complete(&self) -> Result<(), OutputError> {
        if self.totals.lines == self.options.seeds {
            return Ok(());
        }
        let mut first = 0;
        while first < self.options.seeds && self.entry(first)?.is_some() {
            first += 1;
        }
        let missing = self.options.seeds - self.totals.lines;
        Err(OutputError::Incomplete { missing, seeds: self.options.seeds, first })
    }

    pub(crate) fn layout(&self) -> &LineLayout {
        &self.options.layout
    }

    pub(crate) fn seeds(&self) -> u64 {
        self.options.seeds
    }

    /// The array names of the fields.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn buffers_bytes(&self) -> usize {
        buffers(&self.options) * self.buffer_bytes
    }

    /// An account with the ledger for a writer's needs beside the buffers.
    pub(crate) fn account(&self) -> HeldMemory {
        self.reserved.sibling()
    }

    /// Bytes of one array's buffer.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Bytes a point of each part of a line: points, time, zone, fields.
    pub(crate) fn part_bytes(&self) -> Vec<u64> {
        let mut parts = vec![24, 8, 4];
        parts.extend(self.options.layout.fields.iter().map(FieldSpec::bytes));
        parts
    }

    /// The entry of a seed, if its line was stored.
    pub(crate) fn entry(&self, seed: u64) -> Result<Option<SpooledLine>, OutputError> {
        let LineEntry { offset, points, reason, reason_backward, state } = self.index.get(seed)?;
        let pieces = match state {
            LineCompleteness::Whole => vec![(offset, u64::from(points))],
            LineCompleteness::Pieces => self.pieces(offset)?,
            LineCompleteness::Nothing | LineCompleteness::Growing => return Ok(None),
        };
        Ok(Some(SpooledLine { pieces, points: points.into(), reason, reason_backward }))
    }

    /// The pieces of a line, from the place of its last.
    fn pieces(&self, mut at: u64) -> Result<Vec<(u64, u64)>, OutputError> {
        let mut pieces = Vec::new();
        while at != Head::FIRST {
            let mut head = [0; Head::BYTES];
            self.log.read_at(at, &mut head)?;
            let head = Head::of(head);
            pieces.push((at + Head::BYTES as u64, head.points.into()));
            at = head.before;
        }
        pieces.reverse();
        Ok(pieces)
    }

    /// Joins lines in pieces, if they are not in memory. `goes_on` is called now and then.
    pub(super) fn gather(&mut self, goes_on: &mut dyn FnMut() -> Result<(), OutputError>) -> Result<(), OutputError> {
        if let Some(cause) = &self.failure {
            return Err(cause.clone());
        }
        let all_there = self.gathered.replace(false);
        if all_there == Some(false) {
            let broken = std::io::Error::other("keeping or writing results was interrupted before");
            return Err(OutputError::spill(&self.options.directory, "read back results from", broken));
        }
        let (parts, writing) = (self.part_bytes(), self.buffers_bytes());
        let lent = if self.in_pieces && all_there.is_none() { self.log.lend()? } else { None };
        if let Some((file, bytes, memory)) = lent {
            let of = GatherJob {
                index: &mut self.index,
                lines: self.options.seeds,
                parts: &parts,
                memory_bytes: memory + writing,
                memory: Vec::new(),
                directory: &self.options.directory,
                goes_on,
            };
            let whole = gather(of, file, bytes)?;
            self.log.resume(Some(whole));
            self.in_order = true;
        }
        self.gathered = Some(true);
        Ok(())
    }

    /// Passes on a line's bytes, part after part, in pieces that fit the window and are whole numbers.
    fn for_parts(
        &self,
        entry: &SpooledLine,
        window: &mut LogWindow,
        mut take: impl FnMut(usize, &[u8]) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let parts = self.part_bytes();
        let point_bytes: u64 = parts.iter().sum();
        let mut before = 0;
        for (part, bytes) in parts.into_iter().enumerate() {
            for (offset, points) in &entry.pieces {
                let until = if self.in_order { u64::MAX } else { offset + points * point_bytes };
                let (mut at, mut left) = (offset + before * points, points * bytes);
                while left > 0 {
                    let piece = left.min(window.most()) as usize;
                    take(part, window.get(&self.log, at, piece, until)?)?;
                    at += piece as u64;
                    left -= piece as u64;
                }
            }
            before += bytes;
        }
        Ok(())
    }

    /// Reads one part of some of a line's points: `into` is `count * part_bytes[part]` long.
    pub(crate) fn read_part(
        &self,
        entry: &SpooledLine,
        part: usize,
        first: u64,
        into: &mut [u8],
    ) -> Result<(), OutputError> {
        let parts = self.part_bytes();
        let (before, bytes) = (parts[..part].iter().sum::<u64>(), parts[part]);
        let (mut skip, mut done) = (first, 0);
        for (offset, points) in &entry.pieces {
            let here = points.saturating_sub(skip);
            let wanted = (into.len() - done).min((here * bytes) as usize);
            if wanted > 0 {
                self.log.read_at(offset + before * points + skip * bytes, &mut into[done..done + wanted])?;
                done += wanted;
            }
            skip = skip.saturating_sub(*points);
        }
        Ok(())
    }

    /// Passes over the lines of a selection in order. It copies the parts of each to the columns of the same order
    /// beginning at column 0. `per_line` writes the rest, with the number of the line's first point.
    pub(crate) fn pass(
        &self,
        lines: LineStride,
        columns: &mut ColumnWriter,
        path: &Path,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
        mut per_line: impl FnMut(&mut ColumnWriter, u64, &SpooledLine, u64) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let mut window = LogWindow::new(self.buffer_bytes);
        let mut first_point = 0;
        for (n, seed) in lines.of(self.options.seeds).enumerate() {
            // Often enough for an immediate response to a key press, rarely enough to take no time.
            if n % 256 == 0 && watch(seed, self.options.seeds).is_break() {
                return Err(OutputError::Cancelled { path: path.to_path_buf() });
            }
            let entry = self.entry(seed)?.unwrap_or(SpooledLine::NONE);
            self.for_parts(&entry, &mut window, |part, bytes| columns.put(part, bytes))?;
            per_line(columns, seed, &entry, first_point)?;
            first_point += entry.points;
        }
        // Finished: too late to stop.
        let _ = watch(self.options.seeds, self.options.seeds);
        Ok(())
    }

    /// Sums over the lines of a selection.
    pub(crate) fn totals_of(&self, lines: LineStride) -> Result<Totals, OutputError> {
        if lines == LineStride::ALL {
            return Ok(self.totals);
        }
        let mut totals = Totals::default();
        for line in lines.of(self.options.seeds) {
            if let Some(entry) = self.entry(line)? {
                totals.add(&entry);
            }
        }
        Ok(totals)
    }
}

/// Four arrays of points, eight of lines, one more as the transfer buffer.
fn buffers(options: &SpoolOptions) -> usize {
    options.layout.fields.len() + 13
}

/// Bytes of each of them.
fn buffer_bytes(options: &SpoolOptions) -> usize {
    (options.budget_bytes / 8 / buffers(options)).clamp(4 << 10, 256 << 10)
}

/// Encodes numbers into the log through `scratch`, in pieces of its capacity.
fn append<T: Copy, const B: usize>(
    log: &mut ByteLog,
    scratch: &mut Vec<u8>,
    values: &[T],
    encode: impl Fn(T) -> [u8; B],
) -> Result<(), OutputError> {
    for piece in values.chunks((scratch.capacity() / B).max(1)) {
        scratch.clear();
        scratch.extend(piece.iter().flat_map(|value| encode(*value)));
        log.append(scratch)?;
    }
    Ok(())
}

/// The numbers in whole bytes of them.
pub(crate) fn numbers<T: 'static, const B: usize>(
    bytes: &[u8],
    decode: fn([u8; B]) -> T,
) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(B).map(move |chunk| {
        let mut word = [0; B];
        word.copy_from_slice(chunk);
        decode(word)
    })
}

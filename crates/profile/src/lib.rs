//! Logs of events: written during a run, exported, summarised for reports, and replayed with other settings.
//!
//! # Theory
//! A log is the pager's own ([`pager::log`]): typed records in blocks with checksums. It has every request, read, pin
//! and eviction, and every turn of a task. So the costs of a run, and of the same run with other settings, are computed
//! afterwards and not during the run. All passes over a log use bounded memory.
//!
//! A run always writes this form, which is the cheapest and is whole up to the end of a killed run. A name in `.json`
//! or `.parquet` selects another form, to which the log is converted at the end of the run, in place. All three forms
//! can be read.
//!
//! # Practice
//! [`RunLog`] writes the log of a run. [`Events`] reads any form and exports it. [`summarise`] makes the numbers of
//! reports. [`replay`] repeats the pages of a log under other limits, policies and page sizes, and [`model`] predicts
//! times for other numbers of readers and workers.

pub mod model;
mod parquet;
pub mod replay;
mod replay_options;
mod summary;

use field::error::FieldError;
use output::{directory_of, partial_file};
use pager::event::Pick;
use pager::log::{write_chrome, LogEnd};
use pager::{Event, EventLog, EventReader, Observer};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
pub use summary::summarise;

/// The form of a log.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As written.
    Log,
    /// A Chrome trace: JSON that Perfetto and `chrome://tracing` open.
    Chrome,
    /// An Apache Parquet table with a row an event.
    Parquet,
}

impl Form {
    /// The form for a file's name.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Self::Chrome,
            Some("parquet") => Self::Parquet,
            _ => Self::Log,
        }
    }
}

/// The log of a run in progress.
pub struct RunLog {
    /// Absolute: the working directory may change before the run ends.
    path: PathBuf,
    log: Arc<EventLog>,
    /// Whether it was ended, well or not. The rest of a log that could not be written must not count as complete at a
    /// second try.
    ended: AtomicBool,
}

impl RunLog {
    /// Creates the file. No other run can write its log there until [`Self::finish`].
    ///
    /// # Errors
    /// [`FieldError`] when it cannot be written, or another run writes there.
    pub fn create(path: &Path) -> Result<Self, FieldError> {
        match EventLog::create(path) {
            Ok(log) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                Ok(Self { path, log: Arc::new(log), ended: AtomicBool::new(false) })
            }
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => Err(FieldError::Output(format!(
                "{}: another run writes its events to this file; wait for it or name another file after --events",
                path.display()
            ))),
            Err(e) => Err(FieldError::output(
                format!("{}: --events cannot write here: {e}; name another file", path.display()),
                &e,
            )),
        }
    }

    /// For the pager.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.log.clone()
    }

    /// Adds a document: the settings of the run, or its results.
    pub fn note(&self, json: &Value) {
        self.log.note(json);
    }

    /// Writes the current block, so that the log can be read during the run.
    ///
    /// # Errors
    /// [`FieldError`] when it cannot be written.
    pub fn flush(&self) -> Result<(), FieldError> {
        self.log.flush().map_err(|e| FieldError::output(format!("{}: {e}", self.path.display()), &e))
    }

    /// Ends the log, and converts it to the form of its name. `watch` gets the progress of that. A second call does
    /// nothing.
    ///
    /// # Errors
    /// The reason why the log is incomplete: a part of a log must not pass for all of it. [`FieldError::Interrupted`]
    /// if `watch` returned false; the log is complete then.
    pub fn finish(&self, watch: &mut dyn FnMut(&str, f64, f64) -> bool) -> Result<(), FieldError> {
        let not_whole = |e: &dyn std::fmt::Display| {
            FieldError::Output(format!(
                "{}: the log of events is not whole: {e}; the run itself is done, run it again with --events elsewhere",
                self.path.display()
            ))
        };
        if self.ended.swap(true, SeqCst) {
            return Ok(());
        }
        let form = Form::of(&self.path);
        if form == Form::Log {
            return self.log.let_go().map_err(|e| not_whole(&e));
        }
        let closed = self.log.close().map_err(|e| FieldError::Output(e.to_string()));
        // The conversion continues after an interruption, as for an interrupted run: a file has the form of its name.
        let mut interrupted = false;
        let mut asking = |phase: &str, done: f64, all: f64| {
            interrupted |= !interrupted && !watch(phase, done, all);
            true
        };
        let exported = closed.and_then(|()| Events::open(&self.path)?.export(&self.path, form, &mut asking));
        // Only now: until the converted file has replaced it, the log is in the file. Its completeness was checked
        // before.
        let _whole = self.log.let_go();
        exported.map_err(|e| not_whole(&e))?;
        if interrupted {
            return Err(FieldError::Interrupted);
        }
        Ok(())
    }
}

/// A log that can be read repeatedly, in any form.
pub struct Events {
    path: PathBuf,
    inside: LogReader,
}

enum LogReader {
    /// The pager's own, or a Chrome trace.
    Rows(EventReader, Form),
    Parquet(parquet::EventTable),
}

impl Events {
    /// Opens a log.
    ///
    /// # Errors
    /// [`FieldError`] when it does not exist, cannot be read, or is no log.
    pub fn open(path: &Path) -> Result<Self, FieldError> {
        let mut first = [0; 8];
        let mut file = File::open(path).map_err(|e| FieldError::io(path, e))?;
        let got = std::io::Read::read(&mut file, &mut first).map_err(|e| FieldError::io(path, e))?;
        let inside = if first[..got].starts_with(b"PAR1") {
            LogReader::Parquet(parquet::EventTable::open(path)?)
        } else {
            let form = if first.starts_with(b"FFEVENTS") { Form::Log } else { Form::Chrome };
            LogReader::Rows(EventReader::open(path).map_err(|e| not_one(path, e))?, form)
        };
        Ok(Self { path: path.to_owned(), inside })
    }

    /// Its form.
    pub fn form(&self) -> Form {
        match &self.inside {
            LogReader::Rows(_, form) => *form,
            LogReader::Parquet(_) => Form::Parquet,
        }
    }

    /// The size of the log, in the unit of the progress of [`Self::each`].
    pub fn size(&self) -> u64 {
        match &self.inside {
            LogReader::Rows(reader, _) => reader.size(),
            LogReader::Parquet(table) => table.rows(),
        }
    }

    /// Passes on all events in their order: time in microseconds, thread, event, and progress. Ends at once if `tell`
    /// returns false.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn each(&self, tell: &mut dyn FnMut(u64, u32, &Event, u64) -> bool) -> Result<LogEnd, FieldError> {
        let (mut cut, mut odd) = (None, 0);
        let mut sound = |at_us: u64, thread: u32, event: &Event, read: u64| {
            if let Event::Cut { lost_bytes } = event {
                cut = Some(*lost_bytes);
                return true;
            }
            if !is_plausible(at_us, event) {
                odd += 1;
                return true;
            }
            tell(at_us, thread, event, read)
        };
        let mut ended = match &self.inside {
            LogReader::Rows(reader, _) => reader.each(&mut sound).map_err(|e| FieldError::io(&self.path, e))?,
            LogReader::Parquet(table) => table.each(&mut sound)?,
        };
        (ended.events, ended.unknown) = (ended.events - odd - u64::from(cut.is_some()), ended.unknown + odd);
        if let Some(lost_bytes) = cut {
            (ended.whole, ended.lost_bytes) = (false, ended.lost_bytes.saturating_add(lost_bytes));
        }
        Ok(ended)
    }

    /// [`Self::each`] with progress under `phase`.
    ///
    /// # Errors
    /// As [`Self::each`]; [`FieldError::Interrupted`] if `watch` returned false.
    pub fn each_watched(
        &self,
        phase: &str,
        watch: &mut dyn FnMut(&str, f64, f64) -> bool,
        tell: &mut dyn FnMut(u64, u32, &Event),
    ) -> Result<LogEnd, FieldError> {
        let (size, mut told, mut stopped) = (self.size() as f64, 0, false);
        let ended = self.each(&mut |at, thread, event, read| {
            if read != told {
                told = read;
                stopped = !watch(phase, read as f64, size);
            }
            tell(at, thread, event);
            !stopped
        })?;
        if stopped {
            return Err(FieldError::Interrupted);
        }
        Ok(ended)
    }

    /// Writes the log in another form. The file may be the log's own: it is replaced when the export is complete.
    ///
    /// # Errors
    /// When the log cannot be read or the file cannot be written; [`FieldError::Interrupted`].
    pub fn export(
        &self,
        to: &Path,
        form: Form,
        watch: &mut dyn FnMut(&str, f64, f64) -> bool,
    ) -> Result<LogEnd, FieldError> {
        // A link stays one.
        let place = std::fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
        let failed = |e| FieldError::output(format!("{}: {e}", to.display()), &e);
        let (temporary, lock) =
            partial_file::file(&directory_of(&place), place.file_name().unwrap_or_default()).map_err(failed)?;
        // A log locks its file itself.
        let _lock = (form != Form::Log).then_some(lock);
        let written = self.write(&temporary, form, watch).and_then(|ended| {
            std::fs::rename(&temporary, &place).map_err(|e| FieldError::io(to, e))?;
            Ok(ended)
        });
        if written.is_err() {
            // Its partial content is useless; the error has the reason.
            let _gone = std::fs::remove_file(&temporary);
        }
        written
    }

    fn write(
        &self,
        to: &Path,
        form: Form,
        watch: &mut dyn FnMut(&str, f64, f64) -> bool,
    ) -> Result<LogEnd, FieldError> {
        let file = File::create(to).map_err(|e| FieldError::output(format!("{}: {e}", to.display()), &e))?;
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::Interrupted => FieldError::Interrupted,
            _ => FieldError::output(format!("{}: {e}", to.display()), &e),
        };
        match (form, &self.inside) {
            (Form::Chrome, _) => {
                let mut out = BufWriter::with_capacity(1 << 20, file);
                let ended = write_chrome(
                    &mut |tell| self.each(tell),
                    &mut out,
                    &mut |read| watch("exporting", read as f64, self.size() as f64),
                    failed,
                )?;
                out.flush().map_err(failed)?;
                Ok(ended)
            }
            (Form::Parquet, _) => parquet::write(self, file, to, watch),
            (Form::Log, _) => {
                drop(file);
                let log = EventLog::create(to).map_err(failed)?;
                let mut last_us = 0;
                let ended = self.each_watched("exporting", watch, &mut |at, thread, event| {
                    last_us = at;
                    log.add(at, thread, event);
                })?;
                if !ended.whole {
                    log.add(last_us, 0, &Event::Cut { lost_bytes: ended.lost_bytes });
                }
                log.close().map_err(failed)?;
                Ok(ended)
            }
        }
    }
}

/// Bound of plausible numbers: events are sums over a run and are summed again, and no run reaches this.
const MOST: u64 = 1 << 44;

/// Whether an event's numbers are plausible. Without a checksum one damaged digit is enough to spoil sums.
fn is_plausible(at_us: u64, event: &Event) -> bool {
    struct NumberCheck(bool);
    impl pager::event::FieldSink for NumberCheck {
        fn number(&mut self, name: &'static str, value: u64) {
            // Places in a source, and names, can be any number.
            let free = matches!(name, "offset" | "token" | "read" | "count" | "group" | "frame");
            self.0 &= free || value <= MOST;
        }
        fn text(&mut self, _: &'static str, _: &str) {}
    }
    let mut within = NumberCheck(at_us <= MOST);
    event.put(&mut within);
    within.0
}

fn not_one(path: &Path, e: std::io::Error) -> FieldError {
    match e.kind() {
        std::io::ErrorKind::InvalidData => FieldError::format(path, e.to_string()),
        _ => FieldError::io(path, e),
    }
}

/// Fields by their names.
#[derive(Default)]
struct Named {
    numbers: Vec<(&'static str, u64)>,
    text: Option<Arc<str>>,
}

impl Pick for Named {
    fn number(&mut self, name: &'static str) -> Option<u64> {
        self.numbers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
    fn text(&mut self, _: &'static str) -> Option<Arc<str>> {
        self.text.clone()
    }
}

#[cfg(test)]
mod tests;

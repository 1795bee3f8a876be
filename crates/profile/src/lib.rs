//! Logs of events: kept during a run, exported, summed up for reports, and run again against other means.
//!
//! A run always writes the pager's own form ([`pager::log`]), which costs least and is whole up to where a run is killed. A name that
//! ends in `.json` or `.parquet` is what the log is made into when the run ends, in its place. All three are read back.

pub mod model;
mod parquet;
pub mod replay;
mod replay_options;
mod summary;

use field::error::FieldError;
use output::{directory_of, partial_file};
use pager::event::Pick;
use pager::log::{write_chrome, Ended};
use pager::{Event, EventLog, EventReader, Observer};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
pub use summary::summarise;

/// What a log is made into.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is written.
    Log,
    /// A Chrome trace: JSON that Perfetto and `chrome://tracing` open.
    Chrome,
    /// An Apache Parquet table with a row an event.
    Parquet,
}

impl Form {
    /// By the ending of a file's name.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Self::Chrome,
            Some("parquet") => Self::Parquet,
            _ => Self::Log,
        }
    }
}

/// The log of a run under way.
pub struct RunLog {
    /// Absolute: the working folder may be another when the run ends.
    path: PathBuf,
    log: Arc<EventLog>,
    /// Whether it was ended, well or not: what is left of one that could not be written must not pass for all at a second try.
    ended: AtomicBool,
}

impl RunLog {
    /// Creates the file. No other run writes its log there until [`Self::finish`].
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

    /// Adds a document: what the run was begun with, or what it came to.
    pub fn note(&self, json: &Value) {
        self.log.note(json);
    }

    /// Writes what there is, so that the log can be read while the run goes on.
    ///
    /// # Errors
    /// [`FieldError`] when it cannot be written.
    pub fn flush(&self) -> Result<(), FieldError> {
        self.log.flush().map_err(|e| FieldError::output(format!("{}: {e}", self.path.display()), &e))
    }

    /// Ends the log, and makes of it what its name says. `watch` is told how much of that is done. Twice is fine.
    ///
    /// # Errors
    /// What kept it from being written whole: whoever asked for a log must not take a part of it for all.
    /// [`FieldError::Interrupted`] where `watch` said so, and the log is whole.
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
        // Goes on when it is interrupted, as it does for a run that was: a file is of the form that its name says.
        let mut interrupted = false;
        let mut asking = |phase: &str, done: f64, all: f64| {
            interrupted |= !interrupted && !watch(phase, done, all);
            true
        };
        let exported = closed.and_then(|()| Events::open(&self.path)?.export(&self.path, form, &mut asking));
        // Only now: until what is made of it has taken its place, the log is in the file. Whether it is whole was asked before.
        let _whole = self.log.let_go();
        exported.map_err(|e| not_whole(&e))?;
        if interrupted {
            return Err(FieldError::Interrupted);
        }
        Ok(())
    }
}

/// A log that can be read again and again, in any of the forms.
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
    /// [`FieldError`] when it is not there, cannot be read, or is none.
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

    /// How much there is to read, in the unit in which [`Self::each`] says how much was.
    pub fn size(&self) -> u64 {
        match &self.inside {
            LogReader::Rows(reader, _) => reader.size(),
            LogReader::Parquet(table) => table.rows(),
        }
    }

    /// Tells all events in their order: time in microseconds, thread, event, and how much was read. Ends at once where `tell` says
    /// false.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn each(&self, tell: &mut dyn FnMut(u64, u32, &Event, u64) -> bool) -> Result<Ended, FieldError> {
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
    /// As there; [`FieldError::Interrupted`] where `watch` says so.
    pub fn each_watched(
        &self,
        phase: &str,
        watch: &mut dyn FnMut(&str, f64, f64) -> bool,
        tell: &mut dyn FnMut(u64, u32, &Event),
    ) -> Result<Ended, FieldError> {
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

    /// Writes the log in another form. The file may be this one: it takes its place when it is whole.
    ///
    /// # Errors
    /// When the log cannot be read or the file cannot be written; [`FieldError::Interrupted`].
    pub fn export(
        &self,
        to: &Path,
        form: Form,
        watch: &mut dyn FnMut(&str, f64, f64) -> bool,
    ) -> Result<Ended, FieldError> {
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
            // What is there of it is of no use; the error says why.
            let _gone = std::fs::remove_file(&temporary);
        }
        written
    }

    fn write(&self, to: &Path, form: Form, watch: &mut dyn FnMut(&str, f64, f64) -> bool) -> Result<Ended, FieldError> {
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

/// Numbers of events are sums of what a run did, and summed up again: none is larger than any run makes it.
const MOST: u64 = 1 << 44;

/// Whether an event's numbers can be: of what a checksum does not vouch for, one damaged digit is enough.
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

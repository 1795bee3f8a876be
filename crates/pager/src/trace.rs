//! Events as a Chrome trace, for `chrome://tracing` and Perfetto.

use crate::event::{Event, Observer};
use crate::id::PageId;
// Into strings, which take everything: what `write!` answers is always Ok.
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;

/// Events are written to the file in pieces of whole lines of about this many bytes; no more is kept in memory.
const BUFFER_BYTES: usize = 64 << 10;

struct Inside {
    file: Option<File>,
    lines: String,
    arrays: Vec<String>,
    sources: Vec<String>,
    /// The first error; after it nothing more is written.
    error: Option<io::Error>,
}

/// Writes events to a file in the JSON array format of Chrome traces. That format may end anywhere, so the trace of a run that
/// was killed can be loaded; after [`ChromeTrace::close`] the file is valid JSON.
///
/// Reads are asynchronous spans, decoding is a span on the thread that decoded, the rest are instants; `used` is a counter
/// of the bytes in the ledger.
pub struct ChromeTrace {
    inside: Mutex<Inside>,
}

impl ChromeTrace {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be created or written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(b"[\n")?;
        let inside = Inside {
            file: Some(file),
            lines: String::with_capacity(BUFFER_BYTES + 1024),
            arrays: Vec::new(),
            sources: Vec::new(),
            error: None,
        };
        Ok(Self { inside: Mutex::new(inside) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a span of this thread's, for what is above the pager: a step, a task, a tile.
    pub fn span(&self, name: &str, begin_us: u64, took_us: u64) {
        let tid = thread();
        self.lock().line(format_args!(
            r#"{{"name":{},"ph":"X","ts":{begin_us},"dur":{took_us},"pid":1,"tid":{tid}}}"#,
            quoted(name)
        ));
    }

    /// Writes what is left and ends the list. Later events are dropped.
    ///
    /// # Errors
    /// The first error of any write since the trace was created.
    pub fn close(&self) -> io::Result<()> {
        let mut i = self.lock();
        if i.file.is_some() {
            let _ = write!(
                i.lines,
                "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"name\":\"farfield\"}}}}\n]\n"
            );
            i.flush();
            i.file = None;
        }
        i.error.take().map_or(Ok(()), Err)
    }
}

impl Drop for ChromeTrace {
    fn drop(&mut self) {
        // Who wants to hear of it closes it before.
        let _unheard = self.close();
    }
}

impl Inside {
    fn flush(&mut self) {
        if let (Some(file), None) = (&mut self.file, &self.error) {
            self.error = file.write_all(self.lines.as_bytes()).err();
        }
        self.lines.clear();
    }

    fn line(&mut self, event: std::fmt::Arguments<'_>) {
        if self.file.is_none() {
            return;
        }
        let _ = writeln!(self.lines, "{event},");
        if self.lines.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn page(&self, id: PageId) -> String {
        let array = self.arrays.get(id.array.0 as usize).map_or("\"?\"", String::as_str);
        format!(r#""array":{array},"step":{},"page":{}"#, id.step, id.page)
    }

    fn instant(&mut self, at: u64, name: &str, args: &str) {
        let tid = thread();
        self.line(format_args!(
            r#"{{"name":"{name}","ph":"i","s":"t","ts":{at},"pid":1,"tid":{tid},"args":{{{args}}}}}"#
        ));
    }
}

fn quoted(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

/// A small number for this thread.
fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static MINE: u32 = NEXT.fetch_add(1, Relaxed));
    MINE.with(|m| *m)
}

fn name_at(names: &mut Vec<String>, i: u32, name: &str) {
    let i = i as usize;
    if names.len() <= i {
        names.resize(i + 1, "\"?\"".into());
    }
    names[i] = quoted(name);
}

impl Observer for ChromeTrace {
    fn event(&self, at: u64, event: &Event) {
        let mut i = self.lock();
        match event {
            Event::Array { array, name } => name_at(&mut i.arrays, array.0, name),
            Event::Source { source, name } => name_at(&mut i.sources, source.0, name),
            Event::Fault { page } => {
                let args = i.page(*page);
                i.instant(at, "fault", &args);
            }
            Event::Pin { page, worker } => {
                let args = format!(r#"{},"worker":{worker}"#, i.page(*page));
                i.instant(at, "pin", &args);
            }
            Event::Queued { page, priority } => {
                let args = format!(r#"{},"priority":"{priority:?}""#, i.page(*page));
                i.instant(at, "queued", &args);
            }
            Event::ReadStart { read, source, offset, len, segments } => {
                let source = i.sources.get(source.0 as usize).map_or("\"?\"".to_owned(), Clone::clone);
                i.line(format_args!(
                    concat!(
                        r#"{{"name":"read","cat":"read","ph":"b","id":"{}","ts":{},"pid":1,"tid":0,"#,
                        r#""args":{{"source":{},"offset":{},"bytes":{},"segments":{}}}}}"#
                    ),
                    read, at, source, offset, len, segments
                ));
            }
            Event::ReadEnd { read, ok } => i.line(format_args!(
                r#"{{"name":"read","cat":"read","ph":"e","id":"{read}","ts":{at},"pid":1,"tid":0,"args":{{"ok":{ok}}}}}"#
            )),
            Event::Decode { page, took_ns } | Event::Derive { page, took_ns } => {
                let name = if matches!(event, Event::Derive { .. }) { "derive" } else { "decode" };
                let (args, tid) = (i.page(*page), thread());
                let us = *took_ns as f64 / 1000.0;
                let begin = (at as f64 - us).max(0.0);
                i.line(format_args!(
                    r#"{{"name":"{name}","ph":"X","ts":{begin:.3},"dur":{us:.3},"pid":1,"tid":{tid},"args":{{{args}}}}}"#
                ));
            }
            Event::Publish { page, bytes, used } => {
                let args = format!(r#"{},"bytes":{bytes}"#, i.page(*page));
                i.instant(at, "publish", &args);
                i.line(format_args!(
                    r#"{{"name":"used","ph":"C","ts":{at},"pid":1,"tid":0,"args":{{"bytes":{used}}}}}"#
                ));
            }
            Event::Failed { page, reason } => {
                let args = format!(r#"{},"reason":{}"#, i.page(*page), quoted(reason));
                i.instant(at, "failed", &args);
            }
            Event::Evict { page } => {
                let args = i.page(*page);
                i.instant(at, "evict", &args);
            }
            Event::PrefetchIssued { page } => {
                let args = i.page(*page);
                i.instant(at, "prefetch", &args);
            }
            Event::PrefetchUsed { page } => {
                let args = i.page(*page);
                i.instant(at, "prefetch used", &args);
            }
            Event::Resume { token } => i.instant(at, "resume", &format!(r#""token":{token}"#)),
            Event::Full { page, needs } => {
                let args = format!(r#"{},"needs":{needs}"#, i.page(*page));
                i.instant(at, "full", &args);
            }
            Event::Limit { bytes } => i.instant(at, "limit", &format!(r#""bytes":{bytes}"#)),
        }
    }
}

//! Events as a Chrome trace, for Perfetto and `chrome://tracing`.
//!
//! Reads, tasks and pictures are asynchronous spans, which may overlap. The work of a thread is a span on it, and other
//! events are instants. `memory` is a counter of the bytes in the ledger.
//!
//! Each event has one row in the JSON array, with all fields of the log in `args`, so that the trace can be read back.
//! Rows beside it (ends of spans, counters) carry no `kind`. The last row is metadata named `farfield_checksum`, which
//! viewers ignore. It has the crc32c of all bytes before it.

use super::read::LogEnd;
use crate::event::{Event, FieldSink, Pick};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

/// The row with the checksum of all bytes before it.
const CHECKSUM: &str = "farfield_checksum";

/// A writer that keeps the checksum of the written bytes.
struct ChecksumWriter<'a, W> {
    to: &'a mut W,
    crc: u32,
}

impl<W: Write> Write for ChecksumWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..written]);
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Names of arrays or sources, as JSON has them.
type JsonNames = HashMap<u64, String>;

/// Writes fields as the rest of a JSON object. Writing without a map of values takes 0.6 us an event, and with one 1.6
/// us.
struct Fields<'a> {
    to: &'a mut Vec<u8>,
    /// Names of arrays and of sources, if they are written beside the numbers.
    names: Option<[&'a JsonNames; 2]>,
}

impl FieldSink for Fields<'_> {
    fn number(&mut self, name: &'static str, value: u64) {
        let known = self.names.and_then(|[arrays, sources]| match name {
            "array" => arrays.get(&value),
            "source" => sources.get(&value),
            _ => None,
        });
        // Writing to a vector cannot fail.
        let _ = match known {
            Some(text) => write!(self.to, ",\"{name}\":{text},\"{name}_id\":{value}"),
            None => write!(self.to, ",\"{name}\":{value}"),
        };
    }
    fn text(&mut self, name: &'static str, value: &str) {
        let _ = write!(self.to, ",\"{name}\":{}", quoted(value));
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The fields of a row that is read.
struct Args(Map<String, Value>);

impl Pick for Args {
    fn number(&mut self, name: &'static str) -> Option<u64> {
        let name = match name {
            "array" if self.0.contains_key("array_id") => "array_id",
            "source" if self.0.contains_key("source_id") => "source_id",
            name => name,
        };
        self.0.get(name)?.as_u64()
    }
    fn text(&mut self, name: &'static str) -> Option<Arc<str>> {
        self.0.get(name)?.as_str().map(Into::into)
    }
}

/// How an event is drawn: place and duration.
enum DrawnEvent {
    Instant,
    /// On its thread, until now.
    Span(f64),
    /// Begin, end or whole of an asynchronous span: category, number.
    Begin(&'static str, u64),
    End(&'static str, u64),
    Whole(&'static str, u64, f64),
    Counter(u64),
    Hidden,
}

fn shape(event: &Event) -> DrawnEvent {
    match *event {
        Event::ReadStart { read, .. } => DrawnEvent::Begin("read", read),
        Event::ReadEnd { read, .. } => DrawnEvent::End("read", read),
        Event::FrameStart { frame } => DrawnEvent::Begin("picture", frame),
        Event::FrameEnd { frame } => DrawnEvent::End("picture", frame),
        Event::Task { task, took_us, .. } => DrawnEvent::Whole("task", task, took_us as f64),
        Event::Decode { took_ns, .. } | Event::Derive { took_ns, .. } => DrawnEvent::Span(took_ns as f64 * 1e-3),
        Event::Compute { took_us, .. } | Event::Wait { took_us } | Event::Span { took_us, .. } => {
            DrawnEvent::Span(took_us as f64)
        }
        Event::Publish { used, .. } => DrawnEvent::Counter(used),
        Event::Array { .. } | Event::Source { .. } | Event::Thread { .. } | Event::Note { .. } => DrawnEvent::Hidden,
        _ => DrawnEvent::Instant,
    }
}

/// Receives events: time in microseconds, thread, event, and bytes read so far. Returns whether to continue.
pub type Tell<'a> = dyn FnMut(u64, u32, &Event, u64) -> bool + 'a;

/// Writes the Chrome trace of the events that `each` passes on. `watch` receives the bytes read so far, and ends the
/// work by false. `wrong` converts errors of writing.
///
/// # Errors
/// When the events cannot be read or the trace cannot be written. Kind `Interrupted` if `watch` returned false.
pub fn write_chrome<E>(
    each: &mut dyn FnMut(&mut Tell<'_>) -> Result<LogEnd, E>,
    to: &mut impl Write,
    watch: &mut dyn FnMut(u64) -> bool,
    wrong: impl Fn(io::Error) -> E,
) -> Result<LogEnd, E> {
    let (mut arrays, mut sources, mut args) = (JsonNames::new(), JsonNames::new(), Vec::new());
    let (mut failed, mut told, mut last_us) = (None, 0, 0);
    let to = &mut ChecksumWriter { to, crc: 0 };
    to.write_all(b"[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"farfield\"}}")
        .map_err(&wrong)?;
    let ended = each(&mut |at_us, thread, event, read| {
        match event {
            Event::Array { array, name, .. } => drop(arrays.insert(u64::from(array.0), quoted(name))),
            Event::Source { source, name } => drop(sources.insert(u64::from(source.0), quoted(name))),
            _ => {}
        }
        last_us = at_us;
        failed = write_event(to, at_us, thread, event, &arrays, &sources, &mut args).err();
        if read != told {
            told = read;
            if !watch(read) {
                failed = Some(io::ErrorKind::Interrupted.into());
            }
        }
        failed.is_none()
    })?;
    if !ended.whole && failed.is_none() {
        let cut = Event::Cut { lost_bytes: ended.lost_bytes };
        failed = write_event(to, last_us, 0, &cut, &arrays, &sources, &mut args).err();
    }
    match failed {
        Some(e) => Err(wrong(e)),
        None => {
            let mut end = || {
                to.write_all(b",\n")?;
                let crc = to.crc;
                write!(to, "{{\"name\":\"{CHECKSUM}\",\"ph\":\"M\",\"pid\":1,\"args\":{{\"crc32c\":{crc}}}}}\n]\n")
            };
            end().map(|()| ended).map_err(wrong)
        }
    }
}

fn write_event(
    to: &mut impl Write,
    at_us: u64,
    thread: u32,
    event: &Event,
    arrays: &JsonNames,
    sources: &JsonNames,
    args: &mut Vec<u8>,
) -> io::Result<()> {
    args.clear();
    // Writing to a vector cannot fail.
    let _ = write!(args, "{{\"kind\":\"{}\",\"at\":{at_us},\"thread\":{thread}", event.kind());
    let names = !matches!(event, Event::Array { .. } | Event::Source { .. });
    event.put(&mut Fields { to: args, names: names.then_some([arrays, sources]) });
    args.push(b'}');
    let args = std::str::from_utf8(args).unwrap_or("{}");
    let name = match event {
        Event::Span { name, .. } => quoted(name),
        other => format!("\"{}\"", other.kind()),
    };
    match shape(event) {
        DrawnEvent::Hidden => {
            // Perfetto knows rows of metadata by their names, and ignores unknown ones.
            write!(to, ",\n{{\"name\":{name},\"ph\":\"M\",\"ts\":{at_us},\"pid\":1,\"tid\":{thread},\"args\":{args}}}")?;
            if let Event::Thread { name } = event {
                let name = quoted(name);
                write!(
                    to,
                    ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{thread},\"args\":{{\"name\":{name}}}}}"
                )?;
            }
            Ok(())
        }
        DrawnEvent::Instant => write!(
            to,
            ",\n{{\"name\":{name},\"ph\":\"i\",\"s\":\"t\",\"ts\":{at_us},\"pid\":1,\"tid\":{thread},\"args\":{args}}}"
        ),
        DrawnEvent::Span(us) => write!(
            to,
            ",\n{{\"name\":{name},\"ph\":\"X\",\"ts\":{:.3},\"dur\":{us:.3},\"pid\":1,\"tid\":{thread},\"args\":{args}}}",
            (at_us as f64 - us).max(0.0)
        ),
        DrawnEvent::Begin(cat, id) => write!(
            to,
            ",\n{{\"name\":\"{cat}\",\"cat\":\"{cat}\",\"ph\":\"b\",\"id\":\"{id}\",\"ts\":{at_us},\"pid\":1,\"tid\":{thread},\
             \"args\":{args}}}"
        ),
        DrawnEvent::End(cat, id) => write!(
            to,
            ",\n{{\"name\":\"{cat}\",\"cat\":\"{cat}\",\"ph\":\"e\",\"id\":\"{id}\",\"ts\":{at_us},\"pid\":1,\"tid\":{thread},\
             \"args\":{args}}}"
        ),
        DrawnEvent::Whole(cat, id, us) => write!(
            to,
            ",\n{{\"name\":\"{cat}\",\"cat\":\"{cat}\",\"ph\":\"b\",\"id\":\"{id}\",\"ts\":{:.3},\"pid\":1,\"tid\":{thread},\
             \"args\":{args}}},\n{{\"name\":\"{cat}\",\"cat\":\"{cat}\",\"ph\":\"e\",\"id\":\"{id}\",\"ts\":{at_us},\"pid\":1,\
             \"tid\":{thread}}}",
            (at_us as f64 - us).max(0.0)
        ),
        DrawnEvent::Counter(bytes) => write!(
            to,
            ",\n{{\"name\":{name},\"ph\":\"i\",\"s\":\"t\",\"ts\":{at_us},\"pid\":1,\"tid\":{thread},\"args\":{args}}},\n\
             {{\"name\":\"memory\",\"ph\":\"C\",\"ts\":{at_us},\"pid\":1,\"tid\":0,\"args\":{{\"bytes\":{bytes}}}}}"
        ),
    }
}

/// Passes on the events of a Chrome trace that [`write_chrome`] wrote. Foreign rows are ignored. A trace without a
/// checksum, such as an edited one, is read without that check.
pub(super) fn read(mut from: impl BufRead, tell: &mut Tell<'_>) -> io::Result<LogEnd> {
    let (mut ended, mut at, mut line, mut crc) = (LogEnd::default(), 0, Vec::new(), 0);
    loop {
        let before = crc;
        line.clear();
        // Our rows are some hundred bytes. A foreign trace may be one line of any length, of which only a bounded part
        // is kept.
        let got = from.by_ref().take(super::MOST_BYTES as u64).read_until(b'\n', &mut line)?;
        if got == 0 {
            return Ok(ended);
        }
        at += got as u64;
        crc = crc32c::crc32c_append(crc, &line);
        let text = line.trim_ascii();
        match text.strip_suffix(b",").unwrap_or(text) {
            b"[" | b"" => continue,
            b"]" => {
                ended.whole = !ended.damaged;
                continue;
            }
            row => {
                let Ok(Value::Object(mut row)) = serde_json::from_slice::<Value>(row) else {
                    ended.lost_bytes += got as u64;
                    continue;
                };
                if row.get("name").is_some_and(|name| name == CHECKSUM) {
                    ended.damaged |= row.get("args").and_then(|a| a["crc32c"].as_u64()) != Some(u64::from(before));
                    continue;
                }
                let Some(Value::Object(args)) = row.remove("args").filter(|a| a["kind"].is_string()) else { continue };
                let mut args = Args(args);
                let kind = Pick::text(&mut args, "kind");
                let event = kind.and_then(|kind| Event::pick(&kind, &mut args));
                let at_us = Pick::number(&mut args, "at");
                let thread = Pick::number(&mut args, "thread").and_then(|t| u32::try_from(t).ok());
                match (event, at_us, thread) {
                    (Some(event), Some(at_us), Some(thread)) => {
                        ended.events += 1;
                        if !tell(at_us, thread, &event, at) {
                            return Ok(ended);
                        }
                    }
                    _ => ended.unknown += 1,
                }
            }
        }
    }
}

//! The reads of a trace, repeated alone: the same extents in the same order, as many at a time, without computation.
//!
//! The trace lists each read that it hands to a source. Extents read twice are listed twice. Another process reads the
//! list, so that neither has the other's memory beside it.

use super::plain::measured;
use field::error::FieldError;
use pager::source::{Buffer, Completion, Read, ReadClass, Source};
use pager::{Event, Observer, PageErrorKind, Pager};
use runtime::process;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace::TraceSpec;

/// Lists reads as they are handed to their sources, one line each:
///
/// | line | meaning |
/// |---|---|
/// | `b BYTES` | size of the dataset |
/// | `s NUMBER PATH` | a source |
/// | `r SOURCE OFFSET LENGTH` | a read |
struct Recording {
    to: Mutex<(BufWriter<File>, std::io::Result<()>)>,
}

impl Recording {
    fn line(&self, text: std::fmt::Arguments<'_>) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, result) = &mut *to;
        if result.is_ok() {
            *result = writeln!(file, "{text}");
        }
    }

    /// Writes the rest, or returns the first error.
    fn end(&self) -> std::io::Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut to.1, Ok(()))?;
        to.0.flush()
    }
}

impl Observer for Recording {
    fn event(&self, _: u64, event: &Event) {
        match event {
            Event::Source { source, name } => self.line(format_args!("s {} {name}", source.0)),
            Event::ReadStart { source, offset, bytes, .. } => {
                self.line(format_args!("r {} {offset} {bytes}", source.0))
            }
            _ => {}
        }
    }
}

/// Runs a trace and lists its reads.
///
/// # Errors
/// [`FieldError`] of opening and tracing; of a list that cannot be written.
pub fn recorded(
    source: SourceSpec,
    resources: Resources,
    spec: &TraceSpec,
    list: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let io = |e| FieldError::io(list, e);
    let to = BufWriter::new(File::create(list).map_err(io)?);
    let recording = Arc::new(Recording { to: Mutex::new((to, Ok(()))) });
    let session = Session::open(source, Resources { observer: Some(recording.clone()), ..resources }, watch)?;
    recording.line(format_args!("b {}", session.dataset().bytes()));
    session.located(watch)?;
    let before = session.pager.counters();
    let mut run = measured(&session, spec, watch)?;
    // The list also contains the reads of opening.
    run["listed_bytes"] = session.pager.counters().bytes_read.into();
    run["listed_reads"] = session.pager.counters().reads.into();
    run["opening_bytes"] = before.bytes_read.into();
    recording.end().map_err(io)?;
    Ok(run)
}

/// A parsed list.
#[derive(Default)]
struct ReadList {
    bytes: u64,
    sources: BTreeMap<u32, PathBuf>,
    /// Source, first byte, bytes.
    reads: Vec<(u32, u64, u32)>,
}

impl ReadList {
    fn open(list: &Path) -> Result<Self, FieldError> {
        let mut all = Self::default();
        for line in BufReader::new(File::open(list).map_err(|e| FieldError::io(list, e))?).lines() {
            let line = line.map_err(|e| FieldError::io(list, e))?;
            if all.take(&line).is_none() {
                return Err(FieldError::Usage(format!("{}: '{line}' is no line of a list of reads", list.display())));
            }
        }
        Ok(all)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.splitn(2, ' ');
        match (words.next()?, words.next()?) {
            ("b", bytes) => self.bytes = bytes.parse().ok()?,
            ("s", rest) => {
                let (number, path) = rest.split_once(' ')?;
                self.sources.insert(number.parse().ok()?, path.into());
            }
            ("r", rest) => {
                let numbers: Vec<u64> = rest.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
                let &[source, offset, len] = &*numbers else { return None };
                self.reads.push((source.try_into().ok()?, offset, len.try_into().ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}

/// Aligned memory for direct reads, reused by reads of about the same length.
struct AlignedBuffer {
    ptr: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory of one owner.
unsafe impl Send for AlignedBuffer {}

/// Alignment of direct reads in bytes.
const ALIGNED: usize = 4096;

impl AlignedBuffer {
    fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.next_power_of_two().max(ALIGNED), ALIGNED).ok()?;
        // SAFETY: of some bytes.
        let ptr = unsafe { std::alloc::alloc(layout) };
        (!ptr.is_null()).then_some(Self { ptr, layout })
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { std::alloc::dealloc(self.ptr, self.layout) };
    }
}

/// Collects completed reads.
struct Done {
    tokens: Mutex<Vec<(u64, Result<(), PageErrorKind>)>>,
    pager: Arc<Pager>,
}

impl Completion for Done {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).push((token, result));
        self.pager.notify();
    }
}

/// Repeats the reads of a list. `resources` bounds the reads at a time, and their bytes as a pager's limit does. The
/// reader is the same, and bypasses the page cache where the trace did.
///
/// # Errors
/// [`FieldError`]: an invalid or unreadable list; the first read that fails.
pub fn replayed(list: &Path, resources: &Resources, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let listed = ReadList::open(list)?;
    let pager = resources.pager()?;
    let direct = process::is_past_cache(listed.bytes);
    pager.set_direct(direct);
    let add = |(number, path): (&u32, &PathBuf)| {
        let id = pager.add_file(path);
        pager.source(id).map(|source| (*number, source))
    };
    let sources: BTreeMap<u32, Arc<dyn Source>> = listed.sources.iter().filter_map(add).collect();
    let most = resources.memory_limit / 4;
    let done = Arc::new(Done { tokens: Mutex::default(), pager: pager.clone() });
    let told: Arc<dyn Completion> = done.clone();
    let wrong = |what: String| FieldError::Usage(format!("{}: {what}", list.display()));
    let mut free: BTreeMap<usize, Vec<AlignedBuffer>> = BTreeMap::new();
    let mut flying: BTreeMap<u64, AlignedBuffer> = BTreeMap::new();
    // Free memory is bounded as memory under reads is: sizes differ by the hundredfold.
    let (mut next, mut bytes, mut under_way, mut kept) = (0, 0u64, 0u64, 0u64);
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    // Memory under a read belongs to its source until the read is done. So reads under way are awaited even after an
    // error.
    let mut error: Option<FieldError> = None;
    while (error.is_none() && next < listed.reads.len()) || !flying.is_empty() {
        // In batches of one source, as the pager submits them.
        let mut batches: Vec<(&Arc<dyn Source>, Vec<Read>)> = Vec::new();
        while let (Some(&(number, offset, len)), None) = (listed.reads.get(next), &error) {
            let size = (len as usize).next_power_of_two().max(ALIGNED);
            let room = flying.is_empty() || under_way + size as u64 <= most;
            if flying.len() >= pager.readers() || !room {
                break;
            }
            let again = free.get_mut(&size).and_then(Vec::pop);
            kept -= if again.is_some() { size as u64 } else { 0 };
            let place = again.or_else(|| AlignedBuffer::new(size));
            let (Some(place), Some(source)) = (place, sources.get(&number)) else {
                error = Some(wrong(format!("read {next} finds no memory, or no source {number}")));
                break;
            };
            let buffers = vec![Buffer { ptr: place.ptr, len: len as usize }];
            let read = Read { token: next as u64, offset, buffers, class: ReadClass::Demand };
            flying.insert(next as u64, place);
            match batches.last_mut().filter(|(of, _)| Arc::ptr_eq(of, source)) {
                Some((_, reads)) => reads.push(read),
                None => batches.push((source, vec![read])),
            }
            (next, bytes, under_way) = (next + 1, bytes + u64::from(len), under_way + size as u64);
        }
        batches.into_iter().for_each(|(source, reads)| source.submit(reads, &told));
        while pager.work() {}
        let came = core::mem::take(&mut *done.tokens.lock().unwrap_or_else(PoisonError::into_inner));
        if came.is_empty() && !flying.is_empty() {
            pager.idle(Duration::from_millis(50));
            if !watch("reading", next as f64, listed.reads.len() as f64) {
                error.get_or_insert(FieldError::Interrupted);
            }
        }
        for (token, result) in came {
            if let Some(place) = flying.remove(&token) {
                let size = place.layout.size() as u64;
                under_way -= size;
                if kept + size <= most {
                    kept += size;
                    free.entry(place.layout.size()).or_default().push(place);
                }
            }
            // Direct reads cover whole blocks, and a file may end within one.
            let ends = matches!(&result, Err(PageErrorKind::Short { offset, have, .. }) if direct && have > offset);
            if let Err(e) = result.or_else(|e| if ends { Ok(()) } else { Err(e) }) {
                error.get_or_insert(wrong(format!("read {token} failed: {e}")));
            }
        }
    }
    if let Some(e) = error {
        return Err(e);
    }
    Ok(json!({
        "wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu, "bytes_read": bytes,
        "reads": listed.reads.len(), "direct": direct, "readers": pager.readers(), "transport": pager.reader_name(),
        "resident_peak_bytes": process::peak_resident_bytes(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_often_as_it_says() {
        let folder = std::env::temp_dir().join(format!("farfield-extents-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (data, list) = (folder.join("data"), folder.join("list"));
        std::fs::write(&data, vec![7u8; 1 << 20]).unwrap();
        let reads: Vec<(u64, u64)> = (0..200).map(|n| (4096 * (n % 50), 4096 + 100 * (n % 3))).collect();
        let mut text = format!("b {}\ns 3 {}\n", 1 << 20, data.display());
        reads.iter().for_each(|(offset, len)| text += &format!("r 3 {offset} {len}\n"));
        std::fs::write(&list, text).unwrap();
        let resources = Resources {
            memory_limit: 16 << 20,
            workers: 1,
            readers: 8,
            replacement: Default::default(),
            observer: None,
        };
        let found = replayed(&list, &resources, &mut |_, _, _| true).unwrap();
        assert_eq!(found["reads"], 200);
        assert_eq!(found["bytes_read"], reads.iter().map(|r| r.1).sum::<u64>());
        std::fs::write(&list, format!("s 3 {}\nr 3 {} 4096\n", data.display(), 1 << 20)).unwrap();
        let beyond = replayed(&list, &resources, &mut |_, _, _| true).unwrap_err();
        assert!(beyond.to_string().contains("read 0"), "{beyond}");
        std::fs::write(&list, "r 3 x 4096\n").unwrap();
        let wrong = replayed(&list, &resources, &mut |_, _, _| true).unwrap_err();
        assert!(wrong.to_string().contains("'r 3 x 4096'"), "{wrong}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Ranges of a remote file at random places: some waited for, others ahead of any need.

use field::error::FieldError;
use pager::place::{self, FilePin, FileRef, VersionPin};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use runtime::process;
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Options of [`remote_reads`].
pub struct RemoteReads {
    /// Address of the file.
    pub file: PathBuf,
    /// Bytes of a read.
    pub bytes: usize,
    /// Demanded reads under way.
    pub depth: usize,
    /// Prefetched reads under way.
    pub ahead: usize,
    /// No read begins later than this after the first.
    pub most: Duration,
    /// Reads that begin within this time are not counted: connections are made, and rates are learned.
    pub warm_up: Duration,
}

/// Results in the order of their ends.
struct Ends(Mutex<mpsc::Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for Ends {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        // Without a receiver nobody waits.
        let _unheard = self.0.lock().unwrap_or_else(PoisonError::into_inner).send((token, result));
    }
}

/// A read under way: its memory, and the time of its start.
struct ReadSlot {
    memory: Vec<u8>,
    began: Instant,
    class: ReadClass,
}

/// Keeps so many reads of both classes under way. Counts, rates and latencies of each class, and processor time.
///
/// # Errors
/// [`FieldError`]: a local path, or the first read that fails.
pub fn remote_reads(spec: &RemoteReads, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let failed = |kind: PageErrorKind| FieldError::io(&spec.file, kind.into_io());
    let place = place::of(&spec.file).map_err(failed)?;
    let place = place.ok_or_else(|| FieldError::Usage(format!("{}: a local path", spec.file.display())))?;
    let size = place::FileReader::open(&spec.file).map_err(failed)?.size();
    let pages = (size / spec.bytes as u64).max(1);
    let path: &Path = &spec.file;
    let file = FileRef { path: path.into(), base: 0, pin: Arc::new(FilePin::default()) as Arc<dyn VersionPin> };
    let (told, ends) = mpsc::channel();
    let done: Arc<dyn Completion> = Arc::new(Ends(Mutex::new(told)));
    let mut random = 1u64;
    let mut start = |token: u64, slot: &mut ReadSlot| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let buffers = vec![Buffer { ptr: slot.memory.as_mut_ptr(), len: slot.memory.len() }];
        slot.began = Instant::now();
        let offset = (random >> 20) % pages * spec.bytes as u64;
        place.submit(&file, vec![Read { token, offset, buffers, class: slot.class }], &done);
    };
    let began = Instant::now();
    let slot = |n| ReadSlot {
        memory: vec![0; spec.bytes.min(size as usize)],
        began,
        class: if n < spec.depth { ReadClass::Demand } else { ReadClass::Prefetch },
    };
    let mut slots: Vec<ReadSlot> = (0..spec.depth + spec.ahead).map(slot).collect();
    for (token, slot) in (0..).zip(&mut slots) {
        start(token, slot);
    }
    let mut took: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let (mut flying, mut error) = (slots.len(), None);
    // Counting begins with the first end after the time to warm up.
    let mut counted: Option<(Instant, f64)> = None;
    let mut last = began;
    while flying > 0 {
        // Every read ends: its place sees to that. So the memory lives as long as the reads.
        let Ok((token, result)) = ends.recv() else { break };
        let slot = &mut slots[token as usize];
        match result {
            Ok(()) => {
                let now = Instant::now();
                if counted.is_some() && now - began <= spec.most {
                    took[usize::from(slot.class == ReadClass::Prefetch)].push((now - slot.began).as_secs_f64());
                    last = now;
                } else if counted.is_none() && now - began >= spec.warm_up {
                    counted = Some((now, process::cpu_seconds()));
                    last = now;
                }
            }
            Err(kind) => error = error.or_else(|| Some(failed(kind))),
        }
        if error.is_none() && !watch("reading", began.elapsed().as_secs_f64(), spec.most.as_secs_f64()) {
            error = Some(FieldError::Interrupted);
        }
        if error.is_none() && began.elapsed() < spec.most {
            start(token, slot);
        } else {
            flying -= 1;
        }
    }
    if let Some(error) = error {
        return Err(error);
    }
    let (since, cpu) = counted.unwrap_or((last, process::cpu_seconds()));
    let cpu_s = process::cpu_seconds() - cpu;
    let wall_s = (last - since).as_secs_f64();
    let class = |seconds: &mut Vec<f64>| {
        seconds.sort_unstable_by(f64::total_cmp);
        let at = |share: usize| seconds.get(seconds.len().saturating_sub(1) * share / 100).copied();
        json!({"reads": seconds.len(), "p50_s": at(50), "p99_s": at(99)})
    };
    let reads = took[0].len() + took[1].len();
    Ok(json!({
        "wall_s": wall_s, "cpu_s": cpu_s, "reads": reads, "bytes": reads * spec.bytes,
        "demand": class(&mut took[0]), "ahead": class(&mut took[1]),
        "resident_peak_bytes": process::peak_resident_bytes(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_is_refused() {
        let spec = RemoteReads {
            file: "/nowhere".into(),
            bytes: 1,
            depth: 1,
            ahead: 0,
            most: Duration::ZERO,
            warm_up: Duration::ZERO,
        };
        assert!(matches!(remote_reads(&spec, &mut |_, _, _| true), Err(FieldError::Usage(_))));
    }
}

//! Measured reads of one file, past all caches of this process.

use pager::place::{self, FilePin, FileRef, VersionPin};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use std::path::Path;
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The outcome of [`timed_reads`].
#[derive(Clone, Debug, PartialEq)]
pub struct TimedReads {
    /// Duration of each read in seconds, in the order of their ends.
    pub seconds: Vec<f64>,
    /// Duration of all in seconds.
    pub wall_s: f64,
    /// Bytes read.
    pub bytes: u64,
}

/// The load of [`timed_reads`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReadLoad {
    /// Bytes of each read.
    pub bytes: usize,
    /// Most reads.
    pub count: usize,
    /// Reads at the same time.
    pub depth: usize,
    /// No read begins later than this after the first.
    pub most: Duration,
}

/// Hands a read's memory over with its result.
struct TimedEnds(Mutex<mpsc::Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for TimedEnds {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        // Without a receiver nobody waits.
        let _unheard = self.0.lock().unwrap_or_else(PoisonError::into_inner).send((token, result));
    }
}

/// Reads ranges of a remote file at places that are spread over it.
///
/// # Errors
/// The first error of a read, after all reads under way have ended; [`PageErrorKind::Unsupported`] for a local path.
pub fn timed_reads(path: &Path, load: ReadLoad) -> Result<TimedReads, PageErrorKind> {
    let place = place::of(path)?;
    let place = place.ok_or_else(|| PageErrorKind::Unsupported("this is a local path".into()))?;
    let size = place::FileReader::open(path)?.size();
    let bytes = load.bytes.min(usize::try_from(size).unwrap_or(usize::MAX)).max(1);
    let room = size.saturating_sub(bytes as u64) + 1;
    let file = FileRef { path: path.into(), base: 0, pin: Arc::new(FilePin::default()) as Arc<dyn VersionPin> };
    let (told, ends) = mpsc::channel();
    let done: Arc<dyn Completion> = Arc::new(TimedEnds(Mutex::new(told)));
    let depth = load.depth.clamp(1, load.count.max(1));
    let mut memory: Vec<Vec<u8>> = vec![vec![0; bytes]; depth];
    let mut begun = vec![Instant::now(); depth];
    let began = Instant::now();
    let (mut started, mut flying, mut failed) = (0usize, 0usize, None);
    let mut out = TimedReads { seconds: Vec::new(), wall_s: 0.0, bytes: 0 };
    let start = |slot: usize, number: usize, memory: &mut [Vec<u8>], begun: &mut [Instant]| {
        // A multiplicative sequence visits the file evenly and in no order.
        let offset = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % room;
        begun[slot] = Instant::now();
        let buffers = vec![Buffer { ptr: memory[slot].as_mut_ptr(), len: bytes }];
        place.submit(&file, vec![Read { token: slot as u64, offset, buffers, class: ReadClass::Demand }], &done);
    };
    while started < depth {
        start(started, started, &mut memory, &mut begun);
        (started, flying) = (started + 1, flying + 1);
    }
    while flying > 0 {
        // Every read ends: its place sees to that. So the memory lives as long as the reads.
        let Ok((slot, result)) = ends.recv() else { break };
        flying -= 1;
        match result {
            Ok(()) => {
                out.seconds.push(begun[slot as usize].elapsed().as_secs_f64());
                out.bytes += bytes as u64;
            }
            Err(kind) => failed = failed.or(Some(kind)),
        }
        if failed.is_none() && started < load.count && began.elapsed() < load.most {
            start(slot as usize, started, &mut memory, &mut begun);
            (started, flying) = (started + 1, flying + 1);
        }
    }
    out.wall_s = began.elapsed().as_secs_f64();
    failed.map_or(Ok(out), Err)
}

//! Runs one parser over damaged inputs, and checks the guarantees of every parser.
//!
//! A case is a number. It and the target's name determine the bytes, so that a failure can be repeated. The guarantees:
//! no panic, at most [`MOST_CPU`] of processor time, and no more memory than the target's bound.

use crate::mutate::{mutate, XorShift};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tests of this binary. They share a soak's time.
pub const TARGETS: u64 = 18;
/// Inputs have some kilobytes. A longer time is not linear in them.
const MOST_CPU: Duration = Duration::from_secs(1);
/// Wall time after which a case counts as hanging, on a machine that may be busy.
const HANGS: Duration = Duration::from_secs(60);

/// Counts the memory of each thread, because tests run side by side.
struct ThreadAllocator;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    // Fails only while a thread ends.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

// SAFETY: everything is passed on to the system's allocator; only sizes are noted.
unsafe impl GlobalAlloc for ThreadAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: ThreadAllocator = ThreadAllocator;

/// Bytes that `work` needed at its peak, on this thread.
fn peak(work: impl FnOnce()) -> usize {
    let before = NOW.get();
    MOST.set(before);
    work();
    usize::try_from(MOST.get() - before).unwrap_or(0)
}

/// Processor time of this thread, without other load of the machine.
fn cpu() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a system call that fills a local structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// A parser, its inputs and its bounds.
pub struct FuzzTarget<'a> {
    pub name: &'static str,
    /// Valid inputs to start from.
    pub corpus: Vec<Vec<u8>>,
    /// Words of the format, inserted by mutations.
    pub words: &'static [&'static str],
    /// Cases in `make test`.
    pub cases: u64,
    /// Bytes of memory for a case, beside [`PER_BYTE`] for each byte of its input.
    pub memory: usize,
    /// Corrects checksums after a mutation, as a forger would. Otherwise no code behind them would run.
    pub seal: &'a dyn Fn(&mut [u8]),
}

/// Bytes of memory for a byte of input: the tree of a JSON document, or a header's tables, take some hundred.
const PER_BYTE: usize = 512;

impl FuzzTarget<'_> {
    /// Runs `check` over the corpus and over mutations of it: `cases` of them, or for this target's share of
    /// `FARFIELD_SOAK_S` seconds.
    pub fn run(self, mut check: impl FnMut(&[u8])) {
        let soak = std::env::var("FARFIELD_SOAK_S").ok().and_then(|s| s.parse::<f64>().ok());
        let end = soak.map(|s| Instant::now() + Duration::from_secs_f64(s / TARGETS as f64));
        let watch = CaseWatch::new(self.name);
        // The first run pays for what is made once (contexts of decoders, tables).
        for bytes in &self.corpus {
            watch.begin(bytes);
            check(bytes);
            watch.over();
        }
        let mut most = 0;
        for case in 0.. {
            match end {
                None if case >= self.cases => break,
                Some(end) if Instant::now() >= end => break,
                _ => {}
            }
            let mut random = XorShift::new(self.name, case);
            let mut bytes = mutate(&self.corpus, self.words, &mut random);
            (self.seal)(&mut bytes);
            watch.begin(&bytes);
            let before = cpu();
            let mut result = Ok(());
            let used = peak(|| result = catch_unwind(AssertUnwindSafe(|| check(&bytes))));
            let took = cpu() - before;
            watch.over();
            most = most.max(used);
            let bound = self.memory + PER_BYTE * bytes.len();
            let wrong = match result {
                Err(_) => "it panicked (see above)".to_owned(),
                Ok(()) if took > MOST_CPU => format!("it took {took:?}"),
                Ok(()) if used > bound => format!("it took {used} bytes of memory, more than {bound}"),
                Ok(()) => continue,
            };
            panic!("{} case {case}: {wrong}; the bytes are in {}", self.name, keep(self.name, &bytes).display());
        }
        println!("{}: at most {most} bytes of memory", self.name);
    }
}

/// Writes the bytes of a failed case to a lasting file.
fn keep(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("farfield-fuzz-{name}-{:08x}.bin", crc32c::crc32c(bytes)));
    std::fs::write(&path, bytes).expect("the bytes are kept");
    path
}

/// An error must name its file.
pub fn names(path: &Path, error: &dyn std::fmt::Display) {
    let (text, name) = (error.to_string(), path.file_name().expect("a file").to_string_lossy().into_owned());
    assert!(text.contains(&name), "the error does not name {name}: {text}");
}

/// Start of a case, and its bytes.
type FuzzCase = (Instant, Vec<u8>);

/// Ends the process and stores the bytes when a case hangs.
struct CaseWatch {
    case: Arc<Mutex<Option<FuzzCase>>>,
    done: Arc<AtomicBool>,
}

impl CaseWatch {
    fn new(name: &'static str) -> Self {
        let watch = Self { case: Arc::default(), done: Arc::default() };
        let (case, done) = (watch.case.clone(), watch.done.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let held = case.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, bytes)) = held.as_ref().filter(|c| c.0.elapsed() > HANGS) {
                    eprintln!("{name}: a case hangs; its bytes are in {}", keep(name, bytes).display());
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn begin(&self, bytes: &[u8]) {
        *self.case.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), bytes.to_vec()));
    }

    fn over(&self) {
        *self.case.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for CaseWatch {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

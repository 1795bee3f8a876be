//! If more tasks are active than memory has room for, fewer wait for pages, and the run still ends.

use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use pager::source::memory::Memory;
use pager::{
    ArrayId, Extent, ExtentTarget, Located, Lookup, PageError, PageId, PageMap, Pager, PagerConfig, SourceId, Worker,
};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

const PAGES: u64 = 2000;
const BYTES: usize = 4096;
/// Pages that a step needs, steps of a task, and tasks.
const STANDS_ON: u64 = 8;
const STEPS: u64 = 30;
const TASKS: u64 = 60;

/// Pages whose bytes are their number.
struct NumberedPages(SourceId);

impl PageMap for NumberedPages {
    fn name(&self) -> &str {
        "plain"
    }
    fn pages(&self) -> u64 {
        PAGES
    }
    fn page_bytes(&self, _: PageId) -> usize {
        BYTES
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let offset = id.page * BYTES as u64;
        let segment = Extent { source: self.0, offset, len: BYTES, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![segment], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

/// Tasks that each read pages of their own, eight for a step, and sum their bytes.
struct Walks {
    array: ArrayId,
    sum: AtomicU64,
    /// Called at the hundredth step of all tasks.
    midway: Box<dyn Fn() + Sync>,
    made: AtomicU64,
}

/// Number, steps made, sum.
type WalkState = (u64, u64, u64);

fn page(task: u64, step: u64) -> u64 {
    (task.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).wrapping_add(step * 37) % PAGES
}

impl Work for Walks {
    type Task = WalkState;
    type Context = Worker;
    fn context(&self, _thread: usize, worker: Worker) -> Worker {
        worker
    }
    fn worker<'c>(&self, context: &'c mut Worker) -> &'c mut Worker {
        context
    }
    fn admit(&self, n: u64) -> Result<WalkState, FieldError> {
        Ok((n, 0, 0))
    }
    fn steps(&self, worker: &mut Worker, tasks: [Option<&mut WalkState>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let Some((n, step, sum)) = task else { continue };
            let mut found = 0;
            for k in 0..STANDS_ON {
                let id = PageId::new(self.array, 0, page(*n, *step + k));
                match worker.page(id) {
                    Lookup::Here(bytes) => found += u64::from(bytes[7]),
                    Lookup::Absent => outcome.missing.push(id),
                    Lookup::Failed(e) => panic!("{e}"),
                }
            }
            outcome.progress = StepProgress::Need;
            if outcome.missing.is_empty() {
                (*step, *sum) = (*step + 1, *sum + found);
                if self.made.fetch_add(1, Relaxed) == 100 {
                    (self.midway)();
                }
                outcome.progress = if *step == STEPS { StepProgress::Done } else { StepProgress::Yield };
            }
        }
    }
    fn bytes(&self, _: &WalkState) -> usize {
        64
    }
    fn finish(&self, (_, _, sum): WalkState) -> Result<(), FieldError> {
        self.sum.fetch_add(sum, Relaxed);
        Ok(())
    }
}

impl Windowed for Walks {}

impl Budgeted for Walks {}

fn walk(limit: u64, workers: usize, later: Option<u64>) -> RunStats {
    let pager = Pager::new(PagerConfig { limit, readers: 4, ..PagerConfig::default() }).unwrap();
    let bytes: Vec<u8> = (0..PAGES as usize * BYTES).map(|n| (n / BYTES % 251) as u8).collect();
    let source = pager.add_source(Arc::new(Memory::new("memory", bytes)));
    let array = pager.add_array(Arc::new(NumberedPages(source)));
    let midway: Box<dyn Fn() + Sync> = {
        let pager = pager.clone();
        Box::new(move || later.into_iter().for_each(|limit| pager.set_limit(limit)))
    };
    let work = Walks { array, sum: AtomicU64::new(0), midway, made: AtomicU64::new(0) };
    let load = RunLoad { tasks: TASKS, workers, active: TASKS as usize };
    let stats = run(&work, &pager, load, &mut |_| true).unwrap();
    let truth: u64 =
        (0..TASKS).flat_map(|n| (0..STEPS).flat_map(move |s| (0..STANDS_ON).map(move |k| page(n, s + k) % 251))).sum();
    assert_eq!(work.sum.into_inner(), truth);
    stats
}

/// Bytes without pages: tables, two workers.
const REST: u64 = 400 << 10;

#[test]
fn fewer_wait_where_pages_are_asked_for_in_vain() {
    // Steps of all tasks need 480 pages at a time, and there is room for fifty.
    let room = 50 * BYTES as u64;
    for workers in [1, 2] {
        let stats = walk(REST + room, workers, None);
        let steps = TASKS * STEPS;
        // Usually one wait for each new page of a step.
        assert!(stats.restarts < 3 * steps, "{workers} workers: {} restarts for {steps} steps", stats.restarts);
        assert!(stats.restarts > steps / 2, "memory was never short: {} restarts", stats.restarts);
    }
}

#[test]
fn a_raised_limit_is_a_new_beginning_and_a_lowered_one_ends() {
    let (small, ample) = (REST + 50 * BYTES as u64, REST + 2 * PAGES * BYTES as u64);
    let raised = walk(small, 2, Some(ample));
    let lowered = walk(ample, 2, Some(small));
    assert!(raised.restarts > 0 && lowered.restarts > 0);
}

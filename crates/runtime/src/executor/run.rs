//! A run from its first thread to its last.

use super::memory::stacks;
use super::read_ahead::Nobody;
use super::scheduler::SchedulerPlan;
use super::shared::{RunState, ThreadExit};
use super::thread::Thread;
use super::work::{Budgeted, RunLoad, RunStats, Windowed};
use field::error::FieldError;
use pager::{Pager, Wake, Worker};
use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of progress calls and of checks for an interruption.
const TELL_EVERY: Duration = Duration::from_millis(80);

/// Runs all tasks of `work`. The calling thread calls `watch` about ten times a second with the number of finished
/// tasks. When `watch` returns false the run stops.
///
/// # Errors
/// The first error of a task; [`FieldError::Page`] for a page that fails because of the network, or because its file has
/// changed; [`FieldError::LimitTooSmall`] when a step does not fit; [`FieldError::Interrupted`], also
/// after [`Budgeted::until`].
pub fn run<W: Windowed + Budgeted>(
    work: &W,
    pager: &Arc<Pager>,
    load: RunLoad,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<RunStats, FieldError> {
    let began = Instant::now();
    let failures_before = pager.ending_failures();
    let (workers, _stacks) = stacks(pager, load.workers.max(1));
    let load = RunLoad { workers, ..load };
    let nobody: Arc<dyn Wake> = Arc::new(Nobody);
    let plan = SchedulerPlan {
        tasks: load.tasks,
        threads: workers,
        active: load.active,
        windowed: W::WINDOWED,
        in_runs: work.in_runs(),
    };
    let shared: Arc<RunState<W::Task>> = Arc::new(RunState::new(pager, plan, work.record_bytes()));
    // All workers are made before the first thread fills the memory: a worker is charged when it is made.
    let pins: Vec<Worker> = (0..workers).map(|_| pager.worker()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = pins
            .into_iter()
            .enumerate()
            .map(|(n, worker)| {
                let (shared, nobody) = (shared.clone(), nobody.clone());
                std::thread::Builder::new().name(format!("farfield-{n}")).spawn_scoped(scope, move || {
                    let _leaving = ThreadExit(&shared);
                    Thread::new(work, &shared, (n, worker), load, nobody).run();
                })
            })
            .collect();
        for t in threads {
            if let Err(e) = t {
                shared.fail(FieldError::System(format!("cannot start a thread: {e}; try fewer --workers")));
                shared.live.fetch_sub(1, SeqCst);
            }
        }
        let (mut looked, mut until) = (Instant::now(), work.until());
        while shared.live.load(SeqCst) > 0 {
            // The last thread ends this wait.
            let left = until.map_or(Duration::MAX, |t| t.saturating_duration_since(Instant::now()));
            std::thread::park_timeout(TELL_EVERY.saturating_sub(looked.elapsed()).min(left));
            if until.is_some_and(|t| Instant::now() >= t) {
                until = None;
                shared.fail(FieldError::Interrupted);
            }
            if looked.elapsed() >= TELL_EVERY {
                looked = Instant::now();
                if let Some(e) = pager.ending_failure(failures_before) {
                    shared.fail(FieldError::Page(e));
                }
                if !watch(shared.done.load(Relaxed)) {
                    shared.fail(FieldError::Interrupted);
                }
            }
        }
    });
    let wake: Arc<dyn Wake> = shared.clone();
    pager.cancel(&wake);
    pager.cancel(&nobody);
    shared.end()?;
    if let Some(e) = pager.ending_failure(failures_before) {
        return Err(FieldError::Page(e));
    }
    Ok(RunStats {
        wall_s: began.elapsed().as_secs_f64(),
        wait_s: shared.waited_us.load(Relaxed) as f64 * 1e-6 / workers as f64,
        restarts: shared.restarts.load(Relaxed),
        elders: shared.elders.load(Relaxed),
        dropped: shared.dropped.load(Relaxed),
        steps: shared.steps.load(Relaxed),
    })
}

//! Pathlines over files in memory: the plain loop for comparison, with paging by the system.

use super::lines::digest;
use super::mmap::{Memory, MmapNodes, Whole};
use field::error::FieldError;
use field::locator::LANES;
use kernels::flow::ZoneOrder;
use kernels::line::JoinedLine;
use kernels::pathline::Pathline;
use kernels::streamline::StepProgress;
use kernels::unsteady::{UnsteadyFlow, UnsteadyLine};
use runtime::executor::Outcome;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::Instant;
use trace::admission::{SeedOrder, SeedRule};
use trace::line_kinds::step_unsteady;
use trace::pathlines::{self, Course};
use trace::TraceSpec;

/// Follows pathlines through PLOT3D files that are mapped or read whole. Each thread advances all its particles to a
/// time step before the next, so that each time step is used once. Reports wall and CPU seconds without opening, and
/// those of the loading.
///
/// # Errors
/// [`FieldError`] of opening; [`FieldError::Usage`] for other lines than pathlines and for files that cannot be mapped.
pub fn whole_pathlines(
    source: SourceSpec,
    resources: Resources,
    spec: &TraceSpec,
    how: Whole,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let wrong = || FieldError::Usage("this arm takes pathlines".into());
    let path = spec.path.as_ref().filter(|path| path.streak.is_none()).ok_or_else(wrong)?;
    let session = Session::open(source, resources, watch)?;
    let dataset = session.located(watch)?;
    let Course { series, options, held: _held } = pathlines::series(&dataset, &session.pager, spec, path, (&[], None))?;
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let memory = Arc::new(Memory::new(&dataset, 0..series.times.len(), how)?);
    let loading = json!({"wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu});
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let rule = SeedRule::new(&spec.seeds, &dataset)?;
    // In Farfield's order, in which neighbours share pages.
    let sorted = SeedOrder::near(&rule, &session.pager, watch)?;
    let begin = |n| {
        let number = sorted.as_ref().map_or(n, |order| order.get(n));
        Ok((number, Pathline::new(rule.seed(number)?, &options, 0), false))
    };
    let mut lines = (0..spec.seeds.len()).map(begin).collect::<Result<Vec<(u64, Pathline, bool)>, FieldError>>()?;
    let windows = series.times.len().saturating_sub(1).max(1) as u32;
    let share = |lines: &mut [(u64, Pathline, bool)]| -> Result<u64, FieldError> {
        let nodes = MmapNodes::new(memory.clone(), &session);
        let mut flow = UnsteadyFlow::new(nodes, series.clone(), ZoneOrder::file(dataset.zones.len()));
        let mut steps = 0;
        for window in 0..windows {
            let mut waiting = lines.iter_mut().filter(|(_, line, done)| !done && line.window() <= window);
            let mut lanes: [Option<&mut (u64, Pathline, bool)>; LANES] = core::array::from_fn(|_| waiting.next());
            while lanes.iter().any(Option::is_some) {
                let mut outcomes: [Outcome; LANES] = core::array::from_fn(|_| Outcome {
                    progress: StepProgress::Yield,
                    missing: Vec::new(),
                    moved: false,
                });
                let mut error = None;
                let tasks = lanes.each_mut().map(|lane| lane.as_mut().map(|lane| &mut lane.1));
                step_unsteady(&mut flow, &options, tasks, &mut outcomes, |_, e| error = e);
                if let Some(e) = error {
                    return Err(FieldError::Page(e));
                }
                for (lane, outcome) in lanes.iter_mut().zip(outcomes) {
                    let Some((_, line, done)) = lane else { continue };
                    steps += 1;
                    match outcome.progress {
                        StepProgress::Need => {
                            return Err(FieldError::Usage("a plain loop met a page that is not there".into()))
                        }
                        StepProgress::Done => *done = true,
                        _ => {}
                    }
                    if *done || line.window() > window {
                        *lane = waiting.next();
                    }
                }
            }
        }
        Ok(steps)
    };
    let threads = session.resources.threads().max(1);
    let each = lines.len().div_ceil(threads).max(1);
    let steps = if threads == 1 {
        share(&mut lines)?
    } else {
        std::thread::scope(|scope| {
            let lost = |_| Err(FieldError::Usage("a thread ended early".into()));
            let all: Vec<_> = lines.chunks_mut(each).map(|part| scope.spawn(|| share(part))).collect();
            all.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).sum::<Result<u64, FieldError>>()
        })?
    };
    lines.sort_unstable_by_key(|(number, ..)| *number);
    let lines: Vec<JoinedLine> = lines.into_iter().map(|(_, line, _)| line.into_line()).collect();
    Ok(json!({
        "loading": loading, "resident_peak_bytes": process::peak_resident_bytes(), "threads": threads,
        "runs": [{
            "wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu, "steps": steps,
            "points": lines.iter().map(|line| line.points.len()).sum::<usize>(), "digest": digest(&lines),
        }],
    }))
}

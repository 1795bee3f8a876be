//! Pictures with volumes in them: geometry, rays and light take turns.
//!
//! All workers find what is seen of the geometry, each in its own rows; then the rays of all these rows are cast at once, on all cores and
//! by one pager, up to where they meet it; then all workers light what was found.

use super::bands::Plan;
use super::PictureError;
use kernels::draw::{gathered, Canvas, HazeRows, Stage, StageError};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Draws all rows, from the top down.
pub(super) fn draw(
    stage: &Stage<'_>,
    plan: &Plan,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), PictureError> {
    let [width, height] = stage.size();
    let mut canvases: Vec<Canvas> = (0..plan.workers).map(|_| Canvas::new(stage, plan.rows)).collect();
    let mut out = Vec::new();
    let group = plan.rows * plan.workers;
    let mut from = 0;
    while from < height {
        let rows = from..from.saturating_add(group).min(height);
        let (begun, ends) = (from as f32 / height as f32, rows.end as f32 / height as f32);
        // The last group may have fewer rows than workers.
        let cuts: Vec<Range<u32>> = (0..plan.workers)
            .map(|k| (from + k * plan.rows).min(rows.end)..(from + (k + 1) * plan.rows).min(rows.end))
            .filter(|cut| !cut.is_empty())
            .collect();
        let canvases = &mut canvases[..cuts.len()];
        each(canvases, &cuts, |canvas, cut| canvas.see(stage, cut.clone()))?;
        let stopped = AtomicBool::new(false);
        let mut go_on = || {
            let on = progress(begun + (ends - begun) * 0.5);
            stopped.fetch_or(!on, Ordering::Relaxed);
            on
        };
        loop {
            let any = AtomicBool::new(false);
            each(canvases, &cuts, |canvas, _| {
                any.fetch_or(canvas.peel(stage)?, Ordering::Relaxed);
                Ok(())
            })?;
            if !any.load(Ordering::Relaxed) {
                break;
            }
            let haze = gathered(stage, &Canvas::peel_depths(stage, canvases), &mut go_on)?;
            check(&stopped)?;
            each(canvases, &cuts, |canvas, _| {
                canvas.lay(stage, haze.as_ref());
                Ok(())
            })?;
        }
        let haze = gathered(stage, &Canvas::depths(stage, canvases), &mut go_on)?;
        check(&stopped)?;
        out.clear();
        out.resize(rows.len() * width as usize * 3, 0);
        light(stage, canvases, &cuts, haze.as_ref(), &mut out)?;
        sink(&out)?;
        from = rows.end;
        if !progress(ends) {
            return Err(PictureError::Interrupted);
        }
    }
    Ok(())
}

fn check(stopped: &AtomicBool) -> Result<(), PictureError> {
    if stopped.load(Ordering::Relaxed) {
        Err(PictureError::Interrupted)
    } else {
        Ok(())
    }
}

/// Does `work` with each canvas and its rows, a thread each.
fn each(
    canvases: &mut [Canvas],
    cuts: &[Range<u32>],
    work: impl Fn(&mut Canvas, &Range<u32>) -> Result<(), StageError> + Sync,
) -> Result<(), PictureError> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            canvases.iter_mut().zip(cuts).map(|(canvas, cut)| scope.spawn(move || work(canvas, cut))).collect();
        let ended = threads.into_iter().map(|t| t.join().map_err(|_| PictureError::WorkerLost));
        ended.collect::<Result<Vec<_>, _>>()?.into_iter().collect::<Result<(), StageError>>().map_err(Into::into)
    })
}

/// Lights the rows of all canvases into `out`.
fn light(
    stage: &Stage<'_>,
    canvases: &mut [Canvas],
    cuts: &[Range<u32>],
    haze: Option<&HazeRows>,
    out: &mut [u8],
) -> Result<(), PictureError> {
    let row = stage.size()[0] as usize * 3;
    std::thread::scope(|scope| {
        let (mut rest, mut threads) = (out, Vec::with_capacity(cuts.len()));
        for (canvas, cut) in canvases.iter_mut().zip(cuts) {
            let (own, others) = rest.split_at_mut(cut.len() * row);
            rest = others;
            threads.push(scope.spawn(move || canvas.light(stage, haze, own)));
        }
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| PictureError::WorkerLost))
    })
}

#[cfg(test)]
mod tests;

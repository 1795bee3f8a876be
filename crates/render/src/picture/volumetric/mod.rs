//! Pictures with volumes: geometry, rays and light take turns.
//!
//! All workers find the visible geometry of their rows. Then one pager casts the rays of all these rows on all cores,
//! up to the geometry. Then all workers light their rows.

use super::bands::BandPlan;
use super::PictureError;
use kernels::draw::{gathered, Canvas, Depths, HazeRows, Stage, StageError};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Draws all rows, from the top down.
pub(super) fn draw(
    stage: &Stage<'_>,
    plan: &BandPlan,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), PictureError> {
    let height = stage.size()[1];
    let mut work = RowGroupDrawing {
        stage,
        rows: plan.rows,
        canvases: (0..plan.workers).map(|_| Canvas::new(stage, plan.rows)).collect(),
        out: Vec::new(),
    };
    let mut from = 0;
    while from < height {
        let end = if plan.gathered > 0 {
            work.many(from, plan.gathered, progress, sink)?
        } else {
            work.few(from, progress, sink)?
        };
        from = end;
        if !progress(from as f32 / height as f32) {
            return Err(PictureError::Interrupted);
        }
    }
    Ok(())
}

struct RowGroupDrawing<'s, 'a> {
    stage: &'s Stage<'a>,
    /// Rows of a canvas.
    rows: u32,
    canvases: Vec<Canvas>,
    out: Vec<u8>,
}

impl RowGroupDrawing<'_, '_> {
    /// The rows of each canvas from `from` on. There may be fewer ranges than canvases.
    fn cuts(&self, from: u32, end: u32) -> Vec<Range<u32>> {
        let end = end.min(self.stage.size()[1]);
        (0..self.canvases.len() as u32)
            .map(|k| (from + k * self.rows).min(end)..(from + (k + 1) * self.rows).min(end))
            .filter(|cut| !cut.is_empty())
            .collect()
    }

    fn see(&mut self, cuts: &[Range<u32>]) -> Result<(), PictureError> {
        each(&mut self.canvases, cuts, |canvas, cut| canvas.see(self.stage, cut.clone()))
    }

    /// Lights visible rows and hands them over.
    fn light(
        &mut self,
        cuts: &[Range<u32>],
        haze: Option<&HazeRows>,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), PictureError> {
        let rows: usize = cuts.iter().map(Range::len).sum();
        self.out.clear();
        self.out.resize(rows * self.stage.size()[0] as usize * 3, 0);
        light(self.stage, &mut self.canvases, cuts, haze, &mut self.out)?;
        Ok(sink(&self.out)?)
    }

    /// Draws the rows that canvases hold. Returns their end.
    fn few(
        &mut self,
        from: u32,
        progress: &mut dyn FnMut(f32) -> bool,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u32, PictureError> {
        let stage = self.stage;
        let cuts = self.cuts(from, stage.size()[1]);
        let end = cuts.last().map_or(from, |cut| cut.end);
        self.see(&cuts)?;
        let canvases = &mut self.canvases[..cuts.len()];
        let mut going =
            CastProgress { share: (from + end) as f32 / 2.0 / stage.size()[1] as f32, progress, stopped: false };
        loop {
            let any = AtomicBool::new(false);
            each(canvases, &cuts, |canvas, _| {
                any.fetch_or(canvas.peel(stage)?, Ordering::Relaxed);
                Ok(())
            })?;
            if !any.load(Ordering::Relaxed) {
                break;
            }
            let haze = going.gathered(stage, &Canvas::peel_depths(stage, canvases))?;
            each(canvases, &cuts, |canvas, _| {
                canvas.lay(stage, haze.as_ref());
                Ok(())
            })?;
        }
        let haze = going.gathered(stage, &Canvas::depths(stage, canvases))?;
        self.light(&cuts, haze.as_ref(), sink)?;
        Ok(end)
    }

    /// Draws the rows whose depths and light fit `bytes`, if no surface is transparent. Returns their end.
    ///
    /// Canvases hold fewer rows, so geometry is drawn twice: for the ends of rays, and to be lit.
    fn many(
        &mut self,
        from: u32,
        bytes: u64,
        progress: &mut dyn FnMut(f32) -> bool,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u32, PictureError> {
        let (stage, height) = (self.stage, self.stage.size()[1]);
        let mut depths = stage.no_depths(from);
        let (mut end, mut used, mut times) = (from, 0, 0);
        while end < height {
            let cuts = self.cuts(end, height);
            self.see(&cuts)?;
            if !progress(from as f32 / height as f32) {
                return Err(PictureError::Interrupted);
            }
            let seen = &self.canvases[..cuts.len()];
            let more: u64 = seen.iter().map(Canvas::gathered_bytes).sum();
            if times > 0 && used + more > bytes {
                break;
            }
            seen.iter().for_each(|canvas| canvas.add_depths(stage, &mut depths));
            (end, used, times) = (cuts.last().map_or(height, |cut| cut.end), used + more, times + 1);
        }
        let mut going = CastProgress { share: (from + end) as f32 / 2.0 / height as f32, progress, stopped: false };
        let haze = going.gathered(stage, &depths)?;
        drop(depths);
        let mut first = from;
        while first < end {
            let cuts = self.cuts(first, end);
            if times > 1 || end < height {
                self.see(&cuts)?;
            }
            self.light(&cuts, haze.as_ref(), sink)?;
            if !(going.progress)((from + end) as f32 / 2.0 / height as f32) {
                return Err(PictureError::Interrupted);
            }
            first = cuts.last().map_or(end, |cut| cut.end);
        }
        Ok(end)
    }
}

/// Progress while rays are cast.
struct CastProgress<'p> {
    share: f32,
    progress: &'p mut dyn FnMut(f32) -> bool,
    stopped: bool,
}

impl CastProgress<'_> {
    /// Gathered light up to some depths.
    fn gathered(&mut self, stage: &Stage<'_>, depths: &Depths) -> Result<Option<HazeRows>, PictureError> {
        let (share, stopped) = (self.share, &mut self.stopped);
        let mut go_on = || {
            let on = (self.progress)(share);
            *stopped |= !on;
            on
        };
        let haze = gathered(stage, depths, &mut go_on)?;
        if self.stopped {
            return Err(PictureError::Interrupted);
        }
        Ok(haze)
    }
}

/// Runs `work` on each canvas and its rows, on one thread each.
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

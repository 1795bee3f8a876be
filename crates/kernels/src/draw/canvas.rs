//! The buffers in which one band of a picture at a time is drawn.

use super::band::{Area, Band, DrawTarget, Peel};
use super::colour::encode;
use super::haze::{Depths, HazeRows};
use super::light::Veil;
use super::stage::{Stage, StageError};
use glam::Vec3;
use std::ops::Range;

/// Most transparent surfaces behind each other. Further ones are left out.
const MOST_PEELS: usize = 12;

/// The buffers of one band at a time. [`Canvas::draw`] draws pictures without volumes. Otherwise call [`Canvas::see`],
/// then [`Canvas::peel`] and [`Canvas::lay`] until no surface is left, then [`Canvas::light`].
pub struct Canvas {
    band: Band,
    peel: Band,
    veil: Veil,
    line: Vec<Vec3>,
    rows: Range<u32>,
    peels: usize,
}

impl Canvas {
    /// A canvas for bands of at most `rows` rows, with [`Stage::canvas_bytes`] bytes.
    pub fn new(stage: &Stage<'_>, rows: u32) -> Canvas {
        let area = |rows| Area { first_row: 0, rows, columns: stage.setting.size[0], lattice: stage.lattice.clone() };
        Canvas {
            band: Band::new(area(rows)),
            peel: Band::new(area(0)),
            veil: Veil::new(),
            line: vec![Vec3::ZERO; stage.setting.size[0] as usize],
            rows: 0..0,
            peels: 0,
        }
    }

    /// Draws rows `rows` of the picture into `out`, three bytes a pixel (sRGB), row by row.
    ///
    /// # Errors
    /// [`StageError::Layer`] for an unreadable layer, [`StageError::Haze`] for an unreadable volume.
    pub fn draw(&mut self, stage: &Stage<'_>, rows: Range<u32>, out: &mut [u8]) -> Result<(), StageError> {
        self.see(stage, rows)?;
        while self.peel(stage)? {
            let haze = cast(stage, |canvas| &canvas.peel, &[self])?;
            self.lay(stage, haze.as_ref());
        }
        let haze = cast(stage, |canvas| &canvas.band, &[self])?;
        self.light(stage, haze.as_ref(), out);
        Ok(())
    }

    /// Finds the visible points of the opaque layers in rows `rows` of the picture.
    ///
    /// # Errors
    /// [`StageError::Layer`] for an unreadable layer.
    pub fn see(&mut self, stage: &Stage<'_>, rows: Range<u32>) -> Result<(), StageError> {
        self.band.reset(rows.start, rows.end - rows.start);
        self.rows = rows;
        self.peels = 0;
        for k in 0..stage.layers.len() {
            if stage.shown(k, false) {
                stage.stream(&mut self.band, k, &stage.projector, 1.0, false)?;
            }
        }
        stage.draw_gizmo(&mut self.band);
        if stage.see_through() {
            self.veil.reset(self.band.depth.len(), stage.haze().is_some());
        }
        Ok(())
    }

    /// Finds the next transparent surface at each sample. Returns whether there may be one.
    ///
    /// # Errors
    /// [`StageError::Layer`] for an unreadable layer.
    pub fn peel(&mut self, stage: &Stage<'_>) -> Result<bool, StageError> {
        if !stage.see_through() || self.peels == MOST_PEELS {
            return Ok(false);
        }
        self.peels += 1;
        self.peel.reset(self.rows.start, self.rows.end - self.rows.start);
        let mut target = Peel { band: &mut self.peel, floor: &self.veil.floor, ceiling: &self.band.depth };
        for k in 0..stage.layers.len() {
            if stage.shown(k, true) {
                stage.stream(&mut target, k, &stage.projector, 1.0, false)?;
            }
        }
        Ok(self.peel.depth.iter().any(|d| d.to_array().iter().any(|d| d.is_finite())))
    }

    /// Adds the points found by [`Self::peel`] behind the earlier ones.
    pub fn lay(&mut self, stage: &Stage<'_>, haze: Option<&HazeRows>) {
        stage.shader().lay(&self.peel, haze, &mut self.veil);
    }

    /// Lights all points found, into `out`: three bytes a pixel (sRGB), row by row.
    pub fn light(&mut self, stage: &Stage<'_>, haze: Option<&HazeRows>, out: &mut [u8]) {
        let shader = stage.shader();
        let veil = stage.see_through().then_some(&self.veil);
        let width = stage.setting.size[0] as usize;
        for (row, out) in self.rows.clone().zip(out.chunks_exact_mut(width * 3)) {
            shader.row(&self.band, veil, haze, row, &mut self.line);
            stage.layout.overlay.draw_row(row, shader.behind(row), &mut self.line);
            for (colour, out) in self.line.iter().zip(out.chunks_exact_mut(3)) {
                for (c, out) in out.iter_mut().enumerate() {
                    *out = (encode(colour[c]) + 0.5).clamp(0.0, 255.0) as u8;
                }
            }
        }
    }

    /// Depths of opaque points in the rows of consecutive canvases.
    pub fn depths(stage: &Stage<'_>, canvases: &[Canvas]) -> Depths {
        depths_of(stage, canvases.iter().map(|c| &c.band))
    }

    /// Depths of the points found by [`Self::peel`].
    pub fn peel_depths(stage: &Stage<'_>, canvases: &[Canvas]) -> Depths {
        depths_of(stage, canvases.iter().map(|c| &c.peel))
    }

    /// Adds the depths of opaque points in its rows, which follow those of `depths`.
    pub fn add_depths(&self, stage: &Stage<'_>, depths: &mut Depths) {
        depths.add(&self.band, stage.ruler());
    }

    /// Bytes of the depths of its rows, and of the light of rays up to them.
    pub fn gathered_bytes(&self) -> u64 {
        let area = self.band.area();
        Depths::bytes(u64::from(area.rows) * u64::from(area.columns), Depths::count(&self.band))
    }
}

/// Depths of the samples of consecutive bands.
fn depths_of<'b>(stage: &Stage<'_>, bands: impl Iterator<Item = &'b Band>) -> Depths {
    let mut bands = bands.peekable();
    let row = bands.peek().map_or(0, |band| band.area().first_row);
    let mut depths = Depths::new(row, stage.size()[0]);
    bands.for_each(|band| depths.add(band, stage.ruler()));
    depths
}

/// The light of the volumes up to some depths; `None` without volumes.
fn cast(
    stage: &Stage<'_>,
    band: impl Fn(&Canvas) -> &Band,
    canvases: &[&mut Canvas],
) -> Result<Option<HazeRows>, StageError> {
    let depths = depths_of(stage, canvases.iter().map(|c| band(c)));
    gathered(stage, &depths, &mut || true)
}

/// The light of a stage's volumes up to some depths; `None` without volumes.
///
/// # Errors
/// [`StageError::Haze`] for an unreadable volume.
pub fn gathered(
    stage: &Stage<'_>,
    depths: &Depths,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<HazeRows>, StageError> {
    let Some(haze) = stage.haze() else { return Ok(None) };
    let mut rows = HazeRows::new(depths);
    haze.cast(stage.camera(), stage.size(), depths, &mut rows, go_on).map_err(StageError::Haze)?;
    Ok(Some(rows))
}

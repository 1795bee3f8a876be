//! Pictures: bands drawn on all cores within a memory limit, written to PNG as they come.
//!
//! # Theory
//! `kernels::draw` draws any rows of a picture in memory that follows from their number. Here the budget determines
//! that number, workers draw the bands, and finished bands are put in order. Each band streams the geometry again, so a
//! picture larger than the budget costs time, not memory.
//!
//! # Practice
//! [`render`] writes a PNG, [`render_rows`] hands over rows of pixels. The caller's closure charges all memory before
//! it is allocated. Dropping its guards releases the charges, at the end or after an error.
//!
//! Invariants:
//! 1. The picture is equal bit for bit for every budget and number of workers, as `kernels::draw` guarantees.
//! 2. At most two finished bands of a worker wait to be written. A worker further ahead waits for the writer, because
//!    waiting rows are charged memory.

mod arrays;
mod bands;
mod volumetric;
pub(crate) use bands::{interruptible, Stoppable};
#[cfg(test)]
mod tests;

pub use arrays::{ArrayError, LineSet, PointSet, SurfaceGrid, TriangleSet};
pub use kernels::draw::{
    bounds_of, fit_all, fit_layers, pixel_scale, ticks, Aabb, Axes, Background, BoxFilter, Camera, CameraError, Chunk,
    Colour, ColourMap, ColourMapError, Depths, DrawCounts, Effects, Finish, Fit, Frame, Furniture, Geometry,
    GeometryError, Haze, HazeRows, Layer, Lens, Light, Lighting, Mesh, Note, NotePosition, Polyline, Positions,
    QuadGrid, Radius, Samples, ScalarBar, ScaleBar, Spheres, Stage, StageError, StageSetting, Style, View,
    VisibleSides, MOST_PIXELS_A_SIDE, MOST_SAMPLES,
};

use output::png_rows;
use std::any::Any;
use std::io::Write;

/// A charge, released on drop.
pub type Guard = Box<dyn Any + Send>;

/// The ledger's error.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Memory for a picture.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Most bytes of the picture. Bands are chosen to fit.
    pub bytes: u64,
    /// Charges so many bytes, or returns the reason why not.
    pub charge: &'a dyn Fn(u64) -> Result<Guard, Refusal>,
}

impl Budget<'_> {
    /// An uncharged budget, for tests and small programs.
    pub fn uncharged(bytes: u64) -> Budget<'static> {
        Budget { bytes, charge: &|_| Ok(Box::new(())) }
    }
}

/// The contents of a picture: geometry, and volumes between it.
#[derive(Clone, Default)]
pub struct Subject<'a> {
    /// Geometry, each with its style.
    pub layers: Vec<Layer<'a>>,
    /// Volumes.
    pub haze: Option<&'a dyn Haze>,
}

impl<'a> From<Vec<Layer<'a>>> for Subject<'a> {
    fn from(layers: Vec<Layer<'a>>) -> Self {
        Self { layers, haze: None }
    }
}

/// Figures of a drawn picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Primitives of the layers, each counted once.
    pub counts: DrawCounts,
    /// Number of bands.
    pub bands: u32,
    /// Rows of a band.
    pub band_rows: u32,
    /// Bytes charged.
    pub charged_bytes: u64,
    /// Workers that drew.
    pub workers: u32,
}

/// Why a picture is not made.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The stage cannot be drawn.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// One row does not fit.
    #[error("a picture of {width} x {height} pixels needs at least {needed} bytes of memory, and {budget} are there")]
    TooSmall {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The smallest sufficient budget in bytes.
        needed: u64,
        /// The budget in bytes.
        budget: u64,
    },
    /// The ledger refused.
    #[error("no memory for a picture: {0}")]
    Refused(Refusal),
    /// The picture could not be written.
    #[error("the picture could not be written: {0}")]
    Write(#[from] std::io::Error),
    /// A worker ended without a result.
    #[error("a drawing thread ended unexpectedly")]
    WorkerLost,
    /// The caller asked to stop.
    #[error("drawing was interrupted")]
    Interrupted,
}

/// Draws a picture and writes it as PNG (8 bits a channel, sRGB).
///
/// `progress` gets the finished share, 0 to 1, about ten times a second. It returns whether to continue.
///
/// # Errors
/// [`PictureError`]. `out` then holds no whole PNG.
///
/// ```
/// use render::picture::*;
/// let lines = LineSet::new(vec![[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], vec![0, 2]).unwrap();
/// let bounds = lines.bounds();
/// let furniture = Furniture::default();
/// let setting = StageSetting {
///     size: [160, 120],
///     camera: Camera::fit(&bounds, &View::of(&bounds), &furniture.frame([160, 120])),
///     background: Background::default(),
///     effects: Effects::default(),
///     lighting: Lighting::default(),
///     samples: Samples::Eight,
///     furniture,
/// };
/// let layer = Layer { geometry: &lines, style: Style::tubes(Colour::Solid([200, 80, 40]), Radius::Pixels(3.0)) };
/// let mut png = Vec::new();
/// let report = render(setting, vec![layer], Budget::uncharged(8 << 20), 2, &mut |_| true, &mut png).unwrap();
/// assert_eq!(report.counts.segments, 1);
/// assert!(png.starts_with(b"\x89PNG"));
/// ```
pub fn render<'a>(
    setting: StageSetting,
    subject: impl Into<Subject<'a>>,
    budget: Budget<'_>,
    workers: usize,
    progress: &mut dyn FnMut(f32) -> bool,
    out: impl Write,
) -> Result<Report, PictureError> {
    render_with_text(setting, subject, budget, workers, progress, &[], out)
}

/// As [`render`], with text (key, value) in the file.
///
/// # Errors
/// As [`render`].
pub fn render_with_text<'a>(
    setting: StageSetting,
    subject: impl Into<Subject<'a>>,
    budget: Budget<'_>,
    workers: usize,
    progress: &mut dyn FnMut(f32) -> bool,
    text: &[(&str, String)],
    out: impl Write,
) -> Result<Report, PictureError> {
    let size = setting.size;
    let reserved = png_rows::bytes(size[0]);
    if size.contains(&0) {
        return Err(StageError::BadSize(size[0], size[1]).into());
    }
    let mut png = png_rows::begin(out, size, text)?;
    let mut stream = png.stream_writer_with_size(png_rows::CHUNK_BYTES).map_err(png_rows::plain)?;
    let report = bands::render_rows(setting, subject.into(), budget, reserved, workers, progress, &mut |rows| {
        stream.write_all(rows)
    })?;
    stream.finish().map_err(png_rows::plain)?;
    Ok(report)
}

/// Draws a picture and hands over whole rows from the top down, three bytes a pixel (sRGB).
///
/// # Errors
/// [`PictureError`]. An error of `sink` becomes [`PictureError::Write`].
pub fn render_rows<'a>(
    setting: StageSetting,
    subject: impl Into<Subject<'a>>,
    budget: Budget<'_>,
    workers: usize,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<Report, PictureError> {
    bands::render_rows(setting, subject.into(), budget, 0, workers, progress, sink)
}

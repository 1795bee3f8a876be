//! Scenes: from a document that says what a picture shows to the picture.
//!
//! # Practice
//! [`render`] parses the document ([`Document`]), opens its source, and gathers what is drawn, object by object, into one log under the
//! ledger: lines of files and of traces, grid surfaces row by row, the edges of zones. Then it settles what depends on all of it
//! (ranges of colour maps, camera, radius of lines), and hands layers over that log to [`crate::picture`], which draws them in charged
//! bands and writes the PNG. No page is read while it draws.

mod document;
mod faces;
mod gather;
mod look;
mod pieces;
mod target;
#[cfg(test)]
mod tests;
mod view;

pub use document::{CameraSpec, Document, LinesFrom, MapSpec, Object, Paint, Projection, Rgb};
pub use look::look;

use crate::picture::{
    self, Axes, Background, Budget, Colour, ColourMap, Effects, Furniture, Layer, Note, PictureError, Place, Radius,
    Samples, ScalarBar, Setting, Stoppable, Style,
};
use crate::session::{limit_for, would_do, Bare, Means, Session, SourceSpec, Watch};
use crate::trace::{more_than, TraceSpec};
use faces::{FaceLayer, MeshLayer};
use field::error::FieldError;
use gather::{Gathered, Gatherer, Shape};
use pager::{ChargeKind, Pager};
use pieces::{Arena, LineLayer, Range};
use serde_json::{json, Map, Value};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use target::PictureFile;

/// See [`Reader::trace`].
pub type ReadTrace = dyn Fn(Value, &Session, &mut Watch<'_>) -> Result<TraceSpec, FieldError>;

/// How the parts of a scene are read that the caller reads elsewhere too.
pub struct Reader<'a> {
    /// `{"path", "q", "function", "options"}`.
    pub source: &'a dyn Fn(Value) -> Result<SourceSpec, FieldError>,
    /// Options of a trace, for the dataset of a session. Seeds may come from a file, and reading that can be watched.
    pub trace: &'a ReadTrace,
}

/// Share of the limit that gathered geometry may hold in memory; the rest of it goes to disk.
const ARENA_SHARE: u64 = 4;

/// Draws a scene to a PNG.
///
/// # Errors
/// [`FieldError`]: a scene that makes no sense, names that do not exist, what cannot be read or written, a limit that does not hold a row
/// of the picture, an interruption. The file then is not there.
pub fn render(
    scene: &str,
    output: &Path,
    means: Means,
    reader: &Reader<'_>,
    watch: &mut Watch<'_>,
) -> Result<Value, FieldError> {
    let document = Document::parse(scene)?;
    let [width, height] = document.size;
    if width == 0 || height == 0 || width.max(height) > kernels::draw::MOST_PIXELS_A_SIDE {
        return Err(FieldError::Usage(format!(
            "a picture of {width} x {height} pixels cannot be drawn: both sides have to be between 1 and {}",
            kernels::draw::MOST_PIXELS_A_SIDE
        )));
    }
    let mut file = PictureFile::create(output)?;
    let session = match &document.source {
        Some(s) => Some(Session::open((reader.source)(s.clone())?, means.clone(), watch)?),
        None => None,
    };
    let bare = if session.is_none() { Some(Bare::new(&means)?) } else { None };
    let Some(pager) = session.as_ref().map(|s| &s.pager).or(bare.as_ref().map(|b| &b.pager)).cloned() else {
        return Err(FieldError::Usage("the scene has no source".into()));
    };
    let mut arena = Arena::new(&pager, (pager.ledger().limit() / ARENA_SHARE) as usize)?;
    let mut gathered = Vec::with_capacity(document.objects.len());
    // One object's want is to be enough for the next one's.
    let enough = document.objects.iter().any(|o| matches!(o, Object::Lines { .. }));
    let enough = session.as_ref().filter(|_| enough).map_or(0, |s| picture_limit(s, document.size));
    for object in &document.objects {
        let mut gatherer = Gatherer { document: &document, session: session.as_ref(), reader, arena: &mut arena };
        gathered.push(gatherer.gather(object, watch).map_err(|e| more_than(e, enough))?);
    }
    let maps = settle_maps(&document, &gathered, session.as_ref())?;
    let camera = draw(&document, &gathered, &maps, &arena, &pager, means.threads(), &mut file, watch)?;
    let bytes = file.commit()?;
    let found: Map<String, Value> =
        maps.iter().map(|m| (m.name.clone(), json!({"field": m.field, "range": m.range, "units": m.units}))).collect();
    let mut drawn: Vec<Value> = Vec::with_capacity(gathered.len());
    for (n, g) in gathered.iter().enumerate() {
        // Two traces of one scene have the same name.
        let before = gathered[..n].iter().filter(|b| b.name == g.name).count();
        let name = if before > 0 { format!("{} {}", g.name, before + 1) } else { g.name.clone() };
        let mut found = json!({"kind": g.kind, "name": name, "primitives": g.primitives()});
        if let Some(failure) = &g.failed {
            found["failure"] = failure.as_str().into();
        }
        drawn.push(found);
    }
    let partial = gathered.iter().any(|g| g.failed.is_some());
    let stats = session.as_ref().map(Session::stats).or(bare.as_ref().map(Bare::stats));
    Ok(json!({
        "output": output, "size": document.size, "maps": found, "drawn": drawn, "camera": camera, "bytes_written": bytes, "stats": stats,
        "partial": partial,
    }))
}

/// A limit that does for lines through a dataset in a picture of that size.
fn picture_limit(session: &Session, [width, height]: [u32; 2]) -> u64 {
    let dataset = session.dataset();
    let closure = dataset.fields(Some("velocity"), &[], 0).map_or(0, |f| dataset.closure_bytes(&f, &session.pager, 1));
    // Of a row of pixels everything is kept: colour, depth, normals.
    let row = u64::from(width.max(height)) * 64;
    limit_for(closure + row + (2 << 20), ARENA_SHARE)
}

/// A map with its range.
struct Settled {
    name: String,
    field: String,
    units: Option<String>,
    range: [f64; 2],
    label: String,
    colours: ColourMap,
}

fn settle_maps(
    document: &Document,
    gathered: &[Gathered],
    session: Option<&Session>,
) -> Result<Vec<Settled>, FieldError> {
    let mut settled = Vec::new();
    for (name, map) in &document.maps {
        let mut found = Range::EMPTY;
        let mut used = document.bars.contains(name);
        for (object, g) in document.objects.iter().zip(gathered) {
            if let Object::Lines { paint, .. } | Object::Surface { paint, .. } = object {
                if paint.map.as_ref() == Some(name) {
                    found = found.union(g.range());
                    used = true;
                }
            }
        }
        if !used {
            continue;
        }
        let range = match (map.range, found.ends(), map.center) {
            (Some(r), _, _) => r,
            (None, Some(r), Some(c)) => readable(around(r, c)),
            (None, Some(r), None) => readable(r),
            (None, None, c) => readable([c.unwrap_or(0.0); 2]),
        };
        let lut = map.center.map_or_else(|| map.lut.clone(), |c| centred(&map.lut, range, c));
        let units = map.units.clone().or_else(|| session.map(|s| s.dataset().units(&map.field)));
        let label = map
            .label
            .clone()
            .unwrap_or_else(|| session.map_or_else(|| map.field.clone(), |s| s.dataset().long_name(&map.field)));
        let colours = ColourMap::new(lut, range).map_err(|e| FieldError::Usage(format!("scene: maps.{name}: {e}")))?;
        settled.push(Settled { name: name.clone(), field: map.field.clone(), units, range, label, colours });
    }
    Ok(settled)
}

/// An automatic range of values that have a reference value: as far to one side of it as to the other where they lie on both,
/// else from it, or, where all of them are far from it, their own.
fn around([low, high]: [f64; 2], c: f64) -> [f64; 2] {
    let reach = (high - c).abs().max((c - low).abs());
    if low < c && high > c {
        [c - reach, c + reach]
    } else if low >= c {
        [if low - c > FAR * reach { low } else { c }, high]
    } else {
        [low, if c - high > FAR * reach { high } else { c }]
    }
}

/// Share of the distance to the farthest value below which nothing lies when all values are far from the reference value.
const FAR: f64 = 0.5;

/// The part of a diverging map that a range takes, so that its middle colour stands at the reference value and equal distances
/// look alike. A range on one side of it gets that side's colours from end to end.
fn centred(lut: &[Rgb], [low, high]: [f64; 2], c: f64) -> Vec<Rgb> {
    let reach = (high - c).abs().max((c - low).abs());
    let place = |v: f64| 0.5 + 0.5 * (v - c) / reach;
    let [from, to] = match () {
        () if reach <= 0.0 => [0.0, 1.0],
        () if low >= c => [0.5, 1.0],
        () if high <= c => [0.0, 0.5],
        () => [place(low), place(high)],
    };
    if [from, to] == [0.0, 1.0] || lut.is_empty() {
        return lut.to_vec();
    }
    let last = lut.len() as f64 - 1.0;
    let entry = |n: usize| lut[((from + (to - from) * n as f64 / (CENTRED - 1) as f64) * last).round() as usize];
    (0..CENTRED).map(entry).collect()
}

/// Colours of a part of a map: as many as the eye tells apart.
const CENTRED: usize = 256;

/// An automatic range as a scale can show it: the noise of a wall at rest is zero, and a constant gets a range around it.
fn readable([low, high]: [f64; 2]) -> [f64; 2] {
    let most = low.abs().max(high.abs());
    if high - low <= NOISE * most || most == 0.0 {
        let reach = if most > 0.0 { most * 0.01 } else { 1.0 };
        return [low - reach, high + reach];
    }
    let clean = |v: f64| if v.abs() < NOISE * most { 0.0 } else { v };
    [clean(low), clean(high)]
}

/// Share of the largest value below which a difference is rounding in single precision.
const NOISE: f64 = 1e-6;

/// Radius of lines in pixels of a picture of 1440 x 1000, for few lines and for many.
const RADIUS_PIXELS: [f64; 2] = [2.1, 1.1];
/// Pieces of lines that count as few, and as many.
const FEW_AND_MANY: [f64; 2] = [20_000.0, 1_000_000.0];

fn line_pixels(segments: u64) -> f64 {
    let [few, many] = FEW_AND_MANY;
    let t = ((segments.max(1) as f64 / few).ln() / (many / few).ln()).clamp(0.0, 1.0);
    RADIUS_PIXELS[0] + (RADIUS_PIXELS[1] - RADIUS_PIXELS[0]) * t
}

/// Pixels between lines of a mesh below which some are left out.
const MESH_PIXELS: u32 = 7;

/// Outlines are framed with the rest while the diagonal of all is at most so many times that of the rest.
const NEAR_OUTLINE: f64 = 1.8;

/// Everything the renderer reads, with how it looks.
enum Source<'a> {
    Lines(LineLayer<'a>),
    Face(FaceLayer<'a>),
    Mesh(MeshLayer<'a>),
}

impl Source<'_> {
    fn geometry(&self) -> &dyn picture::Geometry {
        match self {
            Source::Lines(g) => g,
            Source::Face(g) => g,
            Source::Mesh(g) => g,
        }
    }
}

fn layers<'a>(
    document: &Document,
    gathered: &'a [Gathered],
    maps: &[Settled],
    arena: &'a Arena,
    scale: f32,
) -> Vec<(Source<'a>, Style, bool)> {
    let log = arena.log();
    let colour = |paint: &Paint| match paint.map.as_ref().and_then(|n| maps.iter().find(|m| m.name == *n)) {
        Some(m) => Colour::Mapped(m.colours.clone()),
        None => Colour::Solid(paint.rgb),
    };
    // All lines alike, however they are split into objects.
    let segments = gathered.iter().map(|g| if let Shape::Lines(l) = &g.shape { l.segments } else { 0 }).sum();
    let mut all = Vec::new();
    for (object, g) in document.objects.iter().zip(gathered) {
        match (object, &g.shape) {
            (Object::Lines { paint, radius, .. }, Shape::Lines(lines)) => {
                let radius = radius.map_or(Radius::Pixels(line_pixels(segments) as f32 * scale), Radius::Physical);
                all.push((Source::Lines(LineLayer { log, lines }), Style::tubes(colour(paint), radius), false));
            }
            (Object::Surface { face: named, paint, mesh }, Shape::Faces(faces)) => {
                for face in faces {
                    if face.is_area() {
                        all.push((Source::Face(FaceLayer { log, face }), Style::surface(colour(paint)), false));
                    }
                    if *mesh || !face.is_area() {
                        let most = (document.size[0].max(document.size[1]) / MESH_PIXELS).max(8) as usize;
                        // Where there is no area the line is all there is to see; the body stands out most.
                        let (width, ink) = match (face.is_area(), named) {
                            (true, _) => (1.0, ink_on(paint)),
                            (false, Some(_)) => (2.5, ink_on(paint)),
                            (false, None) => (4.0, paint.rgb),
                        };
                        let style =
                            Style { min_pixels: 0.05, ..Style::outline(Colour::Solid(ink), width * scale.max(0.6)) };
                        all.push((Source::Mesh(MeshLayer::new(log, face, most)), style, false));
                    }
                }
            }
            (Object::Outline { rgb, width, .. }, Shape::Edges(lines)) => {
                all.push((
                    Source::Lines(LineLayer { log, lines }),
                    Style::outline(Colour::Solid(*rgb), width * scale.max(0.6)),
                    true,
                ));
            }
            // An object's shape is what its kind is gathered into.
            _ => {}
        }
    }
    all
}

/// Colour of mesh lines on a surface: its own, much darker, so that they show on any.
fn ink_on(paint: &Paint) -> Rgb {
    match paint.map {
        Some(_) => [28, 31, 38],
        None => paint.rgb.map(|c| (u32::from(c) * 3 / 10) as u8),
    }
}

/// What a picture says whose lines are not all there.
const PARTIAL: &str = "partial: some pages could not be read, and lines stop there";

#[allow(clippy::too_many_arguments)] // what a picture is made of
fn draw(
    document: &Document,
    gathered: &[Gathered],
    maps: &[Settled],
    arena: &Arena,
    pager: &Arc<Pager>,
    threads: usize,
    file: &mut PictureFile,
    watch: &mut Watch<'_>,
) -> Result<Value, FieldError> {
    let size = document.size;
    let bars = document.bars.iter().filter_map(|name| maps.iter().find(|m| m.name == *name)).map(|m| ScalarBar {
        title: m.label.clone(),
        // A pure number has no unit to show.
        unit: m.units.clone().filter(|u| u != "1").unwrap_or_default(),
        map: m.colours.clone(),
    });
    let title = document.title.iter().map(|t| Note { text: t.clone(), place: Place::Top, scale: 1.25 });
    // Who sees the picture alone is to know as well.
    let partial = gathered.iter().find(|g| g.failed.is_some());
    let partial = partial.map(|_| Note { text: PARTIAL.into(), place: Place::Top, scale: 1.0 });
    let furniture = Furniture {
        bars: bars.collect(),
        axes: document.axes.then(Axes::default),
        notes: title.chain(partial).collect(),
        text_scale: 1.0,
    };
    let mut sources = layers(document, gathered, maps, arena, picture::pixel_scale(size));
    let (chosen, framed) = {
        let stop = AtomicBool::new(false);
        let held: Vec<_> = sources.iter().map(|s| Stoppable { inner: s.0.geometry(), stop: &stop }).collect();
        let of = |edges: bool| -> Vec<Layer<'_>> {
            let some = sources.iter().zip(&held).filter(|(s, g)| (edges || !s.2) && !g.inner.bounds().is_empty());
            some.map(|(s, geometry)| Layer { geometry, style: s.1.clone() }).collect()
        };
        // Outlines of far surroundings would make what is looked at small: they count where they reach little farther
        // than the rest.
        let (rest, all) = (of(false), of(true));
        let [near, far] = [&rest, &all].map(|l| picture::bounds_of(l).extent().length());
        let framed = rest.is_empty() || far <= NEAR_OUTLINE * near;
        let fitted = if framed { &all } else { &rest };
        let frame = furniture.frame(size);
        let mut go_on = || watch("drawing", 0.0, 1.0);
        let chosen = picture::interruptible(&stop, &mut go_on, || view::choose(&document.camera, fitted, &frame));
        (chosen.and_then(|c| c.map_err(Into::into)).map_err(|e| drawing(e, file, pager))?, framed)
    };
    if !framed {
        // What only crosses the picture stays in the background.
        for (_, style, _) in sources.iter_mut().filter(|s| s.2) {
            if let Colour::Solid(c) = &mut style.colour {
                let [top, bottom] = document.background;
                *c = core::array::from_fn(|n| {
                    ((u32::from(c[n]) * 2 + u32::from(top[n]) + u32::from(bottom[n])) / 4) as u8
                });
            }
        }
    }
    // Thickness in space, so that what is far looks thin.
    let pixel = chosen.pixel(size[1]);
    for (source, style, _) in &mut sources {
        match (source, style.radius) {
            (Source::Mesh(m), _) if m.face.is_area() => {
                m.pixel = Some(pixel * f64::from(picture::pixel_scale(size).max(0.6)))
            }
            (Source::Lines(_), Radius::Pixels(r)) if style.finish == picture::Finish::Satin => {
                style.radius = Radius::Physical(f64::from(r) * pixel)
            }
            _ => {}
        }
    }
    let layers: Vec<Layer<'_>> =
        sources.iter().map(|(g, style, _)| Layer { geometry: g.geometry(), style: style.clone() }).collect();
    let [top, bottom] = document.background;
    let setting = Setting {
        size,
        camera: chosen.camera,
        background: if top == bottom { Background::Solid(top) } else { Background::Gradient { top, bottom } },
        effects: Effects::default(),
        samples: if document.samples > 3 { Samples::Sixteen } else { Samples::Eight },
        furniture,
    };
    let ledger = pager.ledger();
    let held = ledger.used().saturating_sub(ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached));
    // A sixteenth is left for what the pager itself needs.
    let free = ledger.limit().saturating_sub(held);
    let charge = |bytes: u64| match pager.charge(ChargeKind::Tiles, bytes) {
        Ok(c) => Ok(Box::new(c) as picture::Guard),
        Err(f) => Err(picture::Refusal::from(f.to_string())),
    };
    let budget = Budget { bytes: free - free / 16, charge: &charge };
    let drawn = picture::render(
        setting,
        layers,
        budget,
        threads,
        &mut |share| watch("drawing", f64::from(share), 1.0),
        &mut *file,
    );
    drawn.map_err(|e| drawing(e, file, pager))?;
    Ok(chosen.json())
}

/// An error of the renderer as the engine's callers see it.
fn drawing(e: PictureError, file: &PictureFile, pager: &Arc<Pager>) -> FieldError {
    let limit = pager.ledger().limit();
    match e {
        PictureError::TooSmall { width, height, needed, .. } => FieldError::LimitTooSmall {
            limit,
            // With a sixteenth left over, and a third more: what was gathered takes a quarter of whatever limit there is.
            needs: would_do(pager, needed / 15 * 16) / 3 * 4,
            what: format!("a picture of {width} x {height} pixels"),
        },
        PictureError::Refused(_) => {
            FieldError::LimitTooSmall { limit, needs: limit.saturating_mul(2), what: "the picture".into() }
        }
        PictureError::Write(e) => file.failed(e),
        PictureError::Interrupted => FieldError::Interrupted,
        PictureError::Stage(picture::StageError::Layer { source, .. }) => {
            FieldError::Output(format!("the picture's geometry cannot be read back: {source}"))
        }
        PictureError::Stage(e) => FieldError::Usage(e.to_string()),
        PictureError::WorkerLost => FieldError::Output("a drawing thread ended unexpectedly".into()),
    }
}

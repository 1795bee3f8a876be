//! One picture: its layers and styles, its camera, and drawing it.

use super::cellfog::CellFog;
use super::colour_maps::{raised, RangedMap};
use super::depth_compositing::Lack;
use super::destination::Out;
use super::document::{CameraSpec, KeySpec, Rgb, SceneDocument};
use super::faces::{FaceLayer, MeshLayer};
use super::gather::{GatheredObject, ObjectGeometry};
use super::geometry_log::LineLayer;
use super::meshes::TriangleLayer;
use super::objects::{Object, Paint, VolumeLook, VolumeTint};
use super::path::PictureSteps;
use super::studio::Studio;
use super::view::{self, Chosen, NUMBERS};
use super::volumes::Fog;
use crate::picture::{
    self, Aabb, Axes, Background, Budget, Camera, Colour, Effects, Furniture, Layer, Note, NotePosition, PictureError,
    Radius, Samples, ScalarBar, StageSetting, Stoppable, Style, Subject,
};
use field::error::FieldError;
use output::ByteLog;
use pager::{ChargeKind, Pager};
use runtime::limits::would_do;
use runtime::session::{ProgressWatch, Session};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Radius of lines in pixels of a picture of 1440 x 1000: for few lines, for many.
const RADIUS_PIXELS: [f64; 2] = [2.1, 1.1];
/// Numbers of segments that count as few and as many.
const FEW_AND_MANY: [f64; 2] = [20_000.0, 1_000_000.0];

fn line_pixels(segments: u64) -> f64 {
    let [few, many] = FEW_AND_MANY;
    let t = ((segments.max(1) as f64 / few).ln() / (many / few).ln()).clamp(0.0, 1.0);
    RADIUS_PIXELS[0] + (RADIUS_PIXELS[1] - RADIUS_PIXELS[0]) * t
}

/// Least pixels between the drawn lines of a mesh.
const MESH_PIXELS: u32 = 7;

/// Outlines are framed with the rest if the diagonal of all is at most so many times that of the rest.
const NEAR_OUTLINE: f64 = 1.8;

/// One geometry for the renderer.
enum DrawnLayer<'a> {
    Lines(LineLayer<'a>),
    Face(FaceLayer<'a>),
    Mesh(MeshLayer<'a>),
    Triangles(TriangleLayer<'a>),
}

impl DrawnLayer<'_> {
    fn geometry(&self) -> &dyn picture::Geometry {
        match self {
            DrawnLayer::Lines(g) => g,
            DrawnLayer::Face(g) => g,
            DrawnLayer::Mesh(g) => g,
            DrawnLayer::Triangles(g) => g,
        }
    }
}

/// An object of the document, gathered.
#[derive(Clone, Copy)]
pub(crate) struct LayerSource<'a> {
    pub(crate) number: usize,
    pub(crate) gathered: &'a GatheredObject,
    pub(crate) log: &'a ByteLog,
}

/// Number of line segments.
pub(crate) fn segments(shown: &[LayerSource<'_>]) -> u64 {
    shown.iter().map(|s| if let ObjectGeometry::Lines(l) = &s.gathered.shape { l.segments } else { 0 }).sum()
}

/// Layers with their styles; the last value marks outlines. The radius of lines suits `segments` in all, however they
/// are split into objects.
fn layers<'a>(
    document: &SceneDocument,
    size: [u32; 2],
    shown: &[LayerSource<'a>],
    maps: &[RangedMap],
    segments: u64,
) -> Vec<(DrawnLayer<'a>, Style, bool)> {
    let scale = picture::pixel_scale(size);
    let colour = |paint: &Paint| match paint.map.as_ref().and_then(|n| maps.iter().find(|m| m.name == *n)) {
        Some(m) => Colour::Mapped(m.colours.clone()),
        None => Colour::Solid(paint.rgb),
    };
    let mut all = Vec::new();
    for LayerSource { number, gathered, log } in shown.iter().copied() {
        match (&document.objects[number], &gathered.shape) {
            (Object::Lines { paint, radius, .. }, ObjectGeometry::Lines(lines)) => {
                let radius = radius.map_or(Radius::Pixels(line_pixels(segments) as f32 * scale), Radius::Physical);
                all.push((DrawnLayer::Lines(LineLayer { log, lines }), Style::tubes(colour(paint), radius), false));
            }
            (Object::Surface { face: named, paint, mesh, .. }, ObjectGeometry::Faces(faces)) => {
                for face in faces {
                    if face.is_area() {
                        let style = Style { seen_from: face.seen_from, ..Style::surface(colour(paint)) };
                        all.push((DrawnLayer::Face(FaceLayer { log, face }), style, false));
                    }
                    if *mesh || !face.is_area() {
                        let most = (size[0].max(size[1]) / MESH_PIXELS).max(8) as usize;
                        // Without an area only the line is visible. The body's is the widest.
                        let (width, ink) = match (face.is_area(), named) {
                            (true, _) => (1.0, ink_on(paint)),
                            (false, Some(_)) => (2.5, ink_on(paint)),
                            (false, None) => (4.0, paint.rgb),
                        };
                        let style =
                            Style { min_pixels: 0.05, ..Style::outline(Colour::Solid(ink), width * scale.max(0.6)) };
                        all.push((DrawnLayer::Mesh(MeshLayer::new(log, face, most)), style, false));
                    }
                }
            }
            (Object::Mesh { paint, opacity, .. }, ObjectGeometry::Mesh(mesh)) => {
                let style = Style { opacity: *opacity, ..Style::surface(colour(paint)) };
                all.push((DrawnLayer::Triangles(TriangleLayer { log, mesh }), style, false));
            }
            (Object::Cores { paint, radius, .. }, ObjectGeometry::Lines(lines)) => {
                let radius = radius.map_or(Radius::Pixels(2.0 * RADIUS_PIXELS[0] as f32 * scale), Radius::Physical);
                all.push((DrawnLayer::Lines(LineLayer { log, lines }), Style::tubes(colour(paint), radius), false));
            }
            (Object::Outline { rgb, width, .. }, ObjectGeometry::Edges(lines)) => {
                all.push((
                    DrawnLayer::Lines(LineLayer { log, lines }),
                    Style::outline(Colour::Solid(*rgb), width * scale.max(0.6)),
                    true,
                ));
            }
            // Other shapes do not belong to the object's kind.
            _ => {}
        }
    }
    all
}

/// Colour of mesh lines on a surface: a much darker shade of its own, visible on any surface.
fn ink_on(paint: &Paint) -> Rgb {
    match paint.map {
        Some(_) => [28, 31, 38],
        None => paint.rgb.map(|c| (u32::from(c) * 3 / 10) as u8),
    }
}

/// Note in a picture with incomplete lines.
const PARTIAL: &str = "partial: some pages could not be read, and lines stop there";

/// Properties of one picture of a view.
pub(crate) struct Shot<'a> {
    pub(crate) document: &'a SceneDocument,
    /// The session, if the source is a flow.
    pub(crate) session: Option<&'a Session>,
    pub(crate) camera: &'a CameraSpec,
    /// Key frames of the camera.
    pub(crate) path: &'a [KeySpec],
    pub(crate) size: [u32; 2],
    pub(crate) title: Option<&'a str>,
}

/// Content of one picture of a view.
#[derive(Clone, Copy)]
pub(crate) struct PictureContent<'a> {
    pub(crate) shown: &'a [LayerSource<'a>],
    pub(crate) maps: &'a [RangedMap],
    pub(crate) words: &'a Captions,
    pub(crate) steps: PictureSteps,
}

/// Words of a picture beside its objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captions {
    /// Text of the time.
    pub(crate) time: Option<String>,
    /// Whether some lines are incomplete.
    pub(crate) partial: bool,
    /// Unit of lengths, if there is one.
    pub(crate) length_unit: Option<String>,
    /// Labels of the axes, if they are not x, y and z.
    pub(crate) axes: Option<[String; 3]>,
}

/// Properties shared by all pictures of one view.
#[derive(Clone, Debug)]
pub(crate) struct ViewParts {
    /// The camera.
    pub(crate) chosen: Chosen,
    /// Whether outlines are framed.
    framed: bool,
    /// Most segments of a picture.
    segments: u64,
}

impl ViewParts {
    /// The same on the scene's path, at a picture.
    pub(crate) fn on_path(&self, path: &[KeySpec], picture: usize) -> Self {
        Self { chosen: self.chosen.along(path, picture), ..self.clone() }
    }

    /// Whether properties that no scene gives are equal: the radius of lines, and the framing.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.framed == other.framed && self.segments == other.segments
    }

    /// Exact numbers of all properties.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let own = [f64::from(u8::from(self.framed)), self.segments as f64];
        self.chosen.numbers().into_iter().chain(own).collect()
    }

    /// Inverse of [`Self::numbers`]; `None` for other numbers.
    pub(crate) fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (camera, own) = numbers.split_at_checked(NUMBERS)?;
        let &[framed, segments] = own else { return None };
        let chosen = Chosen::from_numbers(camera.try_into().ok()?);
        Some(Self { chosen, framed: framed != 0.0, segments: segments as u64 })
    }
}

impl Shot<'_> {
    fn furniture(&self, shown: &[LayerSource<'_>], maps: &[RangedMap], words: &Captions) -> Furniture {
        let uses = |object: usize, name: &str| self.document.objects[object].uses(name);
        // A view of some objects shows only their bars, and bars without objects.
        let wanted = |name: &str| {
            shown.iter().any(|s| uses(s.number, name))
                || !(0..self.document.objects.len()).any(|object| uses(object, name))
        };
        let bars = self.document.bars.iter().filter(|name| wanted(name));
        let bars = bars.filter_map(|name| maps.iter().find(|m| m.name == *name && !m.is_empty())).map(|m| ScalarBar {
            title: raised(&m.label, false),
            // A pure number has no unit.
            unit: m.units.as_deref().filter(|u| *u != "1").map(|u| raised(u, true)).unwrap_or_default(),
            map: m.colours.clone(),
        });
        let title = self.title.map(|t| Note { text: t.into(), place: NotePosition::Top, scale: 1.25 });
        // Also for viewers of the picture alone.
        let partial = words.partial.then(|| Note { text: PARTIAL.into(), place: NotePosition::Top, scale: 1.0 });
        let time = words.time.as_ref().map(|t| Note { text: t.clone(), place: NotePosition::TopLeft, scale: 1.0 });
        Furniture {
            bars: bars.collect(),
            axes: self.document.axes.then(|| words.axes.clone().map_or_else(Axes::default, |labels| Axes { labels })),
            notes: title.into_iter().chain(partial).chain(time).collect(),
            keys: if self.document.keys { self.keys(shown) } else { Vec::new() },
            scale: None,
            text_scale: 1.0,
        }
    }

    /// Fields of volumes with one colour each, if there are several.
    fn keys(&self, shown: &[LayerSource<'_>]) -> Vec<(String, Rgb)> {
        let mut keys: Vec<(String, Rgb)> = Vec::new();
        for s in shown {
            let Object::Volume(look) = &self.document.objects[s.number] else { continue };
            let Some(field) = look.field.clone().filter(|_| look.paint.map.is_none()) else { continue };
            let key = (field, look.paint.rgb);
            if matches!(look.tint, VolumeTint::Map) && !keys.contains(&key) {
                keys.push(key);
            }
        }
        // Several surfaces of one field cannot be distinguished by name.
        let fields: HashSet<&str> = keys.iter().map(|(field, _)| field.as_str()).collect();
        if fields.len() > 1 && fields.len() == keys.len() {
            keys
        } else {
            Vec::new()
        }
    }

    /// Settles the shared properties of all pictures of `frames`.
    ///
    /// # Errors
    /// [`FieldError`]: gathered geometry that cannot be read back, an interruption.
    pub(crate) fn settle(
        &self,
        frames: &[Vec<LayerSource<'_>>],
        maps: &[RangedMap],
        words: &Captions,
        pager: &Arc<Pager>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<ViewParts, FieldError> {
        let segments = frames.iter().map(|f| segments(f)).max().unwrap_or(0);
        // Objects that are equal in all pictures are visited once.
        let mut met = HashSet::new();
        let once = |s: &&LayerSource<'_>| met.insert(std::ptr::from_ref(s.gathered));
        let all: Vec<LayerSource<'_>> = frames.iter().flatten().filter(once).copied().collect();
        let sources = layers(self.document, self.size, &all, maps, segments);
        let furniture = self.furniture(&all, maps, words);
        let stop = AtomicBool::new(false);
        let held: Vec<_> = sources.iter().map(|s| Stoppable { inner: s.0.geometry(), stop: &stop }).collect();
        let of = |edges: bool| -> Vec<Layer<'_>> {
            let some = sources.iter().zip(&held).filter(|(s, g)| (edges || !s.2) && !g.inner.bounds().is_empty());
            some.map(|(s, geometry)| Layer { geometry, style: s.1.clone() }).collect()
        };
        // Outlines of far surroundings would make the rest small. They count only if they reach little farther.
        let (rest, every) = (of(false), of(true));
        let mut boxes = Vec::new();
        for s in &all {
            if let ObjectGeometry::Rays(corners) | ObjectGeometry::Cells(corners, _) = &s.gathered.shape {
                boxes.extend(corners.iter().map(|c| Aabb { min: *c, max: *c }));
            }
        }
        let of_volumes = boxes.iter().fold(Aabb::EMPTY, |a, b| a.union(b));
        let [near, far] = [&rest, &every].map(|l| picture::bounds_of(l).union(&of_volumes).extent().length());
        let framed = (rest.is_empty() && boxes.is_empty()) || far <= NEAR_OUTLINE * near;
        let fitted = if framed { &every } else { &rest };
        let frame = furniture.frame(self.size);
        let mut go_on = || watch("drawing", 0.0, 1.0);
        let chosen = picture::interruptible(&stop, &mut go_on, || view::choose(self.camera, fitted, &boxes, &frame));
        let chosen = chosen.and_then(|c| c.map_err(Into::into)).map_err(|e| drawing(e, &mut |_| unwritten(), pager))?;
        Ok(ViewParts { chosen, framed, segments })
    }

    /// Layers with the styles of a picture.
    fn picture_layers<'a>(&self, content: &PictureContent<'a>, seen: &ViewParts) -> Vec<(DrawnLayer<'a>, Style, bool)> {
        let mut all = layers(self.document, self.size, content.shown, content.maps, seen.segments);
        if !seen.framed {
            // Outlines that only cross the picture fade into the background.
            for (_, style, _) in all.iter_mut().filter(|s| s.2) {
                if let Colour::Solid(c) = &mut style.colour {
                    *c = faded(*c, self.document.background);
                }
            }
        }
        // Radii in units of length, so that far lines are thin.
        let pixel = seen.chosen.pixel(self.size[1]);
        for (source, style, _) in &mut all {
            match (source, style.radius) {
                (DrawnLayer::Mesh(m), _) if m.face.is_area() => {
                    m.pixel = Some(pixel * f64::from(picture::pixel_scale(self.size).max(0.6)))
                }
                (DrawnLayer::Lines(_), Radius::Pixels(r)) if style.finish == picture::Finish::Satin => {
                    style.radius = Radius::Physical(f64::from(r) * pixel)
                }
                _ => {}
            }
        }
        all
    }

    /// The scale bar of a picture, if it has one.
    fn scale_bar(&self, seen: &ViewParts, words: &Captions) -> Option<picture::ScaleBar> {
        let parallel = matches!(seen.chosen.camera.lens, picture::Lens::Orthographic { .. });
        let scaled = self.document.scale_bar.unwrap_or(parallel && words.length_unit.is_some());
        scaled.then(|| picture::ScaleBar {
            pixel: seen.chosen.pixel(self.size[1]),
            unit: words.length_unit.clone().unwrap_or_default(),
        })
    }

    fn setting(&self, content: &PictureContent<'_>, seen: &ViewParts) -> StageSetting {
        let furniture = self.furniture(content.shown, content.maps, content.words);
        let [top, bottom] = self.document.background;
        StageSetting {
            size: self.size,
            camera: seen.chosen.camera,
            background: if top == bottom { Background::Solid(top) } else { Background::Gradient { top, bottom } },
            effects: Effects::default(),
            lighting: self.document.lighting.clone(),
            samples: if self.document.samples > 3 { Samples::Sixteen } else { Samples::Eight },
            furniture: Furniture { scale: self.scale_bar(seen, content.words), ..furniture },
        }
    }

    /// Draws one picture. Returns its pixels with gaps and its filled pixels.
    ///
    /// # Errors
    /// [`FieldError`]: a limit without room for one row, a failed write, an interruption.
    pub(crate) fn draw(
        &self,
        content: &PictureContent<'_>,
        seen: &ViewParts,
        studio: &Studio<'_>,
        out: &mut Out<'_>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Lack, FieldError> {
        let pager = &studio.session.pager;
        let sources = self.picture_layers(content, seen);
        let layers: Vec<Layer<'_>> =
            sources.iter().map(|(g, style, _)| Layer { geometry: g.geometry(), style: style.clone() }).collect();
        let rays = PictureRays::of(self, content, &seen.chosen.camera, studio)?;
        let charge = |bytes: u64| match pager.charge(ChargeKind::Tiles, bytes) {
            Ok(c) => Ok(Box::new(c) as picture::Guard),
            Err(f) => Err(picture::Refusal::from(f.to_string())),
        };
        let budget = Budget { bytes: free_bytes(pager), charge: &charge };
        let mut progress = |share: f32| watch("drawing", f64::from(share), 1.0);
        let subject = Subject { layers, haze: rays.haze() };
        let drawn = out.draw(self.setting(content, seen), subject, budget, studio.session.threads(), &mut progress);
        drawn.map_err(|e| drawing(e, &mut |e| out.failed(e), pager))?;
        Ok(rays.lack())
    }
}

/// Half of a colour and half of the background.
fn faded(c: Rgb, [top, bottom]: [Rgb; 2]) -> Rgb {
    core::array::from_fn(|n| ((u32::from(c[n]) * 2 + u32::from(top[n]) + u32::from(bottom[n])) / 4) as u8)
}

/// Bytes of the limit for drawing: pages may leave, and all else stays.
fn free_bytes(pager: &Pager) -> u64 {
    let ledger = pager.ledger();
    let held = ledger.used().saturating_sub(ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached));
    // A sixteenth is left for the pager itself.
    let free = ledger.limit().saturating_sub(held);
    free - free / 16
}

/// The rays of a picture.
struct PictureRays<'a> {
    of_volume: Option<Fog<'a>>,
    of_flow: Option<CellFog<'a>>,
}

impl<'a> PictureRays<'a> {
    /// # Errors
    /// [`FieldError`]: missing channels, levels and fields, functions without sense.
    fn of(
        shot: &Shot<'a>,
        content: &PictureContent<'_>,
        camera: &Camera,
        studio: &Studio<'a>,
    ) -> Result<Self, FieldError> {
        let &PictureContent { shown, maps, steps, .. } = content;
        let objects = &shot.document.objects;
        let looks = shown.iter().filter_map(|s| match &objects[s.number] {
            Object::Volume(look) => Some(&**look),
            _ => None,
        });
        let looks: Vec<&VolumeLook> = looks.collect();
        let of_volume = match studio.volume().filter(|_| !looks.is_empty()) {
            Some(volume) => Some(Fog::new(studio, volume, &looks, maps, steps, camera, shot.size[1])?),
            None => None,
        };
        let fields = shown.iter().filter_map(|s| match (&objects[s.number], &s.gathered.shape) {
            (Object::Volume(look), ObjectGeometry::Cells(corners, _)) => Some((s.number, &**look, corners)),
            _ => None,
        });
        let fields: Vec<_> = fields.collect();
        let of_flow = match shot.session.filter(|_| !fields.is_empty()) {
            Some(session) => Some(CellFog::new(session, shot.document, &fields, maps, steps.shown, camera, shot.size)?),
            None => None,
        };
        Ok(Self { of_volume, of_flow })
    }

    fn haze(&self) -> Option<&dyn picture::Haze> {
        let of_flow = self.of_flow.as_ref().map(|f| f as &dyn picture::Haze);
        self.of_volume.as_ref().map(|f| f as &dyn picture::Haze).or(of_flow)
    }

    /// Pixels with gaps and filled pixels.
    fn lack(&self) -> Lack {
        let mut lack = self.of_volume.as_ref().map_or(Lack::default(), Fog::lack);
        lack += self.of_flow.as_ref().map_or(Lack::default(), CellFog::lack);
        lack
    }
}

/// The error of a write while a camera is chosen, which writes nothing.
fn unwritten() -> FieldError {
    FieldError::Output("the picture could not be written".into())
}

/// The error of this crate for an error of the renderer.
fn drawing(e: PictureError, failed: &mut dyn FnMut(std::io::Error) -> FieldError, pager: &Arc<Pager>) -> FieldError {
    let limit = pager.ledger().limit();
    match e {
        PictureError::TooSmall { width, height, needed, .. } => FieldError::LimitTooSmall {
            limit,
            // A sixteenth is left over, and a third is added: gathered geometry has a quarter of any limit.
            needs: would_do(pager, needed / 15 * 16) / 3 * 4,
            what: format!("a picture of {width} x {height} pixels"),
        },
        PictureError::Refused(_) => {
            FieldError::LimitTooSmall { limit, needs: limit.saturating_mul(2), what: "the picture".into() }
        }
        PictureError::Write(e) => failed(e),
        PictureError::Interrupted => FieldError::Interrupted,
        PictureError::Stage(picture::StageError::Haze(source)) => match source.downcast::<FieldError>() {
            Ok(own) => *own,
            Err(other) => FieldError::Usage(other.to_string()),
        },
        PictureError::Stage(picture::StageError::Layer { source, .. }) => {
            FieldError::Output(format!("the picture's geometry cannot be read back: {source}"))
        }
        PictureError::Stage(e) => FieldError::Usage(e.to_string()),
        PictureError::WorkerLost => FieldError::Output("a drawing thread ended unexpectedly".into()),
    }
}

//! A picture ready to be drawn: camera, layers, light and annotations, and the bands of the drawing.
//!
//! # Practice
//! [`Stage::new`] prepares everything that does not depend on a band. [`Stage::survey`] then fills the small depth
//! picture. [`super::Canvas::draw`] draws any rows of the picture, in any order and on any number of threads, each with
//! its own canvas. Each call streams the layers again. The memory of a canvas follows from its rows only.

use super::band::{Area, Band, DepthOnly, DrawTarget, Lattice, Samples, BAND_GROUP_BYTES, EMPTY};
use super::camera::{Camera, CameraError, Fit, Frame, View};
use super::chunk::{Brush, DrawCounts};
use super::colour::{Colour, Srgb8};
use super::furniture::{Furniture, Gizmo, Layout};
use super::geometry::{Aabb, Chunk, Geometry, GeometryError, Polyline, Positions, Spheres};
use super::haze::{Depths, Haze, Ruler};
use super::light::{gain, Background, Effects, Lamps, Lighting, Material, Shader, HAZY_GROUP_BYTES, VEIL_GROUP_BYTES};
use super::occlusion::DepthMap;
use super::overlay::Align;
use super::projector::{Projector, NEAR};
use super::style::{Finish, Radius, Style};
use super::tube::TubePaint;
use glam::DVec3;
use std::ops::Range;
use wide::f32x8;

/// Geometry with its style.
#[derive(Clone)]
pub struct Layer<'a> {
    /// The geometry.
    pub geometry: &'a dyn Geometry,
    /// The style.
    pub style: Style,
}

/// The settings of a picture, besides its layers.
#[derive(Clone, Debug)]
pub struct StageSetting {
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// Camera.
    pub camera: Camera,
    /// Background.
    pub background: Background,
    /// Contact shadows and depth cue.
    pub effects: Effects,
    /// Lights.
    pub lighting: Lighting,
    /// Samples a pixel.
    pub samples: Samples,
    /// Scalar bars, axes, notes.
    pub furniture: Furniture,
}

/// Why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// No pixels, or more than fit.
    #[error("a picture of {0} x {1} pixels cannot be drawn: both sides have to be between 1 and 65536")]
    BadSize(u32, u32),
    /// The camera is invalid.
    #[error(transparent)]
    Camera(#[from] CameraError),
    /// Too many kinds of material.
    #[error("a picture has at most 250 pairs of finish and opacity, and this one has {0}")]
    TooManyMaterials(usize),
    /// A volume could not be read.
    #[error("a volume of the picture could not be read: {0}")]
    Haze(GeometryError),
    /// A layer's geometry could not be read.
    #[error("layer {layer} could not be read: {source}")]
    Layer {
        /// Number of the layer, from 0.
        layer: usize,
        /// The error of its owner.
        source: GeometryError,
    },
}

/// The camera that shows all of `layers` from the direction of `view`, as large as the frame's free rectangle allows.
/// It uses every point, and so fits closer than [`Camera::fit`] does to their boxes.
///
/// # Errors
/// [`StageError::Layer`] for an unreadable layer.
pub fn fit_layers(layers: &[Layer<'_>], view: &View, frame: &Frame) -> Result<Camera, StageError> {
    fit_all(layers, &[], view, frame)
}

/// As [`fit_layers`], with boxes that must be visible, too.
///
/// # Errors
/// As [`fit_layers`].
pub fn fit_all(layers: &[Layer<'_>], boxes: &[Aabb], view: &View, frame: &Frame) -> Result<Camera, StageError> {
    let bounds = boxes.iter().fold(bounds_of(layers), |a, b| a.union(b));
    if bounds.extent() == DVec3::ZERO {
        return Ok(Camera::fit(&bounds, view, frame));
    }
    let mut fit = Fit::new(&bounds, view, frame);
    for (k, layer) in layers.iter().enumerate() {
        let radius = if let Radius::Physical(r) = layer.style.radius { r } else { 0.0 };
        let mut each = |points: Positions<'_>, radii: Option<&[f32]>, radius: f64| {
            for i in 0..points.len() {
                fit.include(points.get(i), radii.and_then(|r| r.get(i)).map_or(radius, |r| f64::from(*r)));
            }
        };
        let mut visit = |chunk: Chunk<'_>| match chunk {
            Chunk::Line(l) => each(l.points, l.radii, radius),
            Chunk::Spheres(s) => each(s.points, s.radii, radius),
            Chunk::Mesh(m) => each(m.points, None, 0.0),
            Chunk::Quads(q) => each(q.points, None, 0.0),
        };
        layer.geometry.for_each(&|_| true, &mut visit).map_err(|source| StageError::Layer { layer: k, source })?;
    }
    for corner in boxes.iter().filter(|b| !b.is_empty()).flat_map(Aabb::corners) {
        fit.include(corner, 0.0);
    }
    Ok(fit.camera())
}

/// A box that holds all layers.
pub fn bounds_of(layers: &[Layer<'_>]) -> Aabb {
    layers.iter().map(|l| l.geometry.bounds()).fold(Aabb::EMPTY, |a, b| a.union(&b))
}

/// Pixels of a picture of `size` for one of a picture of 1440 x 1000. Radii and widths in pixels times this appear the
/// same at any size.
pub fn pixel_scale(size: [u32; 2]) -> f32 {
    ((f64::from(size[0]) * f64::from(size[1])).sqrt() as f32 / 1200.0).max(0.3)
}

/// Most pixels along a side of a picture.
pub const MOST_PIXELS_A_SIDE: u32 = 65_536;

/// Most materials of a picture: a sample has eight bits for them. Layers of equal style share one, so the number of
/// layers is not bounded.
const MOST_MATERIALS: usize = 250;

/// Material of the orientation axes.
const GIZMO_MATERIAL: u8 = 0;

/// A picture ready to be drawn.
pub struct Stage<'a> {
    pub(super) setting: StageSetting,
    pub(super) layers: Vec<Layer<'a>>,
    /// Volumes among the layers.
    haze: Option<&'a dyn Haze>,
    pub(super) projector: Projector,
    materials: Vec<Material>,
    /// Material of each layer.
    worn: Vec<u8>,
    pub(super) lattice: Lattice,
    pub(super) layout: Layout,
    gizmo: Option<GizmoParts>,
    range: [f32; 2],
    depths: DepthMap,
    contacts: bool,
    lamps: Option<Lamps>,
}

/// Orientation axes as geometry.
struct GizmoParts {
    projector: Projector,
    styles: [Style; 3],
    /// Rows of pixels that contain all of it.
    rows: [f32; 2],
}

impl<'a> Stage<'a> {
    /// Prepares a picture.
    ///
    /// # Errors
    /// [`StageError`] for an invalid size, camera or number of materials.
    pub fn new(setting: StageSetting, layers: Vec<Layer<'a>>) -> Result<Stage<'a>, StageError> {
        Self::with_haze(setting, layers, None)
    }

    /// Prepares a picture with volumes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_haze(
        setting: StageSetting,
        layers: Vec<Layer<'a>>,
        haze: Option<&'a dyn Haze>,
    ) -> Result<Stage<'a>, StageError> {
        let [w, h] = setting.size;
        if w == 0 || h == 0 || w > MOST_PIXELS_A_SIDE || h > MOST_PIXELS_A_SIDE {
            return Err(StageError::BadSize(w, h));
        }
        let bounds = haze.map_or(Aabb::EMPTY, |h| h.bounds()).union(&bounds_of(&layers));
        let projector = Projector::new(&setting.camera, setting.size, &bounds)?;
        // The first is that of the orientation axes.
        let mut materials = vec![Material { finish: Finish::Satin, gizmo: true, opacity: 1.0 }];
        let mut worn = Vec::with_capacity(layers.len());
        for layer in &layers {
            let material = Material { finish: layer.style.finish, gizmo: false, opacity: opacity_of(&layer.style) };
            let known = materials.iter().position(|m| *m == material);
            worn.push(known.unwrap_or(materials.len()));
            if known.is_none() {
                materials.push(material);
            }
        }
        if materials.len() > MOST_MATERIALS {
            return Err(StageError::TooManyMaterials(materials.len()));
        }
        let worn = worn.into_iter().map(|m| m as u8).collect();
        let light_background = setting.background.is_light();
        let mut layout = setting.furniture.layout(setting.size, light_background);
        let gizmo =
            layout.gizmo.map(|g| GizmoParts::new(&projector, &g, &setting.furniture, light_background, &mut layout));
        let range = depth_range(&projector, &bounds);
        let lamps = Lamps::of(&setting.lighting, &projector);
        let (lattice, depths) = (Lattice::pixels(setting.samples), DepthMap::new(setting.size));
        Ok(Stage {
            lattice,
            setting,
            layers,
            haze,
            projector,
            materials,
            worn,
            layout,
            gizmo,
            range,
            depths,
            contacts: false,
            lamps,
        })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.setting.size
    }

    /// Whether [`Stage::survey`] needs a depth map.
    pub fn wants_depths(&self) -> bool {
        let lit = |l: &Layer<'_>| l.style.finish != Finish::Flat;
        self.setting.effects.occlusion > 0.0 && self.layers.iter().any(lit)
    }

    /// The volumes among the layers.
    pub fn haze(&self) -> Option<&'a dyn Haze> {
        self.haze
    }

    /// The camera.
    pub fn camera(&self) -> &Camera {
        &self.setting.camera
    }

    /// Converts depths of bands to lengths.
    pub(super) fn ruler(&self) -> Ruler {
        Ruler { unit: self.projector.unit, offset: self.projector.ahead_of(&self.setting.camera) }
    }

    /// Depths without rows; the first is to be `row`.
    pub fn no_depths(&self, row: u32) -> Depths {
        Depths::new(row, self.setting.size[0])
    }

    /// Whether the volumes have to be read again for each part of the picture that is cast by itself.
    pub fn is_large(&self) -> bool {
        self.haze.is_some_and(|haze| haze.is_large(&self.setting.camera, self.setting.size))
    }

    /// Draws the orientation axes.
    pub(super) fn draw_gizmo(&self, band: &mut Band) {
        if let Some(gizmo) = &self.gizmo {
            gizmo.draw(band, GIZMO_MATERIAL);
        }
    }

    /// Most bytes that the stage itself holds: letters, and the depth map, twice while the parts of the survey are
    /// joined.
    pub fn survey_bytes(&self) -> u64 {
        let depths = if self.wants_depths() { self.depths.bytes() } else { 0 };
        self.layout.overlay.bytes() + depths
    }

    /// Bytes of a canvas of `rows` rows of pixels.
    pub fn canvas_bytes(&self, rows: u32) -> u64 {
        let groups = self.lattice.groups.len() as u64 * u64::from(self.setting.size[0]);
        let mut per_group = BAND_GROUP_BYTES as u64;
        if self.see_through() {
            let of_haze = if self.haze.is_some() { HAZY_GROUP_BYTES } else { 0 };
            per_group += (BAND_GROUP_BYTES + VEIL_GROUP_BYTES + of_haze) as u64;
        }
        u64::from(rows) * groups * per_group + u64::from(self.setting.size[0]) * 12
    }

    /// Most bytes of the depths of `rows` rows of pixels, and of the light of rays up to them.
    pub fn gathered_bytes(&self, rows: u32) -> u64 {
        let (pixels, samples) =
            (u64::from(rows) * u64::from(self.setting.size[0]), self.lattice.groups.len() as u64 * 8);
        if self.haze.is_some() {
            Depths::bytes(pixels, pixels * samples)
        } else {
            0
        }
    }

    /// Whether some surfaces are transparent.
    pub fn see_through(&self) -> bool {
        self.materials.iter().any(|m| m.opacity < 1.0)
    }

    fn material(&self, k: usize) -> Material {
        self.materials[usize::from(self.worn[k])]
    }

    /// Whether layer `k` is visible.
    pub(super) fn shown(&self, k: usize, see_through: bool) -> bool {
        let opacity = self.material(k).opacity;
        opacity > 0.0 && (opacity < 1.0) == see_through
    }

    /// Streams one layer into a target. Pieces that cannot touch it are omitted.
    pub(super) fn stream<T: DrawTarget>(
        &self,
        target: &mut T,
        k: usize,
        projector: &Projector,
        resolution: f32,
        everything: bool,
    ) -> Result<DrawCounts, StageError> {
        let layer = &self.layers[k];
        let rows = target.area().pixel_rows();
        let (grow, pad) = match layer.style.radius {
            Radius::Physical(r) if r > 0.0 => (r, 0.0),
            Radius::Physical(_) => (0.0, 0.0),
            Radius::Pixels(r) => (0.0, r.max(0.0) * resolution),
        };
        // The least radius, also in the small depth picture, and a margin for rounding.
        let pad = pad + layer.style.min_pixels.max(0.0) * resolution + 2.0;
        let wanted = |b: &Aabb| {
            if everything {
                return true;
            }
            let grown = Aabb { min: b.min - DVec3::splat(grow), max: b.max + DVec3::splat(grow) };
            projector.rows_of(&grown, pad).is_some_and(|r| r[1] >= rows[0] && r[0] <= rows[1])
        };
        let brush = Brush {
            projector,
            paint: TubePaint { material: self.worn[k], colour: &layer.style.colour },
            style: &layer.style,
            resolution,
        };
        let mut counts = DrawCounts::default();
        layer
            .geometry
            .for_each(&wanted, &mut |chunk| counts.add(&brush.draw(target, &chunk)))
            .map_err(|source| StageError::Layer { layer: k, source })?;
        Ok(counts)
    }

    /// Rows of groups of the small depth picture, along which the survey is divided. One without a depth picture.
    pub fn survey_rows(&self) -> u32 {
        if self.wants_depths() {
            self.depths.groups[1]
        } else {
            1
        }
    }

    /// Surveys the layers for the rows of groups `rows` of the small depth picture.
    ///
    /// The pass with rows from 0 visits every piece, visible or not, and its counts are those of the picture. Drop the
    /// counts of the others.
    ///
    /// # Errors
    /// [`StageError::Layer`] for an unreadable layer.
    pub fn survey(&self, rows: Range<u32>) -> Result<Survey, StageError> {
        let mut counts = DrawCounts::default();
        let everything = rows.start == 0;
        let map = &self.depths;
        let projector = self.projector.scaled(map.factor);
        let columns = if self.wants_depths() { map.groups[0] } else { 0 };
        let area = Area { first_row: rows.start, rows: rows.end - rows.start, columns, lattice: DepthMap::lattice() };
        let mut depth = vec![f32x8::splat(EMPTY); area.groups()];
        let mut target = DepthOnly { area, depth: &mut depth };
        for k in 0..self.layers.len() {
            // A flat line is an annotation: it casts no shadow.
            let casts = columns > 0 && self.shown(k, false) && self.material(k).finish != Finish::Flat;
            if casts {
                counts.add(&self.stream(&mut target, k, &projector, map.factor, everything)?);
            } else if everything {
                let area = Area { first_row: 0, rows: 0, columns: 0, lattice: DepthMap::lattice() };
                let mut none = DepthOnly { area, depth: &mut [] };
                counts.add(&self.stream(&mut none, k, &projector, map.factor, true)?);
            }
        }
        Ok(Survey { first_row: rows.start, depth, counts })
    }

    /// Stores the surveys of all rows.
    pub fn surveyed(&mut self, surveys: Vec<Survey>) {
        if self.wants_depths() {
            for s in &surveys {
                self.depths.fill(s.first_row, &s.depth);
            }
        }
    }

    /// Contact shadows for the rows of groups `rows` of the small picture, after [`Stage::surveyed`].
    pub fn contacts(&self, rows: Range<u32>) -> Vec<u8> {
        if self.wants_depths() {
            self.depths.contacts(&self.projector, rows)
        } else {
            Vec::new()
        }
    }

    /// Stores the contact shadows of all rows, in order.
    pub fn shadowed(&mut self, parts: Vec<Vec<u8>>) {
        if self.wants_depths() {
            self.depths.take_light(&parts, &self.projector);
            self.contacts = true;
        }
    }

    pub(super) fn shader(&self) -> Shader<'_> {
        Shader {
            projector: &self.projector,
            materials: &self.materials,
            background: self.setting.background,
            effects: self.setting.effects,
            depths: self.contacts.then_some(&self.depths),
            range: self.range,
            height: self.setting.size[1] as f32,
            light_background: self.setting.background.is_light(),
            gain: gain(),
            lamps: self.lamps.as_ref(),
        }
    }
}

/// A part of the small depth picture.
pub struct Survey {
    first_row: u32,
    depth: Vec<f32x8>,
    /// Counts of the geometry.
    pub counts: DrawCounts,
}

fn opacity_of(style: &Style) -> f32 {
    // An opacity of NaN counts as opaque. Nearly opaque counts as opaque, which is much cheaper.
    let o = if style.opacity.is_nan() { 1.0 } else { style.opacity.clamp(0.0, 1.0) };
    if o > 0.995 {
        1.0
    } else {
        o
    }
}

/// Least and greatest depth of a box; equal if its depth is negligible beside its size.
fn depth_range(p: &Projector, bounds: &Aabb) -> [f32; 2] {
    if bounds.is_empty() {
        return [0.0, 0.0];
    }
    let z = bounds.corners().map(|c| p.view(c).z);
    let low = z.iter().copied().fold(f32::INFINITY, f32::min).max(NEAR);
    let high = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // The unit is the scene's radius. A scene a tenth as deep as wide is read as a plane, where a cue would only be a
    // stain.
    if high - low > 0.2 {
        [low, high]
    } else {
        [low, low]
    }
}

impl GizmoParts {
    fn new(
        main: &Projector,
        g: &Gizmo,
        furniture: &Furniture,
        light_background: bool,
        layout: &mut Layout,
    ) -> GizmoParts {
        let projector = Projector::gizmo(main, g.at, g.length);
        let colours: [Srgb8; 3] = [[200, 60, 52], [66, 146, 62], [58, 104, 196]];
        let labels = furniture.axes.as_ref().map(|a| a.labels.clone()).unwrap_or_default();
        let ways = [0, 1, 2].map(|i| projector.view_direction(axis(i).as_vec3()));
        let across = |i: usize| (ways[i].x * ways[i].x + ways[i].y * ways[i].y).sqrt();
        let mut order = [0, 1, 2];
        order.sort_by(|a, b| across(*b).total_cmp(&across(*a)));
        let mut placed: Vec<[f32; 2]> = Vec::with_capacity(3);
        for i in order {
            let (d, across, label) = (ways[i], across(i), &labels[i]);
            if across < MARGINAL || label.is_empty() {
                continue;
            }
            let at = |reach: f32| [g.at[0] + d.x / across * reach, g.at[1] - d.y / across * reach];
            // Two axes may have the same direction in the picture: the letter of the shorter one is then behind that of
            // the longer.
            let is_free =
                |[x, y]: [f32; 2]| placed.iter().all(|[u, v]| (x - u).abs() >= g.letters || (y - v).abs() >= g.letters);
            // The label is beyond the tip. One that points at the eye is moved out of the middle.
            let mut reach = g.length * across.max(0.35) + g.letters * 0.75;
            while !is_free(at(reach)) {
                reach += g.letters * 0.25;
            }
            let [x, y] = at(reach);
            placed.push([x, y]);
            let ink = super::furniture::ink(light_background);
            layout.overlay.text(label, g.letters, [x, y + g.letters * 0.3], Align::Middle, ink, true);
        }
        let styles =
            colours.map(|c| Style { min_pixels: 0.0, ..Style::tubes(Colour::Solid(c), Radius::Physical(0.05)) });
        GizmoParts { projector, styles, rows: [g.at[1] - g.length * 1.2, g.at[1] + g.length * 1.2] }
    }

    fn draw(&self, band: &mut Band, material: u8) {
        let rows = band.area().pixel_rows();
        if rows[1] < self.rows[0] || rows[0] > self.rows[1] {
            return;
        }
        for (i, style) in self.styles.iter().enumerate() {
            let tip = axis(i);
            let d = self.projector.view_direction(tip.as_vec3());
            let brush = Brush {
                projector: &self.projector,
                paint: TubePaint { material, colour: &style.colour },
                style,
                resolution: 1.0,
            };
            if (d.x * d.x + d.y * d.y).sqrt() < MARGINAL {
                // It points at the eye or away from it: only a dot is visible.
                let dot = [[0.0f64; 3]];
                brush.draw(
                    band,
                    &Chunk::Spheres(Spheres { points: Positions::F64(&dot), scalars: None, radii: Some(&[0.09]) }),
                );
                continue;
            }
            let shaft = [DVec3::ZERO.to_array(), (tip * 0.72).to_array(), tip.to_array()];
            let line = |points, radii| {
                Chunk::Line(Polyline {
                    points: Positions::F64(points),
                    scalars: None,
                    radii,
                    before: None,
                    after: None,
                })
            };
            brush.draw(band, &line(&shaft[..2], None));
            brush.draw(band, &line(&shaft[1..], Some(&[0.135, 0.004])));
        }
    }
}

/// Length across the line of sight below which an axis has no direction in the picture.
const MARGINAL: f32 = 0.12;

fn axis(i: usize) -> DVec3 {
    [DVec3::X, DVec3::Y, DVec3::Z][i]
}

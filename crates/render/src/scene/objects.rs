//! Objects of a scene, as its document describes them.

use super::document::{read, usage, Rgb};
use field::error::FieldError;
use kernels::rays::Projection;
use runtime::gridface::AXES;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A drawn object.
#[derive(Clone, Debug)]
pub enum Object {
    /// Lines as tubes.
    Lines {
        /// Their source.
        from: LinesFrom,
        /// Colour.
        paint: Paint,
        /// Radius in units of length; `None`: chosen by the picture.
        radius: Option<f64>,
        /// Of pathlines: drawn time before the picture's time; `None`: all.
        tail: Option<f64>,
    },
    /// Grid surfaces.
    Surface {
        /// A face, as [`runtime::gridface::GridFace::of_json`] reads it; `None`: every wall.
        face: Option<Value>,
        /// Colour.
        paint: Paint,
        /// Whether the grid's lines are drawn.
        mesh: bool,
        /// Of walls: whether those between the eye and the flow are left out.
        cut: bool,
    },
    /// Surfaces within zones or volumes.
    Mesh {
        /// Kind of surface.
        from: MeshFrom,
        /// Colour.
        paint: Paint,
        /// Opacity, 0 to 1.
        opacity: f32,
    },
    /// Vortex cores as tubes.
    Cores {
        /// Options, as [`extract::cores::options`] reads them.
        options: Value,
        /// Colour.
        paint: Paint,
        /// Radius in units of length; `None`: chosen by the picture.
        radius: Option<f64>,
    },
    /// A volume, drawn by rays.
    Volume(Box<VolumeLook>),
    /// The edges of zones.
    Outline {
        /// Name of the zone; `None`: all.
        zone: Option<String>,
        /// Colour.
        rgb: Rgb,
        /// Width in pixels.
        width: f32,
    },
}

impl Object {
    /// The colour, for objects whose values may have one.
    pub(crate) fn paint(&self) -> Option<&Paint> {
        match self {
            Self::Lines { paint, .. }
            | Self::Surface { paint, .. }
            | Self::Mesh { paint, .. }
            | Self::Cores { paint, .. } => Some(paint),
            Self::Volume(look) => Some(&look.paint),
            Self::Outline { .. } => None,
        }
    }

    /// Whether the map of this name colours it.
    pub(crate) fn uses(&self, map: &str) -> bool {
        self.paint().is_some_and(|p| p.map.as_deref() == Some(map))
    }
}

/// Appearance of a volume.
#[derive(Clone, Debug)]
pub struct VolumeLook {
    /// Channel, or field of a flow; `None`: the first channel.
    pub field: Option<String>,
    /// Colours of values.
    pub paint: Paint,
    /// Pairs of value and opacity of `unit` of length. Empty: a ramp over the range of the colours.
    pub opacities: Vec<(f64, f32)>,
    /// Length that opacities refer to; `None`: a hundredth of the volume's diagonal.
    pub unit: Option<f64>,
    /// Samples of a ray in the length of a voxel.
    pub samples: f64,
    /// Level; `None`: the level as fine as pixels.
    pub level: Option<usize>,
    /// Drawn box in physical space.
    pub within: Option<[[f64; 3]; 2]>,
    /// Planes: a normal towards the drawn side, and a point.
    pub planes: Vec<[[f64; 3]; 2]>,
    /// First and last drawn voxel along i, j, k, counted from 0.
    pub voxels: [Option<[u32; 2]>; 3],
    /// Source of colours, if it is not a map of one channel.
    pub tint: VolumeTint,
    /// Projection of rays. The value of a surface is in units, not as stored.
    pub projection: Projection,
    /// Whether samples have the nearest voxel's value.
    pub nearest: bool,
    /// Shading by gradients: share and exponent of highlights.
    pub shading: Option<[f32; 2]>,
}

/// Source of a volume's colours.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeTint {
    /// A channel, by the object's map and opacities.
    Map,
    /// The volume's own red, green and blue. Opacities are over its alpha, its luminance, or the distance from a
    /// background (sRGB).
    Colour(ColourBy),
    /// Labels, of which `only` are shown (empty: all but 0).
    Labels {
        /// Label and colour (sRGB).
        colours: Vec<(u64, Rgb)>,
        /// Shown labels.
        only: Vec<u64>,
    },
}

/// Source of a colour's opacity.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum ColourBy {
    /// The fourth channel.
    Alpha,
    /// The luminance.
    Luminance,
    /// Distance from this colour.
    Distance(Rgb),
}

/// Kind of surface within zones or volumes.
#[derive(Clone, Debug)]
pub enum MeshFrom {
    /// Surfaces of constant value.
    Contour {
        /// The field.
        field: String,
        /// The values.
        values: Vec<f64>,
        /// Restricts the surface to the part connected to the point nearest to this one.
        near: Option<[f64; 3]>,
    },
    /// A plane.
    Slice {
        /// A point of the plane; `None`: the middle.
        origin: Option<[f64; 3]>,
        /// The normal, of any length.
        normal: [f64; 3],
    },
}

/// Source of lines.
#[derive(Clone, Debug)]
pub enum LinesFrom {
    /// A `.vtp` or `.npz` file.
    File(PathBuf),
    /// Options of a trace, as `parts` reads them.
    Trace(Value),
}

/// Colour of an object: a map or one colour.
#[derive(Clone, Debug)]
pub struct Paint {
    /// Name of a map, which overrides `rgb`.
    pub map: Option<String>,
    /// One colour.
    pub rgb: Rgb,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLines {
    file: Option<PathBuf>,
    trace: Option<Value>,
    map: Option<String>,
    rgb: Option<Rgb>,
    radius: Option<f64>,
    tail: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSurface {
    walls: Option<bool>,
    zone: Option<String>,
    axis: Option<String>,
    index: Option<serde_json::Value>,
    within: Option<serde_json::Value>,
    map: Option<String>,
    rgb: Option<Rgb>,
    mesh: Option<bool>,
    cut: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutline {
    zone: Option<String>,
    rgb: Option<Rgb>,
    width: Option<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContour {
    field: String,
    values: Vec<f64>,
    near: Option<[f64; 3]>,
    map: Option<String>,
    rgb: Option<Rgb>,
    opacity: Option<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlice {
    origin: Option<[f64; 3]>,
    normal: [f64; 3],
    map: Option<String>,
    rgb: Option<Rgb>,
    opacity: Option<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCores {
    options: Value,
    map: Option<String>,
    rgb: Option<Rgb>,
    radius: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVolume {
    field: Option<String>,
    map: Option<String>,
    rgb: Option<Rgb>,
    opacities: Option<Vec<(f64, f32)>>,
    unit: Option<f64>,
    samples: Option<f64>,
    level: Option<usize>,
    within: Option<[[f64; 3]; 2]>,
    planes: Option<Vec<RawPlane>>,
    voxels: Option<Map<String, Value>>,
    colors: Option<RawColors>,
    labels: Option<RawLabels>,
    projection: Option<String>,
    value: Option<f64>,
    nearest: Option<bool>,
    shading: Option<RawShading>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColors {
    opacity_from: String,
    background: Option<Rgb>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLabels {
    #[serde(default)]
    colors: Vec<(u64, Rgb)>,
    #[serde(default)]
    only: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShading {
    specular: f32,
    power: f32,
}

/// Source of a volume's colours, from the scene's keys.
fn volume_tint(colors: Option<RawColors>, labels: Option<RawLabels>, place: &str) -> Result<VolumeTint, FieldError> {
    match (colors, labels) {
        (Some(_), Some(_)) => Err(usage(format!("{place}: a volume shows 'colors' or 'labels', not both"))),
        (None, None) => Ok(VolumeTint::Map),
        (None, Some(l)) => Ok(VolumeTint::Labels { colours: l.colors, only: l.only }),
        (Some(c), None) => Ok(VolumeTint::Colour(match (c.opacity_from.as_str(), c.background) {
            ("alpha", None) => ColourBy::Alpha,
            ("luminance", None) => ColourBy::Luminance,
            ("distance", Some(from)) => ColourBy::Distance(from),
            ("distance", None) => {
                return Err(usage(format!("{place}: colors: a 'background' is needed from which distances are")))
            }
            (of @ ("alpha" | "luminance"), Some(_)) => {
                return Err(usage(format!("{place}: colors: 'background' goes with 'distance', not with '{of}'")))
            }
            (of, _) => {
                return Err(usage(format!(
                    "{place}: colors: 'opacity_from' must be alpha, luminance or distance, not '{of}'"
                )))
            }
        })),
    }
}

/// Projection of rays, from the scene's keys.
fn projection(name: Option<&str>, value: Option<f64>, place: &str) -> Result<Projection, FieldError> {
    match (name.unwrap_or("composite"), value) {
        ("composite", None) => Ok(Projection::Composite),
        ("maximum", None) => Ok(Projection::Maximum),
        ("mean", None) => Ok(Projection::Mean),
        ("surface", Some(value)) if value.is_finite() => Ok(Projection::Surface { value }),
        ("surface", _) => Err(usage(format!("{place}: the 'value' of the surface must be a number"))),
        (of @ ("composite" | "maximum" | "mean"), Some(_)) => {
            Err(usage(format!("{place}: 'value' goes with the projection 'surface', not with '{of}'")))
        }
        (of, _) => Err(usage(format!("{place}: 'projection' must be composite, maximum, mean or surface, not '{of}'"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlane {
    normal: [f64; 3],
    origin: [f64; 3],
}

fn volume(raw: RawVolume, place: &str) -> Result<VolumeLook, FieldError> {
    for (name, v) in [("unit", raw.unit), ("samples", raw.samples)] {
        if v.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
            return Err(usage(format!("{place}: '{name}' must be a positive number")));
        }
    }
    let mut voxels = [None; 3];
    for (axis, ends) in raw.voxels.unwrap_or_default() {
        let n = AXES.iter().position(|a| *a == axis);
        let n = n.ok_or_else(|| usage(format!("{place}: 'voxels' are those of i, j and k, not of '{axis}'")))?;
        let ends: [u32; 2] = read(ends, &format!("{place}: voxels.{axis}"))?;
        if ends[1] < ends[0] {
            return Err(usage(format!("{place}: voxels.{axis} go from the first to the last")));
        }
        voxels[n] = Some(ends);
    }
    Ok(VolumeLook {
        field: raw.field,
        paint: paint(raw.map, raw.rgb),
        opacities: raw.opacities.unwrap_or_default(),
        unit: raw.unit,
        samples: raw.samples.unwrap_or(1.0),
        level: raw.level,
        within: raw.within,
        planes: raw.planes.unwrap_or_default().into_iter().map(|p| [p.normal, p.origin]).collect(),
        voxels,
        tint: volume_tint(raw.colors, raw.labels, place)?,
        projection: projection(raw.projection.as_deref(), raw.value, place)?,
        nearest: raw.nearest.unwrap_or(false),
        shading: raw.shading.map(|s| [s.specular, s.power]),
    })
}

/// Default colour.
const PLAIN: Rgb = [196, 202, 212];

pub(super) fn object(mut fields: Map<String, Value>, place: &str) -> Result<Object, FieldError> {
    let kind = fields.remove("kind");
    let rest = Value::Object(fields);
    match kind.as_ref().and_then(Value::as_str) {
        Some("lines") => {
            let raw: RawLines = read(rest, place)?;
            let from = match (raw.file, raw.trace) {
                (Some(f), None) => LinesFrom::File(f),
                (None, Some(t)) => LinesFrom::Trace(t),
                _ => {
                    return Err(usage(format!(
                        "{place}: lines come from a 'file' or from a 'trace': give one of the two"
                    )))
                }
            };
            for (name, v) in [("radius", raw.radius), ("tail", raw.tail)] {
                if v.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
                    return Err(usage(format!("{place}: '{name}' must be a positive number")));
                }
            }
            let paint = Paint { map: raw.map, rgb: raw.rgb.unwrap_or(PLAIN) };
            Ok(Object::Lines { from, paint, radius: raw.radius, tail: raw.tail })
        }
        Some("surface") => {
            let raw: RawSurface = read(rest, place)?;
            let face = match (raw.walls.unwrap_or(false), raw.zone) {
                (true, None) if raw.axis.is_none() && raw.index.is_none() && raw.within.is_none() => None,
                (false, Some(zone)) => Some(serde_json::json!({
                    "zone": zone, "axis": raw.axis, "index": raw.index, "within": raw.within,
                })),
                _ => {
                    return Err(usage(format!(
                        "{place}: a surface is either 'walls' or a 'zone' with 'axis' and 'index'"
                    )))
                }
            };
            let cut = raw.cut.unwrap_or(false);
            if cut && face.is_some() {
                return Err(usage(format!("{place}: 'cut' is for walls")));
            }
            Ok(Object::Surface {
                face,
                cut,
                paint: Paint { map: raw.map, rgb: raw.rgb.unwrap_or(PLAIN) },
                mesh: raw.mesh.unwrap_or(false),
            })
        }
        Some("outline") => {
            let raw: RawOutline = read(rest, place)?;
            let width = raw.width.unwrap_or(1.0);
            if !(width > 0.0 && width.is_finite()) {
                return Err(usage(format!("{place}: 'width' must be a positive number of pixels")));
            }
            Ok(Object::Outline { zone: raw.zone, rgb: raw.rgb.unwrap_or([104, 114, 130]), width })
        }
        Some("contour") => {
            let raw: RawContour = read(rest, place)?;
            if raw.values.is_empty() || raw.values.iter().any(|v| !v.is_finite()) {
                return Err(usage(format!("{place}: 'values' must be one finite number or more")));
            }
            let from = MeshFrom::Contour { field: raw.field, values: raw.values, near: raw.near };
            Ok(Object::Mesh { from, paint: paint(raw.map, raw.rgb), opacity: opacity(raw.opacity, place)? })
        }
        Some("slice") => {
            let raw: RawSlice = read(rest, place)?;
            let length = raw.normal.iter().map(|c| c * c).sum::<f64>();
            if !(length > 0.0 && length.is_finite()) {
                return Err(usage(format!("{place}: 'normal' has no length")));
            }
            let from = MeshFrom::Slice { origin: raw.origin, normal: raw.normal };
            Ok(Object::Mesh { from, paint: paint(raw.map, raw.rgb), opacity: opacity(raw.opacity, place)? })
        }
        Some("cores") => {
            let raw: RawCores = read(rest, place)?;
            if raw.radius.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
                return Err(usage(format!("{place}: 'radius' must be a positive number")));
            }
            Ok(Object::Cores { options: raw.options, paint: paint(raw.map, raw.rgb), radius: raw.radius })
        }
        Some("volume") => Ok(Object::Volume(Box::new(volume(read(rest, place)?, place)?))),
        _ => Err(usage(format!("{place}: 'kind' must be lines, surface, contour, slice, cores, volume or outline"))),
    }
}

fn paint(map: Option<String>, rgb: Option<Rgb>) -> Paint {
    Paint { map, rgb: rgb.unwrap_or(PLAIN) }
}

fn opacity(given: Option<f32>, place: &str) -> Result<f32, FieldError> {
    let opacity = given.unwrap_or(1.0);
    if (0.0..=1.0).contains(&opacity) {
        Ok(opacity)
    } else {
        Err(usage(format!("{place}: 'opacity' must be 0 to 1, not {opacity}")))
    }
}

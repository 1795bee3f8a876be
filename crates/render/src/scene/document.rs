//! The scene as it arrives: one JSON object, read strictly.
//!
//! An unknown key at any level is an error that names it. Otherwise a misspelt key would silently draw something else.
//! A null key is absent.

use super::objects::{object, LinesFrom, Object};
use crate::picture::{Light, Lighting};
use field::error::FieldError;
use field::file::Digest;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Colour, 0..255 sRGB.
pub type Rgb = [u8; 3];

/// A scene.
#[derive(Clone, Debug)]
pub struct SceneDocument {
    /// Source of the dataset, as `parts` reads it; `None` if only lines of files are drawn.
    pub source: Option<Value>,
    /// Time step.
    pub step: usize,
    /// Drawn objects, in order.
    pub objects: Vec<Object>,
    /// Colour maps by name.
    pub maps: Vec<(String, MapSpec)>,
    /// Camera.
    pub camera: CameraSpec,
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// Colours of the upper and the lower edge.
    pub background: [Rgb; 2],
    /// Samples along each side of a pixel, 1 to 4.
    pub samples: u32,
    /// Maps with a scalar bar, by name.
    pub bars: Vec<String>,
    /// Whether a key names the channels by colour, if there are several.
    pub keys: bool,
    /// Whether orientation axes are drawn.
    pub axes: bool,
    /// A line at the top.
    pub title: Option<String>,
    /// Whether the time is written; `None`: if there are several time steps.
    pub time: Option<bool>,
    /// Text of each step's time, such as a date. Empty: times are written as numbers.
    pub moments: Vec<String>,
    /// Lights.
    pub lighting: Lighting,
    /// Whether a scale bar is drawn; `None`: in parallel views, where it holds for the whole picture.
    pub scale_bar: Option<bool>,
    /// Seconds for the rays of a picture through volumes; `None`: unlimited.
    pub budget_s: Option<f64>,
    /// Key frames of the camera, in the order of their pictures. Empty: a fixed camera, and one picture for each time
    /// step.
    pub path: Vec<KeySpec>,
    /// Pictures of the same objects, each with its own file. Empty: one picture.
    pub views: Vec<ViewSpec>,
    /// Pictures of many time steps.
    pub film: Option<FilmSpec>,
    /// Digest of all that determines the pictures, except [`Self::way`]. Destinations and `resume` are left out. Data
    /// are known by their files' identities, not by the spelling of paths.
    pub content: String,
    /// Digest of cameras, ranges of maps and frames: those that the scene gives, and the time steps that determine the
    /// others.
    pub way: String,
}

/// One of several pictures of the same objects. The scene has the values of absent keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewSpec {
    /// The file, or the pattern of the files' names.
    pub output: PathBuf,
    /// Camera.
    pub camera: Option<CameraSpec>,
    /// Width and height in pixels.
    pub size: Option<[u32; 2]>,
    /// A line at the top.
    pub title: Option<String>,
    /// Numbers of the shown objects; `None`: all.
    pub objects: Option<Vec<usize>>,
}

/// Pictures of many time steps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilmSpec {
    /// Time steps or pictures.
    pub frames: Frames,
    /// Keeps existing complete pictures of the same scene and data.
    #[serde(default)]
    pub resume: bool,
    /// Pictures a second of one video, made by the system's `ffmpeg`; `None`: a file for each picture.
    pub fps: Option<f64>,
}

/// Time steps, counted from 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frames {
    /// Start, end (excluded) and stride, as in a slice of Python.
    Slice([Option<i64>; 3]),
    /// A list of numbers.
    List(Vec<i64>),
}

impl Frames {
    /// The steps of a dataset with `count` of them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for missing steps and for an empty choice.
    pub fn of(&self, count: usize) -> Result<Vec<usize>, FieldError> {
        self.chosen(count, "dataset", "time step")
    }

    /// The pictures of a camera path with `count` of them.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_path(&self, count: usize) -> Result<Vec<usize>, FieldError> {
        self.chosen(count, "path", "picture")
    }

    fn chosen(&self, count: usize, owner: &str, what: &str) -> Result<Vec<usize>, FieldError> {
        let n = i64::try_from(count).unwrap_or(i64::MAX);
        let have = || format!("the {owner} has {count} {what}{}, counted from 0", if count == 1 { "" } else { "s" });
        let steps: Vec<usize> = match self {
            Self::Slice([_, _, Some(every)]) if *every < 1 => {
                return Err(usage(format!("frames: every {every} steps makes no sense; it must be 1 or more")))
            }
            Self::Slice([from, to, every]) => {
                let place = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) };
                let (from, to) = (from.map_or(0, place), to.map_or(n, place));
                let every = usize::try_from(every.unwrap_or(1)).unwrap_or(usize::MAX);
                (from..to).step_by(every).map(|s| s as usize).collect()
            }
            Self::List(steps) => {
                let place = |v: &i64| {
                    let at = if *v < 0 { v.saturating_add(n) } else { *v };
                    if (0..n).contains(&at) {
                        Ok(at as usize)
                    } else {
                        Err(usage(format!("frames: there is no {what} {v}; {}", have())))
                    }
                };
                let steps = steps.iter().map(place).collect::<Result<Vec<_>, _>>()?;
                if let Some(w) = steps.windows(2).find(|w| w[1] <= w[0]) {
                    return Err(usage(format!(
                        "frames: step {} comes after step {}; name them in rising order",
                        w[1], w[0]
                    )));
                }
                steps
            }
        };
        if steps.is_empty() {
            return Err(usage(format!("frames: no {what} is meant; {}", have())));
        }
        Ok(steps)
    }
}

/// A colour map.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    /// A field, or an array of a file of lines.
    pub field: String,
    /// Lowest and highest value; `None`: those of the drawn objects.
    pub range: Option<[f64; 2]>,
    /// Value in the middle of an automatic range.
    pub center: Option<f64>,
    /// Colours from low to high.
    pub lut: Vec<Rgb>,
    /// Colours with zero in their middle, used instead if values lie on both sides of zero.
    pub signed: Option<Vec<Rgb>>,
    /// Title of the bar.
    pub label: Option<String>,
    /// Unit.
    pub units: Option<String>,
}

/// The camera. Absent values are fitted to the drawn objects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraSpec {
    /// From the target to the eye, of any length.
    pub direction: Option<[f64; 3]>,
    /// Up in the picture.
    pub up: Option<[f64; 3]>,
    /// The point in the middle of the view.
    pub target: Option<[f64; 3]>,
    /// Distance from the target to the eye. In a parallel view, the distance at which an eye with `fov_deg` would see
    /// as much.
    pub distance: Option<f64>,
    /// Zoom; 2 shows half as much.
    pub zoom: Option<f64>,
    /// Angle of view from the lower to the upper edge, in degrees.
    pub fov_deg: Option<f64>,
    /// Projection; `None`: perspective, but parallel for flat data without a given direction.
    pub projection: Option<Projection>,
}

/// The camera at one picture of many.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySpec {
    /// The picture, counted from 0.
    pub frame: usize,
    /// The time step; `None`: the scene's.
    #[serde(default)]
    pub step: Option<usize>,
    /// The camera; the scene has the values of absent keys.
    pub camera: CameraSpec,
}

/// Projection of space to the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projection {
    /// Central projection.
    Perspective,
    /// Parallel projection.
    Orthographic,
}

/// Default angle of view.
pub const DEFAULT_FOV_DEG: f64 = 30.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScene {
    version: Option<u64>,
    source: Option<Value>,
    step: Option<usize>,
    objects: Option<Vec<Map<String, Value>>>,
    maps: Option<Map<String, Value>>,
    camera: Option<Value>,
    size: [u32; 2],
    background: Option<RawBackground>,
    samples: Option<u32>,
    bars: Option<Vec<String>>,
    keys: Option<bool>,
    axes: Option<bool>,
    title: Option<String>,
    time: Option<bool>,
    #[serde(default)]
    moments: Vec<String>,
    lighting: Option<RawLighting>,
    scale_bar: Option<bool>,
    budget_s: Option<f64>,
    path: Option<Vec<KeySpec>>,
    views: Option<Vec<ViewSpec>>,
    film: Option<FilmSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLighting {
    ambient: [f32; 3],
    lights: Vec<RawLight>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLight {
    direction: [f64; 3],
    /// Linear colour times intensity.
    colour: [f32; 3],
    with_camera: bool,
}

impl From<RawLighting> for Lighting {
    fn from(raw: RawLighting) -> Self {
        let light = |l: RawLight| Light { direction: l.direction, colour: l.colour, with_camera: l.with_camera };
        Self::Given { ambient: raw.ambient, lights: raw.lights.into_iter().map(light).collect() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBackground {
    top: Rgb,
    bottom: Rgb,
}

pub(super) fn usage(message: impl Into<String>) -> FieldError {
    FieldError::Usage(message.into())
}

pub(super) fn read<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, FieldError> {
    serde_json::from_value(value).map_err(|e| usage(format!("{place}: {e}")))
}

impl SceneDocument {
    /// Reads a scene.
    ///
    /// # Errors
    /// [`FieldError::Usage`] that names the key.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let raw: RawScene = serde_json::from_str(text).map_err(|e| usage(format!("scene: {e}")))?;
        if raw.version.is_some_and(|v| v != 1) {
            return Err(usage(format!("scene: version {} is not known; there is 1", raw.version.unwrap_or(0))));
        }
        let [content, way] = digests_of(text)?;
        let objects = raw.objects.unwrap_or_default().into_iter().enumerate();
        let objects =
            objects.map(|(n, o)| object(o, &format!("scene: objects[{n}]"))).collect::<Result<Vec<_>, _>>()?;
        let maps = maps_of(raw.maps.unwrap_or_default())?;
        let bars = raw.bars.unwrap_or_default();
        check_map_names(&objects, &bars, &maps)?;
        let camera = raw.camera.map(|c| read::<CameraSpec>(c, "scene: camera")).transpose()?.unwrap_or_default();
        check_camera(&camera)?;
        let samples = raw.samples.unwrap_or(2);
        if !(1..=4).contains(&samples) {
            return Err(usage(format!("scene: samples must be 1 to 4, not {samples}")));
        }
        if raw.source.is_none() && objects.iter().any(needs_source) {
            return Err(usage("scene: only lines from files can be drawn without a source"));
        }
        let views = raw.views.unwrap_or_default();
        check_views(&views, objects.len())?;
        if raw.film.is_some() && raw.source.is_none() {
            return Err(usage("scene: pictures of time steps need a source that has them"));
        }
        if raw.film.as_ref().and_then(|f| f.fps).is_some_and(|f| !(f > 0.0 && f.is_finite())) {
            return Err(usage("scene: film: 'fps' must be a positive number"));
        }
        if raw.budget_s.is_some_and(|b| !(b > 0.0 && b.is_finite())) {
            return Err(usage("scene: 'budget_s' must be a positive number of seconds"));
        }
        let path = raw.path.unwrap_or_default();
        check_path(&path)?;
        let b = raw.background.unwrap_or(RawBackground { top: [32, 36, 44], bottom: [11, 13, 17] });
        Ok(Self {
            source: raw.source,
            step: raw.step.unwrap_or(0),
            objects,
            maps,
            camera,
            size: raw.size,
            background: [b.top, b.bottom],
            samples,
            bars,
            keys: raw.keys.unwrap_or(true),
            axes: raw.axes.unwrap_or(true),
            title: raw.title.filter(|t| !t.is_empty()),
            time: raw.time,
            moments: raw.moments,
            lighting: raw.lighting.map_or(Lighting::Standard, Lighting::from),
            scale_bar: raw.scale_bar,
            budget_s: raw.budget_s,
            path,
            views,
            film: raw.film,
            content,
            way,
        })
    }

    /// A map by name. A parsed scene has every map that it uses.
    pub fn map(&self, name: &str) -> Option<&MapSpec> {
        self.maps.iter().find(|(n, _)| n == name).map(|(_, m)| m)
    }
}

/// Passes the fields of an object to `each`; other values have none.
fn with_fields(value: Option<&mut Value>, each: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(fields) = value.and_then(Value::as_object_mut) {
        each(fields);
    }
}

/// The digests [`SceneDocument::content`] and [`SceneDocument::way`] of a scene's text.
fn digests_of(text: &str) -> Result<[String; 2], FieldError> {
    let mut value: Value = serde_json::from_str(text).map_err(|e| usage(format!("scene: {e}")))?;
    let mut way: Vec<Value> = Vec::new();
    with_fields(value.get_mut("film"), |film| {
        film.remove("resume");
        way.extend(film.remove("frames"));
    });
    way.extend(value.get_mut("camera").map(Value::take));
    for view in value.get_mut("views").and_then(Value::as_array_mut).into_iter().flatten() {
        with_fields(Some(view), |view| {
            view.remove("output");
            way.extend(view.get_mut("camera").map(Value::take));
        });
    }
    with_fields(value.get_mut("maps"), |maps| {
        way.extend(maps.values_mut().filter_map(|map| map.get_mut("range").map(Value::take)));
    });
    with_fields(value.get_mut("source"), |source| {
        for key in ["path", "q", "function"] {
            source.remove(key);
        }
        with_fields(source.get_mut("options"), |options| {
            for key in ["grids", "cache_dir", "read_s"] {
                options.remove(key);
            }
            for settled in options.get_mut("settled").and_then(Value::as_array_mut).into_iter().flatten() {
                // Name and expression. The file that contains them does not matter.
                if let Some(parts) = settled.as_array_mut() {
                    parts.truncate(2);
                }
            }
        });
    });
    for drawn in value.get_mut("objects").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(file) = drawn.get_mut("file").filter(|f| f.is_string()) {
            *file = Value::Bool(true);
        }
        let seeds = drawn.get_mut("trace").and_then(|trace| trace.get_mut("seeds"));
        if let Some(seeds) = seeds.filter(|s| s.as_str().is_some_and(|s| PathBuf::from(s).is_file())) {
            *seeds = Value::Bool(true);
        }
    }
    value.sort_all_objects();
    let digest = |text: &str| {
        Digest::default().text(concat!("farfield ", env!("CARGO_PKG_VERSION"), "\n")).text(text).to_string()
    };
    Ok([digest(&value.to_string()), digest(&Value::Array(way).to_string())])
}

/// The colour maps of a scene, by name.
fn maps_of(raw: Map<String, Value>) -> Result<Vec<(String, MapSpec)>, FieldError> {
    let named = |(name, v): (String, Value)| {
        let place = format!("scene: maps.{name}");
        let map: MapSpec = read(v, &place)?;
        check_map(&map, &place)?;
        Ok((name, map))
    };
    raw.into_iter().map(named).collect()
}

/// Checks that the maps of all objects and bars exist.
fn check_map_names(objects: &[Object], bars: &[String], maps: &[(String, MapSpec)]) -> Result<(), FieldError> {
    let painted = objects.iter().filter_map(|o| o.paint().and_then(|p| p.map.as_ref()));
    match painted.chain(bars).find(|name| !maps.iter().any(|(known, _)| known == *name)) {
        Some(name) => Err(FieldError::Unknown {
            what: "map",
            name: name.clone(),
            known: maps.iter().map(|(n, _)| n.clone()).collect(),
        }),
        None => Ok(()),
    }
}

fn needs_source(object: &Object) -> bool {
    !matches!(object, Object::Lines { from: LinesFrom::File(_), .. })
}

/// Checks the views of a scene with so many objects.
fn check_views(views: &[ViewSpec], objects: usize) -> Result<(), FieldError> {
    for (n, view) in views.iter().enumerate() {
        view.camera.as_ref().map_or(Ok(()), check_camera)?;
        if let Some(at) = view.objects.iter().flatten().find(|at| **at >= objects) {
            return Err(usage(format!(
                "scene: views[{n}]: there is no object {at}; the scene has {objects}, counted from 0"
            )));
        }
    }
    Ok(())
}

fn check_path(path: &[KeySpec]) -> Result<(), FieldError> {
    for (n, key) in path.iter().enumerate() {
        check_camera(&key.camera).map_err(|e| usage(format!("{e} (path[{n}])")))?;
        if n > 0 && path[n - 1].frame >= key.frame {
            return Err(usage(format!(
                "scene: path[{n}]: picture {} comes after picture {}; name key frames in rising order",
                key.frame,
                path[n - 1].frame
            )));
        }
    }
    Ok(())
}

fn check_map(map: &MapSpec, place: &str) -> Result<(), FieldError> {
    if map.lut.is_empty() || map.signed.as_ref().is_some_and(Vec::is_empty) {
        return Err(usage(format!("{place}: 'lut' has no colours")));
    }
    if let Some([low, high]) = map.range {
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(usage(format!(
                "{place}: 'range' goes from the lower to the higher value, not {low} to {high}"
            )));
        }
    }
    Ok(())
}

fn check_camera(c: &CameraSpec) -> Result<(), FieldError> {
    let length = |v: &[f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    for (v, name) in [(&c.direction, "direction"), (&c.up, "up")] {
        if v.as_ref().is_some_and(|v| !(length(v) > 0.0 && length(v).is_finite())) {
            return Err(usage(format!("scene: camera: '{name}' has no length")));
        }
    }
    for (v, name) in [(c.distance, "distance"), (c.zoom, "zoom"), (c.fov_deg, "fov_deg")] {
        if v.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
            return Err(usage(format!("scene: camera: '{name}' must be a positive number")));
        }
    }
    if c.fov_deg.is_some_and(|v| v >= 170.0) {
        return Err(usage("scene: camera: 'fov_deg' must be below 170"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scene_is_does_not_depend_on_how_its_files_are_spelled() {
        let text = |path: &str, range: &str, frames: &str, title: &str| {
            format!(
                r#"{{"source": {{"path": "{path}", "q": ["{path}.q"], "options": {{"settled": [["a", "1", "{path}.toml"]]}}}},
                "size": [9, 9], "title": "{title}", "maps": {{"m": {{"field": "m", "lut": [[0, 0, 0]], "range": {range}}}}},
                "objects": [{{"kind": "lines", "file": "{path}.vtp"}}], "film": {{"frames": {frames}, "resume": false}}}}"#
            )
        };
        let of = |path, range, frames, title| digests_of(&text(path, range, frames, title)).unwrap();
        let one = of("a", "null", r#"{"list": [1]}"#, "t");
        assert_eq!(one, of("/data/a", "null", r#"{"list": [1]}"#, "t"));
        // Ranges and time steps belong to the way, not to the content.
        let [content, way] = of("a", "[0, 1]", r#"{"list": [1]}"#, "t");
        assert!(content == one[0] && way != one[1]);
        let [content, way] = of("a", "null", r#"{"list": [1, 2]}"#, "t");
        assert!(content == one[0] && way != one[1]);
        assert_ne!(of("a", "null", r#"{"list": [1]}"#, "u")[0], one[0]);
    }
}

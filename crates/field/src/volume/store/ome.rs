//! The OME-NGFF 0.5 metadata of a volume.
//!
//! Translations are those of the centres of voxels. The one of a level whose voxels are f finest voxels wide is
//! `(f - 1) / 2` finest voxels larger. OME-NGFF 0.5 has no rotation, so scale and translation are along the volume's
//! own axes.

use super::pyramid::{pyramid, LevelShape};
use super::root::{Downsample, VolumeRoot};
use crate::volume::{rgb_of, ChannelSpec, LevelSpec, VolumeKind, VolumeSpec, VoxelType};
use serde_json::{json, Map, Value};

/// OME-NGFF's names of units of length, each with its synonyms.
const LENGTHS: [(&str, &[&str]); 17] = [
    ("angstrom", &["Å", "A"]),
    ("nanometer", &["nm", "nanometers", "nanometre"]),
    ("micrometer", &["um", "µm", "μm", "micron", "microns", "micrometers", "micrometre"]),
    ("millimeter", &["mm", "millimeters", "millimetre"]),
    ("centimeter", &["cm", "centimeters", "centimetre"]),
    ("decimeter", &["dm"]),
    ("meter", &["m", "meters", "metre"]),
    ("kilometer", &["km", "kilometers", "kilometre"]),
    ("picometer", &["pm"]),
    ("femtometer", &["fm"]),
    ("foot", &["ft", "feet"]),
    ("inch", &["in", "inches"]),
    ("mile", &["miles"]),
    ("yard", &["yd"]),
    ("parsec", &["pc"]),
    ("megameter", &["Mm"]),
    ("gigameter", &["Gm"]),
];
/// The same for units of time.
const TIMES: [(&str, &[&str]); 8] = [
    ("second", &["s", "sec", "seconds"]),
    ("millisecond", &["ms", "msec", "milliseconds"]),
    ("microsecond", &["us", "µs", "μs", "usec", "microseconds"]),
    ("nanosecond", &["ns", "nanoseconds"]),
    ("picosecond", &["ps"]),
    ("minute", &["min", "minutes"]),
    ("hour", &["h", "hr", "hours"]),
    ("day", &["d", "days"]),
];
/// Tolerance of evenly spaced times, relative to their distance.
const EVEN: f64 = 1e-9;

/// The unit in OME-NGFF's spelling. `None` if it has none.
fn unit(name: &str, known: &[(&'static str, &[&str])]) -> Option<&'static str> {
    known.iter().find(|(own, others)| *own == name || others.contains(&name)).map(|(own, _)| *own)
}

/// The distance of evenly spaced times, and the first time.
fn even(times: &[f64]) -> Option<(f64, f64)> {
    let [first, .., last] = times else { return None };
    let apart = (last - first) / (times.len() - 1) as f64;
    let near = |(n, t): (usize, &f64)| (t - (first + n as f64 * apart)).abs() <= EVEN * apart;
    (apart > 0.0 && times.iter().enumerate().all(near)).then_some((apart, *first))
}

/// Shift of another level's first voxel along an axis, in finest voxels. It lies in the middle of its finest voxels,
/// or, if it is a copy of their first, at that one.
fn voxels_on(shape: &LevelShape, axis: usize, by: Downsample) -> f64 {
    match by {
        Downsample::Mean | Downsample::Majority => (shape.factor[axis] - 1) as f64 / 2.0,
        Downsample::Nearest => 0.0,
    }
}

/// Centre of a level's first voxel, and distance of its voxels, along the volume's own axes. `level` is the finest.
fn along_axes(level: &LevelSpec, shape: &LevelShape, by: Downsample) -> [[f64; 3]; 2] {
    let shift = |a: usize| voxels_on(shape, a, by) * level.spacing[a];
    [
        std::array::from_fn(|a| level.origin[a] + shift(a)),
        std::array::from_fn(|a| level.spacing[a] * shape.factor[a] as f64),
    ]
}

/// A level with its position for readers: the shift of its first voxel goes along the volume's directions.
pub(super) fn placed(about: &VolumeSpec, shape: &LevelShape, by: Downsample) -> LevelSpec {
    let finest = &about.levels[0];
    let shift: [f64; 3] = std::array::from_fn(|a| voxels_on(shape, a, by) * finest.spacing[a]);
    LevelSpec {
        dims: shape.dims.map(|n| n as u64),
        origin: std::array::from_fn(|x| {
            finest.origin[x] + (0..3).map(|a| about.direction[a][x] * shift[a]).sum::<f64>()
        }),
        spacing: along_axes(finest, shape, by)[1],
        arrays: Vec::new(),
    }
}

/// The `ome` attribute.
pub(super) fn attributes(root: &VolumeRoot) -> Value {
    let about = &root.about;
    let Some(finest) = about.levels.first() else { return Value::Null };
    let axis = |name: &str, kind: &str, unit: Option<&str>| {
        let mut axis = Map::new();
        axis.insert("name".into(), json!(name));
        axis.insert("type".into(), json!(kind));
        unit.map(|unit| axis.insert("unit".into(), json!(unit)));
        Value::Object(axis)
    };
    let length = unit(&about.length_unit, &LENGTHS);
    let axes = json!([
        axis("t", "time", unit(&about.time_units, &TIMES)),
        axis("c", "channel", None),
        axis("z", "space", length),
        axis("y", "space", length),
        axis("x", "space", length),
    ]);
    let (apart, first) = match about.times[..] {
        [only] => (1.0, only),
        _ => even(&about.times).unwrap_or((1.0, 0.0)),
    };
    let shapes = pyramid(finest.dims.map(|n| n as usize), finest.spacing, Some(root.pages.len()));
    let dataset = |(n, shape): (usize, &LevelShape)| {
        let [origin, spacing] = along_axes(finest, shape, root.downsample);
        json!({"path": n.to_string(), "coordinateTransformations": [
            {"type": "scale", "scale": [apart, 1.0, spacing[2], spacing[1], spacing[0]]},
            {"type": "translation", "translation": [first, 0.0, origin[2], origin[1], origin[0]]}]})
    };
    let labels = matches!(about.kind, VolumeKind::Labels);
    let mut ome = json!({"version": "0.5", "multiscales": [{
        "name": if labels { "labels" } else { "volume" },
        "axes": axes,
        "datasets": shapes.iter().enumerate().map(dataset).collect::<Vec<_>>(),
        "type": root.downsample.name(),
        "metadata": {"method": "farfield convert", "description": described(root.downsample)},
    }]});
    if labels {
        ome["image-label"] = json!({"version": "0.5"});
        if !about.label_colors.is_empty() {
            let colors = about.label_colors.iter().filter_map(|(n, hex)| {
                let [r, g, b] = rgb_of(hex)?;
                Some(json!({"label-value": n, "rgba": [r, g, b, 255]}))
            });
            ome["image-label"]["colors"] = colors.collect();
        }
    } else {
        let each = about.channels.iter().enumerate();
        let channels: Vec<Value> = each.map(|(n, c)| channel(root, n, c)).collect();
        let colored = about.channels.len() > 1;
        let model = if colored { "color" } else { "greyscale" };
        let middle = finest.dims[2] / 2;
        ome["omero"] = json!({"channels": channels, "rdefs": {"defaultT": 0, "defaultZ": middle, "model": model}});
    }
    ome
}

fn described(downsample: Downsample) -> &'static str {
    match downsample {
        Downsample::Mean => {
            "mean of 2 voxels along each halved axis, of those that have a value; integers rounded half to even"
        }
        Downsample::Majority => "most frequent of 2 voxels along each halved axis; the lowest of several",
        Downsample::Nearest => "first of 2 voxels along each halved axis",
    }
}

/// The `omero` entry of a channel. Its window is in stored numbers.
fn channel(root: &VolumeRoot, number: usize, spec: &ChannelSpec) -> Value {
    let usual: &[&str] = match root.about.kind {
        VolumeKind::Rgb | VolumeKind::Rgba => &["FF0000", "00FF00", "0000FF", "FFFFFF"],
        VolumeKind::Channels => &["00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF"],
        VolumeKind::Scalar | VolumeKind::Labels => &["FFFFFF"],
    };
    let color = spec.color.as_deref().and_then(|c| c.strip_prefix('#')).filter(|c| c.len() == 6);
    let color = color.map_or_else(|| usual[number % usual.len()].to_owned(), str::to_ascii_uppercase);
    let seen = root.seen.get(number).copied().filter(|[low, high]| low <= high);
    let most = f64::from(f32::MAX);
    let seen = seen.unwrap_or([0.0, 1.0]).map(|x| x.clamp(-most, most));
    let stored = |value: f64| spec.scale.map_or(value, |[slope, intercept]| (value - intercept) / slope);
    let shown = match spec.limits.map(|l| l.map(stored)) {
        Some([a, b]) if a.is_finite() && b.is_finite() => [a.min(b), a.max(b)],
        _ if matches!(root.about.kind, VolumeKind::Rgb | VolumeKind::Rgba) => bounds(root.voxel).unwrap_or([0.0, 1.0]),
        _ => seen,
    };
    let [min, max] = bounds(root.voxel).unwrap_or(seen);
    // Opacity is not a light of its own.
    let opacity = matches!(root.about.kind, VolumeKind::Rgba) && number == 3;
    json!({"label": spec.name, "color": color, "active": !spec.hidden && !opacity, "coefficient": 1.0, "family": "linear", "inverted": spec.inverted,
        "window": {"min": min, "max": max, "start": shown[0], "end": shown[1]}})
}

/// The bounds of a type of at most two bytes.
const fn bounds(voxel: VoxelType) -> Option<[f64; 2]> {
    match voxel {
        VoxelType::Uint8 => Some([0.0, 255.0]),
        VoxelType::Int8 => Some([-128.0, 127.0]),
        VoxelType::Uint16 => Some([0.0, 65_535.0]),
        VoxelType::Int16 => Some([-32_768.0, 32_767.0]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_units() {
        assert_eq!(even(&[0.5, 1.0, 1.5]), Some((0.5, 0.5)));
        assert_eq!(even(&[0.5, 1.0, 1.6]), None);
        assert_eq!(even(&[0.5]), None);
        assert_eq!(even(&[2.0, 1.0]), None);
        assert_eq!(unit("mm", &LENGTHS), Some("millimeter"));
        assert_eq!(unit("micrometer", &LENGTHS), Some("micrometer"));
        assert_eq!(unit("voxel", &LENGTHS), None);
        assert_eq!(unit("s", &TIMES), Some("second"));
    }
}

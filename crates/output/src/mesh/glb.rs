//! Meshes as glTF 2.0 in one file (`.glb`), after the Khronos Group's specification.
//!
//! One mesh of triangles (and of line segments if there are any) under one node. Positions are single precision
//! relative to the middle of the mesh. The middle is the node's translation, in single precision itself. So a mesh far
//! from the origin keeps its shape. Axes and units are those of the data: there is no rotation to y up, and no scaling
//! to metres.
//!
//! Fields are attributes `_NAME` in single precision, of up to four components. Fields with more have an attribute
//! `_NAME_0`, `_NAME_1`, ... for each component. Names are in capitals, with `_` in place of other characters than
//! ASCII letters and digits. The mesh's `extras` name the field of each attribute, and its unit. NaN is kept. `_ZONE`
//! is the zone. Colours are `COLOR_0`, converted to linear light as glTF requires.

use super::attribute::plain;
use super::complete::CompleteMesh;
use super::piece::{MeshLayout, MeshPoints};
use super::sections::{Section, Sections};
use super::sink::ByteSink;
use crate::{FieldType, OutputError};
use serde_json::{json, Map, Value};
use std::path::Path;

/// Most bytes of a file of this format.
const MOST_BYTES: u64 = u32::MAX as u64;

/// Share of these that is reserved for the description and the heads of the chunks while pieces come.
const TEXT_BYTES: u64 = 1 << 20;

/// glTF's numbers for types.
const UNSIGNED_SHORT: u32 = 5123;
const UNSIGNED_INT: u32 = 5125;
const FLOAT: u32 = 5126;

/// glTF's numbers for uses of a part of the buffer.
const VERTICES: u32 = 34962;
const INDICES: u32 = 34963;

/// glTF's numbers for primitives.
const POINTS: u32 = 0;
const LINES: u32 = 1;
const TRIANGLES: u32 = 4;

/// Bytes of a point's colour: four numbers of 16 bits.
const COLOUR_BYTES: u64 = 8;

/// Bytes of the numbers.
fn buffer_bytes(layout: &MeshLayout, points: u64, triangles: u64, lines: u64) -> u64 {
    let fields: u64 = layout.fields.iter().map(|field| 4 * field.components as u64).sum();
    let normals = if layout.normals { 12 } else { 0 };
    let colours = if layout.colours { COLOUR_BYTES } else { 0 };
    points * (12 + 4 + normals + colours + fields) + triangles * 12 + lines * 8
}

fn too_large(path: &Path) -> OutputError {
    OutputError::Layout(format!(
        "cannot write {}: a .glb holds up to 4 GiB, and this mesh takes more; write it as .vtp, .ply or .npz, or extract less of it (fewer fields, a part of the dataset, a coarser level)",
        path.display()
    ))
}

/// Refuses meshes beyond the format's limits.
pub(super) fn check(
    path: &Path,
    layout: &MeshLayout,
    points: u64,
    triangles: u64,
    lines: u64,
    came: &MeshPoints,
) -> Result<(), OutputError> {
    if buffer_bytes(layout, points, triangles, lines) > MOST_BYTES - TEXT_BYTES {
        return Err(too_large(path));
    }
    let finite = match came {
        MeshPoints::F32(points) => points.as_flattened().iter().all(|v| v.is_finite()),
        MeshPoints::F64(points) => points.as_flattened().iter().all(|v| (*v as f32).is_finite()),
    };
    if !finite {
        return Err(OutputError::Layout(format!(
            "cannot write {}: a position is not a number of single precision, which a .glb cannot hold; write it as .vtp",
            path.display()
        )));
    }
    Ok(())
}

/// Parts of the buffer and their contents, as they are described.
#[derive(Default)]
struct Described {
    views: Vec<Value>,
    accessors: Vec<Value>,
    attributes: Map<String, Value>,
    next: u64,
}

impl Described {
    /// A part of the buffer. `stride` if it has several numbers a point.
    fn view(&mut self, bytes: u64, stride: Option<usize>, target: u32) -> usize {
        let mut view = json!({"buffer": 0, "byteOffset": self.next, "byteLength": bytes, "target": target});
        if let Some(stride) = stride {
            view["byteStride"] = stride.into();
        }
        self.views.push(view);
        self.next += bytes;
        self.views.len() - 1
    }

    fn accessor(&mut self, view: usize, offset: usize, kind: u32, count: u64, shape: &str) -> usize {
        let mut accessor = json!({"bufferView": view, "componentType": kind, "count": count, "type": shape});
        if offset > 0 {
            accessor["byteOffset"] = offset.into();
        }
        self.accessors.push(accessor);
        self.accessors.len() - 1
    }

    /// An attribute of single precision with its own part of the buffer.
    fn attribute(&mut self, name: &str, count: u64, components: usize, shape: &str) -> usize {
        let view = self.view(4 * components as u64 * count, None, VERTICES);
        let accessor = self.accessor(view, 0, FLOAT, count, shape);
        self.attributes.insert(name.into(), accessor.into());
        accessor
    }
}

/// glTF's name of a tuple, if it has one.
fn shape(components: usize) -> Option<&'static str> {
    [None, Some("SCALAR"), Some("VEC2"), Some("VEC3"), Some("VEC4")].get(components).copied().flatten()
}

/// The middle of the mesh, in single precision.
fn middle(bounds: Option<[[f64; 3]; 2]>) -> [f64; 3] {
    let Some([lo, hi]) = bounds else {
        return [0.0; 3];
    };
    [0, 1, 2].map(|a| f64::from((0.5 * lo[a] + 0.5 * hi[a]) as f32))
}

/// A position relative to the middle.
fn about(position: f64, middle: f64) -> f32 {
    (position - middle) as f32
}

/// The description and the number of bytes in the buffer.
fn describe(mesh: &CompleteMesh, middle: [f64; 3]) -> (Value, u64) {
    let (layout, stats) = (mesh.layout, mesh.stats);
    let n = stats.points;
    let mut of = Described::default();
    let position = of.attribute("POSITION", n, 3, "VEC3");
    if let Some(bounds) = stats.bounds {
        for (key, corner) in [("min", bounds[0]), ("max", bounds[1])] {
            of.accessors[position][key] = [0, 1, 2].map(|a| f64::from(about(corner[a], middle[a]))).to_vec().into();
        }
    }
    if layout.normals {
        of.attribute("NORMAL", n, 3, "VEC3");
    }
    if layout.colours {
        let view = of.view(COLOUR_BYTES * n, None, VERTICES);
        let accessor = of.accessor(view, 0, UNSIGNED_SHORT, n, "VEC4");
        of.accessors[accessor]["normalized"] = true.into();
        of.attributes.insert("COLOR_0".into(), accessor.into());
    }
    of.attribute("_ZONE", n, 1, "SCALAR");
    let mut taken = vec!["_ZONE".to_owned()];
    let mut fields = Map::new();
    for (field, name) in layout.fields.iter().zip(mesh.names) {
        let upper = format!("_{}", name.to_uppercase());
        let mut tell = |attribute: &str, component: Option<usize>| {
            let mut told = json!({"name": field.name, "unit": field.unit});
            if let Some(component) = component {
                told["component"] = component.into();
            }
            fields.insert(attribute.to_owned(), told);
        };
        if let Some(shape) = shape(field.components) {
            let attribute = plain(&upper, &mut taken);
            tell(&attribute, None);
            of.attribute(&attribute, n, field.components, shape);
            continue;
        }
        let stride = 4 * field.components;
        let view = of.view(stride as u64 * n, Some(stride), VERTICES);
        for component in 0..field.components {
            let attribute = plain(&format!("{upper}_{component}"), &mut taken);
            tell(&attribute, Some(component));
            let accessor = of.accessor(view, 4 * component, FLOAT, n, "SCALAR");
            of.attributes.insert(attribute, accessor.into());
        }
    }
    let mut primitives = Vec::new();
    let attributes = Value::Object(std::mem::take(&mut of.attributes));
    for (mode, count, corners) in [(TRIANGLES, stats.triangles, 3), (LINES, stats.lines, 2)] {
        if count > 0 {
            let view = of.view(4 * corners * count, None, INDICES);
            let indices = of.accessor(view, 0, UNSIGNED_INT, corners * count, "SCALAR");
            primitives.push(json!({"attributes": attributes, "indices": indices, "mode": mode, "material": 0}));
        }
    }
    if primitives.is_empty() {
        primitives.push(json!({"attributes": attributes, "mode": POINTS, "material": 0}));
    }

    let provenance = mesh.provenance;
    let mut extras = Map::new();
    extras.insert("partial".into(), mesh.partial.into());
    if !provenance.source.is_empty() {
        extras.insert("source".into(), provenance.source.clone().into());
    }
    extras.insert("length_unit".into(), provenance.length_unit.clone().into());
    extras.insert("fields".into(), fields.into());
    for (name, value) in &provenance.notes {
        if !extras.contains_key(name) {
            extras.insert(name.clone(), value.clone().into());
        }
    }
    let mut document = json!({
        "asset": {"version": "2.0", "generator": provenance.program},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        // A surface has no inside: it is visible from both sides.
        "materials": [{
            "doubleSided": true,
            "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 0.6},
        }],
    });
    // A mesh must have a point, and lists must not be empty.
    if n > 0 {
        document["nodes"] = json!([{"mesh": 0, "translation": middle}]);
        document["meshes"] = json!([{"primitives": primitives, "extras": extras}]);
        document["accessors"] = of.accessors.into();
        document["bufferViews"] = of.views.into();
        document["buffers"] = json!([{"byteLength": of.next}]);
    } else {
        document["nodes"] = json!([{"extras": extras}]);
    }
    (document, of.next)
}

/// Numbers in single precision.
fn put_single(section: Section, dtype: FieldType, sink: &mut ByteSink) -> Result<(), OutputError> {
    match dtype {
        FieldType::F32 => sink.copy(section),
        FieldType::F64 => sink.each(section, |sink, bytes| {
            for bytes in bytes.chunks_exact(8) {
                let value = bytes.try_into().map_or(f64::NAN, f64::from_le_bytes);
                sink.put(&(value as f32).to_le_bytes())?;
            }
            Ok(())
        }),
    }
}

/// Positions relative to the middle.
fn put_positions(points: Section, dtype: FieldType, middle: [f64; 3], sink: &mut ByteSink) -> Result<(), OutputError> {
    sink.each(points, |sink, bytes| {
        for (i, bytes) in bytes.chunks_exact(dtype.bytes()).enumerate() {
            let value = match dtype {
                FieldType::F32 => f64::from(bytes.try_into().map_or(f32::NAN, f32::from_le_bytes)),
                FieldType::F64 => bytes.try_into().map_or(f64::NAN, f64::from_le_bytes),
            };
            sink.put(&about(value, middle[i % 3]).to_le_bytes())?;
        }
        Ok(())
    })
}

/// A number of sRGB as linear light in 16 bits (IEC 61966-2-1).
fn linear(value: u8) -> u16 {
    let value = f64::from(value) / 255.0;
    let light = if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    (65535.0 * light).round() as u16
}

fn put_colours(colours: Section, sink: &mut ByteSink) -> Result<(), OutputError> {
    let table: Vec<u16> = (0..=255).map(linear).collect();
    sink.each(colours, |sink, bytes| {
        for (i, value) in bytes.iter().enumerate() {
            // Opacity is linear as it is.
            let wide = if i % 4 == 3 { 257 * u16::from(*value) } else { table[usize::from(*value)] };
            sink.put(&wide.to_le_bytes())?;
        }
        Ok(())
    })
}

pub(super) fn write(mesh: &CompleteMesh, sections: Sections, sink: &mut ByteSink) -> Result<(), OutputError> {
    let middle = middle(mesh.stats.bounds);
    let (document, bytes) = describe(mesh, middle);
    let mut text = document.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(4), b' ');
    let has_buffer = mesh.stats.points > 0;
    // The head of the file has 12 bytes, that of a chunk 8.
    let total = 20 + text.len() as u64 + if has_buffer { 8 + bytes } else { 0 };
    let chunk = |bytes: u64| u32::try_from(bytes).map_err(|_| too_large(sink.path()));
    let (total, text_bytes, bytes) = (chunk(total)?, chunk(text.len() as u64)?, chunk(bytes)?);
    for part in [b"glTF", &2u32.to_le_bytes(), &total.to_le_bytes(), &text_bytes.to_le_bytes(), b"JSON"] {
        sink.put(part)?;
    }
    sink.put(&text)?;
    if !has_buffer {
        return Ok(());
    }
    sink.put(&bytes.to_le_bytes())?;
    sink.put(b"BIN\0")?;
    let Sections { points, zone, normals, colours, fields, triangles, lines, .. } = sections;
    put_positions(points, mesh.layout.positions, middle, sink)?;
    if let Some(normals) = normals {
        sink.copy(normals)?;
    }
    if let Some(colours) = colours {
        put_colours(colours, sink)?;
    }
    sink.each(zone, |sink, bytes| {
        for bytes in bytes.chunks_exact(4) {
            let zone = bytes.try_into().map_or(0, i32::from_le_bytes);
            sink.put(&(zone as f32).to_le_bytes())?;
        }
        Ok(())
    })?;
    for (field, section) in mesh.layout.fields.iter().zip(fields) {
        put_single(section, field.dtype, sink)?;
    }
    sink.put_indices(triangles, false)?;
    match lines {
        Some(lines) => sink.put_indices(lines, false),
        None => Ok(()),
    }
}

//! Meshes as Stanford's polygon files, binary little-endian.
//!
//! Vertices have `x y z`, then `nx ny nz`, then `red green blue alpha` (bytes), then `zone`, then the fields. A vector
//! is `NAME_x NAME_y NAME_z`, and other numbers of components are `NAME_0 NAME_1 ...`. Characters other than ASCII
//! letters and digits become `_`. Faces are lists of vertex numbers, and line segments are the element `edge`. Comments
//! name the program and the unit of each field.

use super::attribute::{plain, suffixes};
use super::complete::CompleteMesh;
use super::sections::{Section, Sections, INT32};
use super::sink::{ByteSink, SINK_BYTES};
use crate::{FieldType, OutputError};
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;
use std::path::Path;

/// Characters of a comment's line: readers have fixed buffers.
const LINE: usize = 1000;

/// Refuses meshes beyond the format's numbers: readers store vertex numbers, and counts, in signed 32 bits.
pub(super) fn check(path: &Path, points: u64, triangles: u64, lines: u64) -> Result<(), OutputError> {
    if points.max(triangles).max(lines) < INT32 {
        return Ok(());
    }
    Err(OutputError::Layout(format!(
        "cannot write {}: a .ply holds fewer than 2^31 points, triangles and lines, and this mesh has more; write it as .vtp or .npz, or extract less of it",
        path.display()
    )))
}

/// Adds comments: a key and a text, which may span several lines.
fn comment(text: &mut String, key: &str, value: &str) {
    let clean = |value: &str| -> Vec<char> { value.chars().map(|c| if c.is_control() { '?' } else { c }).collect() };
    for line in clean(&format!("{key} {value}")).chunks(LINE) {
        let _ = writeln!(text, "comment {}", line.iter().collect::<String>());
    }
}

fn kind(dtype: FieldType) -> &'static str {
    match dtype {
        FieldType::F32 => "float",
        FieldType::F64 => "double",
    }
}

fn header(mesh: &CompleteMesh) -> String {
    let mut text = String::from("ply\nformat binary_little_endian 1.0\n");
    let provenance = mesh.provenance;
    for (key, value) in [("program", &provenance.program), ("source", &provenance.source)] {
        if !value.is_empty() {
            comment(&mut text, key, value);
        }
    }
    comment(&mut text, "partial", if mesh.partial { "1" } else { "0" });
    if !provenance.length_unit.is_empty() {
        comment(&mut text, "unit of x y z:", &provenance.length_unit);
    }
    for (name, value) in &provenance.notes {
        comment(&mut text, name, value);
    }
    let mut properties = String::new();
    let mut taken: Vec<String> =
        ["x", "y", "z", "nx", "ny", "nz", "red", "green", "blue", "alpha", "zone"].map(String::from).into();
    let mut property = |kind: &str, name: &str| {
        let _ = writeln!(properties, "property {kind} {name}");
    };
    for axis in ["x", "y", "z"] {
        property(kind(mesh.layout.positions), axis);
    }
    if mesh.layout.normals {
        ["nx", "ny", "nz"].iter().for_each(|name| property("float", name));
    }
    if mesh.layout.colours {
        ["red", "green", "blue", "alpha"].iter().for_each(|name| property("uchar", name));
    }
    property("int", "zone");
    for (field, name) in mesh.layout.fields.iter().zip(mesh.names) {
        let mut names = Vec::new();
        for suffix in suffixes(field.components) {
            let name = plain(&format!("{name}{suffix}"), &mut taken);
            property(kind(field.dtype), &name);
            names.push(name);
        }
        comment(&mut text, "field", &format!("{}: {name}", names.join(" ")));
        if !field.unit.is_empty() {
            comment(&mut text, &format!("unit of {}:", names.join(" ")), &field.unit);
        }
    }
    let _ = writeln!(text, "element vertex {}\n{properties}element face {}", mesh.stats.points, mesh.stats.triangles);
    text.push_str("property list uchar int vertex_indices\n");
    if mesh.layout.lines {
        let _ = writeln!(text, "element edge {}\nproperty int vertex1\nproperty int vertex2", mesh.stats.lines);
    }
    text.push_str("end_header\n");
    text
}

/// Interleaves the arrays of points.
fn vertices(sections: &[Section], points: u64, sink: &mut ByteSink) -> Result<(), OutputError> {
    let vertex: usize = sections.iter().map(|section| section.item).sum();
    // One buffer holds a run of every array, one behind the other. A point is smaller than it.
    let run = (SINK_BYTES / vertex).max(1) as u64;
    let mut buffer = vec![0; run as usize * vertex];
    let mut first = 0;
    while first < points {
        let count = (points - first).min(run) as usize;
        let mut rest = &mut buffer[..];
        let mut columns = Vec::with_capacity(sections.len());
        for section in sections {
            let (mine, others) = rest.split_at_mut(count * section.item);
            section.log.read_at(first * section.item as u64, mine)?;
            columns.push(&mine[..]);
            rest = others;
        }
        for point in 0..count {
            for (section, column) in sections.iter().zip(&columns) {
                sink.put(&column[point * section.item..][..section.item])?;
            }
        }
        sink.tell((count * vertex) as u64)?;
        first += count as u64;
    }
    Ok(())
}

pub(super) fn write(mesh: &CompleteMesh, sections: Sections, sink: &mut ByteSink) -> Result<(), OutputError> {
    sink.put(header(mesh).as_bytes())?;
    let Sections { points, zone, normals, colours, fields, triangles, lines, .. } = sections;
    let mut arrays = vec![points];
    arrays.extend(normals);
    arrays.extend(colours);
    arrays.push(zone);
    arrays.extend(fields);
    vertices(&arrays, mesh.stats.points, sink)?;
    drop(arrays);
    let mut corner = 0;
    sink.each_index(triangles, |sink, number| {
        if corner % 3 == 0 {
            sink.put(&[3])?;
        }
        corner += 1;
        // Checked on arrival: it is below 2^31.
        sink.put(&(number as u32).to_le_bytes())
    })?;
    match lines {
        Some(lines) => sink.put_indices(lines, false),
        None => Ok(()),
    }
}

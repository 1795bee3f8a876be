//! Meshes as a NumPy archive.
//!
//! Arrays of N points, M triangles and L line segments:
//!
//! | array | type and shape | |
//! |---|---|---|
//! | `points` | (N, 3) | |
//! | `zone` | int32 (N,) | |
//! | `normals` | float32 (N, 3) | optional |
//! | `colours` | uint8 (N, 4) | optional |
//! | FIELD | (N,) or (N, components) | one a field |
//! | `triangles` | int64 (M, 3) | |
//! | `lines` | int64 (L, 2) | optional |
//! | `partial` | bool () | |
//! | `meta` | string () | JSON |

use super::complete::CompleteMesh;
use super::sections::Sections;
use super::sink::ByteSink;
use crate::npz::meta_json;
use crate::zip::ZipPlan;
use crate::{npy, FieldType, OutputError};

/// An archive while it is written.
struct Archive<'s, 'a> {
    sink: &'s mut ByteSink<'a>,
    plan: ZipPlan,
    checksums: Vec<u32>,
}

impl<'a> Archive<'_, 'a> {
    /// Appends an array of `bytes`. Its local header is left out until its checksum is known.
    fn add(
        &mut self,
        name: &str,
        descr: &str,
        shape: &[u64],
        bytes: u64,
        write: impl FnOnce(&mut ByteSink<'a>) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let header = npy::header(descr, shape, 0);
        let at = self.plan.add(&format!("{name}.npy"), header.len() as u64 + bytes);
        self.sink.skip(at - self.sink.position())?;
        self.sink.begin_crc();
        self.sink.put(&header)?;
        write(self.sink)?;
        self.checksums.push(self.sink.end_crc());
        debug_assert_eq!(self.sink.position(), at + header.len() as u64 + bytes);
        Ok(())
    }
}

fn descr(dtype: FieldType) -> &'static str {
    match dtype {
        FieldType::F32 => "<f4",
        FieldType::F64 => "<f8",
    }
}

pub(super) fn write(mesh: &CompleteMesh, sections: Sections, sink: &mut ByteSink) -> Result<(), OutputError> {
    let (layout, n) = (mesh.layout, mesh.stats.points);
    let mut archive = Archive { sink, plan: ZipPlan::default(), checksums: Vec::new() };
    let Sections { points, zone, normals, colours, fields, triangles, lines, .. } = sections;
    archive.add("points", descr(layout.positions), &[n, 3], points.log.len(), |sink| sink.copy(points))?;
    archive.add("zone", "<i4", &[n], zone.log.len(), |sink| sink.copy(zone))?;
    if let Some(normals) = normals {
        archive.add("normals", "<f4", &[n, 3], normals.log.len(), |sink| sink.copy(normals))?;
    }
    if let Some(colours) = colours {
        archive.add("colours", "|u1", &[n, 4], colours.log.len(), |sink| sink.copy(colours))?;
    }
    for ((field, name), section) in layout.fields.iter().zip(mesh.names).zip(fields) {
        let shape = [n, field.components as u64];
        let shape = &shape[..if field.components == 1 { 1 } else { 2 }];
        archive.add(name, descr(field.dtype), shape, section.log.len(), |sink| sink.copy(section))?;
    }
    let m = mesh.stats.triangles;
    archive.add("triangles", "<i8", &[m, 3], 24 * m, |sink| sink.put_indices(triangles, true))?;
    if let Some(lines) = lines {
        let m = mesh.stats.lines;
        archive.add("lines", "<i8", &[m, 2], 16 * m, |sink| sink.put_indices(lines, true))?;
    }
    archive.add("partial", "|b1", &[], 1, |sink| sink.put(&[u8::from(mesh.partial)]))?;
    let mut units = serde_json::Map::new();
    units.insert("points".into(), mesh.provenance.length_unit.clone().into());
    for (field, name) in layout.fields.iter().zip(mesh.names) {
        units.insert(name.clone(), field.unit.clone().into());
    }
    let meta = meta_json(mesh.provenance, mesh.partial, units, "mesh");
    let meta: Vec<u8> = meta.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let text = format!("<U{}", meta.len() / 4);
    archive.add("meta", &text, &[], meta.len() as u64, |sink| sink.put(&meta))?;
    let Archive { sink, plan, checksums } = archive;
    for (at, bytes) in plan.headers(&checksums) {
        // The directory is last, behind everything.
        sink.put_at(at, &bytes)?;
    }
    Ok(())
}

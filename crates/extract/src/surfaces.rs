//! Grid surfaces: faces or inner planes of zones, whole or in part, with fields, in a file.

use crate::job::JobRequest;
use field::catalog::DType;
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::Zone;
use field::options::Object;
use field::plot3d::iblank::{bits, FACE};
use field::quantity::Quantity;
use output::{
    FieldSpec, FieldType, FieldValues, MeshLayout, MeshRows, MeshWriter, OutputError, OutputFile, OutputFormat, Patch,
    SurfaceLayout, SurfaceWriter,
};
use runtime::gridface::{along, GridFace, AXES};
use runtime::ledger_share::LedgerShare;
use runtime::limits::{charge_other, refused};
use runtime::session::{ProgressWatch, Session};
use runtime::values::{read_box, NodeBox};
use runtime::walls::walls;
use serde_json::{json, Value};
use std::path::Path;

/// An extraction.
#[derive(Clone, Debug)]
pub struct SurfaceSpec {
    /// A list for [`GridFace::of_json`]; `None`: all walls.
    pub surfaces: Option<Value>,
    /// Fields at the points.
    pub scalars: Vec<String>,
    /// Time step.
    pub step: usize,
}

/// Refuses a face that is one point across: it has no cells for a file of surfaces.
fn check_area(dataset: &Dataset, f: &GridFace) -> Result<(), FieldError> {
    if !f.points().contains(&1) {
        return Ok(());
    }
    let z = &dataset.zones[f.zone];
    let whole = GridFace::whole(f.zone, f.axis, f.index, z.dims());
    Err(FieldError::Usage(if whole.points().contains(&1) {
        line_not_face(z, f.axis, f.index + 1)
    } else {
        format!("{} is a line, not a surface; give two points or more along both axes", f.name(dataset))
    }))
}

/// The error of a face that is one point across, with the faces of its zone that have an area.
fn line_not_face(z: &Zone, axis: usize, index: u32) -> String {
    let dims = z.dims();
    let thin: Vec<usize> = (0..3).filter(|a| dims[*a] == 1).collect();
    let name = &z.name;
    let lead = format!("{name}:{}={index} is a line, not a surface: ", AXES[axis]);
    match thin[..] {
        [a] => format!("{lead}{name} is one point thick along {0}; use {name}:{0}=1, which is all of it", AXES[a]),
        _ => {
            format!("{lead}{name} has {} x {} x {} points, so none of its faces has an area", dims[0], dims[1], dims[2])
        }
    }
}

/// Receives a row of a face: its number, positions, columns of the fields' components, and the points usable by iblank.
/// And the quadrilaterals, by their low corner, with only blanked-out cells beside them.
pub type TakeRow<'a> = dyn FnMut(usize, &[[f64; 3]], &[&[f64]], [&[bool]; 2]) -> Result<(), FieldError> + 'a;

/// Rows of a face (constant second axis), a strip of pages at a time: position, then the fields' components, then
/// whether iblank allows the point.
///
/// # Errors
/// An unreadable page, [`FieldError::Interrupted`], and errors of `row`.
pub fn face_rows(
    session: &Session,
    dataset: &Dataset,
    face: &GridFace,
    step: usize,
    fields: &[Quantity],
    watch: &mut ProgressWatch<'_>,
    row: &mut TakeRow<'_>,
) -> Result<(), FieldError> {
    let z = &dataset.zones[face.zone];
    let [a, b] = along(face.axis);
    let [ni, _] = face.points();
    let [first, end] = [face.from[1], face.to[1]];
    let whole = face.nodes(step);
    let mut wanted = vec![Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components }];
    wanted.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
    wanted.extend_from_slice(fields);
    let planar = z.arrays[z.xyz].components < 3;
    let strip = z.translation.page[b];
    let mut from = first;
    while from < end {
        let to = ((from / strip + 1) * strip).min(end);
        let (mut lo, mut hi) = (whole.lo, whole.hi);
        lo[b] = from;
        hi[b] = to;
        debug_assert_eq!((hi[a] - lo[a]) as usize, ni);
        let at = NodeBox { lo, hi, ..whole };
        let n = at.count();
        let bytes = (n * 8 * (wanted.len() * 3 + 4)) as u64;
        let _charged = charge_other(&session.pager, bytes, "a row of pages of a surface")?;
        let v = read_box(session, dataset, at, &wanted, watch)?;
        let column = |c: usize, r: usize| &v[c * n + r * ni..c * n + (r + 1) * ni];
        for r in 0..(to - from) as usize {
            let points: Vec<[f64; 3]> = (0..ni)
                .map(|i| [column(0, r)[i], column(1, r)[i], if planar { 0.0 } else { column(2, r)[i] }])
                .collect();
            let mut at = if planar { 2 } else { 3 };
            let (usable, hidden): (Vec<bool>, Vec<bool>) = match z.iblank {
                Some(_) => {
                    at += 1;
                    let blank = column(at - 1, r);
                    blank.iter().map(|b| (*b != 0.0, bits(*b) & FACE << face.axis != 0)).unzip()
                }
                None => (vec![true; ni], vec![false; ni]),
            };
            let columns: Vec<&[f64]> = (at..v.len() / n).map(|c| column(c, r)).collect();
            row((from - first) as usize + r, &points, &columns, [&usable, &hidden])?;
        }
        from = to;
    }
    Ok(())
}

/// The destination of rows. Formats with quadrilaterals keep these and all points; the others have triangles.
enum SurfaceSink {
    Quads(Box<SurfaceWriter>),
    /// With the charge of waiting rows.
    Triangles(Box<MeshRows>, Box<dyn std::any::Any>),
}

/// Runs [`extract`] with JSON options: `surfaces`, `scalars`, `step`.
///
/// # Errors
/// [`FieldError`] for an invalid option, for an unknown one, and of [`extract`].
pub fn job(session: &Session, request: &JobRequest<'_>, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let mut o = Object::parse(request.options, "surface options")?;
    let spec = SurfaceSpec {
        surfaces: o.take("surfaces"),
        scalars: o.texts("scalars")?,
        step: o.whole("step")?.unwrap_or(0) as usize,
    };
    o.done()?;
    extract(session, &spec, request.output()?, watch)
}

/// Writes surfaces to a .vtp or .npz as quadrilaterals, to a .ply or .glb as triangles with normals.
///
/// # Errors
/// [`FieldError`].
pub fn extract(
    session: &Session,
    spec: &SurfaceSpec,
    output: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let file = OutputFile::create_mesh(output)?;
    session.derive(&spec.scalars)?;
    let dataset = session.dataset();
    let faces = match &spec.surfaces {
        Some(Value::Array(list)) => {
            list.iter().map(|v| GridFace::of_json(&dataset, v)).collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err(FieldError::Usage("surfaces must be a list".into())),
        None => walls(session, &dataset, spec.step..spec.step + 1, watch)?,
    };
    for face in &faces {
        check_area(&dataset, face)?;
    }
    if faces.is_empty() {
        return Err(FieldError::Usage(
            "no zone has a face that is all wall (iblank 2) or all at rest; name a surface, for example --surface zone1:k=1".into(),
        ));
    }
    let failed = |e: OutputError| refused(&session.pager, e.into());
    let specs = field_specs(&dataset, &faces[0], &spec.scalars)?;
    let mut sink = sink(session, &dataset, &faces, &specs, file)?;
    let mut listed = Vec::new();
    for f in &faces {
        let fields: Vec<Quantity> =
            spec.scalars.iter().map(|n| dataset.quantity(f.zone, n)).collect::<Result<_, _>>()?;
        if let SurfaceSink::Triangles(rows, _) = &mut sink {
            rows.begin(f.zone as i32 + 1).map_err(failed)?;
        }
        face_rows(session, &dataset, f, spec.step, &fields, watch, &mut |_, points, columns, [usable, hidden]| {
            let mut at = 0;
            let interleaved: Vec<Vec<f64>> = specs
                .iter()
                .map(|s| {
                    let mine = &columns[at..at + s.components];
                    at += s.components;
                    (0..points.len()).flat_map(|p| mine.iter().map(move |c| c[p])).collect()
                })
                .collect();
            match &mut sink {
                SurfaceSink::Quads(writer) => {
                    let values: Vec<FieldValues<'_>> = interleaved.iter().map(|v| FieldValues::F64(v)).collect();
                    writer.push_row(points, &values, Some([usable, hidden])).map_err(failed)
                }
                SurfaceSink::Triangles(rows, _) => rows.push(points, interleaved, [usable, hidden]).map_err(failed),
            }
        })?;
        let mut of = f.to_json(&dataset);
        of["points"] = json!(f.points().iter().product::<usize>());
        listed.push(of);
    }
    let (points, cells, bytes) = match sink {
        SurfaceSink::Quads(writer) => {
            let stats = writer.finish(false).map_err(failed)?;
            (stats.points, stats.quads, stats.bytes)
        }
        SurfaceSink::Triangles(rows, _charged) => {
            let stats = rows.finish(false).map_err(failed)?;
            (stats.points, stats.triangles, stats.bytes)
        }
    };
    Ok(json!({"points": points, "cells": cells, "surfaces": listed, "output": output, "bytes_written": bytes}))
}

/// The output fields of the given names.
fn field_specs(dataset: &Dataset, face: &GridFace, scalars: &[String]) -> Result<Vec<FieldSpec>, FieldError> {
    let each = scalars.iter().map(|name| {
        let components = dataset.quantity(face.zone, name)?.components();
        Ok(FieldSpec { name: name.clone(), components, dtype: FieldType::F64, unit: dataset.units(name) })
    });
    each.collect()
}

/// Prepares for rows of faces with fields.
fn sink(
    session: &Session,
    dataset: &Dataset,
    faces: &[GridFace],
    specs: &[FieldSpec],
    file: OutputFile,
) -> Result<SurfaceSink, FieldError> {
    let first = &dataset.zones[faces[0].zone];
    let positions = if first.arrays[first.xyz].dtype == DType::Float32 { FieldType::F32 } else { FieldType::F64 };
    let provenance = output::Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: pager::place::shown(&session.spec.path),
        length_unit: dataset.length_unit(),
        ..Default::default()
    };
    let share = Box::new(LedgerShare::new(session.pager.clone()));
    let failed = |e: OutputError| refused(&session.pager, e.into());
    let fields = specs.to_vec();
    if matches!(file.format(), OutputFormat::Ply | OutputFormat::Glb) {
        let components: Vec<usize> = specs.iter().map(|s| s.components).collect();
        let widest = faces.iter().map(|f| f.points()[0]).max().unwrap_or(0);
        let charged = charge_other(&session.pager, MeshRows::bytes(widest, &components), "three rows of a surface")?;
        let layout = MeshLayout { fields, positions, normals: true, ..MeshLayout::default() };
        let writer = MeshWriter::new(file, layout, provenance, share).map_err(failed)?;
        return Ok(SurfaceSink::Triangles(Box::new(MeshRows::new(writer, components)), charged));
    }
    let patches = faces.iter().map(|f| {
        let [ni, nj] = f.points();
        Patch { zone: f.zone as i32 + 1, ni, nj }
    });
    let layout = SurfaceLayout { patches: patches.collect(), fields, positions };
    let writer = SurfaceWriter::new(file, layout, provenance, share).map_err(failed)?;
    Ok(SurfaceSink::Quads(Box::new(writer)))
}

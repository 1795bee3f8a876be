//! Writing of surfaces from arrays owned by Python.

use ::output::{
    FieldSpec, FieldType, FieldValues, FixedBudget, MeshLayout, MeshPiece, MeshPoints, MeshWriter, OutputError,
    OutputFile, Provenance,
};
use field::error::FieldError;
use field::options::usage;
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use python_calls::to_python;
use serde_json::Value;
use std::path::Path;

/// Memory for saving, in bytes, beside the existing arrays.
const SAVE_BUDGET: usize = 8 << 20;
/// Points, or triangles, in one piece.
const PIECE: usize = 1 << 15;

/// Three numbers a row.
enum VectorArray<'a> {
    F32(&'a [[f32; 3]]),
    F64(&'a [[f64; 3]]),
}

struct Arrays<'a> {
    points: VectorArray<'a>,
    triangles: &'a [[i64; 3]],
    zone: &'a [i32],
    normals: Option<&'a [[f32; 3]]>,
    fields: Vec<(FieldSpec, &'a [f32])>,
}

fn threes<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>, what: &str) -> Result<&'a [[T; 3]], FieldError> {
    let flat = array.as_slice().ok().filter(|_| array.shape()[1] == 3);
    let flat =
        flat.ok_or_else(|| usage(format!("{what} of a mesh are three numbers a row, one row after the other")))?;
    Ok(flat.as_chunks().0)
}

/// Writes .vtp, .ply, .glb or .npz, the same bytes as the job `contour`.
#[pyfunction]
pub fn save_mesh(py: Python<'_>, path: &str, arrays: &Bound<'_, PyDict>, meta: &str) -> PyResult<()> {
    let failed = |e: FieldError| to_python(py, e);
    let about: Value = serde_json::from_str(meta).map_err(|e| failed(usage(format!("what a mesh is: {e}"))))?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (mut single, mut double, mut triangles, mut zone, mut normals) = (None, None, None, None, None);
    let mut columns = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let name: String = name.extract()?;
        match name.as_str() {
            "points" => match array.extract::<PyReadonlyArray2<'_, f32>>() {
                Ok(points) => single = Some(points),
                Err(_) => double = Some(array.extract::<PyReadonlyArray2<'_, f64>>()?),
            },
            "triangles" => triangles = Some(array.extract::<PyReadonlyArray2<'_, i64>>()?),
            "zone" => zone = Some(array.extract::<PyReadonlyArray1<'_, i32>>()?),
            "normals" => normals = Some(array.extract::<PyReadonlyArray2<'_, f32>>()?),
            _ => columns.push((name, array.extract::<PyReadonlyArrayDyn<'_, f32>>()?)),
        }
    }
    let lacks = || failed(usage("a mesh has points, triangles and zones"));
    let flat = |what: &str| usage(format!("{what} of a mesh must lie in one piece"));
    let mut arrays = Arrays {
        points: match (&single, &double) {
            (Some(p), _) => VectorArray::F32(threes(p, "points").map_err(failed)?),
            (None, Some(p)) => VectorArray::F64(threes(p, "points").map_err(failed)?),
            (None, None) => return Err(lacks()),
        },
        triangles: threes(triangles.as_ref().ok_or_else(lacks)?, "triangles").map_err(failed)?,
        zone: zone.as_ref().ok_or_else(lacks)?.as_slice().map_err(|_| failed(flat("zones")))?,
        normals: normals.as_ref().map(|n| threes(n, "normals")).transpose().map_err(failed)?,
        fields: Vec::new(),
    };
    for (name, values) in &columns {
        let components = values.shape().get(1).copied().unwrap_or(1);
        let spec =
            FieldSpec { unit: text(&about["units"][name]), name: name.clone(), components, dtype: FieldType::F32 };
        arrays.fields.push((spec, values.as_slice().map_err(|_| failed(flat(name)))?));
    }
    let provenance = Provenance {
        program: text(&about["program"]),
        source: text(&about["source"]),
        length_unit: text(&about["units"]["points"]),
        ..Default::default()
    };
    let partial = about["partial"].as_bool().unwrap_or(false);
    py.detach(|| write(path, &arrays, provenance, partial)).map_err(|e| failed(e.into()))
}

fn write(path: &str, arrays: &Arrays<'_>, provenance: Provenance, partial: bool) -> Result<(), OutputError> {
    let count = match arrays.points {
        VectorArray::F32(p) => p.len(),
        VectorArray::F64(p) => p.len(),
    };
    let wrong = |what: &str| Err(OutputError::Layout(format!("{what} of a mesh of {count} points are not as many")));
    if arrays.zone.len() != count {
        return wrong("zones");
    }
    if arrays.normals.is_some_and(|n| n.len() != count) {
        return wrong("normals");
    }
    if let Some((spec, _)) = arrays.fields.iter().find(|(spec, v)| v.len() != count * spec.components) {
        return wrong(&format!("the values of '{}'", spec.name));
    }
    let layout = MeshLayout {
        fields: arrays.fields.iter().map(|(spec, _)| spec.clone()).collect(),
        positions: if matches!(arrays.points, VectorArray::F32(_)) { FieldType::F32 } else { FieldType::F64 },
        normals: arrays.normals.is_some(),
        colours: false,
        lines: false,
    };
    let file = OutputFile::create_mesh(Path::new(path))?;
    let mut writer = MeshWriter::new(file, layout, provenance, Box::new(FixedBudget::new(SAVE_BUDGET)))?;
    let mut first = 0;
    for run in arrays.zone.chunk_by(|a, b| a == b) {
        for part in run.chunks(PIECE) {
            let these = first..first + part.len();
            let fields: Vec<FieldValues<'_>> = arrays
                .fields
                .iter()
                .map(|(s, v)| FieldValues::F32(&v[these.start * s.components..these.end * s.components]))
                .collect();
            writer.push(&MeshPiece {
                zone: part[0],
                points: match arrays.points {
                    VectorArray::F32(p) => MeshPoints::F32(&p[these.clone()]),
                    VectorArray::F64(p) => MeshPoints::F64(&p[these.clone()]),
                },
                normals: arrays.normals.map(|n| &n[these.clone()]),
                fields: &fields,
                ..Default::default()
            })?;
            first = these.end;
        }
    }
    let none: Vec<FieldValues<'_>> = arrays.fields.iter().map(|_| FieldValues::F32(&[])).collect();
    let mut corners = Vec::with_capacity(PIECE.min(arrays.triangles.len()));
    for part in arrays.triangles.chunks(PIECE) {
        corners.clear();
        // A negative number becomes larger than any number of a point, and is refused.
        corners.extend(part.iter().map(|t| t.map(|n| n as u64)));
        let normals = arrays.normals.map(|_| &[][..]);
        writer.push(&MeshPiece { normals, fields: &none, triangles: &corners, ..Default::default() })?;
    }
    writer.finish(partial).map(|_stats| ())
}

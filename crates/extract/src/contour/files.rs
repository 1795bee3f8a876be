//! Isosurfaces and planes, written to files.

use super::volume::is_far;
use super::{run, run_volume, ContourKind, ContourSpec, Contoured, VolumeContour, VolumeWhat};
use field::catalog::DType;
use field::error::FieldError;
use field::volume::Volume;
use kernels::surface::{Points, SurfacePiece};
use output::{
    FieldSpec, FieldType, FieldValues, MeshLayout, MeshPiece, MeshPoints, MeshWriter, OutputError, OutputFile,
    Provenance,
};
use pager::place::shown;
use runtime::ledger_share::LedgerShare;
use runtime::limits::refused;
use runtime::session::{ProgressWatch, Session};
use serde_json::{json, Value};
use std::path::Path;

/// Writes a surface of a dataset to a `.vtp`, `.ply`, `.glb` or `.npz`.
///
/// # Errors
/// As [`run`], and errors of writing.
pub fn write(
    session: &Session,
    spec: &ContourSpec,
    output: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let file = OutputFile::create_mesh(output)?;
    let mut names = spec.scalars.clone();
    if let ContourKind::Iso { field, .. } = &spec.what {
        names.push(field.clone());
    }
    session.derive(&names)?;
    let dataset = session.dataset();
    let double = dataset.zones.iter().all(|z| z.arrays[z.xyz].dtype == DType::Float64);
    let fields = spec.scalars.iter().map(|name| {
        let zone = dataset.zones_with(name).next().ok_or_else(|| dataset.unknown_field(name))?;
        let components = dataset.quantity(zone, name)?.components();
        Ok(FieldSpec { name: name.clone(), components, dtype: FieldType::F32, unit: dataset.units(name) })
    });
    let layout = MeshLayout {
        fields: fields.collect::<Result<_, FieldError>>()?,
        positions: if double { FieldType::F64 } else { FieldType::F32 },
        normals: spec.normals,
        colours: false,
        lines: false,
    };
    let provenance = provenance(&shown(&session.spec.path), dataset.length_unit());
    let failed = |e: OutputError| refused(&session.pager, e.into());
    let share = Box::new(LedgerShare::new(session.pager.clone()));
    let mut writer = MeshWriter::new(file, layout, provenance, share).map_err(failed)?;
    let drawn = run(session, spec, &mut |piece| push(&mut writer, &piece).map_err(failed), watch)?;
    finish(writer, &drawn, output).map_err(failed)
}

/// Writes a surface of a level of a volume, likewise.
///
/// # Errors
/// As [`run_volume`], and errors of writing.
pub fn write_volume(
    session: &Session,
    level: usize,
    spec: &VolumeContour,
    output: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let file = OutputFile::create_mesh(output)?;
    let volume = session.volume()?;
    let of = volume.levels.get(level).ok_or_else(|| {
        let count = volume.levels.len();
        FieldError::Usage(format!("{}: there is no level {level}; there are {count}, counted from 0", volume.spec.path))
    })?;
    let fields = spec.channels.iter().map(|n| {
        let c = &volume.spec.channels[*n];
        FieldSpec { name: c.name.clone(), components: 1, dtype: FieldType::F32, unit: c.units.clone() }
    });
    let positions = if is_far(of) { FieldType::F64 } else { FieldType::F32 };
    let normals = spec.normals;
    let layout = MeshLayout { fields: fields.collect(), positions, normals, colours: false, lines: false };
    let provenance = provenance(&shown(Path::new(&volume.spec.path)), volume.spec.length_unit.clone());
    let failed = |e: OutputError| refused(&session.pager, e.into());
    let share = Box::new(LedgerShare::new(session.pager.clone()));
    let mut writer = MeshWriter::new(file, layout, provenance, share).map_err(failed)?;
    let mut told = |done: u64, all: u64| watch("drawing", done as f64, all as f64);
    let threads = session.threads();
    let mut take = |mut piece: SurfacePiece| {
        in_units(volume, &spec.channels, &mut piece);
        push(&mut writer, &piece).map_err(failed)
    };
    let drawn = run_volume(&session.pager, threads, of, spec, &mut take, &mut told)?;
    session.add_wait(drawn.run.wait_s);
    finish(writer, &drawn, output).map_err(failed)
}

/// A surface of a channel of a volume at some values in its units.
///
/// # Errors
/// [`FieldError::Unknown`] for an unknown channel.
pub fn of_channel(volume: &Volume, name: &str, values: &[f64]) -> Result<VolumeWhat, FieldError> {
    let channel = volume.channel_named(name)?;
    let [slope, shift] = volume.spec.channels[channel].scale.unwrap_or([1.0, 0.0]);
    Ok(VolumeWhat::Iso { channel, values: values.iter().map(|v| (v - shift) / slope).collect() })
}

/// Converts a piece's fields from stored numbers to the channels' units.
pub fn in_units(volume: &Volume, channels: &[usize], piece: &mut SurfacePiece) {
    for (field, n) in piece.vertices.fields.iter_mut().zip(channels) {
        if let Some([slope, shift]) = volume.spec.channels[*n].scale {
            field.iter_mut().for_each(|v| *v = (f64::from(*v) * slope + shift) as f32);
        }
    }
}

fn provenance(source: &str, length_unit: String) -> Provenance {
    Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: source.to_owned(),
        length_unit,
        ..Default::default()
    }
}

fn push(writer: &mut MeshWriter, piece: &SurfacePiece) -> Result<(), OutputError> {
    let v = &piece.vertices;
    let fields: Vec<FieldValues<'_>> = v.fields.iter().map(|f| FieldValues::F32(f)).collect();
    writer.push(&MeshPiece {
        zone: piece.zone as i32 + 1,
        points: match &v.points {
            Points::F32(p) => MeshPoints::F32(p),
            Points::F64(p) => MeshPoints::F64(p),
        },
        normals: v.normals.as_deref(),
        fields: &fields,
        triangles: &piece.triangles,
        ..Default::default()
    })
}

fn finish(writer: MeshWriter, drawn: &Contoured, output: &Path) -> Result<Value, OutputError> {
    let partial = drawn.partial();
    let stats = writer.finish(partial)?;
    Ok(json!({
        "points": stats.points, "triangles": stats.triangles, "bounds": stats.bounds, "partial": partial,
        "failed_pages": drawn.drawn.failed_pages, "failure": drawn.drawn.failure, "thin_zones": drawn.thin_zones, "output": output,
        "bytes_written": stats.bytes, "spilled_bytes": stats.spilled_bytes,
    }))
}

//! Isosurfaces, planes and vortex cores for pictures.

use super::geometry_log::Arena;
use super::meshes::{MeshBuilder, MeshStore};
use super::objects::MeshFrom;
use super::overview::middle;
use extract::contour::{of_channel, ContourKind, ContourSpec, VolumeContour, VolumeWhat};
use field::error::FieldError;
use field::volume::Volume;
use kernels::surface::{Points, SurfacePiece};
use runtime::session::{ProgressWatch, Session};

/// Options of an extraction from a volume, with the channel that colours it.
pub(super) fn of_volume(
    volume: &Volume,
    from: &MeshFrom,
    colour: Option<&str>,
    step: usize,
) -> Result<VolumeContour, FieldError> {
    let what = match from {
        MeshFrom::Contour { field, values, .. } => of_channel(volume, field, values)?,
        MeshFrom::Slice { origin, normal } => {
            let middle = super::volumes::bounds(volume).center().to_array();
            VolumeWhat::Plane { origin: origin.unwrap_or(middle), normal: *normal }
        }
    };
    let channels = colour.map(|name| volume.channel_named(name)).transpose()?.into_iter().collect();
    Ok(VolumeContour { what, channels, normals: true, near: near(from), step, spill: None })
}

/// The point that chooses the one drawn surface.
fn near(from: &MeshFrom) -> Option<[f64; 3]> {
    match from {
        MeshFrom::Contour { near, .. } => *near,
        MeshFrom::Slice { .. } => None,
    }
}

/// Options of an extraction from a flow, with the field that colours it.
///
/// # Errors
/// [`FieldError`] of finding the middle of the zones, for a plane through it.
pub(super) fn of_flow(
    session: &Session,
    from: &MeshFrom,
    colour: Option<&str>,
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<ContourSpec, FieldError> {
    let what = match from {
        MeshFrom::Contour { field, values, .. } => ContourKind::Iso { field: field.clone(), values: values.clone() },
        MeshFrom::Slice { origin, normal } => {
            let origin = match origin {
                Some(origin) => *origin,
                None => middle(session, step, watch)?,
            };
            ContourKind::Plane { origin, normal: *normal }
        }
    };
    Ok(ContourSpec {
        what,
        scalars: colour.map(str::to_owned).into_iter().collect(),
        normals: true,
        near: near(from),
        step,
        spill: None,
    })
}

/// Bytes of a point: position, normal, value.
const POINT_BYTES: usize = 40;

/// Collects the pieces of a surface. Triangles may refer to points of earlier pieces, so all points stay in a log until
/// the surface is complete.
pub(super) struct Pieces<'a> {
    builder: MeshBuilder<'a>,
    points: Arena,
}

/// A point: position, normal, value.
type SurfaceVertex = ([f64; 3], [f32; 3], f32);

impl<'a> Pieces<'a> {
    /// No pieces yet. `coloured`: the first field is the colour.
    pub(super) fn new(arena: &'a mut Arena, coloured: bool) -> Result<Self, FieldError> {
        let points = arena.sibling()?;
        Ok(Self { builder: MeshBuilder::new(arena, coloured, true), points })
    }

    /// Adds a piece. Its fields are the components of the colouring field.
    pub(super) fn take(&mut self, piece: &SurfacePiece) -> Result<(), FieldError> {
        let v = &piece.vertices;
        let count = match &v.points {
            Points::F32(p) => p.len(),
            Points::F64(p) => p.len(),
        };
        let own = |n: usize| -> SurfaceVertex {
            let at = match &v.points {
                Points::F32(p) => p[n].map(f64::from),
                Points::F64(p) => p[n],
            };
            let normal = v.normals.as_ref().map_or([0.0; 3], |all| all[n]);
            (at, normal, v.fields.first().map_or(f32::NAN, |f| magnitude(f, n, count)))
        };
        self.points.append_in_parts(|put| {
            for n in 0..count {
                let (at, normal, value) = own(n);
                at.iter().try_for_each(|c| put(&c.to_ne_bytes()))?;
                normal.iter().try_for_each(|c| put(&c.to_ne_bytes()))?;
                put(&value.to_ne_bytes())?;
            }
            Ok(())
        })?;
        let (first, points) = (piece.first, &self.points);
        let mut failed = None;
        self.builder.piece(&piece.triangles, &mut |n| match n.checked_sub(first) {
            Some(n) => own(n as usize),
            None => earlier(points, n).unwrap_or_else(|e| {
                failed.get_or_insert(e);
                ([f64::NAN; 3], [0.0; 3], f32::NAN)
            }),
        })?;
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn finish(self) -> MeshStore {
        self.builder.finish()
    }
}

/// A scalar's value, or a vector's length.
fn magnitude(field: &[f32], n: usize, count: usize) -> f32 {
    let components = field.len() / count.max(1);
    match components {
        0 => f32::NAN,
        1 => field[n],
        _ => field[n * components..(n + 1) * components].iter().map(|c| c * c).sum::<f32>().sqrt(),
    }
}

fn earlier(points: &Arena, n: u64) -> Result<SurfaceVertex, FieldError> {
    let mut b = [0u8; POINT_BYTES];
    let unread = |e: output::OutputError| FieldError::Output(e.to_string());
    points.log().read_at(n * POINT_BYTES as u64, &mut b).map_err(unread)?;
    let double = |at: usize| f64::from_ne_bytes(std::array::from_fn(|k| b[at + k]));
    let single = |at: usize| f32::from_ne_bytes(std::array::from_fn(|k| b[at + k]));
    Ok(([double(0), double(8), double(16)], [single(24), single(28), single(32)], single(36)))
}

//! From a scene's objects to geometry in the arena.

use super::cellfog;
use super::contours::{self, Pieces};
use super::destination::ScratchFile;
use super::document::{MapSpec, SceneDocument};
use super::faces::{FaceBuilder, FaceStore};
use super::geometry_log::{Arena, LineBuilder, LineStore, Range};
use super::meshes::MeshStore;
use super::objects::{LinesFrom, MeshFrom, Object, Paint};
use super::parts;
use super::volumes;
use super::wall_sides::flow_side;
use extract::cores::options::of_value as core_options;
use extract::surfaces::face_rows;
use extract::{contour, cores};
use field::dataset::Dataset;
use field::error::FieldError;
use field::quantity::Quantity;
use field::volume::Volume;
use glam::DVec3;
use kernels::surface::SurfacePiece;
use output::Destination;
use output::{LineFile, ReadError};
use runtime::gridface::GridFace;
use runtime::session::{ProgressWatch, Session};
use runtime::values::{visit_box, NodeBox};
use runtime::walls::walls;
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;

/// Points of lines in one read of a file.
const CHUNK_POINTS: usize = 4096;

/// One gathered object.
pub(crate) struct GatheredObject {
    /// `lines`, `surface` or `outline`.
    pub(crate) kind: &'static str,
    /// Name for people.
    pub(crate) name: String,
    /// Why it is partial, if it is.
    pub(crate) failed: Option<String>,
    pub(crate) shape: ObjectGeometry,
}

pub(crate) enum ObjectGeometry {
    Lines(LineStore),
    Faces(Vec<FaceStore>),
    Mesh(MeshStore),
    Edges(LineStore),
    /// The corners of a volume, whose rays read its pages.
    Rays([DVec3; 8]),
    /// The corners of the box of a field's zones, and the range of its values if the scene gives none. Its rays read
    /// its pages.
    Cells([DVec3; 8], Range),
}

impl GatheredObject {
    /// Number of segments, quads or triangles.
    pub(crate) fn primitives(&self) -> u64 {
        match &self.shape {
            ObjectGeometry::Lines(l) | ObjectGeometry::Edges(l) => l.segments,
            ObjectGeometry::Faces(f) => f.iter().map(FaceStore::pieces).sum(),
            ObjectGeometry::Mesh(m) => m.triangles,
            ObjectGeometry::Rays(_) | ObjectGeometry::Cells(..) => 1,
        }
    }

    pub(crate) fn range(&self) -> Range {
        match &self.shape {
            ObjectGeometry::Lines(l) | ObjectGeometry::Edges(l) => l.range,
            ObjectGeometry::Faces(f) => f.iter().fold(Range::EMPTY, |r, f| r.union(f.range)),
            ObjectGeometry::Mesh(m) => m.range,
            ObjectGeometry::Rays(_) => Range::EMPTY,
            ObjectGeometry::Cells(_, range) => *range,
        }
    }
}

/// Whether an object is equal at every time step.
pub(crate) fn is_steady(document: &SceneDocument, session: &Session, object: &Object) -> bool {
    let dataset = session.dataset();
    let of_grid = |zone: usize| {
        let z = &dataset.zones[zone];
        z.arrays[z.xyz].steady && z.iblank.is_none_or(|b| z.arrays[b].steady)
    };
    let all = || dataset.zones.iter().flat_map(|z| &z.arrays).all(|a| a.steady);
    match object {
        Object::Lines { from: LinesFrom::File(_), .. } => true,
        Object::Surface { face: Some(v), paint, .. } => {
            let zone = v["zone"].as_str().and_then(|name| dataset.zone_named(name).ok());
            let painted = paint.map.as_ref().and_then(|name| document.map(name)).is_some();
            zone.is_some_and(|z| of_grid(z) && (!painted || dataset.zones[z].arrays.iter().all(|a| a.steady)))
        }
        Object::Outline { zone: Some(name), .. } => dataset.zone_named(name).is_ok_and(of_grid),
        Object::Outline { zone: None, .. } => (0..dataset.zones.len()).all(of_grid),
        // Walls and the ways of lines depend on the flow.
        Object::Surface { face: None, .. }
        | Object::Lines { .. }
        | Object::Mesh { .. }
        | Object::Cores { .. }
        | Object::Volume(_) => all(),
    }
}

/// Source and destination of geometry.
pub(crate) struct Gatherer<'a> {
    pub(crate) document: &'a SceneDocument,
    pub(crate) step: usize,
    /// The session, if the source is a flow.
    pub(crate) flow: Option<&'a Session>,
    pub(crate) volume: Option<&'a Volume>,
    pub(crate) session: &'a Session,
    pub(crate) arena: &'a mut Arena,
}

impl<'a> Gatherer<'a> {
    /// Gathers one object.
    ///
    /// # Errors
    /// [`FieldError`]: missing names, a failed read, too small a limit, an interruption.
    pub(crate) fn gather(
        &mut self,
        object: &Object,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<GatheredObject, FieldError> {
        match object {
            Object::Lines { from: LinesFrom::File(path), paint, .. } => {
                let name =
                    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
                let lines = self.line_file(path, self.map(paint).map(|m| m.field.as_str()), watch)?;
                Ok(GatheredObject { kind: "lines", name, failed: None, shape: ObjectGeometry::Lines(lines) })
            }
            Object::Lines { from: LinesFrom::Trace(options), paint, .. } => {
                let (lines, failed) = self.traced(options.clone(), self.map(paint).map(|m| m.field.clone()), watch)?;
                Ok(GatheredObject {
                    kind: "lines",
                    name: "streamlines".into(),
                    failed,
                    shape: ObjectGeometry::Lines(lines),
                })
            }
            Object::Cores { options, paint, .. } => {
                let field = self.map(paint).map(|m| m.field.clone());
                let (lines, failed) = self.cores(options.clone(), field, watch)?;
                Ok(GatheredObject {
                    kind: "cores",
                    name: "vortex cores".into(),
                    failed,
                    shape: ObjectGeometry::Lines(lines),
                })
            }
            Object::Mesh { from, paint, .. } => self.mesh(from, paint, watch),
            Object::Volume(look) => {
                let Some(volume) = self.volume else {
                    let (session, map) = (self.flow()?, self.map(&look.paint));
                    let ranged = map.is_some_and(|m| m.range.is_none());
                    let (corners, range) = cellfog::gathered(session, look, self.step, ranged, watch)?;
                    let (kind, name) = ("volume", look.field.clone().unwrap_or_default());
                    return Ok(GatheredObject {
                        kind,
                        name,
                        failed: None,
                        shape: ObjectGeometry::Cells(corners, range),
                    });
                };
                let level = &volume.levels[0];
                let shape = ObjectGeometry::Rays(volumes::corners(level));
                Ok(GatheredObject { kind: "volume", name: "volume".into(), failed: None, shape })
            }
            Object::Outline { .. } if self.volume.is_some() => self.box_of_volume(),
            Object::Surface { face, paint, cut, .. } => {
                let session = self.flow()?;
                let dataset = session.dataset();
                let (name, faces) = match face {
                    Some(v) => {
                        let face = GridFace::of_json(&dataset, v)?;
                        (face.name(&dataset), vec![face])
                    }
                    None => ("walls".to_owned(), walls(session, &dataset, self.step..self.step + 1, watch)?),
                };
                let field = self.map(paint).map(|m| m.field.clone());
                let mut stores = Vec::with_capacity(faces.len());
                for face in &faces {
                    let mut store = self.face(session, &dataset, face, field.as_deref(), watch)?;
                    if *cut {
                        store.seen_from = flow_side(session, &dataset, face, self.step, watch)?;
                    }
                    stores.push(store);
                }
                let faces = stores;
                Ok(GatheredObject { kind: "surface", name, failed: None, shape: ObjectGeometry::Faces(faces) })
            }
            Object::Outline { zone, .. } => {
                let session = self.flow()?;
                let dataset = session.dataset();
                let zones = match zone {
                    Some(name) => vec![dataset.zone_named(name)?],
                    None => (0..dataset.zones.len()).collect(),
                };
                let edges = self.edges(session, &dataset, &zones, watch)?;
                let name = zone.clone().unwrap_or_else(|| "outline".into());
                Ok(GatheredObject { kind: "outline", name, failed: None, shape: ObjectGeometry::Edges(edges) })
            }
        }
    }

    /// The edges of a volume.
    fn box_of_volume(&mut self) -> Result<GatheredObject, FieldError> {
        let edges = self.volume.map(volumes::edges).unwrap_or_default();
        let mut builder = LineBuilder::new(self.arena, false);
        for edge in edges {
            edge.into_iter().try_for_each(|p| builder.point(p, f64::NAN))?;
            builder.end_line()?;
        }
        Ok(GatheredObject {
            kind: "outline",
            name: "outline".into(),
            failed: None,
            shape: ObjectGeometry::Edges(builder.finish()?),
        })
    }

    /// An isosurface or a plane.
    fn mesh(
        &mut self,
        from: &MeshFrom,
        paint: &Paint,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<GatheredObject, FieldError> {
        let field = self.map(paint).map(|m| m.field.clone());
        let (kind, name) = match from {
            MeshFrom::Contour { field, .. } => ("contour", format!("{field} contour")),
            MeshFrom::Slice { .. } => ("slice", "slice".to_owned()),
        };
        let (threads, step, pager) = (self.session.threads(), self.step, &self.session.pager);
        let (volume, flow) = (self.volume, self.flow);
        let mut pieces = Pieces::new(self.arena, field.is_some())?;
        let drawn = match (volume, flow) {
            (Some(volume), _) => {
                let spec = contours::of_volume(volume, from, field.as_deref(), step)?;
                let mut told = |done: u64, of: u64| watch("surfaces", done as f64, of as f64);
                let mut take = |mut piece: SurfacePiece| {
                    contour::in_units(volume, &spec.channels, &mut piece);
                    pieces.take(&piece)
                };
                let drawn = contour::run_volume(pager, threads, &volume.levels[0], &spec, &mut take, &mut told)?;
                self.session.add_wait(drawn.run.wait_s);
                drawn
            }
            (None, Some(session)) => {
                let spec = contours::of_flow(session, from, field.as_deref(), step, watch)?;
                contour::run(session, &spec, &mut |piece: SurfacePiece| pieces.take(&piece), watch)?
            }
            (None, None) => return Err(FieldError::Usage("the scene has no source".into())),
        };
        let failed = drawn.partial().then(|| format!("{} pages could not be read", drawn.drawn.failed_pages));
        Ok(GatheredObject { kind, name, failed, shape: ObjectGeometry::Mesh(pieces.finish()) })
    }

    fn map(&self, paint: &Paint) -> Option<&'a MapSpec> {
        paint.map.as_ref().and_then(|name| self.document.map(name))
    }

    /// The session of a flow. Parsing refuses a scene that needs one and has none.
    fn flow(&self) -> Result<&'a Session, FieldError> {
        self.flow.ok_or_else(|| {
            let what = match self.volume {
                Some(_) => "this is drawn of flows, and the scene's source is a volume",
                None => "the scene has no source",
            };
            FieldError::Usage(what.into())
        })
    }

    fn line_file(
        &mut self,
        path: &Path,
        field: Option<&str>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<LineStore, FieldError> {
        if !path.exists() {
            return Err(FieldError::format(path, "there is no such file of lines; `farfield trace` writes one"));
        }
        let file = LineFile::open(path).map_err(|e| unread(path, e))?;
        // A trace without results has a file without points.
        if file.line_count() == 0 && file.point_count() > 0 {
            let message =
                "this file holds points but no lines; a surface is drawn of its dataset, by its name as in zone1:k=1";
            return Err(FieldError::format(path, message));
        }
        self.lines(&file, path, field, watch)
    }

    /// Traces into a file without a name, which is read at once: results may be larger than memory.
    fn traced(
        &mut self,
        options: Value,
        field: Option<String>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(LineStore, Option<String>), FieldError> {
        let session = self.flow()?;
        let mut spec = parts::trace(options, session, watch)?;
        spec.step = self.step;
        let named = self.sampled(session, &mut spec.scalars, field, &[]);
        let scratch = ScratchFile::new("npz");
        let (report, _) = trace::trace(session, &spec, Destination::File(&scratch.path), watch)?;
        Ok((self.scratched(scratch, named.as_deref(), watch)?, report.failure))
    }

    /// Finds vortex cores, also through a file.
    fn cores(
        &mut self,
        options: Value,
        field: Option<String>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(LineStore, Option<String>), FieldError> {
        let session = self.flow()?;
        let mut spec = core_options(options)?;
        spec.step = self.step;
        let named = self.sampled(session, &mut spec.scalars, field, &["strength"]);
        let scratch = ScratchFile::new("npz");
        let (report, _) = cores::vortex_cores(session, &spec, Destination::File(&scratch.path), watch)?;
        Ok((self.scratched(scratch, named.as_deref(), watch)?, report.failure))
    }

    /// Adds the field that colours lines to the sampled ones, and returns the name of its array. `own`: arrays of the
    /// lines beside time and zone.
    fn sampled(
        &self,
        session: &Session,
        scalars: &mut Vec<String>,
        field: Option<String>,
        own: &[&str],
    ) -> Option<String> {
        let dataset = session.dataset();
        // Lines always have time and zone, also if the dataset has such a field.
        let is_own = |f: &str| LINE_ARRAYS.contains(&f) || own.contains(&f);
        match field {
            Some(f) if is_own(&f) && dataset.quantity(0, &f).is_err() => Some(f),
            Some(f) => {
                if !scalars.contains(&f) {
                    scalars.push(f.clone());
                }
                Some(if is_own(&f) { format!("field_{f}") } else { f })
            }
            None => None,
        }
    }

    fn scratched(
        &mut self,
        scratch: ScratchFile,
        named: Option<&str>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<LineStore, FieldError> {
        let file = LineFile::open(&scratch.path).map_err(|e| unread(&scratch.path, e))?;
        // The file is open, so its name is removed now. A killed run leaves nothing.
        let path = scratch.path.clone();
        drop(scratch);
        self.lines(&file, &path, named, watch)
    }

    fn lines(
        &mut self,
        file: &LineFile,
        path: &Path,
        field: Option<&str>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<LineStore, FieldError> {
        if let Some(name) = field {
            if !file.arrays().iter().any(|a| a.name == name) {
                let known = file.arrays().iter().map(|a| a.name.clone()).collect();
                return Err(FieldError::Unknown { what: "array of the lines", name: name.to_owned(), known });
            }
        }
        let names: Vec<&str> = field.into_iter().collect();
        let mut builder = LineBuilder::new(self.arena, field.is_some());
        let (mut done, total) = (0u64, file.point_count() as f64);
        let mut failed = None;
        let read = file.for_each_chunk(&names, CHUNK_POINTS, |chunk| {
            let mut each = || {
                if !watch("gathering lines", done as f64, total) {
                    return Err(FieldError::Interrupted);
                }
                done += chunk.points.len() as u64;
                for (n, w) in chunk.offsets.windows(2).enumerate() {
                    // The first point of a continued line is the last one of the previous chunk.
                    let skip = usize::from(n == 0 && chunk.continues);
                    for at in (w[0] + skip)..w[1] {
                        builder.point(chunk.points[at], chunk.values.first().map_or(f64::NAN, |v| v[at]))?;
                    }
                    if !(chunk.to_be_continued && n + 2 == chunk.offsets.len()) {
                        builder.end_line()?;
                    }
                }
                Ok(())
            };
            match each() {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(e) = failed {
            return Err(e);
        }
        read.map_err(|e| unread(path, e))?;
        builder.finish()
    }

    fn face(
        &mut self,
        session: &Session,
        dataset: &Dataset,
        face: &GridFace,
        field: Option<&str>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<FaceStore, FieldError> {
        let fields: Vec<Quantity> = field.map(|f| dataset.quantity(face.zone, f)).transpose()?.into_iter().collect();
        let mut builder = FaceBuilder::new(self.arena, face.points(), field.is_some())?;
        face_rows(
            session,
            dataset,
            face,
            self.step,
            &fields,
            watch,
            &mut |_, points, columns, usable: [&[bool]; 2]| {
                let value = |i: usize| match columns {
                    [one] => one[i],
                    many => many.iter().map(|c| c[i] * c[i]).sum::<f64>().sqrt(),
                };
                builder.push_row(points, &value, usable)
            },
        )?;
        builder.finish()
    }

    /// The curved edges of zones: all nodes with two indices at an end. A block has twelve edges.
    fn edges(
        &mut self,
        session: &Session,
        dataset: &Dataset,
        zones: &[usize],
        watch: &mut ProgressWatch<'_>,
    ) -> Result<LineStore, FieldError> {
        let mut builder = LineBuilder::new(self.arena, false);
        for &zone in zones {
            let z = &dataset.zones[zone];
            let dims = z.dims();
            let position = [Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components }];
            let mut edges: Vec<NodeBox> = Vec::new();
            for axis in (0..3).filter(|a| dims[*a] > 1) {
                for corner in 0..4u32 {
                    let (mut lo, mut hi) = ([0; 3], dims);
                    for (bit, other) in (0..3).filter(|a| *a != axis).enumerate() {
                        let at = if corner >> bit & 1 == 0 { 0 } else { dims[other] - 1 };
                        (lo[other], hi[other]) = (at, at + 1);
                    }
                    let edge = NodeBox { zone, step: self.step, lo, hi };
                    // Edges of a zone one point thick coincide.
                    if !edges.contains(&edge) {
                        edges.push(edge);
                    }
                }
            }
            for edge in edges {
                let mut failed = None;
                visit_box(session, dataset, edge, &position, watch, &mut |_, v| {
                    let z = if v.len() > 2 { v[2] } else { 0.0 };
                    let pushed = builder.point([v[0], v[1], z], f64::NAN);
                    failed = pushed.err();
                    failed.is_none()
                })?;
                if let Some(e) = failed {
                    return Err(e);
                }
                builder.end_line()?;
            }
        }
        builder.finish()
    }
}

/// Arrays of every file of traced lines. A field of this name is written as `field_NAME`.
const LINE_ARRAYS: [&str; 2] = ["time", "zone"];

fn unread(path: &Path, e: ReadError) -> FieldError {
    FieldError::format(path, e.message)
}

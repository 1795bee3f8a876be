//! The writer of a mesh: it collects the pieces and writes the file.

use super::complete::{CompleteMesh, MeshStats};
use super::piece::{MeshLayout, MeshPiece, MeshPoints};
use super::sections::{Sections, INT32};
use super::sink::{ByteSink, SINK_BYTES};
use super::{glb, npz, ply, vtp};
use crate::log::HeldMemory;
use crate::{
    array_names, FieldSpec, FieldType, FieldValues, MemoryAccount, OutputError, OutputFile, OutputFormat, Provenance,
    SpoolOptions,
};
use std::ops::ControlFlow;

/// Names of our own arrays; a field with such a name gets the prefix `field_`.
const RESERVED: [&str; 9] =
    ["points", "triangles", "lines", "normals", "Normals", "colours", "zone", "partial", "meta"];

/// Most bytes of memory of all logs together. A small mesh stays in memory, and a large one is written in runs of some
/// dozens of KiB.
pub(super) const LOGS_BYTES: usize = 4 << 20;

/// Most fields. A point then has less than 2^13 bytes, and all sums fit 64 bits.
const MOST_FIELDS: usize = 64;

/// Most points, for the same reason.
const MOST_POINTS: u64 = 1 << 48;

/// Writes triangles with points and fields as they come, in bounded memory: see the module `mesh`.
pub struct MeshWriter {
    output: OutputFile,
    layout: MeshLayout,
    names: Vec<String>,
    provenance: Provenance,
    pub(super) sections: Sections,
    stats: MeshStats,
    /// [`INT32`]; tests reduce it.
    pub(super) int32: u64,
    /// The error of a piece that was stored in part only: no file can be written then.
    failure: Option<OutputError>,
    scratch: Vec<u8>,
    _held: HeldMemory,
}

impl MeshWriter {
    /// Prepares for pieces.
    ///
    /// # Errors
    /// [`OutputError`] for invalid fields, a format without meshes, or memory that is not granted. The least is some 64
    /// KiB and 8 KiB an array; up to 4 MiB are used if available.
    pub fn new(
        output: OutputFile,
        layout: MeshLayout,
        provenance: Provenance,
        charge: Box<dyn MemoryAccount>,
    ) -> Result<Self, OutputError> {
        let names = array_names(&layout.fields, &RESERVED)?;
        if layout.fields.len() > MOST_FIELDS {
            return Err(OutputError::Layout(format!(
                "a mesh has up to {MOST_FIELDS} fields, and {} are asked for",
                layout.fields.len()
            )));
        }
        if !output.format().has_meshes() {
            return Err(OutputError::Target {
                path: output.path().to_path_buf(),
                reason: "a mesh is written as .vtp, .ply, .glb or .npz".into(),
            });
        }
        let mut held = HeldMemory::new(charge);
        // For incoming numbers, and at the end for outgoing ones.
        if !held.grow(4 * SINK_BYTES) {
            return Err(OutputError::Memory { needs: (4 * SINK_BYTES + Sections::least_bytes(&layout)) as u64 });
        }
        let directory = SpoolOptions::spill_directory(Some(&output));
        let sections = Sections::new(&directory, &layout, LOGS_BYTES, &held)?;
        Ok(Self {
            output,
            layout,
            names,
            provenance,
            sections,
            stats: MeshStats::default(),
            int32: INT32,
            failure: None,
            scratch: Vec::with_capacity(SINK_BYTES),
            _held: held,
        })
    }

    /// Points so far: the number of the first point of the next piece.
    pub fn points(&self) -> u64 {
        self.stats.points
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// [`OutputError::Layout`] for inconsistent arrays, a triangle of later points, or a mesh beyond its format's
    /// limits. Other errors when it must be stored on disk and cannot be. After a disk error all further calls fail
    /// with the same one.
    pub fn push(&mut self, piece: &MeshPiece) -> Result<(), OutputError> {
        self.check(piece)?;
        if let Some(cause) = &self.failure {
            return Err(cause.clone());
        }
        if let Err(e) = self.sections.push(piece, &mut self.scratch) {
            self.failure = Some(e.clone());
            return Err(e);
        }
        self.stats.points += piece.points.len() as u64;
        self.stats.triangles += piece.triangles.len() as u64;
        self.stats.lines += piece.lines.len() as u64;
        self.measure(&piece.points);
        Ok(())
    }

    fn check(&self, piece: &MeshPiece) -> Result<(), OutputError> {
        let wrong = |what: String| Err(OutputError::Layout(what));
        let n = piece.points.len();
        if piece.normals.map(<[_]>::len) != self.layout.normals.then_some(n) {
            return wrong(format!(
                "a piece of {n} points came without a normal for each, or with normals not asked for"
            ));
        }
        if piece.colours.map(<[_]>::len) != self.layout.colours.then_some(n) {
            return wrong(format!(
                "a piece of {n} points came without a colour for each, or with colours not asked for"
            ));
        }
        if !piece.lines.is_empty() && !self.layout.lines {
            return wrong("a piece with lines came for a mesh without".into());
        }
        let fits = |(spec, values): (&FieldSpec, &FieldValues)| {
            values.len() == n * spec.components
                && matches!(
                    (spec.dtype, values),
                    (FieldType::F32, FieldValues::F32(_)) | (FieldType::F64, FieldValues::F64(_))
                )
        };
        if piece.fields.len() != self.layout.fields.len() || !self.layout.fields.iter().zip(piece.fields).all(fits) {
            return wrong("the fields of a piece are not those of the mesh".into());
        }
        let end = self.stats.points + n as u64;
        let triangles = piece.triangles.as_flattened();
        let lines = piece.lines.as_flattened();
        if let Some(number) = triangles.iter().chain(lines).find(|number| **number >= end) {
            return wrong(format!("a triangle or line of point {number} came when there were {end} points"));
        }
        let triangles = self.stats.triangles + piece.triangles.len() as u64;
        let lines = self.stats.lines + piece.lines.len() as u64;
        if end > MOST_POINTS || triangles > MOST_POINTS || lines > MOST_POINTS {
            return wrong("the mesh is too large for one file".into());
        }
        let path = self.output.path();
        match self.output.format() {
            OutputFormat::Ply => ply::check(path, end, triangles, lines),
            OutputFormat::Glb => glb::check(path, &self.layout, end, triangles, lines, &piece.points),
            _ => Ok(()),
        }
    }

    /// Extends the bounds to points.
    fn measure(&mut self, points: &MeshPoints) {
        let bounds = &mut self.stats.bounds;
        let mut take = |p: [f64; 3]| {
            if p.iter().all(|v| v.is_finite()) {
                let [lo, hi] = bounds.get_or_insert([p, p]);
                for a in 0..3 {
                    lo[a] = lo[a].min(p[a]);
                    hi[a] = hi[a].max(p[a]);
                }
            }
        };
        // As they are stored: a rounded position may be outside the box of the exact ones.
        match (points, self.layout.positions) {
            (MeshPoints::F32(points), _) => points.iter().for_each(|p| take(p.map(f64::from))),
            (MeshPoints::F64(points), FieldType::F64) => points.iter().for_each(|p| take(*p)),
            (MeshPoints::F64(points), FieldType::F32) => {
                points.iter().for_each(|p| take(p.map(|v| f64::from(v as f32))))
            }
        }
    }

    /// Writes the file and gives it its name. A `partial` mesh is marked as such.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot be written. No part of it is left then, and an old file of its name is still
    /// there.
    pub fn finish(self, partial: bool) -> Result<MeshStats, OutputError> {
        self.finish_watched(partial, &mut |_done, _of| ControlFlow::Continue(()))
    }

    /// As [`MeshWriter::finish`]. `watch` gets the number of written bytes and of all, now and then. When it breaks, no
    /// part of the file is left.
    ///
    /// # Errors
    /// As [`MeshWriter::finish`], and [`OutputError::Cancelled`].
    pub fn finish_watched(
        self,
        partial: bool,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<MeshStats, OutputError> {
        if let Some(cause) = self.failure {
            return Err(cause);
        }
        let Self { output, layout, names, provenance, sections, mut stats, scratch, int32, _held, .. } = self;
        stats.spilled_bytes = sections.spilled_bytes();
        let mesh = CompleteMesh { layout: &layout, names: &names, provenance: &provenance, partial, stats, int32 };
        let mut sink = ByteSink::new(&output, scratch, sections.bytes(), watch);
        match output.format() {
            OutputFormat::Vtp => vtp::write(&mesh, sections, &mut sink)?,
            OutputFormat::Ply => ply::write(&mesh, sections, &mut sink)?,
            OutputFormat::Glb => glb::write(&mesh, sections, &mut sink)?,
            OutputFormat::Npz => npz::write(&mesh, sections, &mut sink)?,
            // Refused when the writer was made.
            OutputFormat::Csv | OutputFormat::Parquet | OutputFormat::Pvd => {
                return Err(OutputError::Layout("a mesh is written as .vtp, .ply, .glb or .npz".into()))
            }
        }
        sink.finish()?;
        stats.bytes = output.commit()?;
        Ok(stats)
    }
}

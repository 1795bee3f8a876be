//! Triangle meshes on their way to a file, piece by piece.
//!
//! # Theory
//! Pieces come in their final order, and nobody knows beforehand how many there are. So each array of the mesh (a *section*) goes to a log
//! of its own, which holds a little in memory and the rest in a file without a name. At the end every length is known, and the file
//! is written from its front to its back, a section after the other; each log is given back as soon as it is in the file. So memory
//! is bounded whatever the size, and the disk holds the mesh once and its largest section a second time at most.
//!
//! What a file is depends on the pieces put together, not on how they were cut: points, then triangles, in the order in which
//! they came. A mesh whose numbers of points fit 32 bits has them in 32 bits.
//!
//! # Practice
//! [`OutputFile::create_mesh`] before the run, [`MeshWriter::new`], [`MeshWriter::push`] for each piece, [`MeshWriter::finish`]. The
//! ending of the name says the format:
//!
//! - `.vtp`: VTK's PolyData; normals and colours are attributes, units stand in information keys.
//! - `.ply`: Stanford's polygons, binary; fields are properties of the vertices.
//! - `.glb`: glTF 2.0 in one file; fields are attributes `_NAME`, and positions lie about the middle of the mesh, to which a node moves
//!   them, so that single precision is as fine as the mesh is small.
//! - `.npz`: NumPy's arrays.
//!
//! ```
//! use output::{Budget, MeshLayout, MeshPiece, MeshPoints, MeshWriter, OutputFile, Provenance};
//!
//! let path = std::env::temp_dir().join(format!("farfield-mesh-example-{}.ply", std::process::id()));
//! let output = OutputFile::create_mesh(&path)?;
//! let mut writer =
//!     MeshWriter::new(output, MeshLayout::default(), Provenance::default(), Box::new(Budget::new(4 << 20)))?;
//! let corners = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
//! writer.push(&MeshPiece { zone: 1, points: MeshPoints::F64(&corners), triangles: &[[0, 1, 2]], ..Default::default() })?;
//! // The second piece goes on where the first ended.
//! let corner = [[1.0, 1.0, 0.0]];
//! writer.push(&MeshPiece { zone: 1, points: MeshPoints::F64(&corner), triangles: &[[1, 3, 2]], ..Default::default() })?;
//! let stats = writer.finish(false)?;
//! assert_eq!((stats.points, stats.triangles), (4, 2));
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attribute;
mod glb;
mod npz;
mod ply;
mod rows;
mod sections;
mod sink;
mod vtp;

#[cfg(test)]
mod tests;

use super::log::HeldMemory;
use super::{
    array_names, FieldSpec, FieldType, FieldValues, MemoryAccount, OutputError, OutputFile, OutputFormat, Provenance,
    SpoolOptions,
};
pub use rows::MeshRows;
use sections::{Sections, INT32};
use sink::{ByteSink, SINK_BYTES};
use std::ops::ControlFlow;

/// Names of our own arrays; a field with such a name gets the prefix `field_`.
const RESERVED: [&str; 9] =
    ["points", "triangles", "lines", "normals", "Normals", "colours", "zone", "partial", "meta"];

/// Bytes of memory that all logs together hold at most: a small mesh never meets the disk, and a large one is written in runs
/// of some dozens of KiB.
const LOGS_BYTES: usize = 4 << 20;

/// Fields at most; a point then takes below 2^13 bytes, and all sums stay in 64 bits.
const MOST_FIELDS: usize = 64;

/// Points at most, for the same reason.
const MOST_POINTS: u64 = 1 << 48;

/// What a mesh has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshLayout {
    /// Fields at each point, in the order of [`MeshPiece::fields`].
    pub fields: Vec<FieldSpec>,
    /// How positions are stored. A `.glb` has single precision about the middle of the mesh, made of this.
    pub positions: FieldType,
    /// True when each point has a normal.
    pub normals: bool,
    /// True when each point has a colour.
    pub colours: bool,
    /// True when there may be line segments beside triangles.
    pub lines: bool,
}

impl Default for MeshLayout {
    fn default() -> Self {
        Self { fields: Vec::new(), positions: FieldType::F64, normals: false, colours: false, lines: false }
    }
}

/// Positions of a piece; they are converted to what the layout says.
#[derive(Clone, Copy, Debug)]
pub enum MeshPoints<'a> {
    /// In single precision.
    F32(&'a [[f32; 3]]),
    /// In double precision.
    F64(&'a [[f64; 3]]),
}

impl MeshPoints<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(points) => points.len(),
            Self::F64(points) => points.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MeshPoints<'_> {
    fn default() -> Self {
        Self::F64(&[])
    }
}

/// A piece of a mesh: points, and triangles of these and of points that came before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshPiece<'a> {
    /// The zone of its points as the output shall show it.
    pub zone: i32,
    /// Its points. The first has the number that [`MeshWriter::points`] says before the piece is pushed.
    pub points: MeshPoints<'a>,
    /// A normal of length 1 for each, where the layout has them.
    pub normals: Option<&'a [[f32; 3]]>,
    /// Red, green, blue and opacity of each (sRGB, 8 bits), where the layout has them.
    pub colours: Option<&'a [[u8; 4]]>,
    /// The fields at them.
    pub fields: &'a [FieldValues<'a>],
    /// Corners of triangles, numbered over all pieces.
    pub triangles: &'a [[u64; 3]],
    /// Ends of line segments, numbered over all pieces, where the layout has them.
    pub lines: &'a [[u64; 2]],
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeshStats {
    /// Points.
    pub points: u64,
    /// Triangles.
    pub triangles: u64,
    /// Line segments.
    pub lines: u64,
    /// The least and the greatest coordinates, of points that are numbers; none where there are none.
    pub bounds: Option<[[f64; 3]; 2]>,
    /// Bytes of the file; 0 before it is whole.
    pub bytes: u64,
    /// Bytes that waited in temporary files.
    pub spilled_bytes: u64,
}

/// Writes triangles with points and fields as they come, in bounded memory: see [the module](self).
pub struct MeshWriter {
    output: OutputFile,
    layout: MeshLayout,
    names: Vec<String>,
    provenance: Provenance,
    sections: Sections,
    stats: MeshStats,
    /// [`INT32`]; a test makes it small.
    int32: u64,
    /// False after a piece was kept in part: no file can come of the rest.
    whole: bool,
    scratch: Vec<u8>,
    _held: HeldMemory,
}

impl MeshWriter {
    /// Makes ready for pieces.
    ///
    /// # Errors
    /// [`OutputError`] for fields that cannot be written, a format that has no meshes, or memory that is not granted (some 64 KiB and
    /// 8 KiB an array at least; up to 4 MiB are taken where they are to be had).
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
        // For numbers on their way in, and at the end on their way out.
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
            whole: true,
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
    /// [`OutputError::Layout`] for arrays that do not go together, a triangle of points that have not come, or a mesh that its format
    /// cannot hold; others when it must go to disk and cannot. After an error of the disk nothing more can be pushed.
    pub fn push(&mut self, piece: &MeshPiece) -> Result<(), OutputError> {
        self.check(piece)?;
        if !self.whole {
            return Err(OutputError::Layout("a piece of the mesh came after one that could not be kept".into()));
        }
        self.whole = false;
        self.sections.push(piece, &mut self.scratch)?;
        self.whole = true;
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

    /// Widens the bounds by points.
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
        // As they are stored: a position that is rounded may lie outside the box of those that are not.
        match (points, self.layout.positions) {
            (MeshPoints::F32(points), _) => points.iter().for_each(|p| take(p.map(f64::from))),
            (MeshPoints::F64(points), FieldType::F64) => points.iter().for_each(|p| take(*p)),
            (MeshPoints::F64(points), FieldType::F32) => {
                points.iter().for_each(|p| take(p.map(|v| f64::from(v as f32))))
            }
        }
    }

    /// Writes the file and gives it its name. A `partial` mesh says that it is one.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot be written; nothing is left of it then, and an old file of its name is still there.
    pub fn finish(self, partial: bool) -> Result<MeshStats, OutputError> {
        self.finish_watched(partial, &mut |_done, _of| ControlFlow::Continue(()))
    }

    /// As [`MeshWriter::finish`]; `watch` is told of bytes written and of how many, now and then, and when it breaks nothing is left of
    /// the file.
    ///
    /// # Errors
    /// As [`MeshWriter::finish`], and [`OutputError::Cancelled`].
    pub fn finish_watched(
        self,
        partial: bool,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<MeshStats, OutputError> {
        if !self.whole {
            return Err(OutputError::Layout("a mesh cannot be written: a piece of it could not be kept".into()));
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

/// What the formats are told of a mesh that is complete.
struct CompleteMesh<'a> {
    layout: &'a MeshLayout,
    /// The fields' names as arrays.
    names: &'a [String],
    provenance: &'a Provenance,
    partial: bool,
    stats: MeshStats,
    /// Numbers below this fit 32 bits with a sign.
    int32: u64,
}

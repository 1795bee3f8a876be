//! Triangle meshes, written to a file piece by piece.
//!
//! # Theory
//! Pieces come in their final order, and their number is unknown beforehand. So each array of the mesh (a *section*)
//! has its own log: a little in memory, and the rest in an anonymous file. At the end every length is known, and the
//! file is written from front to back, one section after the other. Each log is deleted as soon as it is in the file.
//! So memory is bounded whatever the size, and the disk holds the mesh once and its largest section at most twice.
//!
//! The file depends on the joined pieces, and not on their division: points, then triangles, in the order of arrival.
//! If a mesh's point numbers fit 32 bits they have 32 bits.
//!
//! # Practice
//! Call [`OutputFile::create_mesh`](crate::OutputFile::create_mesh) before the run, [`MeshWriter::new`], [`MeshWriter::push`] for each piece, and
//! [`MeshWriter::finish`]. The extension selects the format:
//!
//! - `.vtp`: VTK's PolyData; normals and colours are attributes, units are information keys.
//! - `.ply`: Stanford's polygons, binary; fields are properties of the vertices.
//! - `.glb`: glTF 2.0 in one file; fields are attributes `_NAME`. Positions are relative to the middle of the mesh, to
//!   which a node moves them. So single precision is as fine as the mesh is small.
//! - `.npz`: NumPy's arrays.
//!
//! ```
//! use output::{FixedBudget, MeshLayout, MeshPiece, MeshPoints, MeshWriter, OutputFile, Provenance};
//!
//! let path = std::env::temp_dir().join(format!("farfield-mesh-example-{}.ply", std::process::id()));
//! let output = OutputFile::create_mesh(&path)?;
//! let mut writer =
//!     MeshWriter::new(output, MeshLayout::default(), Provenance::default(), Box::new(FixedBudget::new(4 << 20)))?;
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
mod complete;
mod glb;
mod npz;
mod piece;
mod ply;
mod rows;
mod sections;
mod sink;
mod vtp;
mod writer;

#[cfg(test)]
mod tests;

pub use complete::MeshStats;
pub use piece::{MeshLayout, MeshPiece, MeshPoints};
pub use rows::MeshRows;
pub use writer::MeshWriter;

//! Meshes as VTK XML PolyData, with appended raw data.
//!
//! Point data: `zone`, `Normals`, `colours` (four bytes) and the fields. Point numbers are `Int32` if they and three
//! times the number of triangles fit, else `Int64`. Field data and units as for lines.

use super::complete::CompleteMesh;
use super::sections::Sections;
use super::sink::ByteSink;
use crate::{vtp, OutputError};
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;

/// A set of cells: their point numbers and the end of each cell.
struct CellArrays {
    count: u64,
    corners: u64,
    connectivity: usize,
    offsets: usize,
}

impl CellArrays {
    fn new(blocks: &mut vtp::AppendedBlocks, count: u64, corners: u64, bytes: u64) -> Self {
        let connectivity = blocks.add(count * corners * bytes);
        Self { count, corners, connectivity, offsets: blocks.add(count * bytes) }
    }

    fn text(&self, text: &mut String, element: &str, kind: &str, blocks: &vtp::AppendedBlocks) {
        let _ = writeln!(text, "      <{element}>");
        vtp::data_array(text, kind, "connectivity", 1, None, "", blocks.offset(self.connectivity));
        vtp::data_array(text, kind, "offsets", 1, None, "", blocks.offset(self.offsets));
        let _ = writeln!(text, "      </{element}>");
    }

    fn write_offsets(&self, sink: &mut ByteSink, wide: bool, bytes: u64) -> Result<(), OutputError> {
        sink.put(&(self.count * bytes).to_le_bytes())?;
        for cell in 1..=self.count {
            let end = cell * self.corners;
            match wide {
                true => sink.put(&end.to_le_bytes())?,
                false => sink.put(&(end as u32).to_le_bytes())?,
            }
            if cell % (1 << 16) == 0 {
                sink.tell(0)?;
            }
        }
        Ok(())
    }
}

pub(super) fn write(mesh: &CompleteMesh, sections: Sections, sink: &mut ByteSink) -> Result<(), OutputError> {
    let (layout, stats) = (mesh.layout, mesh.stats);
    let n = stats.points;
    let corners = (3 * stats.triangles).max(2 * stats.lines);
    // One width for all: VTK keeps both arrays of its cells in one type.
    let wide = n.max(corners) >= mesh.int32;
    let (bytes, kind) = if wide { (8, "Int64") } else { (4, "Int32") };
    let mut blocks = vtp::AppendedBlocks::default();
    let points = blocks.add(3 * n * layout.positions.bytes() as u64);
    let zone = blocks.add(4 * n);
    let normals = layout.normals.then(|| blocks.add(12 * n));
    let colours = layout.colours.then(|| blocks.add(4 * n));
    let fields: Vec<usize> = layout.fields.iter().map(|field| blocks.add(n * field.bytes())).collect();
    let triangles = CellArrays::new(&mut blocks, stats.triangles, 3, bytes);
    let lines = layout.lines.then(|| CellArrays::new(&mut blocks, stats.lines, 2, bytes));
    let streamed = blocks.count();
    let field_data = vtp::FieldData::new(&mut blocks, mesh.provenance, &[], None);
    if !blocks.fit() {
        return Err(OutputError::Layout("the mesh is too large for one file".into()));
    }

    let mut text = String::from(vtp::HEAD);
    field_data.text(&mut text, &blocks);
    let _ = writeln!(
        text,
        "    <Piece NumberOfPoints=\"{n}\" NumberOfVerts=\"0\" NumberOfLines=\"{}\" NumberOfStrips=\"0\" NumberOfPolys=\"{}\">",
        stats.lines, stats.triangles
    );
    let active = vtp::active(&layout.fields, mesh.names);
    let normal = if layout.normals { " Normals=\"Normals\"" } else { "" };
    let _ = writeln!(text, "      <PointData{active}{normal}>");
    vtp::data_array(&mut text, "Int32", "zone", 1, None, "", blocks.offset(zone));
    if let Some(block) = normals {
        vtp::data_array(&mut text, "Float32", "Normals", 3, None, "", blocks.offset(block));
    }
    if let Some(block) = colours {
        vtp::data_array(&mut text, "UInt8", "colours", 4, None, "", blocks.offset(block));
    }
    for ((field, name), block) in layout.fields.iter().zip(mesh.names).zip(&fields) {
        let kind = vtp::vtk_type(field.dtype);
        vtp::data_array(&mut text, kind, name, field.components, None, &field.unit, blocks.offset(*block));
    }
    text.push_str("      </PointData>\n      <Points>\n");
    let position = vtp::vtk_type(layout.positions);
    let unit = &mesh.provenance.length_unit;
    vtp::data_array(&mut text, position, "Points", 3, None, unit, blocks.offset(points));
    text.push_str("      </Points>\n");
    if let Some(lines) = &lines {
        lines.text(&mut text, "Lines", kind, &blocks);
    }
    triangles.text(&mut text, "Polys", kind, &blocks);
    text.push_str("    </Piece>\n  </PolyData>\n");
    text.push_str(vtp::APPENDED);

    // In the order of the blocks, each behind its length.
    sink.put(text.as_bytes())?;
    let Sections { points, zone, normals, colours, fields, triangles: corners, lines: ends, .. } = sections;
    let optional = [normals, colours].into_iter().flatten();
    for section in [points, zone].into_iter().chain(optional).chain(fields) {
        sink.put(&section.log.len().to_le_bytes())?;
        sink.copy(section)?;
    }
    for (cells, indices) in [(Some(triangles), Some(corners)), (lines, ends)] {
        if let (Some(cells), Some(indices)) = (cells, indices) {
            sink.put(&(indices.count() * bytes).to_le_bytes())?;
            sink.put_indices(indices, wide)?;
            cells.write_offsets(sink, wide, bytes)?;
        }
    }
    debug_assert_eq!(sink.position() + 8, blocks.data_at(streamed, text.len()));
    for block in field_data.bytes(mesh.partial) {
        sink.put(&(block.len() as u64).to_le_bytes())?;
        sink.put(&block)?;
    }
    sink.put(vtp::TAIL)
}

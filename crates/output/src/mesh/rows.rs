//! Grid surfaces as triangles, row of points by row, for formats that have no quadrilaterals.
//!
//! A quadrilateral is drawn if its four corners are usable, divided along the shorter of its diagonals. Points without
//! a quadrilateral are omitted. A point's normal is that of its quadrilaterals, weighted by area (half the cross
//! product of the diagonals). So a row waits for the next one, and memory holds three rows.

use super::complete::MeshStats;
use super::piece::{MeshPiece, MeshPoints};
use super::writer::MeshWriter;
use crate::{FieldValues, OutputError};
use glam::DVec3;

/// A waiting row.
#[derive(Default)]
struct MeshRow {
    points: Vec<DVec3>,
    /// Values of each field, components of a point together.
    fields: Vec<Vec<f64>>,
    usable: Vec<bool>,
    /// Of the quadrilateral from the point towards the next row.
    hidden: Vec<bool>,
    /// Whether a drawn quadrilateral has the point.
    used: Vec<bool>,
    /// The sum of their areas, as vectors.
    area: Vec<DVec3>,
    /// Whether the quadrilateral from the point is drawn between the row before and this one.
    cells: Vec<bool>,
    /// The number of the point in the mesh.
    numbers: Vec<u64>,
}

/// Converts rows of rectangular patches of a surface to triangles.
pub struct MeshRows {
    writer: MeshWriter,
    /// Components of each field.
    components: Vec<usize>,
    zone: i32,
    /// The row before the last, with numbered points.
    before: Option<MeshRow>,
    /// The last.
    here: Option<MeshRow>,
}

/// A vector of length 1 along another. A zero vector (all cells at a point have collapsed) gives z.
fn unit(of: DVec3) -> [f32; 3] {
    // Scaled by the largest component first: squares of small areas underflow.
    let largest = of.abs().max_element();
    if largest > 0.0 && largest.is_finite() {
        (of / largest).normalize().as_vec3().to_array()
    } else {
        [0.0, 0.0, 1.0]
    }
}

impl MeshRows {
    /// Prepares for rows. The writer's layout has normals and fields with these `components` in double precision.
    pub fn new(writer: MeshWriter, components: Vec<usize>) -> Self {
        Self { writer, components, zone: 0, before: None, here: None }
    }

    /// Most bytes of rows of this many points, beside the writer's charge.
    pub fn bytes(widest: usize, components: &[usize]) -> u64 {
        // A waiting row, the one before, the coming one, and the copies of one in the writer.
        let values: usize = components.iter().sum();
        4 * widest as u64 * (24 + 24 + 16 + 8 * values as u64 + 4 + 48)
    }

    /// Begins the next patch of the surface, in a zone in the output's numbering.
    ///
    /// # Errors
    /// [`OutputError`] when the patch before cannot be stored.
    pub fn begin(&mut self, zone: i32) -> Result<(), OutputError> {
        self.settle()?;
        self.before = None;
        self.zone = zone;
        Ok(())
    }

    /// Adds the next row of the patch: positions, fields with the components of a point adjacent, and usable points.
    /// And the quadrilaterals, by their low corner, that are not drawn.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot be stored.
    pub fn push(
        &mut self,
        points: &[[f64; 3]],
        fields: Vec<Vec<f64>>,
        [usable, hidden]: [&[bool]; 2],
    ) -> Result<(), OutputError> {
        let n = points.len();
        // No format here holds a position beyond single precision; such a position makes no cell.
        let whole = |p: &[f64; 3]| p.iter().all(|v| (*v as f32).is_finite());
        let mut next = MeshRow {
            points: points.iter().copied().map(DVec3::from_array).collect(),
            fields,
            usable: points.iter().zip(usable).map(|(p, usable)| *usable && whole(p)).collect(),
            hidden: hidden.to_vec(),
            used: vec![false; n],
            area: vec![DVec3::ZERO; n],
            cells: vec![false; n],
            numbers: vec![0; n],
        };
        if let Some(here) = &mut self.here {
            for i in 1..n {
                let corners = here.usable[i - 1] && here.usable[i] && next.usable[i - 1] && next.usable[i];
                if !corners || here.hidden[i - 1] {
                    continue;
                }
                next.cells[i - 1] = true;
                let area = (next.points[i] - here.points[i - 1]).cross(next.points[i - 1] - here.points[i]) * 0.5;
                for row in [&mut *here, &mut next] {
                    for p in [i - 1, i] {
                        row.used[p] = true;
                        row.area[p] += area;
                    }
                }
            }
        }
        self.settle()?;
        self.here = Some(next);
        Ok(())
    }

    /// Passes on the last row, which then is the one before.
    fn settle(&mut self) -> Result<(), OutputError> {
        let Some(mut here) = self.here.take() else { return Ok(()) };
        let used: Vec<usize> = (0..here.points.len()).filter(|i| here.used[*i]).collect();
        let first = self.writer.points();
        for (at, i) in used.iter().enumerate() {
            here.numbers[*i] = first + at as u64;
        }
        let points: Vec<[f64; 3]> = used.iter().map(|i| here.points[*i].to_array()).collect();
        let normals: Vec<[f32; 3]> = used.iter().map(|i| unit(here.area[*i])).collect();
        let picked = here.fields.iter().zip(&self.components).map(|(values, components)| {
            let of = |i: &usize| &values[i * components..(i + 1) * components];
            used.iter().flat_map(of).copied().collect::<Vec<f64>>()
        });
        let picked: Vec<Vec<f64>> = picked.collect();
        let fields: Vec<FieldValues<'_>> = picked.iter().map(|v| FieldValues::F64(v)).collect();
        let triangles = self.before.as_ref().map_or_else(Vec::new, |before| triangles(before, &here));
        self.writer.push(&MeshPiece {
            zone: self.zone,
            points: MeshPoints::F64(&points),
            normals: Some(&normals),
            fields: &fields,
            triangles: &triangles,
            ..MeshPiece::default()
        })?;
        self.before = Some(here);
        Ok(())
    }

    /// Writes the file and gives it its name.
    ///
    /// # Errors
    /// As [`MeshWriter::finish`].
    pub fn finish(mut self, partial: bool) -> Result<MeshStats, OutputError> {
        self.settle()?;
        self.writer.finish(partial)
    }
}

/// The triangles between two rows, in the orientation of the quadrilaterals. A triangle with two coinciding corners (at
/// a pole) has no area and is omitted.
fn triangles(below: &MeshRow, above: &MeshRow) -> Vec<[u64; 3]> {
    let mut found = Vec::new();
    for i in (1..above.points.len()).filter(|i| above.cells[*i - 1]) {
        let corner = |row: &MeshRow, i: usize| (row.points[i], row.numbers[i]);
        let [a, b, c, d] = [corner(below, i - 1), corner(below, i), corner(above, i), corner(above, i - 1)];
        let of = if c.0.distance_squared(a.0) <= d.0.distance_squared(b.0) {
            [[a, b, c], [a, c, d]]
        } else {
            [[a, b, d], [b, c, d]]
        };
        let has_area = |t: &[(DVec3, u64); 3]| t[0].0 != t[1].0 && t[1].0 != t[2].0 && t[2].0 != t[0].0;
        found.extend(of.iter().filter(|t| has_area(t)).map(|t| t.map(|(_, number)| number)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::MeshLayout;
    use super::*;
    use crate::{FixedBudget, OutputFile, Provenance};

    fn written(rows: &[(Vec<[f64; 3]>, Vec<bool>)], name: &str) -> (MeshStats, Vec<u8>) {
        let path = std::env::temp_dir().join(format!("farfield-rows-{}-{name}.ply", std::process::id()));
        let layout = MeshLayout { normals: true, ..MeshLayout::default() };
        let budget = Box::new(FixedBudget::new(4 << 20));
        let output = OutputFile::create_mesh(&path).unwrap();
        let mut of = MeshRows::new(MeshWriter::new(output, layout, Provenance::default(), budget).unwrap(), Vec::new());
        of.begin(3).unwrap();
        for (points, usable) in rows {
            of.push(points, Vec::new(), [usable, &vec![false; points.len()]]).unwrap();
        }
        let stats = of.finish(false).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (stats, bytes)
    }

    fn plane(ni: usize, nj: usize) -> Vec<(Vec<[f64; 3]>, Vec<bool>)> {
        (0..nj).map(|j| ((0..ni).map(|i| [i as f64, j as f64, 0.0]).collect(), vec![true; ni])).collect()
    }

    #[test]
    fn every_cell_is_two_triangles() {
        let (stats, _) = written(&plane(5, 4), "whole");
        assert_eq!((stats.points, stats.triangles), (20, 24));
    }

    /// A hole at a corner removes its cell, and the one point without another cell.
    #[test]
    fn what_no_cell_has_is_left_out() {
        let mut rows = plane(5, 4);
        rows[0].1[0] = false;
        let (stats, _) = written(&rows, "corner");
        assert_eq!((stats.points, stats.triangles), (19, 22));
        // An unusable column leaves three of five columns, two of which have cells.
        let mut rows = plane(5, 4);
        rows.iter_mut().for_each(|row| row.0[1][2] = f64::NAN);
        let (stats, _) = written(&rows, "column");
        assert_eq!((stats.points, stats.triangles), (12, 12));
    }

    /// A row of coinciding points: half of each cell there has no triangle.
    #[test]
    fn a_pole_is_a_fan() {
        let mut rows = plane(5, 3);
        rows[0].0 = vec![[2.0, 0.0, 0.0]; 5];
        let (stats, _) = written(&rows, "pole");
        assert_eq!(stats.triangles, 4 + 8);
    }

    #[test]
    fn normals_are_of_length_one_however_small_the_cells() {
        for scale in [1e-30, 1.0, 1e30] {
            assert_eq!(unit(DVec3::NEG_Z * scale * scale), [0.0, 0.0, -1.0]);
        }
        assert_eq!(unit(DVec3::ZERO), [0.0, 0.0, 1.0]);
        assert_eq!(unit(DVec3::new(3.0, 4.0, 0.0)), [0.6, 0.8, 0.0]);
    }

    #[test]
    fn a_surface_of_one_row_has_nothing() {
        assert_eq!(written(&plane(5, 1), "row").0.points, 0);
    }
}

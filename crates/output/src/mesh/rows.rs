//! Grid surfaces as triangles, row of points by row, for formats that have no quadrilaterals.
//!
//! A quadrilateral is drawn when its four corners may be used, and cut along the shorter of its diagonals. Points that no
//! quadrilateral has are left out. A point's normal is that of the quadrilaterals about it, each by its area (half the cross product of its
//! diagonals), so a row waits until the next one is there: memory holds three rows.

use super::{MeshPiece, MeshPoints, MeshStats, MeshWriter};
use crate::{FieldValues, OutputError};
use glam::DVec3;

/// What waits of a row.
#[derive(Default)]
struct MeshRow {
    points: Vec<DVec3>,
    /// Values of each field, components of a point together.
    fields: Vec<Vec<f64>>,
    usable: Vec<bool>,
    /// Of the quadrilateral that begins at the point and goes on to the next row.
    hidden: Vec<bool>,
    /// Whether a drawn quadrilateral has the point.
    used: Vec<bool>,
    /// The sum of the areas of these, as vectors.
    area: Vec<DVec3>,
    /// Whether the quadrilateral that begins at the point is drawn between the row before and this one.
    cells: Vec<bool>,
    /// The number that the point has in the mesh.
    numbers: Vec<u64>,
}

/// Takes rows of rectangular pieces of a surface and makes triangles of them.
pub struct MeshRows {
    writer: MeshWriter,
    /// Components of each field.
    components: Vec<usize>,
    zone: i32,
    /// The row before the last, whose points have their numbers.
    before: Option<MeshRow>,
    /// The last.
    here: Option<MeshRow>,
}

/// A vector of length 1 along another. Where that has none (all cells at a point have collapsed) every direction is as good, and z is taken.
fn unit(of: DVec3) -> [f32; 3] {
    // The largest component first: areas of small things, squared, are too small for a number.
    let largest = of.abs().max_element();
    if largest > 0.0 && largest.is_finite() {
        (of / largest).normalize().as_vec3().to_array()
    } else {
        [0.0, 0.0, 1.0]
    }
}

impl MeshRows {
    /// Makes ready for rows. The writer's layout has normals and fields of so many `components` in double precision.
    pub fn new(writer: MeshWriter, components: Vec<usize>) -> Self {
        Self { writer, components, zone: 0, before: None, here: None }
    }

    /// Bytes that rows of so many points take at most, beside what the writer is charged.
    pub fn bytes(widest: usize, components: &[usize]) -> u64 {
        // A row waiting, one before it, one coming; of one more the copies that the writer takes.
        let values: usize = components.iter().sum();
        4 * widest as u64 * (24 + 24 + 16 + 8 * values as u64 + 4 + 48)
    }

    /// Begins the next piece of the surface, in a zone as the output shall show it.
    ///
    /// # Errors
    /// [`OutputError`] when what came before cannot be kept.
    pub fn begin(&mut self, zone: i32) -> Result<(), OutputError> {
        self.settle()?;
        self.before = None;
        self.zone = zone;
        Ok(())
    }

    /// Takes the next row of the piece: positions, the fields there with components of a point together, and which may be used; of
    /// which quadrilaterals, by their low corner, are not drawn.
    ///
    /// # Errors
    /// [`OutputError`] when it cannot be kept.
    pub fn push(
        &mut self,
        points: &[[f64; 3]],
        fields: Vec<Vec<f64>>,
        [usable, hidden]: [&[bool]; 2],
    ) -> Result<(), OutputError> {
        let n = points.len();
        // No format of these holds a position that is no number of single precision; what has one is no cell.
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

    /// Hands the last row on, which then is the one before.
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

/// The triangles between two rows, as the quadrilaterals go round. One with two corners in one place (at a pole) has no area and is left out.
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

    /// A hole in a corner takes its cell along, and the one point that no other cell has.
    #[test]
    fn what_no_cell_has_is_left_out() {
        let mut rows = plane(5, 4);
        rows[0].1[0] = false;
        let (stats, _) = written(&rows, "corner");
        assert_eq!((stats.points, stats.triangles), (19, 22));
        // A column that cannot be used leaves three of five columns, two of which have cells.
        let mut rows = plane(5, 4);
        rows.iter_mut().for_each(|row| row.0[1][2] = f64::NAN);
        let (stats, _) = written(&rows, "column");
        assert_eq!((stats.points, stats.triangles), (12, 12));
    }

    /// All points of a row in one place: half of each cell there is no triangle.
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

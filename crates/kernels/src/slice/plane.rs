//! The places of the pixels of a slice.

/// Pixels on a plane, rows from the top of the picture down.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct PixelPlane {
    /// Position of the middle of the first pixel of the first row, in the data's length unit.
    pub first: [f64; 3],
    /// From a pixel to the next of its row.
    pub across: [f64; 3],
    /// From a row to the next.
    pub down: [f64; 3],
    /// Pixels of a row, and rows.
    pub size: [u32; 2],
}

impl PixelPlane {
    /// Position of the middle of a pixel (its place in its row, and its row). Steps are not accumulated, so each
    /// position is the same in any part of the picture.
    #[inline]
    pub fn position(&self, [column, row]: [u32; 2]) -> [f64; 3] {
        let (column, row) = (f64::from(column), f64::from(row));
        core::array::from_fn(|a| self.first[a] + (column * self.across[a] + row * self.down[a]))
    }

    /// The same pixels in other coordinates: `matrix` (rows) times the position less `origin`.
    pub fn mapped(&self, origin: [f64; 3], matrix: [[f64; 3]; 3]) -> Self {
        let times = |v: [f64; 3]| matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
        Self {
            first: times(core::array::from_fn(|a| self.first[a] - origin[a])),
            across: times(self.across),
            down: times(self.down),
            size: self.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_where_they_are() {
        let plane =
            PixelPlane { first: [1.0, 2.0, 3.0], across: [0.5, 0.0, 0.0], down: [0.0, -0.25, 0.0], size: [10, 20] };
        assert_eq!(plane.position([0, 0]), [1.0, 2.0, 3.0]);
        assert_eq!(plane.position([4, 2]), [3.0, 1.5, 3.0]);
        let swapped = [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
        let other = plane.mapped([1.0, 1.0, 1.0], swapped);
        assert_eq!(other.position([4, 2]), [1.0, 2.0, 2.0]);
    }
}

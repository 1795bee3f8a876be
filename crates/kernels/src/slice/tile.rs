//! The state of a tile of a slice.

/// Edge of a tile in pixels. Fixed, since a pixel in a zone that overlaps itself may depend on its tile. A tile of a
/// volume at its own resolution is in at most a few dozen pages of 16^3 voxels.
pub const TILE: u32 = 32;

/// The state of a pixel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pixel {
    /// Not computed yet.
    Open = 0,
    /// It has values (which may be NaN).
    Value = 1,
    /// It is in no cell and no voxel.
    Outside = 2,
    /// A needed page is unreadable.
    Failed = 3,
}

/// A tile: its pixels and their states.
#[derive(Clone, Debug)]
pub struct Tile {
    /// First pixel: place in its row, and row.
    pub first: [u32; 2],
    /// Pixels along a row, and rows.
    pub size: [u32; 2],
    /// Numbers a pixel.
    pub components: usize,
    /// Row by row, the numbers of a pixel adjacent; NaN if it has no value.
    pub values: Vec<f64>,
    /// Row by row.
    pub pixels: Vec<Pixel>,
    /// Every pixel before this one is done.
    next: usize,
}

impl Tile {
    /// Tile `[column, row]` of a picture of `picture` pixels with `components` numbers each.
    pub fn new(at: [u32; 2], picture: [u32; 2], components: usize) -> Self {
        let first = at.map(|n| n * TILE);
        let size = core::array::from_fn(|a| picture[a].saturating_sub(first[a]).min(TILE));
        let count = Self::count(size);
        let (values, pixels) = (vec![f64::NAN; count * components], vec![Pixel::Open; count]);
        Self { first, size, components, values, pixels, next: 0 }
    }

    fn count(size: [u32; 2]) -> usize {
        size[0] as usize * size[1] as usize
    }

    /// Bytes of a whole tile.
    pub const fn bytes(components: usize) -> usize {
        size_of::<Self>() + (TILE * TILE) as usize * (8 * components + 1)
    }

    /// The first unfinished pixel, by number; `None`: all are finished.
    pub(super) fn open(&mut self) -> Option<usize> {
        while self.pixels.get(self.next).is_some_and(|p| *p != Pixel::Open) {
            self.next += 1;
        }
        (self.next < self.pixels.len()).then_some(self.next)
    }

    /// The place of a pixel in the picture.
    pub(super) fn place(&self, number: usize) -> [u32; 2] {
        let width = self.size[0] as usize;
        [self.first[0] + (number % width) as u32, self.first[1] + (number / width) as u32]
    }

    /// The numbers of a pixel.
    pub(super) fn numbers(&mut self, number: usize) -> &mut [f64] {
        &mut self.values[number * self.components..(number + 1) * self.components]
    }

    /// Ends a pixel without values.
    pub(super) fn without(&mut self, number: usize, pixel: Pixel) {
        self.numbers(number).fill(f64::NAN);
        self.pixels[number] = pixel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_at_the_edge_are_cut() {
        let mut tile = Tile::new([1, 2], [40, 70], 2);
        assert_eq!((tile.first, tile.size), ([32, 64], [8, 6]));
        assert_eq!((tile.values.len(), tile.pixels.len()), (96, 48));
        assert_eq!(tile.place(9), [33, 65]);
        tile.without(0, Pixel::Outside);
        tile.without(2, Pixel::Failed);
        assert_eq!(tile.open(), Some(1));
        (0..48).for_each(|n| tile.without(n, Pixel::Outside));
        assert_eq!(tile.open(), None);
    }
}

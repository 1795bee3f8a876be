//! What kernels know of a volume: its arrays of pages at each level, and where voxels lie in space.

use super::missing_values::Missing;
use super::voxel::Brick;
use super::written_pages::Vacant;
use crate::translate::Translation;
use pager::id::ArrayId;
use std::sync::Arc;

/// From voxel indices to positions: `origin + i axes[0] + j axes[1] + k axes[2]`; whole numbers are the centres of voxels.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Placement {
    /// Position of the centre of voxel (0, 0, 0), in the volume's length unit.
    pub origin: [f64; 3],
    /// Steps from a voxel to the next along i, j and k: direction times spacing.
    pub axes: [[f64; 3]; 3],
}

impl Placement {
    /// Position of a point given in voxel indices.
    #[inline]
    pub fn position(&self, ijk: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|a| self.origin[a] + (0..3).map(|d| ijk[d] * self.axes[d][a]).sum::<f64>())
    }

    /// Distance between voxels along i, j and k.
    pub fn spacing(&self) -> [f64; 3] {
        self.axes.map(|a| a.iter().map(|c| c * c).sum::<f64>().sqrt())
    }
}

/// Lowest and highest values of pages, themselves paged: of each component two float32, rounded outward, over all cells whose low
/// corner lies in the page, so the first layer of the pages that follow is in it. NaN is passed over; pages without numbers have the
/// lowest above the highest.
#[derive(Clone, Debug)]
pub struct RangeLevel {
    /// The pager's number for it. A frame is `[k][j][i][component][low, high]`, float32.
    pub id: ArrayId,
    /// Its entries along i, j, k and how they are cut in pages. The finest has an entry a page of the volume, each further level one
    /// for 8 x 8 x 8 of those before.
    pub translation: Translation,
}

/// One array of pages: one level of one channel, or of several channels whose values lie together.
#[derive(Clone, Debug)]
pub struct VolumeArray {
    /// What errors and events call it.
    pub name: String,
    /// The pager's number for it. Pages are numbered with i fastest.
    pub id: ArrayId,
    /// Voxels along i, j, k and how they are cut in pages.
    pub translation: Translation,
    /// What a frame holds.
    pub brick: Brick,
    /// The channels that its components are.
    pub channels: Vec<usize>,
    /// The same at every time step: its pages are those of step 0.
    pub steady: bool,
    /// Ranges of its pages, finest first; empty where none are known. They are of all stored numbers, those that stand for missing
    /// values among them.
    pub ranges: Vec<RangeLevel>,
    /// The stored numbers that stand for a missing value, by component: those of its type.
    pub missing: Vec<Missing>,
    /// The same array with NaN where a stored number stands for a missing value, cut in the same pages; `None` where none does. Its numbers
    /// are floats that hold all stored ones of up to 53 bits.
    pub valued: Option<Box<Self>>,
    /// What is known of its pages that were never written; `None` where nothing is known without reading, or all were written.
    pub vacant: Option<Arc<Vacant>>,
    /// Pages that cost one read together.
    pub row_group: Option<RowGroup>,
}

/// Pages side by side that are pieces of the same rows of a file: who reads one of them passes over the others, or reads less than a block of
/// the disk of each row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// The axis along which they follow each other.
    pub axis: usize,
    /// How many: the first group begins at the first page.
    pub pages: u32,
}

impl VolumeArray {
    /// The range of the values of a component among stored numbers in a range: none where all of them stand for missing values.
    #[inline]
    pub fn value_range(&self, component: usize, [low, high]: [f64; 2]) -> [f64; 2] {
        match self.missing.get(component) {
            Some(missing) if missing.holds_all(self.brick.voxel, [low, high]) => [f64::INFINITY, f64::NEG_INFINITY],
            _ => [low, high],
        }
    }

    /// The pages of a page's [`RowGroup`], itself among them.
    pub fn read_with(&self, page: u64) -> impl Iterator<Item = u64> {
        let pages = self.translation.pages;
        let RowGroup { axis, pages: each } = self.row_group.unwrap_or(RowGroup { axis: 0, pages: 1 });
        let apart: u64 = pages[..axis].iter().map(|n| u64::from(*n)).product();
        let at = (page / apart % u64::from(pages[axis])) as u32;
        let first = at / each * each;
        let zero = page - u64::from(at) * apart;
        (first..(first + each).min(pages[axis])).map(move |n| zero + u64::from(n) * apart)
    }
}

/// One level of resolution.
#[derive(Clone, Debug)]
pub struct VolumeLevel {
    /// Voxels along i, j, k.
    pub dims: [u32; 3],
    /// Where they lie.
    pub placement: Placement,
    /// Its arrays; together they have every channel once.
    pub arrays: Vec<VolumeArray>,
}

impl VolumeLevel {
    /// The array that has a channel as values, with NaN where they are missing, and which of its components that is. Who
    /// interpolates between voxels or compares them takes this one; [`Self::channel`] has the numbers as they are stored.
    pub fn valued(&self, channel: usize) -> Option<(&VolumeArray, usize)> {
        self.channel(channel).map(|(array, n)| (array.valued.as_deref().unwrap_or(array), n))
    }

    /// The array that has a channel as it is stored, and which of its components that is.
    pub fn channel(&self, channel: usize) -> Option<(&VolumeArray, usize)> {
        self.arrays.iter().find_map(|a| a.channels.iter().position(|c| *c == channel).map(|n| (a, n)))
    }
}

//! A kernel's view of a volume: its arrays of pages at each level, and the positions of voxels.

use super::missing_values::Missing;
use super::shard_pages::ShardPages;
use super::voxel::Brick;
use super::written_pages::Vacant;
use crate::translate::Translation;
use pager::id::ArrayId;
use std::sync::Arc;

/// The map from voxel indices to positions: `origin + i axes[0] + j axes[1] + k axes[2]`. Whole numbers are the centres
/// of voxels.
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

/// Lowest and highest values of pages, themselves paged. Each component has two float32, rounded outward. They are over
/// all cells whose low corner lies in the page, so they include the first layer of the next pages. NaN is ignored.
/// Pages without numbers have the lowest above the highest.
#[derive(Clone, Debug)]
pub struct RangeLevel {
    /// The pager's number for it. A frame is `[k][j][i][component][low, high]`, float32.
    pub id: ArrayId,
    /// Its entries along i, j, k and their cut into pages. The finest level has an entry for each page of the volume.
    /// Each further level has one for 8 x 8 x 8 of the level before.
    pub translation: Translation,
}

/// One array of pages: one level of one channel, or of several channels whose values are interleaved.
#[derive(Clone, Debug)]
pub struct VolumeArray {
    /// Its name in errors and events.
    pub name: String,
    /// The pager's number for it. Pages are numbered with i fastest.
    pub id: ArrayId,
    /// Voxels along i, j, k and their cut into pages.
    pub translation: Translation,
    /// The contents of a frame.
    pub brick: Brick,
    /// The channels of its components.
    pub channels: Vec<usize>,
    /// The same at every time step: its pages are those of step 0.
    pub steady: bool,
    /// Ranges of its pages, finest first; empty if unknown. They include stored numbers that mean a missing value.
    pub ranges: Vec<RangeLevel>,
    /// The stored numbers that mean a missing value, by component, in its type.
    pub missing: Vec<Missing>,
    /// The same array, in the same pages, with NaN for missing values. `None` if no number means missing. Its numbers
    /// are floats, exact for stored ones of up to 53 bits.
    pub valued: Option<Box<Self>>,
    /// Its pages that were never written. `None` if this is unknown without reading, or all were written.
    pub vacant: Option<Arc<Vacant>>,
    /// What the indexes of its shards say, if they are at a server.
    pub shards: Option<Arc<ShardPages>>,
    /// Pages that cost one read together.
    pub row_group: Option<RowGroup>,
}

/// Neighbouring pages made of pieces of the same file rows. Reading one of them passes over the others, or reads less
/// than a disk block of each row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// The axis along which the pages are neighbours.
    pub axis: usize,
    /// Number of pages. The first group begins at the first page.
    pub pages: u32,
}

impl VolumeArray {
    /// The range of a component's values within a range of stored numbers. Empty if all of them mean missing values.
    #[inline]
    pub fn value_range(&self, component: usize, [low, high]: [f64; 2]) -> [f64; 2] {
        match self.missing.get(component) {
            Some(missing) if missing.holds_all(self.brick.voxel, [low, high]) => [f64::INFINITY, f64::NEG_INFINITY],
            _ => [low, high],
        }
    }

    /// The pages of a page's [`RowGroup`], with the page itself.
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
    /// Positions of its voxels.
    pub placement: Placement,
    /// Its arrays; together they have every channel once.
    pub arrays: Vec<VolumeArray>,
}

impl VolumeLevel {
    /// The array with a channel as values, with NaN for missing ones, and the channel's component. Use it to
    /// interpolate or compare voxels. [`Self::channel`] has the stored numbers.
    pub fn valued(&self, channel: usize) -> Option<(&VolumeArray, usize)> {
        self.channel(channel).map(|(array, n)| (array.valued.as_deref().unwrap_or(array), n))
    }

    /// The array with a channel as stored, and the channel's component.
    pub fn channel(&self, channel: usize) -> Option<(&VolumeArray, usize)> {
        self.arrays.iter().find_map(|a| a.channels.iter().position(|c| *c == channel).map(|n| (a, n)))
    }
}

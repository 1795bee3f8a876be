//! One channel, or colour, of one volume, in the form for rays.

use super::appearance::Projection;
use super::colour_rules::Tint;
use super::empty_space;
use super::lanes::I4;
use super::sample::SampledVoxel;
use super::shade::Lamps;
use super::transfer::{room, TransferTable};
use field::volume::VolumeArray;
use glam::DMat3;

/// One channel, or colour, of one volume, in the form for rays.
pub(crate) struct RaySource {
    pub number: u32,
    pub array: VolumeArray,
    pub component: usize,
    pub step: u32,
    /// Cells along each axis.
    pub cells: [u32; 3],
    /// Elements of a page from a voxel to the next.
    pub strides: [i32; 3],
    /// Factor of numbers in results of interpolation.
    pub unit: f32,
    /// Voxels of a page, and blocks.
    pub page: [i32; 3],
    pub blocks: [i32; 3],
    /// Whether blocks of pages are those of the whole volume: pages are whole blocks along each axis, or there is only
    /// one.
    pub blocks_align: bool,
    /// Voxels of a page with their cells inside it, along each axis.
    pub inner: I4,
    pub table: TransferTable,
    /// For 8-bit numbers: the next visible one from each on; 256 if there is none.
    pub next_seen: Option<Box<[u16; 256]>>,
    pub skip: bool,
    /// The colour rule, if it is not the table alone.
    pub tint: Tint,
    pub projection: Projection,
    pub nearest: bool,
    pub lamps: Option<Lamps>,
    /// From a gradient along i, j, k to one in space.
    pub to_space: DMat3,
    /// The number of its volume in the scene.
    pub(super) look: usize,
}

impl RaySource {
    /// Offset of positions before they are rounded down.
    pub(crate) fn shift(&self) -> f64 {
        if self.nearest {
            0.5
        } else {
            0.0
        }
    }

    /// Voxels that may contain samples along each axis: cells, or the nearest voxels.
    pub(crate) fn spans(&self) -> [u32; 3] {
        if self.nearest {
            self.cells.map(|n| n + 1)
        } else {
            self.cells
        }
    }

    /// Whether it is a single channel through a transfer function.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.tint, Tint::Plain)
            && self.projection == Projection::Composite
            && !self.nearest
            && self.lamps.is_none()
    }

    /// Whether rays may use bricks for it: it is plain, or the largest or mean value of one channel.
    pub(crate) fn by_bricks(&self) -> bool {
        self.is_plain() || self.is_projected()
    }

    /// Whether it is the largest or mean value of one channel.
    pub(super) fn is_projected(&self) -> bool {
        let projects = matches!(self.projection, Projection::Maximum | Projection::Mean);
        projects && matches!(self.tint, Tint::Plain) && !self.nearest
    }

    /// Whether cells with numbers in these ranges, by component, may be visible. Refused cells contribute nothing.
    #[inline]
    pub(crate) fn shows(&self, range: impl Fn(usize) -> [f64; 2]) -> bool {
        let unit = f64::from(self.unit);
        match (&self.tint, self.projection) {
            (Tint::Plain, Projection::Composite) => {
                let [a, b] = range(self.component);
                self.table.shows((a * unit) as f32, (b * unit) as f32)
            }
            // Values below the smallest visible one change no visible maximum.
            (Tint::Plain, Projection::Maximum) => {
                let [a, b] = range(self.component);
                a <= b && self.table.shows_up_to((b * unit) as f32)
            }
            (_, Projection::Surface { value }) => {
                // In single precision, as samples are: a value there may be slightly larger.
                let [a, b] = range(self.component);
                let high = (b * unit) as f32;
                a <= b && high + room(high.abs().max(((a * unit) as f32).abs())) >= value as f32 * self.unit
            }
            (_, Projection::Mean) => true,
            (tint, _) => tint.shows(&self.table, range),
        }
    }

    /// Whether stored numbers from `low` to `high` may be visible.
    #[inline(always)]
    pub(crate) fn seen<T: SampledVoxel>(&self, low: T, high: T) -> bool {
        match &self.next_seen {
            // For 8-bit numbers: the next visible one from each on.
            Some(next) => u32::from(next[low.to_f32() as usize & 255]) <= high.to_f32() as u32,
            // As [`Self::shows`] has it.
            None if self.projection == Projection::Maximum => {
                low <= high && self.table.shows_up_to(high.to_f32() * T::UNIT)
            }
            None => empty_space::shows(&self.table, T::UNIT, low, high),
        }
    }
}

/// Bytes of the largest page of any of these, one at least.
pub(super) fn largest_page(sources: &[RaySource]) -> usize {
    sources.iter().map(|s| s.array.brick.bytes()).fold(1, usize::max)
}

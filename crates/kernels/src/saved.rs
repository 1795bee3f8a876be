//! What is kept of a line that may go on: numbers one after the other, little-endian, without gaps. Whoever keeps them sees to it that
//! they come back as they were; here it is only checked that they suffice.

use crate::flow::ParticlePosition;
use crate::line::Reason;
use field::shape::{CellId, CellPoint};

/// Writes the state of a line.
#[derive(Debug, Default)]
pub struct Saver(pub Vec<u8>);

impl Saver {
    /// A count or number.
    pub fn whole(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }
    /// A number, bit for bit.
    pub fn float(&mut self, x: f64) {
        self.whole(x.to_bits());
    }
    /// Numbers of which the reader knows how many there are.
    pub fn floats(&mut self, x: &[f64]) {
        x.iter().for_each(|x| self.float(*x));
    }
    /// Two small numbers.
    pub(crate) fn halves(&mut self, a: u32, b: u32) {
        self.whole(u64::from(a) | u64::from(b) << 32);
    }
    /// A reason, or that there is none.
    pub(crate) fn reason(&mut self, reason: Option<Reason>) {
        self.whole(reason.map_or(u64::MAX, |r| r as u64));
    }
    pub(crate) fn place(&mut self, place: &ParticlePosition) {
        self.cell(place.spot.cell);
        self.floats(&place.spot.rst);
        self.cell(place.kept_fringe.unwrap_or(CellId::NOWHERE));
    }
    /// The same in fewer bytes.
    pub(crate) fn place_short(&mut self, place: &ParticlePosition) {
        self.cell_short(place.spot.cell);
        self.floats(&place.spot.rst);
        self.cell_short(place.kept_fringe.unwrap_or(CellId::NOWHERE));
    }
    fn cell_short(&mut self, CellId { zone, ijk: [i, j, k] }: CellId) {
        self.halves(zone, i);
        self.halves(j, k);
    }
    fn cell(&mut self, cell: CellId) {
        self.whole(u64::from(cell.zone));
        cell.ijk.iter().for_each(|n| self.whole(u64::from(*n)));
    }
}

/// Reads it back; `None` where the bytes are not enough or make no sense.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a>(pub &'a [u8]);

impl Saved<'_> {
    /// A count or number.
    pub fn whole(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }
    /// A count of things of which each takes so many bytes here at least.
    pub(crate) fn count(&mut self, each: usize) -> Option<usize> {
        let n = usize::try_from(self.whole()?).ok()?;
        (n <= self.0.len() / each.max(1)).then_some(n)
    }
    /// A number.
    pub fn float(&mut self) -> Option<f64> {
        self.whole().map(f64::from_bits)
    }
    /// Three of them.
    pub(crate) fn three(&mut self) -> Option<[f64; 3]> {
        Some([self.float()?, self.float()?, self.float()?])
    }
    /// A small number.
    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.whole()?).ok()
    }
    /// Two of them.
    pub(crate) fn halves(&mut self) -> Option<(u32, u32)> {
        self.whole().map(|both| (both as u32, (both >> 32) as u32))
    }
    pub(crate) fn reason(&mut self) -> Option<Option<Reason>> {
        match self.whole()? {
            u64::MAX => Some(None),
            code => Reason::ALL.iter().find(|r| **r as u64 == code).map(|r| Some(*r)),
        }
    }
    pub(crate) fn place(&mut self) -> Option<ParticlePosition> {
        let cell = self.cell()?;
        let rst = self.three()?;
        let kept = self.cell()?;
        Some(ParticlePosition {
            spot: CellPoint { cell, rst },
            kept_fringe: Some(kept).filter(|c| *c != CellId::NOWHERE),
        })
    }
    /// One of [`Saver::place_short`].
    pub(crate) fn place_short(&mut self) -> Option<ParticlePosition> {
        let (cell, rst, kept) = (self.cell_short()?, self.three()?, self.cell_short()?);
        Some(ParticlePosition {
            spot: CellPoint { cell, rst },
            kept_fringe: Some(kept).filter(|c| *c != CellId::NOWHERE),
        })
    }
    fn cell_short(&mut self) -> Option<CellId> {
        let ((zone, i), (j, k)) = (self.halves()?, self.halves()?);
        Some(CellId { zone, ijk: [i, j, k] })
    }
    fn cell(&mut self) -> Option<CellId> {
        Some(CellId { zone: self.small()?, ijk: [self.small()?, self.small()?, self.small()?] })
    }
    /// Whether all was read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

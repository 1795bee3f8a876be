//! The saved state of a line that may continue: consecutive numbers, little-endian, without gaps. The caller ensures
//! that they are unchanged. Here only their number and validity are checked.

use crate::flow::ParticlePosition;
use crate::line::Reason;
use field::shape::{CellPoint, DomainCell};

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
    /// Numbers; the reader knows how many.
    pub fn floats(&mut self, x: &[f64]) {
        x.iter().for_each(|x| self.float(*x));
    }
    /// Two small numbers.
    pub(crate) fn halves(&mut self, a: u32, b: u32) {
        self.whole(u64::from(a) | u64::from(b) << 32);
    }
    /// A reason, or none.
    pub(crate) fn reason(&mut self, reason: Option<Reason>) {
        self.whole(reason.map_or(u64::MAX, |r| r as u64));
    }
    pub(crate) fn place<C: DomainCell>(&mut self, place: &ParticlePosition<C>) {
        self.cell(place.spot.cell);
        self.floats(&place.spot.rst);
        self.cell(place.kept_fringe.unwrap_or(C::NOWHERE));
    }
    /// The same in fewer bytes.
    pub(crate) fn place_short<C: DomainCell>(&mut self, place: &ParticlePosition<C>) {
        self.cell_short(place.spot.cell);
        self.floats(&place.spot.rst);
        self.cell_short(place.kept_fringe.unwrap_or(C::NOWHERE));
    }
    fn cell_short(&mut self, cell: impl DomainCell) {
        let [a, b, c, d] = cell.numbers();
        self.halves(a, b);
        self.halves(c, d);
    }
    fn cell(&mut self, cell: impl DomainCell) {
        cell.numbers().iter().for_each(|n| self.whole(u64::from(*n)));
    }
}

/// Reads a saved state; `None` if the bytes are too few or invalid.
#[derive(Clone, Copy, Debug)]
pub struct SavedState<'a>(pub &'a [u8]);

impl SavedState<'_> {
    /// A count or number.
    pub fn whole(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }
    /// A count of items with at least `each` remaining bytes each.
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
            code => Reason::from_code(u8::try_from(code).ok()?).filter(|r| r.is_of_tracers()).map(Some),
        }
    }
    pub(crate) fn place<C: DomainCell>(&mut self) -> Option<ParticlePosition<C>> {
        let cell = self.cell()?;
        let rst = self.three()?;
        let kept = self.cell()?;
        let kept_fringe = Some(kept).filter(|c| *c != C::NOWHERE);
        Some(ParticlePosition { spot: CellPoint { cell, rst }, kept_fringe })
    }
    /// One of [`Saver::place_short`].
    pub(crate) fn place_short<C: DomainCell>(&mut self) -> Option<ParticlePosition<C>> {
        let (cell, rst, kept) = (self.cell_short()?, self.three()?, self.cell_short()?);
        let kept_fringe = Some(kept).filter(|c| *c != C::NOWHERE);
        Some(ParticlePosition { spot: CellPoint { cell, rst }, kept_fringe })
    }
    fn cell_short<C: DomainCell>(&mut self) -> Option<C> {
        let ((a, b), (c, d)) = (self.halves()?, self.halves()?);
        Some(C::of_numbers([a, b, c, d]))
    }
    fn cell<C: DomainCell>(&mut self) -> Option<C> {
        Some(C::of_numbers([self.small()?, self.small()?, self.small()?, self.small()?]))
    }
    /// Whether all was read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

//! Which pages of a volume a pass over all of them looks at: of those that were never written everything is known.

use super::VolumeSession;
use convert::disk::Disk;
use convert::grid::LevelRows;
use field::error::FieldError;
use field::volume::{VolumeArray, WrittenPages};
use pager::{Charge, ChargeKind};

/// Pages of an array at one step.
pub(crate) struct PageSet {
    count: u64,
    along: [u32; 3],
    /// Those that may hold something, and their numbers in order; `None` where all may.
    some: Option<(WrittenPages, Vec<u64>)>,
    _charges: Vec<Charge>,
}

impl PageSet {
    /// Those of an array at a step. Where the limit has no room for their list it is all.
    pub(crate) fn of(session: &VolumeSession, array: &VolumeArray, step: u32) -> Self {
        let (count, along) = (array.translation.count(), array.translation.pages);
        let mut this = Self { count, along, some: None, _charges: Vec::new() };
        // A list and its bits are small beside what is saved, and a quarter of the limit is too much for them.
        let most = session.pager.ledger().limit() / 4;
        let room = |bytes: u64| (bytes <= most).then(|| session.pager.charge(ChargeKind::Other, bytes).ok()).flatten();
        let Some(vacant) = &array.vacant else { return this };
        let Some(bits) = room(WrittenPages::bytes(count)) else { return this };
        let written = vacant.written(step);
        let Some(list) = room(8 * written.count()) else { return this };
        let numbers = written.pages().collect();
        this.some = Some((written, numbers));
        this._charges = vec![bits, list];
        this
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.some.as_ref().map_or(self.count, |(_, numbers)| numbers.len() as u64)
    }

    /// Pages that were never written.
    pub(crate) fn vacant(&self) -> u64 {
        self.count - self.count()
    }

    /// The numbers of some of them: from the so manieth on, and up to one.
    pub(crate) fn numbers(&self, from: u64, to: u64) -> Vec<u64> {
        match &self.some {
            Some((_, numbers)) => numbers[from as usize..to as usize].to_vec(),
            None => (from..to).collect(),
        }
    }

    /// Whether rows of entries of so many numbers for the pages that may hold something take less than a quarter of all, and less than
    /// `most` bytes.
    pub(crate) fn few(&self, components: usize, most: usize) -> bool {
        let Some((_, numbers)) = &self.some else { return false };
        let of = numbers.iter().map(|n| n / u64::from(self.along[0]));
        let rows = of.fold((0, u64::MAX), |(n, last), row| (n + u64::from(row != last), row)).0;
        // What is made of a row of pages goes to the rows before it, too.
        let rows = 4 * rows;
        let all = u64::from(self.along[1]) * u64::from(self.along[2]);
        rows < all && rows * u64::from(self.along[0]) * components as u64 * 8 < most as u64
    }

    /// Empties the entries of pages whose cells lie in pages that may hold something and nowhere else.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub(crate) fn clear(&self, disk: &Disk, grid: &mut LevelRows) -> Result<(), FieldError> {
        let Some((written, numbers)) = &self.some else { return Ok(()) };
        let [ni, nj, _] = self.along.map(u64::from);
        let empty = |n: usize| if n.is_multiple_of(2) { f64::INFINITY } else { f64::NEG_INFINITY };
        let empty: Vec<f64> = (0..grid.components).map(empty).collect();
        for n in numbers {
            let at = [n % ni, n / ni % nj, n / ni / nj];
            if written.around(at.map(|n| n as u32)) {
                let [i, j, k] = at.map(|n| n as usize);
                grid.put(disk, j, k, i, &empty)?;
            }
        }
        Ok(())
    }

    /// Gives the entries of pages whose cells lie in pages that were never written, too, what these hold.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub(crate) fn lay(&self, disk: &Disk, grid: &mut LevelRows, entry: &[f64]) -> Result<(), FieldError> {
        let Some((written, _)) = &self.some else { return Ok(()) };
        let [ni, nj, _] = self.along.map(u64::from);
        for n in 0..self.count {
            let at = [n % ni, n / ni % nj, n / ni / nj];
            if !written.around(at.map(|n| n as u32)) {
                let [i, j, k] = at.map(|n| n as usize);
                grid.put(disk, j, k, i, entry)?;
            }
        }
        Ok(())
    }

    /// Counts the pages that were not looked at as never written.
    pub(crate) fn answered(&self, session: &VolumeSession, array: &VolumeArray) {
        if let (Some(vacant), Some((written, _))) = (&array.vacant, &self.some) {
            vacant.count_all_but(written);
            session.pager.answered_fills(self.vacant());
        }
    }
}

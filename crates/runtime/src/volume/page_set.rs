//! The pages of a volume that a pass over all must read. Pages never written are known without.

use crate::session::Session;
use convert::disk::Disk;
use convert::grid::LevelRows;
use field::error::FieldError;
use field::volume::{VolumeArray, WrittenPages};
use pager::{Charge, ChargeKind};

pub(crate) struct PageSet {
    count: u64,
    along: [u32; 3],
    /// Pages that may hold data, and their numbers in order. `None`: all may.
    some: Option<(WrittenPages, Vec<u64>)>,
    _charges: Vec<Charge>,
}

impl PageSet {
    /// The pages of an array at a step to read. All of them, if the limit has no room for a list.
    pub(crate) fn of(session: &Session, array: &VolumeArray, step: u32) -> Self {
        let (count, along) = (array.translation.count(), array.translation.pages);
        let mut this = Self { count, along, some: None, _charges: Vec::new() };
        // The list and its bits are small beside the saved reads, but must not take more than a quarter of the limit.
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

    pub(crate) fn count(&self) -> u64 {
        self.some.as_ref().map_or(self.count, |(_, numbers)| numbers.len() as u64)
    }

    pub(crate) fn vacant(&self) -> u64 {
        self.count - self.count()
    }

    /// The page numbers at the places `from` to `to`, half open.
    pub(crate) fn numbers(&self, from: u64, to: u64) -> Vec<u64> {
        match &self.some {
            Some((_, numbers)) => numbers[from as usize..to as usize].to_vec(),
            None => (from..to).collect(),
        }
    }

    /// Whether rows of entries for these pages are few: less than a quarter of all, and less than `most` bytes.
    /// `components` are numbers of an entry.
    pub(crate) fn few(&self, components: usize, most: usize) -> bool {
        let Some((_, numbers)) = &self.some else { return false };
        let of = numbers.iter().map(|n| n / u64::from(self.along[0]));
        let rows = of.fold((0, u64::MAX), |(n, last), row| (n + u64::from(row != last), row)).0;
        // A row of pages also changes the rows before it.
        let rows = 4 * rows;
        let all = u64::from(self.along[1]) * u64::from(self.along[2]);
        rows < all && rows * u64::from(self.along[0]) * components as u64 * 8 < most as u64
    }

    /// Clears the entries of pages whose cells lie only in pages that may hold data.
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

    /// Sets the entries of pages with cells in pages never written to `entry`.
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

    /// Counts the other pages as never written.
    pub(crate) fn answered(&self, session: &Session, array: &VolumeArray) {
        if let (Some(vacant), Some((written, _))) = (&array.vacant, &self.some) {
            vacant.count_all_but(written);
            session.pager.answered_fills(self.vacant());
        }
    }
}

//! A level computed from the one before.
//!
//! Sums are made row by row over j, then k, then i, so they are the same for any piece of a volume. Sums of integers
//! are exact. If sums of doubles overflow they are computed from eighths.

use super::number::VoxelNumber;
use field::volume::store::Downsample;
use field::volume::Missing;
use std::ops::Range;

/// Voxels of a box, `[k][j][i][component]`.
#[derive(Copy, Clone)]
pub(super) struct Box3<'a, T> {
    pub values: &'a [T],
    /// Of the first voxel.
    pub low: [usize; 3],
    pub size: [usize; 3],
    pub components: usize,
}

impl<'a, T> Box3<'a, T> {
    /// Voxels of a row, from the box's first column on.
    fn row(&self, j: usize, k: usize) -> &'a [T] {
        let width = self.size[0] * self.components;
        let at = (k - self.low[2]) * self.size[1] + (j - self.low[1]);
        &self.values[at * width..][..width]
    }

    /// End of the box along axis `a`.
    const fn end(&self, a: usize) -> usize {
        self.low[a] + self.size[a]
    }
}

/// The rule by which voxels become one.
#[derive(Copy, Clone, Debug)]
pub(super) struct VoxelReduction<'a> {
    pub how: Downsample,
    /// Voxels along i, j, k that become one: 1 or 2.
    pub step: [usize; 3],
    /// The numbers of missing values, which means ignore.
    pub missing: &'a Missing,
}

/// The buffers of a thread, reused from row to row.
pub(super) struct Sums<T: VoxelNumber>(Vec<T::Sum>);

impl<T: VoxelNumber> Default for Sums<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl VoxelReduction<'_> {
    /// Fills `out` with the row (j, k) of the coarser level over `columns`. The finer box must have all voxels of
    /// these, as far as they exist.
    pub fn row<T: VoxelNumber>(
        &self,
        fine: &Box3<'_, T>,
        columns: &Range<usize>,
        [j, k]: [usize; 2],
        sums: &mut Sums<T>,
        out: &mut [T],
    ) {
        let span = |n: usize, a: usize| n * self.step[a]..((n + 1) * self.step[a]).min(fine.end(a));
        let (js, ks) = (span(j, 1), span(k, 2));
        let from = (columns.start * self.step[0] - fine.low[0]) * fine.components;
        let to = ((columns.end * self.step[0]).min(fine.end(0)) - fine.low[0]) * fine.components;
        let row = |j: usize, k: usize| &fine.row(j, k)[from..to];
        match self.how {
            Downsample::Nearest => self.first(row(js.start, ks.start), fine.components, out),
            Downsample::Majority => {
                let mut rows: [&[T]; 4] = [&[]; 4];
                let count = list(&mut rows, js, ks, row);
                self.most(&rows[..count], fine.components, out);
            }
            Downsample::Mean => {
                let mut rows: [&[T]; 4] = [&[]; 4];
                let count = list(&mut rows, js, ks, row);
                self.mean(&rows[..count], fine.components, sums, out);
            }
        }
    }

    fn first<T: VoxelNumber>(&self, row: &[T], components: usize, out: &mut [T]) {
        if self.step[0] == 1 {
            return out.copy_from_slice(row);
        }
        for (out, from) in out.chunks_exact_mut(components).zip(row.chunks(2 * components)) {
            out.copy_from_slice(&from[..components]);
        }
    }

    fn most<T: VoxelNumber>(&self, rows: &[&[T]], components: usize, out: &mut [T]) {
        let mut found = [T::LARGEST; 8];
        for (n, out) in out.iter_mut().enumerate() {
            let (first, at) = self.places(n, components);
            let (mut count, mut same) = (0, true);
            for row in rows {
                for value in at.clone().filter_map(|i| row.get(i)) {
                    if !value.is_nothing() {
                        found[count] = *value;
                        same &= *value == found[0];
                        count += 1;
                    }
                }
            }
            *out = match &found[..count] {
                [] => rows[0][first],
                [one, ..] if same => *one,
                several => most_frequent(several),
            };
        }
    }

    /// The voxels in a row for number `n` of the coarser row: the first, and each.
    fn places(&self, n: usize, components: usize) -> (usize, std::iter::StepBy<Range<usize>>) {
        let first = n / components * self.step[0] * components + n % components;
        (first, (first..first + self.step[0] * components).step_by(components))
    }

    fn mean<T: VoxelNumber>(&self, rows: &[&[T]], components: usize, sums: &mut Sums<T>, out: &mut [T]) {
        let sums = &mut sums.0;
        sums.clear();
        sums.reserve(rows[0].len());
        match rows {
            [a] => sums.extend(a.iter().map(|a| a.widen())),
            [a, b] => sums.extend(a.iter().zip(*b).map(|(a, b)| a.widen() + b.widen())),
            [a, b, c, d] => {
                let low = a.iter().zip(*b).map(|(a, b)| a.widen() + b.widen());
                let high = c.iter().zip(*d).map(|(c, d)| c.widen() + d.widen());
                sums.extend(low.zip(high).map(|(low, high)| low + high));
            }
            // One or two along j, times one or two along k.
            _ => unreachable!("{} rows", rows.len()),
        }
        match (self.step[0], rows.len()) {
            (1, 1) => plain::<T, 0>(sums, out),
            (1, 2) => plain::<T, 1>(sums, out),
            (1, _) => plain::<T, 2>(sums, out),
            (_, 1) => pairs::<T, 0, 1>(sums, components, out),
            (_, 2) => pairs::<T, 1, 2>(sums, components, out),
            (_, _) => pairs::<T, 2, 3>(sums, components, out),
        }
        let holes = !self.missing.is_none() && rows.iter().any(|row| row.iter().any(|v| self.missing.holds(*v)));
        if holes || !out.iter().all(|x| x.is_plain()) {
            self.mend(rows, components, out);
        }
    }

    /// Recomputes, from voxels with values, the means with missing voxels, and those of NaN.
    fn mend<T: VoxelNumber>(&self, rows: &[&[T]], components: usize, out: &mut [T]) {
        let there = |v: T| !v.is_nothing() && !self.missing.holds(v);
        for (n, out) in out.iter_mut().enumerate() {
            let (first, at) = self.places(n, components);
            let values = || rows.iter().flat_map(|row| at.clone().filter_map(|i| row.get(i)));
            if out.is_plain() && values().all(|v| there(*v)) {
                continue;
            }
            let count = values().filter(|v| there(**v)).count() as u32;
            if count == 0 {
                // As the voxels are.
                *out = rows[0][first];
                continue;
            }
            // By column, rows two by two: the order of sums of whole rows.
            let sum = |part: fn(T) -> T::Sum| {
                let value = |row: usize, i: usize| {
                    let v = rows.get(row).and_then(|row| row.get(i)).filter(|v| there(**v));
                    v.map_or(T::ZERO, |v| part(*v))
                };
                let column = |i: usize| (value(0, i) + value(1, i)) + (value(2, i) + value(3, i));
                at.clone().map(column).fold(T::ZERO, |sum, next| sum + next)
            };
            *out = T::mean(sum(T::widen), count);
            if !out.is_plain() {
                *out = T::mean_of_eighths(sum(T::eighth), count);
            }
        }
    }
}

/// Rows of two planes at most, by k, then j.
fn list<'a, T>(
    rows: &mut [&'a [T]; 4],
    js: Range<usize>,
    ks: Range<usize>,
    row: impl Fn(usize, usize) -> &'a [T],
) -> usize {
    let mut count = 0;
    for k in ks {
        for j in js.clone() {
            rows[count] = row(j, k);
            count += 1;
        }
    }
    count
}

/// The most frequent of differing values; of several the lowest.
fn most_frequent<T: VoxelNumber>(values: &[T]) -> T {
    let mut best = (0, values[0]);
    for value in values {
        let count = values.iter().filter(|v| *v == value).count();
        if count > best.0 || count == best.0 && *value < best.1 {
            best = (count, *value);
        }
    }
    best.1
}

fn plain<T: VoxelNumber, const SHIFT: u32>(sums: &[T::Sum], out: &mut [T]) {
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = T::mean_of::<SHIFT>(*sum);
    }
}

/// Means of neighbours; the last column of an odd number is single.
fn pairs<T: VoxelNumber, const ALONE: u32, const BOTH: u32>(sums: &[T::Sum], components: usize, out: &mut [T]) {
    let whole = sums.len() / (2 * components) * components;
    let (pairs, alone) = out.split_at_mut(whole.min(out.len()));
    match components {
        1 => {
            for (out, pair) in pairs.iter_mut().zip(sums.as_chunks::<2>().0) {
                *out = T::mean_of::<BOTH>(pair[0] + pair[1]);
            }
        }
        3 => colors::<T, 3, 6, BOTH>(sums, pairs),
        4 => colors::<T, 4, 8, BOTH>(sums, pairs),
        _ => {
            for (out, pair) in pairs.chunks_exact_mut(components).zip(sums.chunks_exact(2 * components)) {
                for (c, out) in out.iter_mut().enumerate() {
                    *out = T::mean_of::<BOTH>(pair[c] + pair[components + c]);
                }
            }
        }
    }
    plain::<T, ALONE>(&sums[2 * whole..], alone);
}

fn colors<T: VoxelNumber, const N: usize, const TWO: usize, const BOTH: u32>(sums: &[T::Sum], out: &mut [T]) {
    for (out, pair) in out.as_chunks_mut::<N>().0.iter_mut().zip(sums.as_chunks::<TWO>().0) {
        for c in 0..N {
            out[c] = T::mean_of::<BOTH>(pair[c] + pair[N + c]);
        }
    }
}

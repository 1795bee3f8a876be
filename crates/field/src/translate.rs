//! The first half of translation: from a node's index to a page and a place in it. Page edges need not be powers of two,
//! so each axis divides by a multiply and a shift.

/// How one axis is cut.
#[derive(Copy, Clone, Debug)]
struct Axis {
    page: u32,
    magic: u64,
    shift: u32,
}

impl Axis {
    /// With shift = 32 + ceil(log2 page) and magic = floor(2^shift / page) + 1, `i * magic >> shift` is exact for
    /// i < 2^31 and does not overflow (Granlund and Montgomery 1994, theorem 4.2).
    fn new(page: u32) -> Self {
        let shift = 32 + page.next_power_of_two().trailing_zeros();
        let magic = ((1u128 << shift) / u128::from(page)) as u64 + 1;
        Self { page, magic, shift }
    }
    #[inline(always)]
    fn split(self, i: u32) -> (u32, u32) {
        let q = ((u128::from(i) * u128::from(self.magic)) >> self.shift) as u32;
        (q, i - q * self.page)
    }
}

/// A zone's points and the box of points that makes a page, the same for all arrays of the zone.
#[derive(Copy, Clone, Debug)]
pub struct Translation {
    /// Points along i, j, k.
    pub dims: [u32; 3],
    /// Points of a full page along i, j, k.
    pub page: [u32; 3],
    /// Pages along i, j, k.
    pub pages: [u32; 3],
    /// Elements from one component of a page to the next.
    pub component: usize,
    axes: [Axis; 3],
}

/// Where a node lies.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Page number.
    pub page: u64,
    /// Element of component 0 within the page.
    pub element: usize,
}

impl Translation {
    /// For `dims` points cut in boxes of `page` points. Each number is at least 1 and below 2^31.
    pub fn new(dims: [usize; 3], page: [usize; 3]) -> Self {
        let d = dims.map(|n| u32::try_from(n.max(1)).unwrap_or(u32::MAX >> 1));
        let p = page.map(|n| u32::try_from(n.max(1)).unwrap_or(u32::MAX >> 1));
        Self {
            dims: d,
            page: p,
            pages: core::array::from_fn(|a| d[a].div_ceil(p[a])),
            component: p.iter().map(|&n| n as usize).product(),
            axes: p.map(Axis::new),
        }
    }

    /// Translates the low corner of a cell, and says whether all of the cell's corners lie in the same page. Directions
    /// of one point have no second corner.
    #[inline(always)]
    pub fn cell(&self, ijk: [u32; 3]) -> (Place, bool) {
        let (pi, i) = self.axes[0].split(ijk[0]);
        let (pj, j) = self.axes[1].split(ijk[1]);
        let (pk, k) = self.axes[2].split(ijk[2]);
        let whole = (i + 1 < self.page[0] || self.dims[0] == 1)
            && (j + 1 < self.page[1] || self.dims[1] == 1)
            && (k + 1 < self.page[2] || self.dims[2] == 1);
        (self.place([pi, pj, pk], [i, j, k]), whole)
    }

    /// Translates a node.
    #[inline(always)]
    pub fn node(&self, ijk: [u32; 3]) -> Place {
        let (pi, i) = self.axes[0].split(ijk[0]);
        let (pj, j) = self.axes[1].split(ijk[1]);
        let (pk, k) = self.axes[2].split(ijk[2]);
        self.place([pi, pj, pk], [i, j, k])
    }

    #[inline(always)]
    fn place(&self, p: [u32; 3], o: [u32; 3]) -> Place {
        let page =
            (u64::from(p[2]) * u64::from(self.pages[1]) + u64::from(p[1])) * u64::from(self.pages[0]) + u64::from(p[0]);
        let element = (o[2] as usize * self.page[1] as usize + o[1] as usize) * self.page[0] as usize + o[0] as usize;
        Place { page, element }
    }

    /// First point of a page, and its points along i, j, k without padding.
    pub fn extent(&self, page: u64) -> ([u32; 3], [u32; 3]) {
        let (ni, nj) = (u64::from(self.pages[0]), u64::from(self.pages[1]));
        let at = [page % ni, page / ni % nj, page / ni / nj];
        let first = core::array::from_fn(|a| at[a] as u32 * self.page[a]);
        (first, core::array::from_fn(|a| self.page[a].min(self.dims[a].saturating_sub(first[a]))))
    }

    /// Where the corners of a cell lie that is not within one page: for each axis page number and offset of its low and its high
    /// corner.
    #[inline(always)]
    fn ends(&self, ijk: [u32; 3]) -> [[(u32, u32); 2]; 3] {
        core::array::from_fn(|a| {
            let low = self.axes[a].split(ijk[a]);
            let high = match (self.dims[a], low.1 + 1 < self.page[a]) {
                (1, _) => low,
                (_, true) => (low.0, low.1 + 1),
                (_, false) => (low.0 + 1, 0),
            };
            [low, high]
        })
    }

    /// The places of a cell's corners (bit 0 of the index is i, bit 1 j, bit 2 k), and for each the first corner in the same page.
    #[inline(always)]
    pub fn corners(&self, ijk: [u32; 3]) -> ([Place; 8], [usize; 8]) {
        let ends = self.ends(ijk);
        let apart: usize = (0..3).map(|a| usize::from(ends[a][0].0 != ends[a][1].0) << a).sum();
        let at = |c: usize| {
            let [i, j, k] = core::array::from_fn(|a| ends[a][c >> a & 1]);
            self.place([i.0, j.0, k.0], [i.1, j.1, k.1])
        };
        (core::array::from_fn(at), core::array::from_fn(|c| c & apart))
    }

    /// Elements from a node to the next in j and in k.
    #[inline(always)]
    pub fn strides(&self) -> (usize, usize) {
        let j = self.page[0] as usize;
        (j, j * self.page[1] as usize)
    }

    /// Number of pages.
    pub fn count(&self) -> u64 {
        self.pages.iter().map(|&n| u64::from(n)).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn division_is_exact(page in 1u32..70_000, i in 0u32..(1 << 31)) {
            prop_assert_eq!(Axis::new(page).split(i), (i / page, i % page));
        }
        #[test]
        fn nodes_are_where_row_major_boxes_put_them(d in prop::array::uniform3(1usize..40), p in prop::array::uniform3(1usize..12), f in prop::array::uniform3(0.0f64..1.0)) {
            let t = Translation::new(d, p);
            let x: [usize; 3] = core::array::from_fn(|a| ((d[a] as f64 * f[a]) as usize).min(d[a] - 1));
            let n: [usize; 3] = core::array::from_fn(|a| d[a].div_ceil(p[a]));
            let got = t.node(x.map(|v| v as u32));
            let page = ((x[2] / p[2]) * n[1] + x[1] / p[1]) * n[0] + x[0] / p[0];
            let element = ((x[2] % p[2]) * p[1] + x[1] % p[1]) * p[0] + x[0] % p[0];
            prop_assert_eq!(got, Place { page: page as u64, element });
        }
    }
}

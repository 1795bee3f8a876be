//! The first half of translation: from a node's index to a page and a place in it. Page edges need not be powers of
//! two: each axis divides by a multiply and a shift.

/// The pages along one axis.
#[derive(Copy, Clone, Debug)]
struct Axis {
    page: u32,
    magic: u64,
    shift: u32,
}

impl Axis {
    /// With shift = 32 + ceil(log2 page) and magic = floor(2^shift / page) + 1, division is `i * magic >> shift`. It is
    /// exact for i < 2^31 and does not overflow (Granlund and Montgomery 1994, theorem 4.2).
    fn new(page: u32) -> Self {
        let shift = 32 + page.next_power_of_two().trailing_zeros();
        let magic = ((1u128 << shift) / u128::from(page)) as u64 + 1;
        Self { page, magic, shift }
    }
    #[inline(always)]
    fn split(self, i: u32) -> (u32, u32) {
        let q = (u64::from(i).wrapping_mul(self.magic)).wrapping_shr(self.shift) as u32;
        (q, i.wrapping_sub(q.wrapping_mul(self.page)))
    }
}

/// A zone's points and its page box, the same for all its arrays.
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

/// The place of a node.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddress {
    /// Page number.
    pub page: u64,
    /// Element of component 0 within the page.
    pub element: usize,
}

impl Translation {
    /// For `dims` points in boxes of `page` points. Each number is at least 1 and below 2^31.
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

    /// Translates the low corner of a cell. Also returns the axes (bit 0 for i, 1 for j, 2 for k) along which its
    /// corners lie in different pages.
    #[inline(always)]
    pub fn cell(&self, ijk: [u32; 3]) -> (NodeAddress, usize) {
        let (pi, i) = self.axes[0].split(ijk[0]);
        let (pj, j) = self.axes[1].split(ijk[1]);
        let (pk, k) = self.axes[2].split(ijk[2]);
        let apart = |a: usize, n: u32| usize::from(n + 1 >= self.page[a] && self.dims[a] != 1) << a;
        (self.place([pi, pj, pk], [i, j, k]), apart(0, i) | apart(1, j) | apart(2, k))
    }

    /// The place of the low corner of `cell`, if all corners of `count` cells along i lie in its page.
    #[inline(always)]
    pub fn row(&self, cell: [u32; 3], count: u32) -> Option<NodeAddress> {
        let (pi, i) = self.axes[0].split(cell[0]);
        let (pj, j) = self.axes[1].split(cell[1]);
        let (pk, k) = self.axes[2].split(cell[2]);
        let inside = count < self.page[0] - i && j + 1 < self.page[1] && k + 1 < self.page[2];
        inside.then(|| self.place([pi, pj, pk], [i, j, k]))
    }

    /// The page of a corner (bit 0 for i, 1 for j, 2 for k) of a cell. `low`: the page of its low corner. `apart`: the
    /// axes along which its corners are apart.
    #[inline(always)]
    pub fn corner_page(&self, low: u64, apart: usize, corner: usize) -> u64 {
        let over = corner & apart;
        let (ni, nj) = (u64::from(self.pages[0]), u64::from(self.pages[1]));
        let (row, plane) = (over >> 1 & 1, over >> 2);
        let rows = (plane as u64).wrapping_mul(nj).wrapping_add(row as u64);
        low.wrapping_add((over & 1) as u64).wrapping_add(rows.wrapping_mul(ni))
    }

    /// Passes to `page` the pages of a cell's corners, each once.
    pub fn pages_of_cell(&self, ijk: [u32; 3], mut page: impl FnMut(u64)) {
        let (low, apart) = self.cell(ijk);
        for corner in (0..8).filter(|c| c & apart == *c) {
            page(self.corner_page(low.page, apart, corner));
        }
    }

    /// Elements from the low corner of a cell to the high one along each axis, each in its own page.
    #[inline(always)]
    pub fn corner_steps(&self, apart: usize) -> [isize; 3] {
        let (row, plane) = self.strides();
        let stride = [1, row, plane];
        core::array::from_fn(|a| {
            let stride = stride[a] as isize;
            match (self.dims[a], apart >> a & 1) {
                (1, _) => 0,
                (_, 0) => stride,
                _ => stride - self.page[a] as isize * stride,
            }
        })
    }

    /// Translates a node.
    #[inline(always)]
    pub fn node(&self, ijk: [u32; 3]) -> NodeAddress {
        let (pi, i) = self.axes[0].split(ijk[0]);
        let (pj, j) = self.axes[1].split(ijk[1]);
        let (pk, k) = self.axes[2].split(ijk[2]);
        self.place([pi, pj, pk], [i, j, k])
    }

    #[inline(always)]
    fn place(&self, p: [u32; 3], o: [u32; 3]) -> NodeAddress {
        NodeAddress { page: self.number(p), element: row_major(o, self.page) as usize }
    }

    /// Number of the page at page coordinates (i, j, k).
    #[inline(always)]
    pub fn number(&self, at: [u32; 3]) -> u64 {
        row_major(at, self.pages)
    }

    /// First point of a page, and its points along i, j, k without padding.
    pub fn extent(&self, page: u64) -> ([u32; 3], [u32; 3]) {
        let (ni, nj) = (u64::from(self.pages[0]), u64::from(self.pages[1]));
        let at = [page % ni, page / ni % nj, page / ni / nj];
        let first = core::array::from_fn(|a| at[a] as u32 * self.page[a]);
        (first, core::array::from_fn(|a| self.page[a].min(self.dims[a].saturating_sub(first[a]))))
    }

    /// Elements from one node to the next in j and in k.
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

/// Row-major number of `n` in a box of `of`. The catalog has checked that all numbers fit.
#[inline(always)]
fn row_major(n: [u32; 3], of: [u32; 3]) -> u64 {
    let rows = u64::from(n[2]).wrapping_mul(u64::from(of[1])).wrapping_add(u64::from(n[1]));
    rows.wrapping_mul(u64::from(of[0])).wrapping_add(u64::from(n[0]))
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
            prop_assert_eq!(got, NodeAddress { page: page as u64, element });
            prop_assert_eq!(t.number(core::array::from_fn(|a| (x[a] / p[a]) as u32)), page as u64);
            let (first, inside) = t.extent(page as u64);
            prop_assert!((0..3).all(|a| (first[a]..first[a] + inside[a]).contains(&(x[a] as u32))));
            let cell = x.map(|v| v as u32);
            let (low, apart) = t.cell(cell);
            prop_assert_eq!(low, got);
            let steps = t.corner_steps(apart);
            for c in 0..8usize {
                // In directions of one point both corners are the same node; the last point begins no cell.
                let node: [u32; 3] = core::array::from_fn(|a| cell[a] + u32::from(c >> a & 1 == 1 && d[a] > 1));
                if (0..3).any(|a| node[a] as usize >= d[a]) {
                    continue;
                }
                let step: isize = (0..3).filter(|a| c >> a & 1 == 1).map(|a| steps[a]).sum();
                let element = low.element as isize + step;
                let page = t.corner_page(low.page, apart, c);
                prop_assert_eq!(t.node(node), NodeAddress { page, element: element as usize });
            }
        }
    }
}

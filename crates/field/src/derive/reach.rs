//! The nodes that a page of derivatives needs, and their pages.

use crate::translate::Translation;

/// A box of nodes along i, j, k.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeReach {
    /// First.
    pub lo: [u32; 3],
    /// One past the last.
    pub hi: [u32; 3],
}

impl NodeReach {
    /// Nodes along each axis.
    pub fn dims(&self) -> [usize; 3] {
        core::array::from_fn(|a| (self.hi[a] - self.lo[a]) as usize)
    }
    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.dims().iter().product()
    }
    /// The intersection of two boxes, if any.
    pub fn meet(&self, other: &Self) -> Option<Self> {
        let lo = core::array::from_fn(|a| self.lo[a].max(other.lo[a]));
        let hi = core::array::from_fn(|a| self.hi[a].min(other.hi[a]));
        (0..3).all(|a| lo[a] < hi[a]).then_some(Self { lo, hi })
    }
    /// Index of a node, i fastest.
    pub fn place(&self, at: [u32; 3]) -> usize {
        let d = self.dims();
        let o: [usize; 3] = core::array::from_fn(|a| (at[a] - self.lo[a]) as usize);
        (o[2] * d[1] + o[1]) * d[0] + o[0]
    }
}

/// The nodes of a page without padding.
pub fn own(t: &Translation, page: u64) -> NodeReach {
    let (lo, dims) = t.extent(page);
    NodeReach { lo, hi: core::array::from_fn(|a| lo[a] + dims[a]) }
}

/// The box around the stencils of a page's nodes: one more node to each side, and two from the zone's first and last
/// nodes.
pub fn around(t: &Translation, own: &NodeReach) -> NodeReach {
    let n = t.dims;
    NodeReach {
        lo: core::array::from_fn(|a| {
            let last = own.hi[a] == n[a];
            own.lo[a].saturating_sub(1).min(if last { n[a].saturating_sub(3) } else { u32::MAX })
        }),
        hi: core::array::from_fn(|a| {
            let first = own.lo[a] == 0;
            (own.hi[a] + 1).max(if first { 3 } else { 0 }).min(n[a])
        }),
    }
}

/// Axes along which a page at the zone's first or last nodes ends before their stencils. An edge collapsed there is
/// evaluated from the next nodes along the axis, whose neighbours lie across a corner.
pub fn short(t: &Translation, own: &NodeReach) -> [bool; 3] {
    let around = around(t, own);
    core::array::from_fn(|a| {
        let (first, last) = (own.lo[a] == 0, own.hi[a] == t.dims[a]);
        (first && own.hi[a] < around.hi[a] && own.hi[a] < 3)
            || (last && own.lo[a] > around.lo[a] && own.hi[a] - own.lo[a] < 3)
    })
}

/// Pages that the stencils of a page's nodes touch, itself first: neighbours along each axis. Pages across a corner
/// only if the page is [`short`].
pub fn star(t: &Translation, page: u64) -> Vec<u64> {
    let own = own(t, page);
    let around = around(t, &own);
    let short = short(t, &own);
    let at: [u32; 3] = core::array::from_fn(|a| own.lo[a] / t.page[a]);
    let along = |a: usize| around.lo[a] / t.page[a]..around.hi[a].div_ceil(t.page[a]);
    let mut pages = vec![page];
    for k in along(2) {
        for j in along(1) {
            for i in along(0) {
                let other = [i, j, k];
                let beside = |a: &usize| other[*a] != at[*a];
                if other != at && (0..3).filter(beside).filter(|a| !short[*a]).count() <= 1 {
                    pages.push(t.number(other));
                }
            }
        }
    }
    pages
}

/// The nodes of another page that the stencils of a page's nodes touch.
pub fn arm(t: &Translation, page: u64, other: u64) -> Option<NodeReach> {
    let mine = own(t, page);
    let reach = around(t, &mine);
    let theirs = own(t, other);
    if page == other {
        return Some(mine);
    }
    // Along axes where the pages coincide: within the page's own nodes.
    let mut arm = mine;
    for a in (0..3).filter(|a| theirs.lo[*a] != mine.lo[*a]) {
        (arm.lo[a], arm.hi[a]) = (reach.lo[a], reach.hi[a]);
    }
    arm.meet(&theirs)
}

/// Upper bounds, over all pages of a zone, of the nodes of [`around`] and the pages of a [`star`].
pub fn largest(t: &Translation) -> (usize, usize) {
    let (mut nodes, mut pages) = (1usize, 1usize);
    for a in 0..3 {
        let (n, p) = (t.dims[a] as usize, t.page[a] as usize);
        nodes = nodes.saturating_mul((p + 2).max(3).min(n));
        // With pages of three nodes only the last page along an axis is short.
        pages = pages.saturating_mul(1 + 2.min(t.pages[a] as usize - 1));
    }
    (nodes, pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: prop::test_runner::RngSeed::Fixed(0x7265_6163), ..ProptestConfig::default() })]
        /// The arms of a star hold every node that a stencil may touch, each once, and no page is superfluous.
        #[test]
        fn stars_hold_the_stencils(d in prop::array::uniform3(1usize..14), p in prop::array::uniform3(1usize..6)) {
            let t = Translation::new(d, p);
            let (most_nodes, most_pages) = largest(&t);
            // Ends of axes with possibly collapsed edges: the next two nodes along the axis, with the nodes of their
            // differences.
            let steps = |n: u32, count: u32| -> &'static [i64] { if n == 0 { &[0, 1, 2] } else if n + 1 == count { &[0, -1, -2] } else { &[-1, 0, 1] } };
            for page in 0..t.count() {
                let mine = own(&t, page);
                let reach = around(&t, &mine);
                let star = star(&t, page);
                prop_assert!(reach.count() <= most_nodes && star.len() <= most_pages, "{:?} {} {}", star, most_pages, page);
                let mut held = std::collections::HashMap::new();
                for other in &star {
                    let arm = arm(&t, page, *other);
                    prop_assert!(arm.is_some());
                    let Some(arm) = arm else { continue };
                    prop_assert!(arm.meet(&reach) == Some(arm));
                    for k in arm.lo[2]..arm.hi[2] { for j in arm.lo[1]..arm.hi[1] { for i in arm.lo[0]..arm.hi[0] {
                        prop_assert!(held.insert([i, j, k], *other).is_none());
                        prop_assert_eq!(t.node([i, j, k]).page, *other);
                    }}}
                }
                for k in mine.lo[2]..mine.hi[2] { for j in mine.lo[1]..mine.hi[1] { for i in mine.lo[0]..mine.hi[0] {
                    for a in 0..3 {
                        let n = [i, j, k];
                        let steps: &[i64] = if n[a] == 0 { &[0, 1, 2] } else if n[a] + 1 == t.dims[a] { &[0, -1, -2] } else { &[-1, 0, 1] };
                        for s in steps {
                            let to = i64::from(n[a]) + s;
                            if to < 0 || to >= i64::from(t.dims[a]) { continue; }
                            let mut node = n;
                            node[a] = to as u32;
                            prop_assert!(held.contains_key(&node), "{:?} of {:?}", node, n);
                        }
                    }
                    let n = [i, j, k];
                    let ends: [bool; 3] = core::array::from_fn(|a| n[a] == 0 || n[a] + 1 == t.dims[a]);
                    for a in 0..3 { for chosen in 1..8usize {
                        // Along those axes, except that of the edge, the node is at an end.
                        if chosen >> a & 1 == 1 || (0..3).any(|b| chosen >> b & 1 == 1 && !ends[b]) { continue; }
                        let along = |b: usize| if b == a || chosen >> b & 1 == 1 { steps(n[b], t.dims[b]) } else { &[0] };
                        for si in along(0) { for sj in along(1) { for sk in along(2) {
                            let to = [i64::from(i) + si, i64::from(j) + sj, i64::from(k) + sk];
                            if (0..3).any(|b| to[b] < 0 || to[b] >= i64::from(t.dims[b])) { continue; }
                            prop_assert!(held.contains_key(&to.map(|m| m as u32)), "{:?} of {:?}", to, n);
                        }}}
                    }}
                }}}
            }
        }
    }
}

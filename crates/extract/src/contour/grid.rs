//! The grid of a surface, as the tasks of a run use it: a zone, or a level of a volume.

use field::translate::Translation;
use field::volume::Placement;
use kernels::surface::{without_cells, without_corners, Level, NodePositions, NodeSet, Normals, Signs, VertexInputs};
use pager::{ArrayId, Lookup, PageError, PageId, Worker};

/// A box of nodes or cells of a zone: the first, and the one past the last.
pub(crate) type IndexBox = [[u32; 3]; 2];

/// The intersection of two boxes; `None` if it is empty.
pub(crate) fn meet(a: IndexBox, b: IndexBox) -> Option<IndexBox> {
    let lo: [u32; 3] = core::array::from_fn(|n| a[0][n].max(b[0][n]));
    let hi: [u32; 3] = core::array::from_fn(|n| a[1][n].min(b[1][n]));
    (0..3).all(|n| lo[n] < hi[n]).then_some([lo, hi])
}

/// Arrays with the same pages, which are read together.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// The division into pages.
    pub translation: Translation,
    /// The arrays and their steps, each once.
    pub arrays: Vec<(ArrayId, u32)>,
    /// Bytes of a page of each, together.
    pub bytes: u64,
    /// Additional bytes while one of them is derived.
    pub making: u64,
}

impl Reads {
    /// The nodes of a page.
    pub fn nodes(&self, page: u64) -> IndexBox {
        let (first, inside) = self.translation.extent(page);
        [first, core::array::from_fn(|a| first[a] + inside[a])]
    }

    /// Adds the pages with nodes in a box to `pages`.
    pub fn pages_of(&self, nodes: IndexBox, pages: &mut Vec<u64>) {
        let t = &self.translation;
        let lo: [u32; 3] = core::array::from_fn(|a| nodes[0][a] / t.page[a]);
        let hi: [u32; 3] = core::array::from_fn(|a| (nodes[1][a] - 1) / t.page[a] + 1);
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                pages.extend((lo[0]..hi[0]).map(|i| t.number([i, j, k])));
            }
        }
    }

    /// The pages of the arrays.
    pub fn ids(&self, page: u64) -> impl Iterator<Item = PageId> + '_ {
        self.arrays.iter().map(move |(array, step)| PageId::new(*array, *step, page))
    }

    /// Looks up a page of each array.
    pub fn look<'w>(&self, worker: &'w Worker, page: u64, missing: &mut Vec<PageId>) -> PageLookup<'w> {
        let mut here: Vec<&[u8]> = Vec::with_capacity(self.arrays.len());
        let before = missing.len();
        for id in self.ids(page) {
            match worker.page(id) {
                Lookup::Here(bytes) => here.push(bytes),
                Lookup::Absent => missing.push(id),
                Lookup::Failed(e) => {
                    missing.truncate(before);
                    return PageLookup::Failed(id, e);
                }
            }
        }
        if missing.len() > before {
            PageLookup::Absent
        } else {
            PageLookup::Here(here)
        }
    }
}

/// The result of a lookup of a page of several arrays.
pub(crate) enum PageLookup<'w> {
    /// All are resident, in the order of the arrays.
    Here(Vec<&'w [u8]>),
    /// Some are absent; they are listed.
    Absent,
    /// One is unreadable.
    Failed(PageId, PageError),
}

/// The cells of a block that may be crossed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Candidates {
    /// All of them, as far as known.
    All,
    /// Those in these boxes, which do not overlap.
    In(Vec<IndexBox>),
}

/// The first pass over a block: a bit a node for each of the values.
#[derive(Clone, Debug)]
pub(crate) struct BlockSigns {
    /// First node of the block.
    pub origin: [u32; 3],
    /// Inner nodes, by value.
    pub inside: Vec<Signs>,
    /// Unusable nodes.
    pub bad: Option<Signs>,
    /// Low corners of blanked-out cells.
    pub hidden: Option<Signs>,
    /// Nodes on a plane.
    pub hits: Option<Signs>,
}

impl BlockSigns {
    /// All bits unset.
    pub fn new(origin: [u32; 3], nodes: [u32; 3], values: usize, plane: bool) -> Self {
        let none = Signs::new(nodes.map(|n| n as usize));
        Self { origin, inside: vec![none.clone(); values], bad: None, hidden: None, hits: plane.then_some(none) }
    }

    /// As [`Self::new`] for as many values, in the same memory.
    pub fn clear(&mut self, origin: [u32; 3], nodes: [u32; 3]) {
        let nodes = nodes.map(|n| n as usize);
        self.origin = origin;
        self.inside.iter_mut().chain(&mut self.hits).for_each(|s| s.clear(nodes));
        (self.bad, self.hidden) = (None, None);
    }

    /// Bytes of one.
    pub fn bytes(nodes: [u32; 3], values: usize) -> usize {
        // One more for unusable nodes, one for unusable cells, one for a plane.
        Signs::bytes(nodes.map(|n| n as usize)) * (values + 3)
    }

    /// A node's place in the block.
    #[inline(always)]
    pub fn place(&self, node: [u32; 3]) -> [usize; 3] {
        core::array::from_fn(|a| (node[a] - self.origin[a]) as usize)
    }

    /// The nodes of the block.
    pub fn nodes(&self) -> IndexBox {
        let n = self.inside.first().map_or([1; 3], Signs::nodes);
        [self.origin, core::array::from_fn(|a| self.origin[a] + n[a] as u32)]
    }

    /// Marks nodes from this one on along i, a bit each, as unusable.
    pub fn add_bad(&mut self, node: [u32; 3], bits: u64) {
        if bits != 0 {
            let [i, j, k] = self.place(node);
            let nodes = self.inside.first().map_or([2; 3], Signs::nodes);
            self.bad.get_or_insert_with(|| Signs::new(nodes)).set(i, j, k, bits);
        }
    }

    /// Marks the cells with low corners from this node on along i, a bit each, as blanked out.
    pub fn add_hidden(&mut self, node: [u32; 3], bits: u64) {
        if bits != 0 {
            let [i, j, k] = self.place(node);
            let nodes = self.inside.first().map_or([2; 3], Signs::nodes);
            self.hidden.get_or_insert_with(|| Signs::new(nodes)).set(i, j, k, bits);
        }
    }

    /// Removes unusable cells, a word a row.
    pub fn take_away(&self, usable: &mut [u64]) {
        if let Some(bad) = &self.bad {
            without_corners(bad, usable);
        }
        if let Some(hidden) = &self.hidden {
            without_cells(hidden, usable);
        }
    }

    /// Whether a node is unusable.
    pub fn is_bad(&self, node: [u32; 3]) -> bool {
        self.bad.as_ref().is_some_and(|bad| bad.get(self.place(node)))
    }

    /// Marks all nodes in a box as unusable.
    pub fn add_bad_box(&mut self, nodes: IndexBox) {
        let Some([lo, hi]) = meet(nodes, self.nodes()) else { return };
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                (lo[0]..hi[0]).for_each(|i| self.add_bad([i, j, k], 1));
            }
        }
    }
}

/// A zone, or a level of a volume, with surfaces.
pub(crate) trait Grid: Send + Sync {
    /// Number of the zone.
    fn zone(&self) -> usize;
    /// Nodes along i, j, k; at least 2 each.
    fn dims(&self) -> [u32; 3];
    /// Number of values; 1 for a plane.
    fn values(&self) -> usize;
    /// Whether the surface is a plane.
    fn is_plane(&self) -> bool;
    /// Whether positions are in double precision.
    fn is_double(&self) -> bool;
    /// The cells in a box that may be crossed. `None`: pages for the answer are absent, and listed. It reads nothing
    /// else.
    fn candidates(&self, worker: &Worker, cells: IndexBox, missing: &mut Vec<PageId>) -> Option<Candidates>;
    /// The reads of the first pass; `None` if signs follow from indices alone.
    fn sign_reads(&self) -> Option<&Reads>;
    /// Sets in `out` the signs of the nodes of a box in one page. Without pages: of all of them.
    fn signs(&self, pages: &[&[u8]], page: u64, nodes: IndexBox, out: &mut BlockSigns);
    /// The reads of vertices.
    fn value_reads(&self) -> &[Reads];
    /// Columns of values of needed nodes.
    fn columns(&self) -> usize;
    /// Stores values of the needed nodes in one page of a read of [`Grid::value_reads`], `[column][node]`.
    fn take(&self, read: usize, pages: &[&[u8]], page: u64, needed: &NodeSet, values: &mut [f64]);
    /// Passes on needed nodes that are unusable by their values.
    fn unusable(&self, _needed: &NodeSet, _values: &[f64], _each: &mut dyn FnMut([u32; 3])) {}
    /// Positions of nodes.
    fn shape(&self) -> NodePositions<'_>;
    /// The level of a value's number.
    fn level(&self, value: usize) -> Level;
    /// The source of normals, if any.
    fn normals(&self) -> Normals;
    /// Columns of the fields.
    fn fields(&self) -> &[[usize; 2]];
    /// Whether i, j and k are left-handed in space; `None`: the block's points decide.
    fn turned(&self) -> Option<bool>;

    /// The input for vertices of a block.
    fn ends<'a>(&'a self, origin: [u32; 3], value: usize, needed: &'a NodeSet, values: &'a [f64]) -> VertexInputs<'a> {
        VertexInputs {
            origin,
            dims: self.dims(),
            needed,
            values,
            shape: self.shape(),
            level: self.level(value),
            fields: self.fields(),
            normals: self.normals(),
        }
    }
}

/// Numbers of a frame in their own type. Unaligned bytes at the ends are omitted; frames are aligned.
pub(crate) fn numbers<T: field::volume::Voxel>(bytes: &[u8]) -> &[T] {
    // SAFETY: voxels are plain numbers, for which all bit patterns are valid.
    let (before, numbers, _) = unsafe { bytes.align_to::<T>() };
    debug_assert!(before.is_empty(), "frames are aligned");
    numbers
}

/// Whether i, j and k of a regular grid are left-handed.
pub(crate) fn is_left_handed(p: &Placement) -> bool {
    let [a, b, c] = p.axes;
    let cross = [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
    a[0] * cross[0] + a[1] * cross[1] + a[2] * cross[2] < 0.0
}

//! What a surface is taken of: a zone or a level of a volume, as the tasks of a run see it.

use field::translate::Translation;
use field::volume::Placement;
use kernels::surface::{without_cells, without_corners, Level, Needed, NodePositions, Normals, Signs, VertexInputs};
use pager::{ArrayId, Lookup, PageError, PageId, Worker};

/// A box of nodes or cells of a zone: the first, and the one past the last.
pub(crate) type IndexBox = [[u32; 3]; 2];

/// What two boxes have in common; `None` where that is nothing.
pub(crate) fn meet(a: IndexBox, b: IndexBox) -> Option<IndexBox> {
    let lo: [u32; 3] = core::array::from_fn(|n| a[0][n].max(b[0][n]));
    let hi: [u32; 3] = core::array::from_fn(|n| a[1][n].min(b[1][n]));
    (0..3).all(|n| lo[n] < hi[n]).then_some([lo, hi])
}

/// Arrays that are cut in the same pages and read together.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// The cut.
    pub translation: Translation,
    /// The arrays and their steps, each once.
    pub arrays: Vec<(ArrayId, u32)>,
    /// Bytes of a page of each, together.
    pub bytes: u64,
    /// Bytes that making one of them takes beside it, where one is made of others.
    pub making: u64,
}

impl Reads {
    /// The nodes of a page.
    pub fn nodes(&self, page: u64) -> IndexBox {
        let (first, inside) = self.translation.extent(page);
        [first, core::array::from_fn(|a| first[a] + inside[a])]
    }

    /// Adds the pages that have nodes in a box to `pages`.
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

    /// Looks a page of each array up.
    pub fn look<'w>(&self, worker: &'w Worker, page: u64, missing: &mut Vec<PageId>) -> Looked<'w> {
        let mut here: Vec<&[u8]> = Vec::with_capacity(self.arrays.len());
        let before = missing.len();
        for id in self.ids(page) {
            match worker.page(id) {
                Lookup::Here(bytes) => here.push(bytes),
                Lookup::Absent => missing.push(id),
                Lookup::Failed(e) => {
                    missing.truncate(before);
                    return Looked::Failed(id, e);
                }
            }
        }
        if missing.len() > before {
            Looked::Absent
        } else {
            Looked::Here(here)
        }
    }
}

/// What comes of a look at a page of several arrays.
pub(crate) enum Looked<'w> {
    /// All are here, in the order of the arrays.
    Here(Vec<&'w [u8]>),
    /// Some are absent; they are listed.
    Absent,
    /// One cannot be had.
    Failed(PageId, PageError),
}

/// Which cells of a block may be crossed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Candidates {
    /// All of them, as far as anybody knows.
    All,
    /// Those in these boxes, which do not overlap.
    In(Vec<IndexBox>),
}

/// The first look at a block: a bit a node for each of the values.
#[derive(Clone, Debug)]
pub(crate) struct BlockSigns {
    /// First node of the block.
    pub origin: [u32; 3],
    /// Nodes that are inside, by value.
    pub inside: Vec<Signs>,
    /// Nodes that cannot be used.
    pub bad: Option<Signs>,
    /// Low corners of cells that are blanked out.
    pub hidden: Option<Signs>,
    /// Nodes on a plane.
    pub hits: Option<Signs>,
}

impl BlockSigns {
    /// Nothing known yet.
    pub fn new(origin: [u32; 3], nodes: [u32; 3], values: usize, plane: bool) -> Self {
        let none = Signs::new(nodes.map(|n| n as usize));
        Self { origin, inside: vec![none.clone(); values], bad: None, hidden: None, hits: plane.then_some(none) }
    }

    /// As [`Self::new`] of as many values, in the same memory.
    pub fn clear(&mut self, origin: [u32; 3], nodes: [u32; 3]) {
        let nodes = nodes.map(|n| n as usize);
        self.origin = origin;
        self.inside.iter_mut().chain(&mut self.hits).for_each(|s| s.clear(nodes));
        (self.bad, self.hidden) = (None, None);
    }

    /// Bytes that one takes.
    pub fn bytes(nodes: [u32; 3], values: usize) -> usize {
        // One more for nodes that cannot be used, one for cells that cannot, one for a plane.
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

    /// Nodes from this one on along i, a bit each, cannot be used.
    pub fn add_bad(&mut self, node: [u32; 3], bits: u64) {
        if bits != 0 {
            let [i, j, k] = self.place(node);
            let nodes = self.inside.first().map_or([2; 3], Signs::nodes);
            self.bad.get_or_insert_with(|| Signs::new(nodes)).set(i, j, k, bits);
        }
    }

    /// The cells of which nodes from this one on along i, a bit each, are the low corners are blanked out.
    pub fn add_hidden(&mut self, node: [u32; 3], bits: u64) {
        if bits != 0 {
            let [i, j, k] = self.place(node);
            let nodes = self.inside.first().map_or([2; 3], Signs::nodes);
            self.hidden.get_or_insert_with(|| Signs::new(nodes)).set(i, j, k, bits);
        }
    }

    /// Takes away cells that cannot be used, a word a row.
    pub fn take_away(&self, usable: &mut [u64]) {
        if let Some(bad) = &self.bad {
            without_corners(bad, usable);
        }
        if let Some(hidden) = &self.hidden {
            without_cells(hidden, usable);
        }
    }

    /// Whether a node cannot be used.
    pub fn is_bad(&self, node: [u32; 3]) -> bool {
        self.bad.as_ref().is_some_and(|bad| bad.get(self.place(node)))
    }

    /// None of the nodes in a box can be used.
    pub fn add_bad_box(&mut self, nodes: IndexBox) {
        let Some([lo, hi]) = meet(nodes, self.nodes()) else { return };
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                (lo[0]..hi[0]).for_each(|i| self.add_bad([i, j, k], 1));
            }
        }
    }
}

/// A zone, or a level of a volume, of which surfaces are taken.
pub(crate) trait Grid: Send + Sync {
    /// Number of the zone.
    fn zone(&self) -> usize;
    /// Nodes along i, j, k; at least 2 each.
    fn dims(&self) -> [u32; 3];
    /// How many values are looked for; 1 for a plane.
    fn values(&self) -> usize;
    /// Whether it is a plane that is looked for.
    fn is_plane(&self) -> bool;
    /// Whether positions are in double precision.
    fn is_double(&self) -> bool;
    /// Which cells in a box may be crossed, or what has to be here to say so. Nothing of what the answer rests on is read otherwise.
    fn candidates(&self, worker: &Worker, cells: IndexBox, missing: &mut Vec<PageId>) -> Option<Candidates>;
    /// What the first look takes; `None` where signs follow from indices alone.
    fn sign_reads(&self) -> Option<&Reads>;
    /// Signs of the nodes of a box that lie in one page, out of it. Without pages: of all of them.
    fn signs(&self, pages: &[&[u8]], page: u64, nodes: IndexBox, out: &mut BlockSigns);
    /// What vertices take.
    fn value_reads(&self) -> &[Reads];
    /// Columns of values of needed nodes.
    fn columns(&self) -> usize;
    /// Values of the needed nodes in one page of what [`Grid::value_reads`] says, `[column][node]`.
    fn take(&self, read: usize, pages: &[&[u8]], page: u64, needed: &Needed, values: &mut [f64]);
    /// Tells of needed nodes that cannot be used after all, out of their values.
    fn unusable(&self, _needed: &Needed, _values: &[f64], _each: &mut dyn FnMut([u32; 3])) {}
    /// Where nodes are.
    fn shape(&self) -> NodePositions<'_>;
    /// What is looked for, by number.
    fn level(&self, value: usize) -> Level;
    /// Whether normals are made, and of what.
    fn normals(&self) -> Normals;
    /// Columns of the fields.
    fn fields(&self) -> &[[usize; 2]];
    /// Whether i, j and k are left-handed in space; `None`: the block's points say it.
    fn turned(&self) -> Option<bool>;

    /// What vertices of a block are made of.
    fn ends<'a>(&'a self, origin: [u32; 3], value: usize, needed: &'a Needed, values: &'a [f64]) -> VertexInputs<'a> {
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

/// Numbers of a frame in their own type. What does not lie on their boundary, or does not fill one, is left out; frames are aligned.
pub(crate) fn numbers<T: field::volume::Voxel>(bytes: &[u8]) -> &[T] {
    // SAFETY: voxels are plain numbers, for which every pattern of bits is one.
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

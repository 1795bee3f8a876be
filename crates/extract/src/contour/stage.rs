//! The stages of a block, with the pages that they read.

use super::context::Context;
use super::grid::{meet, BlockSigns, Candidates, Grid, Reads};
use super::sink::BlockSurface;
use kernels::surface::{BlockMesh, Edge, NodeSet, Normals, Vertices};
use pager::{PageId, Worker};

/// Signs of a block's nodes, and its cells that may be crossed.
pub(crate) struct SignedCells {
    pub(crate) signs: Box<BlockSigns>,
    pub(crate) candidates: Candidates,
}

/// The signs of a block, read page by page.
pub(crate) struct SignReading {
    pub(crate) pages: Vec<u64>,
    /// Pages before it are done.
    pub(crate) next: usize,
    pub(crate) cells: SignedCells,
}

/// The values of the needed nodes of a block, read page by page.
pub(crate) struct ValueReading {
    /// Numbers of reads, and their pages.
    pub(crate) units: Vec<(u32, u64)>,
    /// Units before it are done.
    pub(crate) next: usize,
    pub(crate) cells: SignedCells,
    pub(crate) meshes: Vec<BlockMesh>,
    pub(crate) needed: NodeSet,
    pub(crate) values: Vec<f64>,
}

pub(crate) enum BlockStage {
    Fresh,
    Signs(SignReading),
    /// Vertices and triangles are next.
    Shape {
        cells: SignedCells,
        /// Most vertices and triangles of each value.
        at_most: Vec<[usize; 2]>,
    },
    Values(ValueReading),
    Made(Vec<BlockSurface>),
}

impl BlockStage {
    /// Bytes of it, for a block of `nodes`, without signs.
    pub(crate) fn bytes(&self, nodes: [u32; 3], grid: &dyn Grid) -> usize {
        match self {
            Self::Fresh => 0,
            Self::Signs(reading) => reading.pages.capacity() * 8,
            Self::Shape { at_most, .. } => {
                let of = |[edges, triangles]: &[usize; 2]| {
                    edges * (size_of::<Edge>() + vertex_bytes(grid)) + triangles * size_of::<[u32; 3]>()
                };
                at_most.iter().map(of).sum::<usize>() + NodeSet::bytes(nodes.map(|n| n + 2))
            }
            Self::Values(reading) => reading.bytes(grid),
            Self::Made(made) => made.iter().map(BlockSurface::bytes).sum(),
        }
    }
}

impl ValueReading {
    fn bytes(&self, grid: &dyn Grid) -> usize {
        let [lo, hi] = self.needed.bounds();
        let vertices = self.meshes.iter().map(|m| m.edges.len() * vertex_bytes(grid));
        self.units.capacity() * 16
            + self.meshes.iter().map(BlockMesh::bytes).sum::<usize>()
            + NodeSet::bytes(core::array::from_fn(|a| hi[a] - lo[a]))
            + self.needed.count() * grid.columns() * 8
            + vertices.sum::<usize>()
    }

    /// Marks nodes that are unusable by their values. Whether there are new ones.
    pub(crate) fn add_unusable(&mut self, grid: &dyn Grid) -> bool {
        let (signs, mut lost) = (&mut self.cells.signs, false);
        grid.unusable(&self.needed, &self.values, &mut |node| {
            if let Some([node, _]) = meet([node, node.map(|n| n + 1)], signs.nodes()) {
                lost |= !signs.is_bad(node);
                signs.add_bad(node, 1);
            }
        });
        lost
    }

    /// The surfaces of a block with this first node, once all values are read.
    pub(crate) fn surfaces(self, grid: &dyn Grid, origin: [u32; 3], c: &mut Context) -> Vec<BlockSurface> {
        let Self { units, cells, meshes, needed, values, .. } = self;
        drop((cells.candidates, units));
        c.keep_signs(*cells.signs);
        let made = meshes.into_iter().enumerate();
        let made = made.filter(|(_, m)| !m.edges.is_empty());
        let made = made.map(|(v, m)| surface_of(grid, origin, v, m, &needed, &values)).collect();
        c.keep_needed(needed);
        made
    }
}

/// The result of a step.
pub(crate) enum Stepped {
    Done,
    Again,
    /// Pages are missing.
    Need,
}

/// The pages that a step may use, and those that it lacks.
pub(crate) struct StepPages<'m> {
    /// Bytes that a step requests or uses together.
    pub(crate) at_once: u64,
    pub(crate) missing: &'m mut Vec<PageId>,
}

impl StepPages<'_> {
    /// The result of a step at a page: progress, or the missing pages.
    pub(crate) fn progress(&mut self, moved: bool) -> Stepped {
        if moved {
            self.missing.clear();
            return Stepped::Again;
        }
        if self.missing.is_empty() {
            Stepped::Again
        } else {
            Stepped::Need
        }
    }

    /// Lists the absent pages of the next reads too, so that they are read together.
    pub(crate) fn ask_for<'r>(&mut self, worker: &Worker, first: u64, more: impl Iterator<Item = (&'r Reads, u64)>) {
        let mut bytes = first;
        for (reads, page) in more {
            bytes += reads.bytes;
            if bytes > self.at_once {
                return;
            }
            // An unreadable page is reported at its turn.
            let _looked = reads.look(worker, page, self.missing);
        }
    }
}

/// Bytes of a vertex of a surface.
fn vertex_bytes(grid: &dyn Grid) -> usize {
    let points = 3 * if grid.is_double() { size_of::<f64>() } else { size_of::<f32>() };
    let normals = if matches!(grid.normals(), Normals::None) { 0 } else { 3 };
    let fields: usize = grid.fields().iter().map(|[from, to]| to - from).sum();
    points + (normals + fields) * size_of::<f32>()
}

/// Computes the vertices of one value's mesh.
fn surface_of(
    grid: &dyn Grid,
    origin: [u32; 3],
    value: usize,
    mut mesh: BlockMesh,
    needed: &NodeSet,
    values: &[f64],
) -> BlockSurface {
    let ends = grid.ends(origin, value, needed, values);
    let normals = !matches!(grid.normals(), Normals::None);
    let mut vertices = Vertices::empty(grid.is_double(), normals, grid.fields().len());
    ends.add(&mesh.edges, &mut vertices);
    if grid.turned().unwrap_or_else(|| ends.turned(&mesh, &vertices.points)) {
        mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
    }
    if grid.turned().is_none() {
        // Collapsed cells: triangles without area are omitted. They leave no gap, since their corners coincide.
        let same = |a: u32, b: u32| vertices.points.get(a as usize) == vertices.points.get(b as usize);
        let flat: Vec<bool> =
            mesh.triangles.iter().map(|t| same(t[0], t[1]) || same(t[1], t[2]) || same(t[2], t[0])).collect();
        if flat.contains(&true) {
            let used = mesh.retain(|n| !flat[n]);
            vertices.retain(&used);
        }
    }
    BlockSurface { value, edges: mesh.edges, triangles: mesh.triangles, vertices }
}

//! Triangles of surfaces, gathered piece by piece.

use super::geometry_log::{floats, positions, Arena, Range};
use crate::picture::{Aabb, BoxFilter, Chunk, Geometry, GeometryError, Mesh, Positions};
use field::error::FieldError;
use glam::DVec3;
use output::ByteLog;

/// Most triangles of a block: some hundred kilobytes to read for a band that touches its box.
const BLOCK_TRIANGLES: usize = 4096;

/// A block of triangles in the log: points, normals, values, triangles.
struct TriangleBlock {
    bounds: Aabb,
    offset: u64,
    points: u32,
    triangles: u32,
}

/// Triangles in an arena.
pub(crate) struct MeshStore {
    blocks: Vec<TriangleBlock>,
    coloured: bool,
    shaded: bool,
    pub(crate) bounds: Aabb,
    pub(crate) range: Range,
    pub(crate) triangles: u64,
}

/// Builds a surface of triangles.
pub(crate) struct MeshBuilder<'a> {
    arena: &'a mut Arena,
    store: MeshStore,
}

impl<'a> MeshBuilder<'a> {
    /// No triangles yet. `coloured`: every point has a value; `shaded`: every point has a normal.
    pub(crate) fn new(arena: &'a mut Arena, coloured: bool, shaded: bool) -> Self {
        let (bounds, range) = (Aabb::EMPTY, Range::EMPTY);
        Self { arena, store: MeshStore { blocks: Vec::new(), coloured, shaded, bounds, range, triangles: 0 } }
    }

    /// Adds a piece of the surface. `corner` gives position, normal and value of a point by its number. `scratch` holds
    /// the numbers of one block's points, and is empty between calls.
    pub(crate) fn piece(
        &mut self,
        triangles: &[[u64; 3]],
        corner: &mut dyn FnMut(u64) -> ([f64; 3], [f32; 3], f32),
    ) -> Result<(), FieldError> {
        for part in triangles.chunks(BLOCK_TRIANGLES) {
            self.block(part, corner)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        triangles: &[[u64; 3]],
        corner: &mut dyn FnMut(u64) -> ([f64; 3], [f32; 3], f32),
    ) -> Result<(), FieldError> {
        // Each block numbers its points anew, so that it is drawn by itself.
        let mut numbers: Vec<u64> = triangles.iter().flatten().copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut bounds = Aabb::EMPTY;
        let corners: Vec<_> = numbers.iter().map(|n| corner(*n)).collect();
        self.arena.charge_entry(size_of::<TriangleBlock>())?;
        let store = &mut self.store;
        let offset = self.arena.append_in_parts(|put| {
            for (p, _, _) in &corners {
                bounds.include(DVec3::from_array(*p));
                p.iter().try_for_each(|c| put(&c.to_ne_bytes()))?;
            }
            if store.shaded {
                corners.iter().flat_map(|c| c.1).try_for_each(|c| put(&c.to_ne_bytes()))?;
            }
            if store.coloured {
                for (_, _, value) in &corners {
                    store.range.include(f64::from(*value));
                    put(&value.to_ne_bytes())?;
                }
            }
            for number in triangles.iter().flatten() {
                let at = numbers.binary_search(number).unwrap_or(0) as u32;
                put(&at.to_ne_bytes())?;
            }
            Ok(())
        })?;
        let (points, count) = (numbers.len() as u32, triangles.len() as u32);
        self.store.blocks.push(TriangleBlock { bounds, offset, points, triangles: count });
        self.store.bounds = self.store.bounds.union(&bounds);
        self.store.triangles += u64::from(count);
        Ok(())
    }

    pub(crate) fn finish(self) -> MeshStore {
        self.store
    }
}

impl TriangleBlock {
    /// Bytes in the log.
    fn bytes(&self, shaded: bool, coloured: bool) -> usize {
        let point = 24 + 12 * usize::from(shaded) + 4 * usize::from(coloured);
        self.points as usize * point + self.triangles as usize * 12
    }
}

/// A surface as geometry for the renderer.
pub(crate) struct TriangleLayer<'a> {
    pub(crate) log: &'a ByteLog,
    pub(crate) mesh: &'a MeshStore,
}

impl Geometry for TriangleLayer<'_> {
    fn bounds(&self) -> Aabb {
        self.mesh.bounds
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        let m = self.mesh;
        let (mut bytes, mut points, mut normals, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut triangles: Vec<[u32; 3]> = Vec::new();
        for block in &m.blocks {
            if !block.bounds.is_empty() && !wanted(&block.bounds) {
                continue;
            }
            bytes.resize(block.bytes(m.shaded, m.coloured), 0);
            self.log.read_at(block.offset, &mut bytes)?;
            let n = block.points as usize;
            let (place, rest) = bytes.split_at(n * 24);
            let (normal, rest) = rest.split_at(if m.shaded { n * 12 } else { 0 });
            let (value, corners) = rest.split_at(if m.coloured { n * 4 } else { 0 });
            points.clear();
            positions(place, &mut points);
            let three = |b: &[u8]| [word(b), word(&b[4..]), word(&b[8..])];
            normals.clear();
            normals.extend(normal.chunks_exact(12).map(|b| three(b).map(f32::from_bits)));
            values.clear();
            floats(value, &mut values);
            triangles.clear();
            triangles.extend(corners.chunks_exact(12).map(three));
            visit(Chunk::Mesh(Mesh {
                points: Positions::F64(&points),
                normals: m.shaded.then_some(&normals[..]),
                scalars: m.coloured.then_some(&values[..]),
                triangles: &triangles,
            }));
        }
        Ok(())
    }
}

fn word(b: &[u8]) -> u32 {
    u32::from_ne_bytes([b[0], b[1], b[2], b[3]])
}

//! The source of a conversion's voxels.

use field::catalog::ReadCounter;
use field::error::FieldError;
use field::volume::{VolumeSpec, VoxelType};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A volume that is readable box by box. A *group* is a channel, or all components of a colour.
pub trait VoxelRows: Send + Sync {
    /// Fills `out` with the voxels `[i, j, k]` of a group at a step: `[k][j][i][component]`, native byte order.
    ///
    /// # Errors
    /// Names the file and the fault.
    fn read_box(&self, step: usize, group: usize, points: &[Range<usize>; 3], out: &mut [u8])
        -> Result<(), FieldError>;

    /// Its reads so far.
    fn tally(&self) -> &ReadCounter;
}

/// A volume to convert.
#[derive(Clone)]
pub struct VolumeInput {
    /// Its voxels.
    pub rows: Arc<dyn VoxelRows>,
    /// Its description. Only its first level is used, without the arrays.
    pub spec: VolumeSpec,
    /// The type of voxels.
    pub voxel: VoxelType,
    /// Its files. If one of them changes, unfinished work is not used.
    pub files: Vec<PathBuf>,
    /// Folders of files that are too many to be named one by one, with the same rule.
    pub folders: Vec<PathBuf>,
}

/// Runs of bytes that are contiguous both in a box and in the whole, with `voxel` bytes a voxel. Gives the places in
/// the whole and in the box, and the length.
pub(super) fn runs(
    dims: [usize; 3],
    voxel: usize,
    points: &[Range<usize>; 3],
) -> impl Iterator<Item = (u64, Range<usize>)> {
    let [ni, nj, nk] = [points[0].len(), points[1].len(), points[2].len()];
    let (row, plane) = (ni * voxel, ni * nj * voxel);
    // Whole rows and planes are joined.
    let (count, len) = match (ni == dims[0], nj == dims[1]) {
        (true, true) => ([1, 1], plane * nk),
        (true, false) => ([1, nk], plane),
        (false, _) => ([nj, nk], row),
    };
    let (low, dims) = (points.clone().map(|p| p.start as u64), dims.map(|n| n as u64));
    (0..count[1]).flat_map(move |k| (0..count[0]).map(move |j| (j, k))).enumerate().map(move |(n, (j, k))| {
        let first = ((low[2] + k as u64) * dims[1] + low[1] + j as u64) * dims[0] + low[0];
        (first * voxel as u64, n * len..(n + 1) * len)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        let dims = [5, 4, 3];
        let whole: Vec<u8> = (0..120).collect();
        for (points, count) in
            [([0..5, 0..4, 1..3], 1), ([0..5, 1..3, 0..3], 3), ([1..4, 0..4, 0..2], 8), ([4..5, 3..4, 2..3], 1)]
        {
            let mut found = Vec::new();
            let mut n = 0;
            for (at, part) in runs(dims, 2, &points) {
                assert_eq!(part.start, found.len());
                found.extend_from_slice(&whole[at as usize..at as usize + part.len()]);
                n += 1;
            }
            assert_eq!(n, count, "{points:?}");
            let mut want = Vec::new();
            for k in points[2].clone() {
                for j in points[1].clone() {
                    want.extend(points[0].clone().flat_map(|i| [0, 1].map(|b| (((k * 4 + j) * 5 + i) * 2 + b) as u8)));
                }
            }
            assert_eq!(found, want);
        }
    }
}

//! Numbering, chunks and strides of an array's elements, always in the order x, y, z, c, t.

use super::chain::Element;
use super::images::ImageShape;
use super::spec::{ArraySpec, Fill, PlaceSpec};
use super::voxel::{Voxel, VoxelType};
use crate::with_voxel;

/// Indices of x, y, z, c and t in all arrays below.
pub(super) const X: usize = 0;
pub(super) const Y: usize = 1;
pub(super) const Z: usize = 2;
pub(super) const C: usize = 3;
pub(super) const T: usize = 4;

/// Most bytes of a chunk, decoded.
const MOST_CHUNK: u64 = 1 << 31;

/// The type of stored elements.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredElement {
    /// Their type in memory.
    pub(super) voxel: VoxelType,
    /// `float16`, which is `float32` in memory.
    pub(super) half: bool,
    pub(super) big: bool,
}

impl StoredElement {
    pub(super) fn parse(dtype: &str, big: bool) -> Option<Self> {
        Some(match dtype {
            "bool" => Self { voxel: VoxelType::Uint8, half: false, big },
            "float16" => Self { voxel: VoxelType::Float32, half: true, big },
            name => Self { voxel: VoxelType::parse(name)?, half: false, big },
        })
    }

    /// Bytes of a stored element.
    pub(super) fn size(self) -> usize {
        if self.half {
            2
        } else {
            self.voxel.size()
        }
    }

    /// Whether elements in memory have other bytes than stored ones.
    pub(super) fn swapped(self) -> bool {
        self.size() > 1 && self.big != cfg!(target_endian = "big")
    }

    pub(super) fn element(self) -> Element {
        let float = self.half || matches!(self.voxel, VoxelType::Float32 | VoxelType::Float64);
        Element { size: self.size(), float, big: self.big }
    }
}

/// A number as an element in memory.
pub(super) fn element(stored: StoredElement, value: Fill) -> Result<Vec<u8>, String> {
    with_voxel!(stored.voxel, T => {
        let float = matches!(T::TYPE, VoxelType::Float32 | VoxelType::Float64);
        let (number, fits, said) = match value {
            Fill::Whole(v) => (v as T, (v as T) as i128 == v, v.to_string()),
            Fill::Number(v) => (v as T, (v as T).to_f64() == v, v.to_string()),
        };
        if !(fits || float) {
            return Err(format!("a fill value of {said} is no {}", T::TYPE.name()));
        }
        Ok(number.to_ne_bytes().to_vec())
    })
}

/// The shape of an array: see the module.
#[derive(Clone, Debug)]
pub(super) struct ArrayShape {
    pub(super) stored: StoredElement,
    /// Elements along x, y, z, c, t; 1 for dimensions that the array lacks.
    pub(super) shape: [u64; 5],
    /// Elements of a chunk along each.
    pub(super) chunk: [u64; 5],
    /// Chunks along each.
    pub(super) grid: [u64; 5],
    /// Strides within a chunk, in elements.
    pub(super) strides: [u64; 5],
    /// The array's dimensions, slowest first, as indices of the fields above.
    pub(super) dims: Vec<usize>,
    /// The dimensions of a chunk in its bytes, slowest first.
    pub(super) order: Vec<usize>,
}

impl ArrayShape {
    /// The shape from an array's description.
    ///
    /// # Errors
    /// A sentence about the contradiction.
    pub(super) fn new(spec: &ArraySpec) -> Result<Self, String> {
        let stored = StoredElement::parse(&spec.dtype, spec.big_endian);
        let stored = stored.ok_or_else(|| format!("elements of type '{}' are not read", spec.dtype))?;
        let dims = spec
            .axes
            .chars()
            .map(|c| "xyzct".find(c).ok_or_else(|| format!("axes '{}': an axis is one of t, c, z, y, x", spec.axes)));
        let dims: Vec<usize> = dims.collect::<Result<_, _>>()?;
        if (1..dims.len()).any(|n| dims[..n].contains(&dims[n])) {
            return Err(format!("axes '{}' have an axis twice", spec.axes));
        }
        let planes = matches!(spec.place, PlaceSpec::Planes { .. });
        let mut first_alone = spec.shape.clone();
        if let Some(first) = first_alone.first_mut().filter(|_| planes) {
            *first = 1;
        }
        let unchunked = matches!(spec.place, PlaceSpec::Contiguous { .. } | PlaceSpec::Planes { .. });
        let chunk = match &spec.chunk {
            Some(_) if unchunked => return Err("contiguous arrays and planes have no chunks".into()),
            Some(chunk) => chunk,
            None if unchunked => &first_alone,
            None => return Err("a chunked array needs the shape of its chunks".into()),
        };
        if spec.shape.len() != dims.len() || chunk.len() != dims.len() {
            return Err(format!(
                "shape {:?} and chunk {chunk:?} must have a number for each of the axes '{}'",
                spec.shape, spec.axes
            ));
        }
        if spec.shape.iter().chain(chunk).any(|n| *n == 0 || *n >= 1 << 31) {
            return Err(format!("shape {:?}, chunk {chunk:?}: lengths are from 1 to 2147483647", spec.shape));
        }
        let order = match &spec.order {
            None => (0..dims.len()).collect(),
            Some(order) => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if sorted != (0..dims.len()).collect::<Vec<_>>() {
                    return Err(format!("order {order:?} must name each of the {} axes once", dims.len()));
                }
                order.clone()
            }
        };
        let along = |lengths: &[u64]| {
            let mut all = [1u64; 5];
            dims.iter().zip(lengths).for_each(|(d, n)| all[*d] = *n);
            all
        };
        let (shape, chunk) = (along(&spec.shape), along(chunk));
        let order: Vec<usize> = order.iter().map(|n| dims[*n]).collect();
        let mut strides = [0u64; 5];
        let mut elements = 1u64;
        for d in order.iter().rev() {
            strides[*d] = elements;
            elements = elements.checked_mul(chunk[*d]).ok_or("a chunk has too many elements")?;
        }
        // An unchunked array may have any size that a file may have.
        let most = if unchunked { i64::MAX as u64 } else { MOST_CHUNK };
        let bytes = elements.checked_mul(stored.size() as u64).filter(|bytes| *bytes < most);
        bytes.ok_or_else(|| format!("a chunk of {elements} elements is too large"))?;
        let grid = std::array::from_fn(|d| shape[d].div_ceil(chunk[d]));
        let this = Self { stored, shape, chunk, grid, strides, dims, order };
        this.count().ok_or("there are too many chunks")?;
        Ok(this)
    }

    /// Number of chunks, if it is within limits.
    fn count(&self) -> Option<u64> {
        self.grid.iter().try_fold(1u64, |n, g| n.checked_mul(*g)).filter(|n| *n < 1 << 62)
    }

    /// Number of chunks.
    pub(super) fn chunks(&self) -> u64 {
        self.count().unwrap_or(0)
    }

    /// Bytes of a chunk, decoded.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.stored.size() as u64
    }

    /// Bytes of a chunk up to its last element inside the array. At the array's edge a chunk may be stored short.
    pub(super) fn needed_bytes(&self, at: [u64; 5]) -> u64 {
        let last = (0..5).map(|d| {
            let inside = self.chunk[d].min(self.shape[d] - at[d] * self.chunk[d]);
            (inside - 1) * self.strides[d]
        });
        (last.sum::<u64>() + 1) * self.stored.size() as u64
    }

    /// A chunk's number, with the array's slowest dimension first.
    pub(super) fn number(&self, at: [u64; 5]) -> u64 {
        self.dims.iter().fold(0, |n, d| n * self.grid[*d] + at[*d])
    }

    /// The indices of a chunk by its number, in the array's own dimensions.
    pub(super) fn indices(&self, number: u64) -> Vec<u64> {
        indices(number, &self.dims.iter().map(|d| self.grid[*d]).collect::<Vec<_>>())
    }

    /// The dimension along which elements are contiguous, among those with more than one element in a chunk.
    pub(super) fn fastest(&self) -> usize {
        self.order.iter().rev().copied().find(|d| self.chunk[*d] > 1).unwrap_or(X)
    }

    /// Width, height and samples of a chunk that is an image. The width is 0 if it cannot be one.
    pub(super) fn image(&self) -> ImageShape {
        let samples = if self.strides[C] == 1 { self.chunk[C] } else { 1 };
        let wide = self.strides[X] == samples || self.chunk[X] == 1;
        let high = self.strides[Y] == samples * self.chunk[X] || self.chunk[Y] == 1;
        let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let fits = wide && high;
        ImageShape {
            width: if fits { whole(self.chunk[X]) } else { 0 },
            height: whole(self.chunk[Y]),
            samples: whole(samples),
            size: self.stored.size(),
            big: self.stored.big,
        }
    }
}

/// The indices of a number in a grid, slowest dimension first.
pub(super) fn indices(number: u64, grid: &[u64]) -> Vec<u64> {
    let mut rest = number;
    let mut at = vec![0; grid.len()];
    for (at, n) in at.iter_mut().zip(grid).rev() {
        *at = rest % n;
        rest /= n;
    }
    at
}

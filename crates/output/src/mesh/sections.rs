//! The growing arrays of a mesh: each in a log of its own.

use super::piece::{MeshLayout, MeshPiece, MeshPoints};
use crate::log::{ByteLog, HeldMemory};
use crate::{FieldType, FieldValues, OutputError};
use std::path::Path;

/// Bound of point numbers in a log of narrow ones.
const NARROW: u64 = 1 << 32;

/// Point numbers below this are stored in signed 32 bits.
pub(super) const INT32: u64 = 1 << 31;

/// Encodes numbers into a log through a buffer.
fn append<T: Copy, const B: usize>(
    log: &mut ByteLog,
    scratch: &mut Vec<u8>,
    values: &[T],
    encode: impl Fn(T) -> [u8; B],
) -> Result<(), OutputError> {
    let most = scratch.capacity().max(B) / B;
    for piece in values.chunks(most) {
        scratch.clear();
        scratch.extend(piece.iter().flat_map(|value| encode(*value)));
        log.append(scratch)?;
    }
    Ok(())
}

/// Point numbers: 32 bits each while they fit, 64 bits from the first that does not.
pub(super) struct Indices {
    narrow: ByteLog,
    wide: ByteLog,
    /// The first number that the narrow log does not hold; tests reduce it.
    pub(super) narrow_below: u64,
    largest: u64,
}

impl Indices {
    fn new(directory: &Path, budget: usize, held: &HeldMemory) -> Result<Self, OutputError> {
        // Both from the start: memory for the second might not be available later.
        let narrow = ByteLog::new(directory, budget / 2, held.sibling())?;
        let wide = ByteLog::new(directory, budget / 2, held.sibling())?;
        Ok(Self { narrow, wide, narrow_below: NARROW, largest: 0 })
    }

    fn push(&mut self, numbers: &[u64], scratch: &mut Vec<u8>) -> Result<(), OutputError> {
        let Some(largest) = numbers.iter().max() else {
            return Ok(());
        };
        self.largest = self.largest.max(*largest);
        if self.largest < self.narrow_below {
            // Below 2^32, so nothing is lost.
            append(&mut self.narrow, scratch, numbers, |number| (number as u32).to_le_bytes())
        } else {
            append(&mut self.wide, scratch, numbers, u64::to_le_bytes)
        }
    }

    /// Number of entries.
    pub(super) fn count(&self) -> u64 {
        self.narrow.len() / 4 + self.wide.len() / 8
    }

    /// All numbers in order, up to a `buffer` at a time. The logs are deleted on the way.
    pub(super) fn each(
        self,
        buffer: &mut [u8],
        mut take: impl FnMut(&mut dyn Iterator<Item = u64>) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        each(&self.narrow, 4, buffer, |bytes| take(&mut bytes.chunks_exact(4).map(|b| u64::from(word(b)))))?;
        drop(self.narrow);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        each(&self.wide, 8, buffer, |bytes| take(&mut bytes.chunks_exact(8).map(word)))
    }
}

/// All bytes of a log in order, a whole number of items at a time.
pub(super) fn each(
    log: &ByteLog,
    item: usize,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let most = buffer.len() / item * item;
    let mut at = 0;
    while at < log.len() {
        let part = (log.len() - at).min(most as u64) as usize;
        log.read_at(at, &mut buffer[..part])?;
        take(&buffer[..part])?;
        at += part as u64;
    }
    Ok(())
}

/// One array with a fixed number of bytes a point.
pub(super) struct Section {
    pub(super) log: ByteLog,
    /// Bytes a point.
    pub(super) item: usize,
}

/// The arrays of a mesh.
pub(super) struct Sections {
    pub(super) points: Section,
    pub(super) zone: Section,
    pub(super) normals: Option<Section>,
    pub(super) colours: Option<Section>,
    pub(super) fields: Vec<Section>,
    pub(super) triangles: Indices,
    pub(super) lines: Option<Indices>,
    positions: FieldType,
}

fn logs(layout: &MeshLayout) -> usize {
    let optional = usize::from(layout.normals) + usize::from(layout.colours) + 2 * usize::from(layout.lines);
    layout.fields.len() + 4 + optional
}

impl Sections {
    /// Least bytes of the logs.
    pub(super) fn least_bytes(layout: &MeshLayout) -> usize {
        logs(layout) * ByteLog::chunk_bytes(0)
    }

    /// Empty sections, which share `budget` bytes of memory. Temporary files are in `directory`.
    pub(super) fn new(
        directory: &Path,
        layout: &MeshLayout,
        budget: usize,
        held: &HeldMemory,
    ) -> Result<Self, OutputError> {
        let count = logs(layout);
        // If the limit does not grant a chunk of this size for each, smaller ones.
        let mut each = budget / count;
        loop {
            match Self::with(directory, layout, each, held) {
                Err(OutputError::Memory { .. }) if ByteLog::chunk_bytes(each) > ByteLog::chunk_bytes(0) => each /= 2,
                Err(OutputError::Memory { .. }) => {
                    return Err(OutputError::Memory { needs: (held.bytes() + Self::least_bytes(layout)) as u64 })
                }
                made => return made,
            }
        }
    }

    fn with(directory: &Path, layout: &MeshLayout, each: usize, held: &HeldMemory) -> Result<Self, OutputError> {
        let section = |item: usize| Ok(Section { log: ByteLog::new(directory, each, held.sibling())?, item });
        let indices = || Indices::new(directory, 2 * each, held);
        let fields = layout.fields.iter().map(|field| section(field.components * field.dtype.bytes()));
        Ok(Self {
            points: section(3 * layout.positions.bytes())?,
            zone: section(4)?,
            normals: if layout.normals { Some(section(12)?) } else { None },
            colours: if layout.colours { Some(section(4)?) } else { None },
            fields: fields.collect::<Result<_, OutputError>>()?,
            triangles: indices()?,
            lines: if layout.lines { Some(indices()?) } else { None },
            positions: layout.positions,
        })
    }

    /// Appends a piece that fits the layout.
    pub(super) fn push(&mut self, piece: &MeshPiece, scratch: &mut Vec<u8>) -> Result<(), OutputError> {
        let points = &mut self.points.log;
        match (piece.points, self.positions) {
            (MeshPoints::F32(p), FieldType::F32) => append(points, scratch, p.as_flattened(), f32::to_le_bytes)?,
            (MeshPoints::F64(p), FieldType::F64) => append(points, scratch, p.as_flattened(), f64::to_le_bytes)?,
            (MeshPoints::F32(p), FieldType::F64) => {
                append(points, scratch, p.as_flattened(), |v| f64::from(v).to_le_bytes())?;
            }
            (MeshPoints::F64(p), FieldType::F32) => {
                append(points, scratch, p.as_flattened(), |v| (v as f32).to_le_bytes())?;
            }
        }
        let zone = piece.zone.to_le_bytes();
        let mut left = piece.points.len();
        let most = (scratch.capacity() / 4).max(1);
        scratch.clear();
        scratch.extend(std::iter::repeat_n(zone, left.min(most)).flatten());
        while left > 0 {
            let part = left.min(most);
            self.zone.log.append(&scratch[..4 * part])?;
            left -= part;
        }
        if let (Some(section), Some(normals)) = (&mut self.normals, piece.normals) {
            append(&mut section.log, scratch, normals.as_flattened(), f32::to_le_bytes)?;
        }
        if let (Some(section), Some(colours)) = (&mut self.colours, piece.colours) {
            section.log.append(colours.as_flattened())?;
        }
        for (section, values) in self.fields.iter_mut().zip(piece.fields) {
            match values {
                FieldValues::F32(values) => append(&mut section.log, scratch, values, f32::to_le_bytes)?,
                FieldValues::F64(values) => append(&mut section.log, scratch, values, f64::to_le_bytes)?,
            }
        }
        self.triangles.push(piece.triangles.as_flattened(), scratch)?;
        if let Some(lines) = &mut self.lines {
            lines.push(piece.lines.as_flattened(), scratch)?;
        }
        Ok(())
    }

    /// Every log.
    fn logs(&self) -> impl Iterator<Item = &ByteLog> {
        let optional = [&self.normals, &self.colours].into_iter().flatten();
        let sections = [&self.points, &self.zone].into_iter().chain(optional).chain(&self.fields);
        let indices = [Some(&self.triangles), self.lines.as_ref()].into_iter().flatten();
        sections.map(|section| &section.log).chain(indices.flat_map(|i| [&i.narrow, &i.wide]))
    }

    /// Bytes in temporary files.
    pub(super) fn spilled_bytes(&self) -> u64 {
        self.logs().map(ByteLog::spilled_bytes).sum()
    }

    /// Bytes of all logs.
    pub(super) fn bytes(&self) -> u64 {
        self.logs().map(ByteLog::len).sum()
    }
}

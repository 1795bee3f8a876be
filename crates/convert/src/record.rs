//! The record of a finished unit beside its shard: proof of completion, and its part of ranges and boxes.

use super::disk::Disk;
use field::boxes::Bounds;
use field::error::FieldError;
use std::path::Path;

/// First bytes of a record.
const MAGIC: &[u8; 8] = b"FFunit02";
const HEADER: usize = 64;

/// One unit's record. Written after its shard is durable, with a crc32c, so that a torn record does not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// Number of the unit.
    pub unit: u64,
    /// Length of its shard, 0 if there is none.
    pub shard_bytes: u64,
    /// Checksum of its shard's index.
    pub index_crc: u32,
    /// Checksum of its pages' and its index's checksums.
    pub seal: u32,
    /// Whether its coordinates are those of the zone's possible uniform grid in the plan.
    pub uniform: bool,
    /// Limits by page row and page: `[pk][pj][pi][lower, upper][c]`.
    pub ranges: Vec<f64>,
    /// Boxes of the blocks with its cells: `[bk][bj][bi]`.
    pub boxes: Vec<Bounds>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.ranges.len() * 8 + self.boxes.len() * 24 + 4);
        out.extend_from_slice(MAGIC);
        let (index_crc, seal) = (u64::from(self.index_crc), u64::from(self.seal));
        let sizes = [self.ranges.len() as u64, self.boxes.len() as u64];
        for n in [self.unit, self.shard_bytes, index_crc, seal, sizes[0], sizes[1], u64::from(self.uniform)] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        self.ranges.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        self.boxes.iter().flatten().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Writes the record.
    pub fn write(&self, disk: &Disk, path: &Path) -> Result<(), FieldError> {
        disk.write(path, &self.encode()).map(drop)
    }

    /// Reads a record of `unit` with this many ranges and boxes; `None` if it is missing or incomplete.
    pub fn read(path: &Path, unit: u64, ranges: usize, boxes: usize) -> Option<Self> {
        let len = HEADER + ranges * 8 + boxes * 24 + 4;
        if std::fs::metadata(path).ok()?.len() != len as u64 {
            return None;
        }
        Self::decode(&std::fs::read(path).ok()?, unit, ranges, boxes)
    }

    fn decode(bytes: &[u8], unit: u64, ranges: usize, boxes: usize) -> Option<Self> {
        if bytes.len() != HEADER + ranges * 8 + boxes * 24 + 4 {
            return None;
        }
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        if crc32c::crc32c(body).to_le_bytes() != *crc || !body.starts_with(MAGIC) {
            return None;
        }
        let word = |n: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&body[8 + n * 8..][..8]);
            u64::from_le_bytes(w)
        };
        if (word(0), word(4), word(5)) != (unit, ranges as u64, boxes as u64) {
            return None;
        }
        let (values, rest) = body[HEADER..].split_at(ranges * 8);
        let f64s = values.chunks_exact(8).map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]));
        let boxes = rest
            .chunks_exact(24)
            .map(|b| std::array::from_fn(|c| f32::from_le_bytes([b[c * 4], b[c * 4 + 1], b[c * 4 + 2], b[c * 4 + 3]])));
        Some(Self {
            unit,
            shard_bytes: word(1),
            index_crc: u32::try_from(word(2)).ok()?,
            seal: u32::try_from(word(3)).ok()?,
            uniform: match word(6) {
                0 => false,
                1 => true,
                _ => return None,
            },
            ranges: f64s.collect(),
            boxes: boxes.collect(),
        })
    }
}

/// For fuzzing: reads `bytes` as a record of the unit and with the sizes that it claims, and with others. An accepted
/// record must equal what is written for its content.
pub(super) fn fuzz(bytes: &[u8]) {
    let claimed = |n: usize| {
        let word = bytes.get(8 + n * 8..).and_then(|b| b.first_chunk::<8>());
        word.map_or(0, |w| u64::from_le_bytes(*w))
    };
    // Real sizes come from a plan with arrays that fit in memory.
    let size = |n: usize| usize::try_from(claimed(n)).ok().filter(|n| *n <= bytes.len()).unwrap_or(1);
    for (unit, ranges, boxes) in [(claimed(0), size(4), size(5)), (0, 2, 1), (claimed(0), 0, 0)] {
        if let Some(record) = Record::decode(bytes, unit, ranges, boxes) {
            assert!(record.unit == unit && record.ranges.len() == ranges && record.boxes.len() == boxes);
            assert!(record.encode() == bytes, "a record that is not as it would be written was taken");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let dir = std::env::temp_dir().join(format!("ff-record-{}", std::process::id()));
        let r = Record {
            unit: 7,
            shard_bytes: 99,
            index_crc: 3,
            seal: 4,
            uniform: true,
            ranges: vec![1.0, f64::INFINITY],
            boxes: vec![[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]],
        };
        r.write(&Disk::default(), &dir).unwrap();
        assert_eq!(Record::read(&dir, 7, 2, 1), Some(r.clone()));
        assert_eq!(Record::read(&dir, 8, 2, 1), None);
        assert_eq!(Record::read(&dir, 7, 1, 1), None);
        let good = r.encode();
        for n in 0..good.len() {
            let mut bad = good.clone();
            bad[n] ^= 4;
            std::fs::write(&dir, &bad).unwrap();
            assert_eq!(Record::read(&dir, 7, 2, 1), None);
        }
        std::fs::remove_file(&dir).unwrap();
    }
}

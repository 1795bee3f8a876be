//! Records that were removed without a second use. One that comes back was removed too early.

use super::format::FileKey;

/// Fingerprints of some records, each at the place that it names.
pub(super) struct GhostTable(Vec<u32>);

/// Bytes of a record on average, for the number of fingerprints.
const RECORD: u64 = 32 << 10;

impl GhostTable {
    /// As many as the cache has records, within 4 and 512 KiB.
    pub fn new(bytes: u64) -> Self {
        let count = (bytes / RECORD).clamp(1 << 10, 1 << 17).next_power_of_two();
        Self(vec![0; count as usize])
    }

    fn place(&self, key: u64, offset: u64) -> (usize, u32) {
        let mixed = (key ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed as usize & (self.0.len() - 1), (mixed >> 32) as u32 | 1)
    }

    /// Notes a removed record.
    pub fn put(&mut self, key: FileKey, offset: u64) {
        let (at, mark) = self.place(key.file ^ key.version, offset);
        self.0[at] = mark;
    }

    /// Whether this record was removed.
    pub fn take(&mut self, key: FileKey, offset: u64) -> bool {
        let (at, mark) = self.place(key.file ^ key.version, offset);
        let there = self.0[at] == mark;
        if there {
            self.0[at] = 0;
        }
        there
    }
}

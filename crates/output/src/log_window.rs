//! Buffered reads of the log.

use super::log::ByteLog;
use super::OutputError;

/// A window on the log. The parts of a line are adjacent in the log, and so are lines after gathering. Read part by
/// part, 10,000 lines of 200 points took 30,000 reads.
pub(super) struct LogWindow {
    buffer: Vec<u8>,
    /// The place of the buffer's first byte in the log, and the number of its bytes.
    at: u64,
    len: usize,
}

impl LogWindow {
    /// A window of this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { buffer: vec![0; bytes], at: 0, len: 0 }
    }

    /// Most bytes of one call: a multiple of eight.
    pub(super) fn most(&self) -> u64 {
        (self.buffer.len() / 8 * 8) as u64
    }

    /// `bytes` of the log from `at` on, at most [`Self::most`]. `until`: the end of the range needed next, which bounds
    /// reading ahead.
    ///
    /// # Errors
    /// As [`ByteLog::read_at`].
    pub(super) fn get(&mut self, log: &ByteLog, at: u64, bytes: usize, until: u64) -> Result<&[u8], OutputError> {
        let inside = at.checked_sub(self.at).filter(|skip| skip.saturating_add(bytes as u64) <= self.len as u64);
        let skip = match inside {
            Some(skip) => skip as usize,
            None => {
                let ahead = until.min(log.len()).saturating_sub(at).min(self.buffer.len() as u64) as usize;
                let len = ahead.max(bytes);
                // After an error the buffer is empty.
                self.len = 0;
                log.read_at(at, &mut self.buffer[..len])?;
                (self.at, self.len) = (at, len);
                0
            }
        };
        Ok(&self.buffer[skip..skip + bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::HeldMemory;
    use crate::FixedBudget;
    use testing::{Lcg, TestDir};

    #[test]
    fn whatever_is_looked_at_is_what_is_there() {
        let dir = TestDir::new("window");
        let mut log = ByteLog::new(dir.at(), 5000, HeldMemory::new(Box::new(FixedBudget::new(1 << 30)))).unwrap();
        let bytes: Vec<u8> = (0..40_000u32).map(|n| (n * 7 % 251) as u8).collect();
        log.append(&bytes).unwrap();
        let (mut window, mut random) = (LogWindow::new(1003), Lcg(5));
        assert_eq!(window.most(), 1000);
        for _ in 0..5000 {
            let (at, count) = (random.below(39_000), random.below(1001) as usize);
            let until = at + random.below(3000);
            let found = window.get(&log, at, count, until).unwrap().to_vec();
            assert_eq!(found, bytes[at as usize..at as usize + count]);
            assert!(window.at <= at && window.len <= 1003);
        }
        // The bytes up to the announced end are in the buffer already.
        window.get(&log, 0, 10, 300).unwrap();
        assert_eq!((window.at, window.len), (0, 300));
        window.get(&log, 290, 10, 2000).unwrap();
        assert_eq!((window.at, window.len), (0, 300));
        window.get(&log, 290, 11, 2000).unwrap();
        assert_eq!((window.at, window.len), (290, 1003));
        assert!(window.get(&log, 39_990, 20, 40_010).is_err());
        assert_eq!(window.get(&log, 39_990, 10, 40_010).unwrap(), &bytes[39_990..]);
    }
}

//! One file that is being staged: which of its bytes are there, and how far it was read back.

use super::super::super::wire::{StagedFile, MOST_STAGED};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes beyond the first missing one that are taken. So all bytes of a file are there, except the last so many, also
/// after a server ended without a word.
pub(super) const AHEAD: u64 = 8 << 20;
/// Bytes after which the system is told to write, and waits for those before: a file never waits long for its end.
const WRITE_OUT: u64 = 32 << 20;
/// Bytes that one request reads back.
const READ_BACK: u64 = 256 << 20;
/// Ranges beyond the first missing byte. More of them are of no honest client.
const MOST_BEYOND: usize = 256;

/// See the module.
pub(super) struct Incoming {
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    /// Bytes from the first one on that are all there.
    pub(super) there: u64,
    /// Ranges beyond: begin and end.
    beyond: BTreeMap<u64, u64>,
    /// Bytes for which the system was told to write.
    written_out: u64,
    /// Bytes that were read back, and their checksum.
    read_back: u64,
    crc: u32,
    /// Whether it was removed or has become a file of its dataset.
    pub(super) gone: bool,
}

/// The reason why bytes were not taken.
pub(super) enum NotTaken {
    /// The client is wrong about what is there.
    Unfit(String),
    /// The system's error.
    Io(io::Error),
}

impl From<io::Error> for NotTaken {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl Incoming {
    /// A file of which so many bytes are there.
    pub(super) fn new(file: &StagedFile, there: u64) -> Self {
        Self {
            size: file.size,
            modified_ns: file.modified_ns,
            there,
            beyond: BTreeMap::new(),
            written_out: 0,
            read_back: 0,
            crc: 0,
            gone: false,
        }
    }

    /// Bytes that are surely there in a file of so many that was found at the start of a server.
    pub(super) fn surely_there(len: u64) -> u64 {
        len.saturating_sub(AHEAD)
    }

    /// Whether it is this version of its file.
    pub(super) fn is_of(&self, file: &StagedFile) -> bool {
        !self.gone && self.size == file.size && self.modified_ns == file.modified_ns
    }

    /// Writes bytes that came.
    pub(super) fn put(&mut self, disk: &File, offset: u64, bytes: &[u8]) -> Result<(), NotTaken> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        let Some(end) = end.filter(|_| bytes.len() <= MOST_STAGED) else {
            return Err(NotTaken::Unfit(format!("bytes beyond the {} of the file", self.size)));
        };
        if end > self.there.saturating_add(AHEAD) || self.beyond.len() >= MOST_BEYOND {
            return Err(NotTaken::Unfit(format!("bytes at {offset}, where {} are there so far", self.there)));
        }
        if end <= self.there {
            return Ok(());
        }
        disk.write_all_at(bytes, offset)?;
        let (mut begin, mut stop) = (offset, end);
        // Ranges that touch become one.
        while let Some((from, to)) = self.beyond.range(..=stop).next_back().map(|(from, to)| (*from, *to)) {
            if to < begin {
                break;
            }
            self.beyond.remove(&from);
            (begin, stop) = (begin.min(from), stop.max(to));
        }
        if begin <= self.there {
            self.there = stop;
        } else {
            self.beyond.insert(begin, stop);
        }
        while self.there >= self.written_out + 2 * WRITE_OUT {
            let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
            write_out(disk, self.written_out, flags | libc::SYNC_FILE_RANGE_WAIT_AFTER);
            self.written_out += WRITE_OUT;
            write_out(disk, self.written_out, libc::SYNC_FILE_RANGE_WRITE);
        }
        Ok(())
    }

    /// Brings the file to the disk, and reads a part of it back. The checksum once all of it was read.
    pub(super) fn check(&mut self, disk: &File) -> Result<Option<u32>, NotTaken> {
        if self.there != self.size {
            return Err(NotTaken::Unfit(format!("only {} of {} bytes are there", self.there, self.size)));
        }
        if self.read_back == 0 {
            set_modified(disk, self.modified_ns)?;
            disk.sync_all()?;
            self.crc = 0;
        }
        let until = self.size.min(self.read_back.saturating_add(READ_BACK));
        let mut buffer = vec![0; MOST_STAGED];
        while self.read_back < until {
            let len = usize::try_from(until - self.read_back).unwrap_or(MOST_STAGED).min(MOST_STAGED);
            disk.read_exact_at(&mut buffer[..len], self.read_back)?;
            self.crc = crc32c::crc32c_append(self.crc, &buffer[..len]);
            self.read_back += len as u64;
        }
        Ok((self.read_back == self.size).then_some(self.crc))
    }

    /// Bytes that were read back.
    pub(super) fn checked(&self) -> u64 {
        self.read_back
    }
}

fn write_out(disk: &File, offset: u64, flags: libc::c_uint) {
    // It is a hint: an error shows at the end, when all is brought to the disk.
    // SAFETY: the descriptor is open; the call takes no pointers.
    unsafe { libc::sync_file_range(disk.as_raw_fd(), offset as libc::off64_t, WRITE_OUT as libc::off64_t, flags) };
}

/// Sets the time of change of a file. Replicas are the same file by it, so a coarser time is refused.
fn set_modified(disk: &File, modified_ns: i64) -> Result<(), NotTaken> {
    let (seconds, rest) = (modified_ns.div_euclid(1_000_000_000), modified_ns.rem_euclid(1_000_000_000));
    let times =
        [libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT }, libc::timespec { tv_sec: seconds, tv_nsec: rest }];
    // SAFETY: the descriptor is open, and the array has the two times that the call reads.
    if unsafe { libc::futimens(disk.as_raw_fd(), times.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    let is = super::super::names::FileState::of(disk)?.modified_ns;
    if is != modified_ns {
        let said = format!("the disk for staged files keeps times in steps: {modified_ns} ns became {is} ns");
        return Err(NotTaken::Unfit(said));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_any_order_become_a_file() {
        let path = std::env::temp_dir().join(format!("farfield-incoming-{}", std::process::id()));
        let disk = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let whole: Vec<u8> = (0..1_000_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let file = StagedFile { name: "a/b".into(), size: whole.len() as u64, modified_ns: 1_234_567_890_123_456_789 };
        let mut incoming = Incoming::new(&file, 0);
        let mut parts: Vec<usize> = (0..whole.len().div_ceil(70_000)).collect();
        parts.sort_by_key(|n| (n * 7) % 5);
        for n in parts.into_iter().chain([0, 3]) {
            assert!(matches!(incoming.check(&disk), Err(NotTaken::Unfit(_))) || incoming.there == file.size);
            let begin = n * 70_000;
            // Parts overlap.
            let part = &whole[begin..(begin + 75_000).min(whole.len())];
            assert!(incoming.put(&disk, begin as u64, part).is_ok());
        }
        assert_eq!((incoming.there, incoming.beyond.len()), (file.size, 0));
        assert!(matches!(incoming.check(&disk), Ok(Some(crc)) if crc == crc32c::crc32c(&whole)));
        for (offset, bytes) in [(file.size, &[0][..]), (u64::MAX, &[0]), (file.size - 1, &[0, 0])] {
            assert!(matches!(incoming.put(&disk, offset, bytes), Err(NotTaken::Unfit(_))));
        }
        let mut long = Incoming::new(&StagedFile { size: 1 << 40, ..file }, 0);
        assert!(matches!(long.put(&disk, AHEAD, &[0]), Err(NotTaken::Unfit(_))));
        assert!(long.put(&disk, AHEAD - 1, &[0]).is_ok());
        std::fs::remove_file(path).unwrap();
    }
}

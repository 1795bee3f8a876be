//! Lines in pieces, joined before they are written.
//!
//! # Theory
//! Packed tasks pass on a few points at a time, so the pieces of a line are scattered over the log. If the log does not
//! fit in memory, each piece is a read from the disk, again for each array of the output. (72 MB of results in 4 MB of
//! memory took 38 s and 2.9 GB of reads.)
//!
//! So the log is first sorted by line, by distribution (Knuth, The Art of Computer Programming, volume 3, section
//! 5.4.7). The records are distributed to as many ranges of lines as there are buffers, until a range fits in memory.
//! There each piece is copied to its place, which is known, since every line's number of points is. Every byte is
//! usually read and written twice, in order, whatever the number of pieces. The log is deleted after its distribution,
//! and blocks are reused, so the disk holds twice the size of the results.
//!
//! # Practice
//! [`gather`] gets the log and the index, and returns a file with all lines in one piece. It uses only the given
//! memory: the log's own, and that of the writers' buffers, which are not in use yet.

use super::index::{LineCompleteness, LineEntry, LineIndex};
use super::new_file::anonymous;
use super::OutputError;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The head of each piece in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The place of the head of the line's previous piece, or [`Head::FIRST`].
    pub(super) before: u64,
    pub(super) line: u64,
    pub(super) points: u32,
}

impl Head {
    pub(super) const BYTES: usize = 20;
    /// There is no previous piece. Earlier pieces of the line in the log belong to a run of the line before a restart.
    pub(super) const FIRST: u64 = u64::MAX;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.before.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.line.to_le_bytes());
        bytes[16..].copy_from_slice(&self.points.to_le_bytes());
        bytes
    }

    pub(super) fn of(bytes: [u8; Self::BYTES]) -> Self {
        let number = |at: usize| bytes[at..at + 8].try_into().map_or(Self::FIRST, u64::from_le_bytes);
        Self { before: number(0), line: number(8), points: bytes[16..].try_into().map_or(0, u32::from_le_bytes) }
    }
}

/// Largest block of a stream: a rotating disk reads such a block as fast as it seeks.
const BLOCK_BYTES: usize = 64 << 10;
/// Smallest block: a page of the system.
const LEAST_BLOCK: usize = 4 << 10;
/// At the begin of a block: the place of the next one.
const LINK_BYTES: usize = 8;
/// Bytes for joining a line, beside its points: see [`Entries`].
const LINE_BYTES: usize = 16;

/// The input and the memory of a sort.
pub(super) struct GatherJob<'a> {
    pub(super) index: &'a mut LineIndex,
    /// Lines of the index.
    pub(super) lines: u64,
    /// Bytes a point of each part of a line.
    pub(super) parts: &'a [u64],
    /// Bytes of usable memory: at least a dozen of the smallest blocks.
    pub(super) memory_bytes: usize,
    /// Most of that memory, for the buffers of streams and then for lines. One allocation from begin to end: after
    /// frees and allocations of other sizes the allocator may keep as much again.
    pub(super) memory: Vec<u8>,
    pub(super) directory: &'a Path,
    /// Called now and then; an error ends the work.
    pub(super) goes_on: &'a mut dyn FnMut() -> Result<(), OutputError>,
}

/// A sequence of records: a whole file, or linked blocks.
#[derive(Clone, Copy)]
struct Stream<'a> {
    file: &'a File,
    first: u64,
    bytes: u64,
    linked: bool,
}

/// Joins the lines with pieces in the first `bytes` of `log`. Returns the file of whole lines, and its length. The
/// index is updated line by line: after an error it is invalid.
pub(super) fn gather(mut of: GatherJob<'_>, log: &File, bytes: u64) -> Result<(File, u64), OutputError> {
    // One block is the reader's, one is for a piece in transit.
    of.memory = vec![0; of.memory_bytes - 2 * of.block_bytes()];
    let spill = |e| OutputError::spill(of.directory, "make a temporary file in", e);
    let dealt = anonymous(of.directory).map_err(spill)?;
    let whole = anonymous(of.directory).map_err(spill)?;
    let blocks = StreamBlocks { file: &dealt, block: of.block_bytes() as u64, end: 0, free: Vec::new() };
    let mut to = GatherFiles { blocks, whole: &whole, whole_bytes: 0 };
    let all = 0..of.lines;
    of.sort(&mut to, Stream { file: log, first: 0, bytes, linked: false }, all)?;
    let bytes = to.whole_bytes;
    Ok((whole, bytes))
}

/// The written files.
struct GatherFiles<'a> {
    blocks: StreamBlocks<'a>,
    /// Lines in one piece.
    whole: &'a File,
    whole_bytes: u64,
}

struct StreamBlocks<'a> {
    file: &'a File,
    block: u64,
    end: u64,
    /// Blocks that were read and are free.
    free: Vec<u64>,
}

impl StreamBlocks<'_> {
    fn take(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.end += self.block;
            self.end - self.block
        })
    }
}

/// For each joined line its begin, its points present, and its points in all.
struct Entries<'a>(&'a mut [u8]);

impl Entries<'_> {
    fn get(&self, line: u64) -> (u64, u64, u64) {
        let at = line as usize * LINE_BYTES;
        let (begin, rest) = self.0[at..at + LINE_BYTES].split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes).into();
        (begin.try_into().map_or(0, u64::from_le_bytes), number(&rest[..4]), number(&rest[4..]))
    }

    fn set(&mut self, line: u64, (begin, done, points): (u64, u64, u64)) {
        let at = line as usize * LINE_BYTES;
        self.0[at..at + 8].copy_from_slice(&begin.to_le_bytes());
        self.0[at + 8..at + 12].copy_from_slice(&(done as u32).to_le_bytes());
        self.0[at + 12..at + LINE_BYTES].copy_from_slice(&(points as u32).to_le_bytes());
    }
}

impl GatherJob<'_> {
    fn block_bytes(&self) -> usize {
        (self.memory_bytes / 16).clamp(LEAST_BLOCK, BLOCK_BYTES)
    }

    fn point_bytes(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// Bytes for joining a line.
    fn cost(&self, line: u64) -> Result<u64, OutputError> {
        Ok(self.index.get(line)?.complete_points() * self.point_bytes() + LINE_BYTES as u64)
    }

    fn read(&self, e: std::io::Error) -> OutputError {
        OutputError::spill(self.directory, "read back results from", e)
    }

    fn write(&self, e: std::io::Error) -> OutputError {
        OutputError::spill(self.directory, "write results to a temporary file in", e)
    }

    /// Joins the lines of a range, from the stream of their pieces.
    fn sort(&mut self, to: &mut GatherFiles<'_>, from: Stream<'_>, lines: Range<u64>) -> Result<(), OutputError> {
        let room = self.memory.len() as u64;
        let mut total = 0;
        for line in lines.clone() {
            if line % 4096 == 0 {
                (self.goes_on)()?;
            }
            total += self.cost(line)?;
        }
        if total <= room {
            return self.assemble(to, from, lines);
        }
        if lines.end - lines.start == 1 {
            return self.assemble_one(to, from, lines.start);
        }
        // Two adjacent ranges need more than this together, so there are not more ranges than buffers.
        let buffers = (self.memory.len() / self.block_bytes()) as u64;
        let most = room.max((2 * total).div_ceil(buffers - 1));
        let mut ends = Vec::new();
        let mut here = 0;
        for line in lines.clone() {
            let cost = self.cost(line)?;
            if here > 0 && here + cost > most {
                ends.push(line);
                here = 0;
            }
            here += cost;
        }
        ends.push(lines.end);
        let dealt = to.blocks.file;
        let streams = self.deal(to, from, &ends)?;
        if !from.linked {
            from.file.set_len(0).map_err(|e| self.write(e))?;
        }
        let mut first = lines.start;
        for (end, (place, bytes)) in ends.into_iter().zip(streams) {
            self.sort(to, Stream { file: dealt, first: place, bytes, linked: true }, first..end)?;
            first = end;
        }
        Ok(())
    }

    /// Distributes the pieces to a stream for each range of lines. Returns the begin and length of each.
    fn deal(
        &mut self,
        to: &mut GatherFiles<'_>,
        from: Stream<'_>,
        ends: &[u64],
    ) -> Result<Vec<(u64, u64)>, OutputError> {
        let block = self.block_bytes();
        let mut memory = core::mem::take(&mut self.memory);
        let buffers = memory.chunks_exact_mut(block).take(ends.len());
        let mut writers: Vec<Writer<'_>> = buffers.map(|buffer| Writer::new(buffer, &mut to.blocks)).collect();
        let mut reader = StreamReader::new(from, block);
        let mut piece = vec![0; LEAST_BLOCK.min(block)];
        while let Some(head) = self.next(&mut reader)? {
            let bytes = u64::from(head.points) * self.point_bytes();
            let writer = &mut writers[ends.partition_point(|end| *end <= head.line)];
            let mut put = |bytes: &[u8]| writer.put(bytes, &mut to.blocks);
            put(&head.to_bytes()).map_err(|e| self.write(e))?;
            let mut left = bytes;
            while left > 0 {
                let part = left.min(piece.len() as u64) as usize;
                reader.read(&mut piece[..part]).map_err(|e| self.read(e))?;
                put(&piece[..part]).map_err(|e| self.write(e))?;
                left -= part as u64;
            }
        }
        let streams = writers.into_iter().map(|w| w.end(to.blocks.file).map_err(|e| self.write(e))).collect();
        to.blocks.free.append(&mut reader.read_blocks);
        self.memory = memory;
        streams
    }

    /// The head of the next piece, if there is one.
    fn next(&mut self, reader: &mut StreamReader<'_>) -> Result<Option<Head>, OutputError> {
        if reader.is_at_end() {
            return Ok(None);
        }
        if reader.fetched {
            reader.fetched = false;
            (self.goes_on)()?;
        }
        let mut head = [0; Head::BYTES];
        reader.read(&mut head).map_err(|e| self.read(e))?;
        let head = Head::of(head);
        if head.line >= self.lines {
            return Err(self.read(std::io::ErrorKind::InvalidData.into()));
        }
        Ok(Some(head))
    }

    /// Joins lines in memory.
    fn assemble(&mut self, to: &mut GatherFiles<'_>, from: Stream<'_>, lines: Range<u64>) -> Result<(), OutputError> {
        let point_bytes = self.point_bytes();
        let mut memory = core::mem::take(&mut self.memory);
        let (entries, image) = memory.split_at_mut((lines.end - lines.start) as usize * LINE_BYTES);
        let mut entries = Entries(entries);
        let mut bytes = 0;
        for line in lines.clone() {
            let points = self.index.get(line)?.complete_points();
            entries.set(line - lines.start, (bytes, 0, points));
            bytes += points * point_bytes;
        }
        let mut reader = StreamReader::new(from, self.block_bytes());
        while let Some(head) = self.next(&mut reader)? {
            let line = head.line - lines.start;
            let (begin, mut done, points) = entries.get(line);
            if head.before == Head::FIRST {
                done = 0;
            }
            let here = u64::from(head.points);
            if done + here > points {
                // From before a restart of the line, or of an incomplete line.
                reader.skip(here * point_bytes).map_err(|e| self.read(e))?;
                continue;
            }
            let mut before = 0;
            for bytes in self.parts {
                let at = (begin + before * points + done * bytes) as usize;
                reader.read(&mut image[at..at + (here * bytes) as usize]).map_err(|e| self.read(e))?;
                before += bytes;
            }
            entries.set(line, (begin, done + here, points));
        }
        to.blocks.free.append(&mut reader.read_blocks);
        to.whole.write_all_at(&image[..bytes as usize], to.whole_bytes).map_err(|e| self.write(e))?;
        for line in lines.clone() {
            let (begin, done, _) = entries.get(line - lines.start);
            self.moved(line, to.whole_bytes + begin, done)?;
        }
        to.whole_bytes += bytes;
        self.memory = memory;
        Ok(())
    }

    fn moved(&mut self, line: u64, offset: u64, done: u64) -> Result<(), OutputError> {
        let place = self.index.get(line)?;
        if done != place.complete_points() {
            return Err(self.read(std::io::ErrorKind::UnexpectedEof.into()));
        }
        if matches!(place.state, LineCompleteness::Whole | LineCompleteness::Pieces) {
            self.index.set(line, LineEntry { offset, state: LineCompleteness::Whole, ..place })?;
        }
        Ok(())
    }

    /// Joins a line that does not fit in memory: each of its arrays through a buffer of its own.
    fn assemble_one(&mut self, to: &mut GatherFiles<'_>, from: Stream<'_>, line: u64) -> Result<(), OutputError> {
        let points = self.index.get(line)?.complete_points();
        let block = self.block_bytes();
        let mut memory = core::mem::take(&mut self.memory);
        let room = memory.len() / self.parts.len();
        let mut columns: Vec<PartBuffer<'_>> = Vec::with_capacity(self.parts.len());
        let mut before = 0;
        for (bytes, buffer) in self.parts.iter().zip(memory.chunks_exact_mut(room)) {
            columns.push(PartBuffer { begin: to.whole_bytes + before * points, flushed: 0, buffer, used: 0 });
            before += bytes;
        }
        let mut reader = StreamReader::new(from, block);
        let mut piece = vec![0; LEAST_BLOCK.min(block)];
        let mut done = 0;
        while let Some(head) = self.next(&mut reader)? {
            if head.before == Head::FIRST {
                done = 0;
                columns.iter_mut().for_each(PartBuffer::begin_again);
            }
            let here = u64::from(head.points);
            if done + here > points {
                reader.skip(here * before).map_err(|e| self.read(e))?;
                continue;
            }
            for (bytes, column) in self.parts.iter().zip(&mut columns) {
                let mut left = here * bytes;
                while left > 0 {
                    let part = left.min(piece.len() as u64) as usize;
                    reader.read(&mut piece[..part]).map_err(|e| self.read(e))?;
                    column.put(&piece[..part], to.whole).map_err(|e| self.write(e))?;
                    left -= part as u64;
                }
            }
            done += here;
        }
        to.blocks.free.append(&mut reader.read_blocks);
        for column in &mut columns {
            column.flush(to.whole).map_err(|e| self.write(e))?;
        }
        drop(columns);
        self.memory = memory;
        let at = to.whole_bytes;
        to.whole_bytes += points * before;
        self.moved(line, at, done)
    }
}

struct PartBuffer<'a> {
    begin: u64,
    flushed: u64,
    buffer: &'a mut [u8],
    used: usize,
}

impl PartBuffer<'_> {
    fn begin_again(&mut self) {
        (self.flushed, self.used) = (0, 0);
    }

    fn put(&mut self, mut bytes: &[u8], to: &File) -> std::io::Result<()> {
        while !bytes.is_empty() {
            if self.used == self.buffer.len() {
                self.flush(to)?;
            }
            let (head, tail) = bytes.split_at(bytes.len().min(self.buffer.len() - self.used));
            self.buffer[self.used..self.used + head.len()].copy_from_slice(head);
            self.used += head.len();
            bytes = tail;
        }
        Ok(())
    }

    fn flush(&mut self, to: &File) -> std::io::Result<()> {
        to.write_all_at(&self.buffer[..self.used], self.begin + self.flushed)?;
        self.flushed += self.used as u64;
        self.used = 0;
        Ok(())
    }
}

/// Writes a stream in linked blocks.
struct Writer<'a> {
    first: u64,
    /// The place of the block in the buffer. It is allocated when the block before it is written, which links to it.
    place: u64,
    bytes: u64,
    /// A block.
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Writer<'a> {
    fn new(buffer: &'a mut [u8], blocks: &mut StreamBlocks<'_>) -> Self {
        let place = blocks.take();
        Self { first: place, place, bytes: 0, buffer, used: LINK_BYTES }
    }

    fn put(&mut self, mut bytes: &[u8], blocks: &mut StreamBlocks<'_>) -> std::io::Result<()> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.used == self.buffer.len() {
                let next = blocks.take();
                self.buffer[..LINK_BYTES].copy_from_slice(&next.to_le_bytes());
                blocks.file.write_all_at(self.buffer, self.place)?;
                self.used = LINK_BYTES;
                self.place = next;
            }
            let (head, tail) = bytes.split_at(bytes.len().min(self.buffer.len() - self.used));
            self.buffer[self.used..self.used + head.len()].copy_from_slice(head);
            self.used += head.len();
            bytes = tail;
        }
        Ok(())
    }

    /// Writes the last block. Returns the begin of the stream and its length.
    fn end(self, file: &File) -> std::io::Result<(u64, u64)> {
        file.write_all_at(&self.buffer[..self.used], self.place)?;
        Ok((self.first, self.bytes))
    }
}

/// Reads a stream in order.
struct StreamReader<'a> {
    of: Stream<'a>,
    /// The place of the next block.
    at: u64,
    /// Bytes of the stream that are not in the buffer yet.
    left: u64,
    block: usize,
    buffer: Vec<u8>,
    used: usize,
    /// The places of the linked blocks read so far.
    read_blocks: Vec<u64>,
    /// Whether a block was read since the last check.
    fetched: bool,
}

impl<'a> StreamReader<'a> {
    fn new(of: Stream<'a>, block: usize) -> Self {
        let (buffer, read_blocks) = (Vec::with_capacity(block), Vec::new());
        Self { of, at: of.first, left: of.bytes, block, buffer, used: 0, read_blocks, fetched: false }
    }

    fn is_at_end(&self) -> bool {
        self.left == 0 && self.used == self.buffer.len()
    }

    fn fill(&mut self) -> std::io::Result<()> {
        if self.left == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let link = if self.of.linked { LINK_BYTES } else { 0 };
        let payload = self.left.min((self.block - link) as u64) as usize;
        self.buffer.resize(link + payload, 0);
        self.of.file.read_exact_at(&mut self.buffer, self.at)?;
        if self.of.linked {
            self.read_blocks.push(self.at);
        }
        self.at = match self.buffer.first_chunk::<LINK_BYTES>() {
            Some(next) if self.of.linked => u64::from_le_bytes(*next),
            _ => self.at + payload as u64,
        };
        self.left -= payload as u64;
        self.used = link;
        self.fetched = true;
        Ok(())
    }

    fn read(&mut self, mut into: &mut [u8]) -> std::io::Result<()> {
        while !into.is_empty() {
            if self.used == self.buffer.len() {
                self.fill()?;
            }
            let part = into.len().min(self.buffer.len() - self.used);
            let (head, tail) = into.split_at_mut(part);
            head.copy_from_slice(&self.buffer[self.used..self.used + part]);
            self.used += part;
            into = tail;
        }
        Ok(())
    }

    fn skip(&mut self, mut bytes: u64) -> std::io::Result<()> {
        while bytes > 0 {
            if self.used == self.buffer.len() {
                self.fill()?;
            }
            let part = bytes.min((self.buffer.len() - self.used) as u64);
            self.used += part as usize;
            bytes -= part;
        }
        Ok(())
    }
}

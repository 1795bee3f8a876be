//! Staged segments become reads: pages as whole blocks of the device, and neighbours joined to one read.

use crate::event::Event;
use crate::id::SourceId;
use crate::map::{Extent, ExtentTarget};
use crate::pager::Pager;
use crate::reads::{ReadPart, Staged};
use crate::source::{Buffer, Read, ReadClass, ReadForm};
use crate::state::PagerState;
use crate::translated::Translated;

/// Most segments of a joined read: well below the limit of `preadv` and io_uring (1024).
const JOIN_SEGMENTS: usize = 256;

impl Pager {
    /// Removes the staged segment at place `at`, with those that follow it in the source.
    pub(crate) fn next_read(&self, st: &mut PagerState, at: usize) -> Option<(SourceId, Read)> {
        let first = st.reads.take_staged(at)?;
        let form = st.sources.form(first.source);
        let mut parts = vec![ReadPart { active: first.active, segment: first.segment, shared: 0 }];
        let mut buffers = vec![st.reads.buffer(parts[0])?];
        let mut end = first.offset.checked_add(first.len as u64)?;
        let (mut before, mut piece) = (first.len, first.piece);
        while let Some(&next) = st.reads.staged().get(at) {
            let len = (end - first.offset) as usize;
            if first.solo || next.solo || next.source != first.source || parts.len() >= JOIN_SEGMENTS {
                break;
            }
            let Some(Joint { shared, hole }) = joint(end, before, piece, &next, &form) else { break };
            if len + hole + next.len > form.longest {
                break;
            }
            st.reads.take_staged(at);
            let part = ReadPart { active: next.active, segment: next.segment, shared: shared as u32 };
            let Some(b) = st.reads.buffer(part) else { continue };
            let b = Buffer { ptr: b.ptr.wrapping_add(shared), len: b.len - shared };
            parts.push(part);
            if hole > 0 {
                buffers.push(Buffer::hole(hole));
                end += hole as u64;
            }
            match buffers.last_mut() {
                // Neighbours in the source and in the frame.
                Some(last) if !last.is_hole() && last.ptr.wrapping_add(last.len) == b.ptr => last.len += b.len,
                _ => buffers.push(b),
            }
            end += b.len as u64;
            (before, piece) = (next.len, next.piece);
        }
        let segments = parts.len() as u32;
        let demanded = |part: &ReadPart| {
            let flight = st.reads.get(part.active).and_then(|a| st.flights.get(a.flight));
            flight.is_some_and(|f| f.demand())
        };
        let class = if parts.iter().any(demanded) { ReadClass::Demand } else { ReadClass::Prefetch };
        let token = st.begin_read(first.source, parts);
        let len = end - first.offset;
        st.tally.reads += 1;
        st.tally.bytes_read += len;
        st.tally.segments += u64::from(segments);
        self.emit(|| {
            let (source, offset) = (first.source, first.offset);
            Event::ReadStart { read: token, source, offset, bytes: len, segments, depth: st.reads.in_flight() as u32 }
        });
        Some((first.source, Read { token, offset: first.offset, buffers, class }))
    }
}

/// Extends the read of a contiguous page to whole blocks, which can bypass the page cache. The read of a file's last
/// page may then extend beyond its end.
pub(crate) fn widen(job: &mut Translated, block: u64) {
    // The page, and the part of it that the frame gets unchanged.
    let (first, page, into_frame) = match job.segments.as_slice() {
        [one] if one.to == ExtentTarget::Encoded(0) && one.len == job.encoded_len => (one, one.len, None),
        [page, sum] => match (page.to, sum.to) {
            (ExtentTarget::Frame(at), ExtentTarget::Encoded(0))
                if page.source == sum.source
                    && page.offset.checked_add(page.len as u64) == Some(sum.offset)
                    && sum.len == job.encoded_len =>
            {
                (page, page.len + sum.len, Some((page.len, at)))
            }
            _ => return,
        },
        _ => return,
    };
    let skip = (first.offset % block) as usize;
    let Some(len) = (skip + page).checked_next_multiple_of(block as usize) else { return };
    if (page as u64) < block {
        return;
    }
    let (source, offset) = (first.source, first.offset - skip as u64);
    let moved = into_frame.map_or(0, |(len, _)| len);
    job.moved = into_frame.map(|(len, at)| (skip..skip + len, at));
    job.body = skip + moved..skip + page;
    job.segments = vec![Extent { source, offset, len, to: ExtentTarget::Encoded(0) }];
    job.encoded_len = len;
}

/// Counts the reads that consecutive staged segments need.
#[derive(Default)]
pub(crate) struct Runs {
    reads: usize,
    last: Option<Staged>,
    /// Bytes of the last read.
    bytes: usize,
}

impl Runs {
    pub(crate) fn reads(&self) -> usize {
        self.reads
    }

    pub(crate) fn add(&mut self, next: &Staged, form: &ReadForm) {
        let last = self.last.replace(*next).filter(|last| last.source == next.source);
        let end = |last: &Staged| last.offset.checked_add(last.len as u64);
        let joined = last.and_then(|last| joint(end(&last)?, last.len, last.piece, next, form));
        self.bytes += next.len + joined.as_ref().map_or(0, |joint| joint.hole);
        if joined.is_none() || self.bytes > form.longest {
            (self.reads, self.bytes) = (self.reads + 1, next.len);
        }
    }
}

/// How a segment continues a read.
struct Joint {
    /// Bytes of it that the read already has.
    shared: usize,
    /// Bytes between the read and the segment.
    hole: usize,
}

/// How a segment can be joined to a read that ends at `end`, if at all. `before`: the length of the read's last
/// segment; `piece`: whether that is a piece of a row.
///
/// There are three cases:
/// - The segment begins at `end`.
/// - Whole blocks are read ([`widen`]), and the segment begins in the block in which the read ends.
/// - Both are pieces of rows, and the segment begins not far behind.
fn joint(end: u64, before: usize, piece: bool, next: &Staged, form: &ReadForm) -> Option<Joint> {
    let Some(shared) = end.checked_sub(next.offset) else {
        let hole = next.offset - end;
        return (piece && next.piece && hole <= form.hole as u64).then_some(Joint { shared: 0, hole: hole as usize });
    };
    let one_block = Some(shared) == form.block && shared < next.len as u64 && shared <= before as u64;
    (shared == 0 || one_block).then_some(Joint { shared: shared as usize, hole: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn staged_segments_are_counted_as_the_reads_that_they_become() {
        let mut runs = Runs::default();
        let form = ReadForm { block: Some(512), ..ReadForm::default() };
        let (most, hole) = (form.longest, form.hole);
        let segment = |source, offset, len| Staged {
            source: SourceId(source),
            offset,
            len,
            active: 0,
            segment: 0,
            solo: false,
            piece: false,
        };
        let mut add = |s: Staged| {
            runs.add(&s, &form);
            runs.reads()
        };
        // Adjacent, with a common block, with a gap, in another source, with two common blocks.
        assert_eq!(add(segment(0, 0, 2048)), 1);
        assert_eq!(add(segment(0, 2048, 2048)), 1);
        assert_eq!(add(segment(0, 4096 - 512, 2048)), 1);
        assert_eq!(add(segment(0, 9000, 2048)), 2);
        assert_eq!(add(segment(1, 9000 + 2048, 2048)), 3);
        assert_eq!(add(segment(1, 9000 + 4096 - 1024, 2048)), 4);
        // A read respects the largest length.
        assert_eq!(add(segment(2, 0, most - 10)), 5);
        assert_eq!(add(segment(2, most as u64 - 10, 10)), 5);
        assert_eq!(add(segment(2, most as u64, 10)), 6);
        // A bounded hole is allowed between two pieces of rows, and nowhere else.
        let piece = |source, offset, len| Staged { piece: true, ..segment(source, offset, len) };
        assert_eq!(add(piece(3, 0, 400)), 7);
        assert_eq!(add(piece(3, 6000, 400)), 7);
        assert_eq!(add(piece(3, 6400 + hole as u64, 400)), 7);
        assert_eq!(add(piece(3, 6800 + 2 * hole as u64 + 1, 400)), 8);
        assert_eq!(add(segment(3, 60_000, 400)), 9);
        assert_eq!(add(piece(3, 61_000, 400)), 10);
    }

    proptest! {
        /// Widened reads are whole blocks around the page. Exactly the page's bytes are decoded.
        #[test]
        fn widened_pages_are_the_same_bytes(offset in 0u64..100_000, page in 1usize..20_000, sum in 0usize..20, block in prop::sample::select(vec![512u64, 4096])) {
            let source = SourceId(3);
            let mut segments = vec![Extent { source, offset, len: page, to: ExtentTarget::Frame(64) }];
            if sum > 0 {
                segments.push(Extent { source, offset: offset + page as u64, len: sum, to: ExtentTarget::Encoded(0) });
            } else {
                segments[0].to = ExtentTarget::Encoded(0);
            }
            let encoded_len = if sum > 0 { sum } else { page };
            let before = segments.clone();
            let mut job = Translated { segments, encoded_len, body: 0..encoded_len, ..Translated::default() };
            widen(&mut job, block);
            if ((page + sum) as u64) < block {
                prop_assert_eq!(job.segments, before);
                return Ok(());
            }
            let [one] = job.segments.as_slice() else { return Err(TestCaseError::fail("one segment")) };
            prop_assert_eq!((one.source, one.to, one.len), (source, ExtentTarget::Encoded(0), job.encoded_len));
            prop_assert!(one.offset.is_multiple_of(block) && (one.len as u64).is_multiple_of(block));
            let at = |n: usize| one.offset + n as u64;
            let body = if sum > 0 { offset + page as u64..offset + (page + sum) as u64 } else { offset..offset + page as u64 };
            prop_assert_eq!(at(job.body.start)..at(job.body.end), body);
            prop_assert_eq!(job.moved.is_some(), sum > 0);
            if let Some((from, to)) = job.moved {
                prop_assert_eq!((at(from.start)..at(from.end), to), (offset..offset + page as u64, 64));
            }
            prop_assert!(one.offset <= offset && at(one.len) >= offset + (page + sum) as u64);
            prop_assert!((one.len as u64) < (page + sum) as u64 + 2 * block);
        }
    }
}

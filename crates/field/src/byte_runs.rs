//! The payload of one zone or array in its file: one piece, equal pieces at equal distances (planes, sub-records of a
//! split record), or a list of at most `MAX_PIECES`.

use crate::heap_size;

/// 65,536 sub-records of 2 GiB are 128 TiB.
pub(crate) const MAX_PIECES: u64 = 1 << 16;

/// A contiguous run of bytes in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// First byte.
    pub offset: u64,
    /// Bytes; never 0.
    pub len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LogicalRun {
    logical: u64,
    run: ByteRun,
}

/// Offsets within a payload, as offsets within the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Payload length.
    total: u64,
    shape: SpanLayout,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SpanLayout {
    Empty,
    /// Piece n starts at `offset + n * stride` and has `piece` bytes; the last one ends with `total`.
    Regular {
        offset: u64,
        piece: u64,
        stride: u64,
    },
    List(Vec<LogicalRun>),
}

impl Spans {
    /// An empty payload.
    pub(crate) const fn new() -> Self {
        Self { total: 0, shape: SpanLayout::Empty }
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        match &self.shape {
            SpanLayout::Empty | SpanLayout::Regular { .. } => 0,
            SpanLayout::List(list) => heap_size::list(list),
        }
    }

    /// Payload length in bytes.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Appends a piece of the file. False if there are too many irregular pieces.
    pub(crate) fn push(&mut self, offset: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let total = self.total;
        match &mut self.shape {
            SpanLayout::Empty => self.shape = SpanLayout::Regular { offset, piece: len, stride: len },
            SpanLayout::Regular { offset: first, piece, stride } => {
                let count = total.div_ceil(*piece);
                if count == 1 && offset == *first + total {
                    // Contiguous (planes of a plain binary file): one longer piece.
                    *piece += len;
                    *stride = *piece;
                } else if count == 1 && len <= *piece {
                    *stride = offset - *first;
                } else if count * *piece != total || len > *piece || offset != *first + count * *stride {
                    if count >= MAX_PIECES {
                        return false;
                    }
                    let (first, piece, stride) = (*first, *piece, *stride);
                    let mut list: Vec<LogicalRun> = (0..count)
                        .map(|n| LogicalRun {
                            logical: n * piece,
                            run: ByteRun { offset: first + n * stride, len: piece.min(total - n * piece) },
                        })
                        .collect();
                    list.push(LogicalRun { logical: total, run: ByteRun { offset, len } });
                    self.shape = SpanLayout::List(list);
                }
            }
            SpanLayout::List(list) => {
                if list.len() as u64 >= MAX_PIECES {
                    return false;
                }
                list.push(LogicalRun { logical: total, run: ByteRun { offset, len } });
            }
        }
        self.total += len;
        true
    }

    /// `(offset, piece, stride)` if the payload is one piece or equal pieces at equal distances.
    pub(crate) fn regular(&self) -> Option<(u64, u64, u64)> {
        match self.shape {
            SpanLayout::Regular { offset, piece, stride } => Some((offset, piece, stride)),
            _ => None,
        }
    }

    /// Calls `each` with the runs of the file that hold bytes `logical .. logical + len` of the payload, in order.
    /// Bytes past its end are left out.
    pub fn runs(&self, mut logical: u64, len: u64, each: &mut dyn FnMut(ByteRun)) {
        let end = logical.saturating_add(len).min(self.total);
        match &self.shape {
            SpanLayout::Empty => {}
            SpanLayout::Regular { offset, piece, stride } => {
                while logical < end {
                    let (n, within) = (logical / piece, logical % piece);
                    let take = (piece - within).min(end - logical);
                    each(ByteRun { offset: offset + n * stride + within, len: take });
                    logical += take;
                }
            }
            SpanLayout::List(list) => {
                let mut n = list.partition_point(|p| p.logical + p.run.len <= logical);
                while let (Some(p), true) = (list.get(n), logical < end) {
                    let within = logical - p.logical;
                    let take = (p.run.len - within).min(end - logical);
                    each(ByteRun { offset: p.run.offset + within, len: take });
                    logical += take;
                    n += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of the payload maps as in a plain list of pieces.
    fn check(pieces: &[(u64, u64)]) {
        let mut spans = Spans::new();
        let mut want = Vec::new();
        for &(offset, len) in pieces {
            assert!(spans.push(offset, len));
            want.extend(offset..offset + len);
        }
        assert_eq!(spans.len(), want.len() as u64);
        for a in 0..want.len() {
            for len in [1, 2, 3, 7, want.len() - a] {
                let len = len.min(want.len() - a);
                let mut got = Vec::new();
                spans.runs(a as u64, len as u64, &mut |r| got.extend(r.offset..r.offset + r.len));
                assert_eq!(got, &want[a..a + len], "{pieces:?} {a} {len}");
            }
        }
    }

    #[test]
    fn shapes() {
        check(&[(4, 10)]);
        check(&[(4, 10), (14, 10), (24, 10)]);
        check(&[(4, 10), (22, 10), (40, 10)]);
        check(&[(4, 10), (22, 10), (40, 3)]);
        check(&[(4, 10), (22, 3)]);
        check(&[(4, 10), (22, 3), (33, 10), (51, 3)]);
        check(&[(4, 3), (22, 10), (40, 2)]);
        check(&[(4, 10), (14, 10), (30, 20), (60, 5), (70, 1)]);
    }
}

//! Pages that are pieces of many rows: the bytes between two pieces are read with them and dropped.

use pager::source::memory::Memory;
use pager::*;
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: u64 = 16;
/// Pages side by side.
const PAGES: u64 = 8;

struct StridedMap {
    source: SourceId,
    /// Bytes of a piece.
    piece: usize,
    /// From the first piece of a page to that of the next row.
    stride: u64,
}

impl PageMap for StridedMap {
    fn name(&self) -> &str {
        "rows"
    }
    fn pages(&self) -> u64 {
        PAGES
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.piece * ROWS as usize
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let piece = |row: u64| Extent {
            source: self.source,
            offset: row * self.stride + id.page * self.piece as u64,
            len: self.piece,
            to: ExtentTarget::Frame(row as usize * self.piece),
        };
        Located::Extents {
            segments: (0..ROWS).map(piece).collect(),
            encoded_len: 0,
            scratch_len: 0,
            found: Box::default(),
        }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, _: &mut [u8]) {}
    fn checked(&self) -> bool {
        false
    }
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as u8
}

/// Reads and bytes for these pages, with checked content.
fn fetched(pager: &Arc<Pager>, source: SourceId, (piece, stride): (usize, u64), pages: &[u64]) -> (u64, u64) {
    let array = pager.add_array(Arc::new(StridedMap { source, piece, stride }));
    let ids: Vec<_> = pages.iter().map(|page| PageId::new(array, 0, *page)).collect();
    let before = pager.counters();
    let _hold = pager.fetch(&ids).unwrap();
    let worker = pager.worker();
    for (id, page) in ids.iter().zip(pages) {
        let Lookup::Here(bytes) = worker.page(*id) else { panic!("held, so it is here") };
        for (n, found) in bytes.iter().enumerate() {
            let (row, i) = ((n / piece) as u64, n % piece);
            let at = row * stride + page * piece as u64 + i as u64;
            assert_eq!(*found, byte(at), "page {page}, row {row}, byte {i}");
        }
    }
    let after = pager.counters();
    (after.reads - before.reads, after.bytes_read - before.bytes_read)
}

#[test]
fn rows_that_lie_near_each_other_are_one_read() {
    let bytes: Vec<u8> = (0..ROWS * 32_768).map(byte).collect();
    let path: PathBuf = std::env::temp_dir().join(format!("farfield-pieces-{}", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    for backend in [None, Some(Backend::Auto), Some(Backend::Threads)] {
        for direct in [false, true] {
            let config = PagerConfig { limit: 8 << 20, backend: backend.unwrap_or_default(), ..PagerConfig::default() };
            let pager = Pager::new(config).unwrap();
            pager.set_direct(direct);
            let source = match backend {
                None => pager.add_source(Arc::new(Memory::new("memory", bytes.clone()))),
                Some(_) => pager.add_file(&path),
            };
            // Pieces that begin anywhere, and whole blocks of a disk.
            for (piece, near, far) in [(50, 4000, 20_000), (512, 4096, 20_480), (4096, 8192, 32_768)] {
                let bytes = |pages: u64| pages * piece as u64;
                // A page alone, neighbours and a distant page, from the first to the last needed byte.
                assert_eq!(fetched(&pager, source, (piece, near), &[0]), (1, 15 * near + bytes(1)));
                if piece < 4096 {
                    assert_eq!(fetched(&pager, source, (piece, near), &[1, 2, 4]), (1, 15 * near + bytes(4)));
                }
                // At this distance each piece is a read of its own.
                assert_eq!(fetched(&pager, source, (piece, far), &[0]), (16, bytes(16)));
                assert_eq!(fetched(&pager, source, (piece, far), &[0, 1]), (16, bytes(32)));
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}

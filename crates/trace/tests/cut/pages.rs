//! Pages in a simulated source, and the comparison of lines.

use kernels::line::JoinedLine;
use pager::source::simulated::Simulation;
use pager::{Extent, ExtentTarget, Located, PageError, PageErrorKind, PageId, PageMap, SourceId};
use std::time::Duration;

/// One array cut in pages, each followed by its checksum, contiguous in a source.
pub struct TestMap {
    pub name: String,
    pub source: SourceId,
    /// First byte in the source.
    pub first: u64,
    pub pages: u64,
    /// Bytes of a page.
    pub bytes: usize,
}

impl PageMap for TestMap {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let number = u64::from(id.step) * self.pages + id.page;
        let offset = self.first + number * (self.bytes as u64 + 4);
        let page = Extent { source: self.source, offset, len: self.bytes, to: ExtentTarget::Frame(0) };
        let crc =
            Extent { source: self.source, offset: offset + self.bytes as u64, len: 4, to: ExtentTarget::Encoded(0) };
        Located::Extents { segments: vec![page, crc], encoded_len: 4, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], crc: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let (computed, stored) = (crc32c::crc32c(frame), u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]));
        if computed == stored {
            return Ok(());
        }
        Err(PageError::new(self.name.as_str(), PageErrorKind::Checksum { stored, computed }))
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        true
    }
}

/// Whether lines are equal bit for bit.
#[allow(dead_code, reason = "not every test has lines")]
pub fn same(a: &[JoinedLine], b: &[JoinedLine]) -> bool {
    let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    a.len() == b.len()
        && a.iter().zip(b).all(|(p, q)| {
            bits(p.points.as_flattened()) == bits(q.points.as_flattened())
                && bits(&p.time) == bits(&q.time)
                && bits(&p.fields) == bits(&q.fields)
                && (p.zone.clone(), p.seed, p.reason, p.reason_backward)
                    == (q.zone.clone(), q.seed, q.reason, q.reason_backward)
        })
}

/// A source that is slow, out of order, and sometimes fails.
pub fn simulation(seed: u64) -> Simulation {
    Simulation {
        seed,
        latency: Duration::from_micros(5)..Duration::from_micros(400),
        depth: 8,
        shuffle: true,
        short_reads: 0.2,
        transient_errors: 0.02,
        ..Simulation::fixed(Duration::ZERO, 8)
    }
}

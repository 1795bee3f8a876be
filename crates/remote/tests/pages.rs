//! The real pager over a server with faults at random: exact bytes or a failed page, never wrong ones.

mod support;

use pager::source::conformance;
use pager::{Extent, ExtentTarget, Located, Lookup, PageError, PageId, PageMap, Pager, PagerConfig, SourceId};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use support::reads::{register, source};
use support::{ServedFile, Server, ServerFault};

const PAGE: usize = 1500;
const PAGES: u64 = 64;

/// Pages one after the other.
struct Consecutive(SourceId);

impl PageMap for Consecutive {
    fn name(&self) -> &str {
        "consecutive"
    }
    fn pages(&self) -> u64 {
        PAGES
    }
    fn page_bytes(&self, _: PageId) -> usize {
        PAGE
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let offset = id.page * PAGE as u64;
        let extent = Extent { source: self.0, offset, len: PAGE, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![extent], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

/// A fault by a number that is drawn.
fn fault(drawn: u64) -> ServerFault {
    let n = (drawn >> 8) as usize % 3000;
    match drawn % 17 {
        0 => ServerFault::Status([401, 403, 404, 408, 416, 429, 500, 503][n % 8], Vec::new()),
        1 => ServerFault::Whole,
        2 => ServerFault::Range([-1, 1, 0][n % 3], [0, 1, -1][n % 3], 0),
        3 => ServerFault::Range(0, 0, [1, -1][n % 2]),
        4 => ServerFault::NoContentRange,
        5 => ServerFault::Length([-3, 4][n % 2]),
        6 => ServerFault::Long(n % 40),
        7 => ServerFault::Cut(n),
        8 => ServerFault::Reset(n),
        9 if n.is_multiple_of(8) => ServerFault::Stall(n),
        10 => ServerFault::Late(Duration::from_millis(20)),
        _ => ServerFault::None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_exact_or_failed(seed in any::<u64>(), rate in 1u64..6) {
        register();
        let server = Server::start();
        let truth = conformance::bytes(PAGE * PAGES as usize);
        let url = server.put("a", ServedFile::new(truth.clone()));
        let mut state = seed;
        server.faults(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (state >> 40) % 6 < rate { fault(state >> 20) } else { ServerFault::None }
        });
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let id = pager.add_source(source(&url));
        let array = pager.add_array(Arc::new(Consecutive(id)));
        let mut worker = pager.worker();
        let mut exact = 0;
        for begin in (0..PAGES).step_by(8) {
            let ids: Vec<PageId> = (begin..begin + 8).map(|n| PageId::new(array, 0, n * 37 % PAGES)).collect();
            let hold = pager.fetch(&ids);
            for page in ids {
                match worker.page(page) {
                    Lookup::Here(bytes) => {
                        let at = page.page as usize * PAGE;
                        prop_assert!(*bytes == truth[at..at + PAGE], "page {} of seed {seed}", page.page);
                        exact += 1;
                    }
                    Lookup::Failed(_) | Lookup::Absent => prop_assert!(hold.is_err()),
                }
            }
            worker.release();
        }
        prop_assert!(rate > 1 || exact > 0, "few faults leave some pages");
    }
}

//! Each source says the reads that suit it.

mod common;
use common::*;
use pager::source::simulated::{Simulated, Simulation};
use pager::source::{Completion, Read, ReadForm, Source};
use pager::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// Counts the reads in flight at a source.
struct Counted {
    inner: Arc<dyn Source>,
    form: ReadForm,
    reads: Arc<ReadsInFlight>,
}

#[derive(Default)]
struct ReadsInFlight {
    now: AtomicUsize,
    most: AtomicUsize,
}

struct CountedDone(Arc<dyn Completion>, Arc<ReadsInFlight>);

impl Completion for CountedDone {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.1.now.fetch_sub(1, SeqCst);
        self.0.complete(token, result);
    }
}

impl Source for Counted {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        self.inner.size()
    }
    fn form(&self) -> ReadForm {
        self.form
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let now = self.reads.now.fetch_add(batch.len(), SeqCst) + batch.len();
        self.reads.most.fetch_max(now, SeqCst);
        let done: Arc<dyn Completion> = Arc::new(CountedDone(done.clone(), self.reads.clone()));
        self.inner.submit(batch, &done);
    }
}

#[test]
fn a_source_has_its_own_depth_and_the_others_share_the_readers() {
    let depths = [None, Some(3), Some(40), None];
    let written = write(71, &[plain(300, 2000)]);
    let simulation = || Simulation::fixed(Duration::from_millis(2), 0);
    let counts: Vec<Arc<ReadsInFlight>> = depths.iter().map(|_| Arc::default()).collect();
    // Places are far apart, so that no two reads are joined.
    let form = |depth| ReadForm { depth, longest: 1, ..ReadForm::default() };
    let pager = Pager::new(PagerConfig { readers: 5, ..config(64 << 20) }).unwrap();
    let opened: Vec<OpenedPager> = depths
        .iter()
        .zip(&counts)
        .map(|(depth, reads)| {
            written.open_in(&pager, |blob| {
                let inner = Arc::new(Simulated::new(blob, simulation()).unwrap());
                Arc::new(Counted { inner, form: form(*depth), reads: reads.clone() })
            })
        })
        .collect();
    let (bell, wake) = Bell::new(&pager);
    for (n, priority) in [Priority::Demand, Priority::Prefetch].into_iter().enumerate() {
        let pages: Vec<PageId> = opened.iter().flat_map(|o| ids(o, 150 * n as u64..150 * (n as u64 + 1))).collect();
        assert_eq!(pager.request(&pages, n as u64, &wake, priority), Requested::Pending);
        drive(&pager, || bell.rang() == n + 1);
        check(&opened[2], &pager.worker(), &ids(&opened[2], 150 * n as u64..150 * (n as u64 + 1)));
        let most: Vec<usize> = counts.iter().map(|c| c.most.swap(0, SeqCst)).collect();
        assert!(most[0] <= 5 && most[3] <= 5 && most[1] == 3 && most[2] == 40, "{most:?} {priority:?}");
    }
}

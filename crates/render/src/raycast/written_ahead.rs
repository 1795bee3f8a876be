//! Prefetch of the written pages of sparse arrays at servers. Rays find an index and then a page behind it, tile by tile,
//! and each is a round trip. Here all indexes are asked for at once, and then all pages that they name, if those are few.
//! They are held while the rays go: pages that were never written are made without a read, and would push them out.

use field::volume::{ShardPages, VolumeArray};
use kernels::rays::Scene;
use pager::Hold;
use pager::{ArrayId, Lookup, PageId, Pager, Priority, Requested, Wake};
use runtime::executor::Nobody;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Most indexes of a step.
const MOST_INDEXES: u64 = 1024;
/// Divisor: the share of the limit that all indexes of a step may take.
const INDEX_SHARE: u64 = 16;
/// Divisor: the share of the limit that all written pages of a step may take. Of more the rays need only some.
const PAGE_SHARE: u64 = 8;

/// Asks for what the arrays of a scene have written, and holds it until the result is dropped.
pub(super) fn ask(pager: &Arc<Pager>, scene: &Scene) -> Vec<Arc<WrittenPagesAhead>> {
    let mut asked = Vec::new();
    for (array, step) in scene.arrays() {
        let Some(shards) = &array.shards else { continue };
        let (count, bytes) = shards.index_size();
        let limit = pager.ledger().limit();
        if count > MOST_INDEXES || count.saturating_mul(bytes) > limit / INDEX_SHARE {
            continue;
        }
        let step = if array.steady { 0 } else { step };
        let then = Arc::new(WrittenPagesAhead::new(pager, array, shards, step));
        let wake: Arc<dyn Wake> = then.clone();
        if pager.request(&shards.indexes(step), 0, &wake, Priority::Prefetch) == Requested::Ready {
            then.ask();
        }
        asked.push(then);
    }
    asked
}

/// Asks for the pages when the indexes have come.
pub(super) struct WrittenPagesAhead {
    pager: Weak<Pager>,
    shards: Arc<ShardPages>,
    array: ArrayId,
    step: u32,
    most: usize,
    held: Mutex<Option<Hold>>,
}

impl WrittenPagesAhead {
    fn new(pager: &Arc<Pager>, array: &VolumeArray, shards: &Arc<ShardPages>, step: u32) -> Self {
        let most = pager.ledger().limit() / PAGE_SHARE / array.brick.bytes().max(1) as u64;
        Self {
            pager: Arc::downgrade(pager),
            shards: shards.clone(),
            array: array.id,
            step,
            most: most as usize,
            held: Mutex::default(),
        }
    }

    fn ask(&self) {
        let Some(pager) = self.pager.upgrade() else { return };
        let worker = pager.worker();
        let written = self.shards.written(self.step, |index, tell| {
            if let Lookup::Here(bytes) = worker.page(index) {
                tell(bytes);
            }
        });
        drop(worker);
        if written.len() > self.most {
            return;
        }
        let pages: Vec<PageId> = written.into_iter().map(|page| PageId::new(self.array, self.step, page)).collect();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(pager.hold(&pages));
        let nobody: Arc<dyn Wake> = Arc::new(Nobody);
        let _settled = pager.request(&pages, 0, &nobody, Priority::Prefetch);
    }
}

impl Wake for WrittenPagesAhead {
    fn wake(&self, _: u64) {
        self.ask();
    }
}

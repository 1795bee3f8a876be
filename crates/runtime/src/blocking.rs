//! Restartable work on one thread that waits for its pages: probes, surveys, seeds.

use crate::session::Session;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::{Miss, Nodes};
use field::paged::PagedNodes;
use kernels::flow::GridFlow;
use pager::PageId;
use std::sync::Arc;

/// A flow over a dataset for one waiting thread.
pub fn blocking_flow(
    session: &Session,
    dataset: &Dataset,
    fields: Arc<[ZoneFields]>,
    step: usize,
) -> Result<GridFlow<PagedNodes>, FieldError> {
    let nodes = PagedNodes::new(dataset.zones.clone(), session.pager.worker(), step as u32);
    Ok(GridFlow::new(ZoneLocator::new(nodes, fields), session.zone_order(dataset)?))
}

/// Repeats restartable work, and waits for its absent pages. They are held until it is done.
pub fn until_here<T>(
    session: &Session,
    flow: &mut GridFlow<PagedNodes>,
    mut work: impl FnMut(&mut GridFlow<PagedNodes>) -> Result<T, Miss>,
) -> Result<T, FieldError> {
    let mut wanted: Vec<PageId> = Vec::new();
    let mut _hold = None;
    loop {
        flow.space.nodes.missing().clear();
        match work(flow) {
            Ok(v) => return Ok(v),
            Err(Miss::Failed) => {
                return Err(match flow.space.nodes.failure() {
                    Some(e) => FieldError::Page(e),
                    None => FieldError::Internal("a page failed without an error"),
                })
            }
            Err(Miss::Absent) => {
                wanted.append(flow.space.nodes.missing());
                wanted.sort_unstable();
                wanted.dedup();
                flow.space.nodes.worker().release();
                let bytes = wanted.iter().map(|p| session.pager.map(p.array).page_bytes(*p) as u64).sum();
                let held = session.pager.fetch(&wanted);
                _hold = Some(held.map_err(|e| crate::limits::fetch_error(&session.pager, e, bytes, 0))?);
            }
        }
    }
}

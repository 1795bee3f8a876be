//! Restartable work on one thread that waits for its pages: probes, surveys, seeds.

use crate::limits::{enough_limit, fetch_error, more_than};
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
pub struct BlockingFlow<'a> {
    session: &'a Session,
    flow: GridFlow<PagedNodes>,
    /// A memory limit that holds any step of the work.
    enough: u64,
}

impl<'a> BlockingFlow<'a> {
    /// Samples `fields`, by zone, at a time step.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] for a zone in the session's order that the dataset lacks.
    pub fn new(
        session: &'a Session,
        dataset: &Dataset,
        fields: Arc<[ZoneFields]>,
        step: usize,
    ) -> Result<Self, FieldError> {
        let enough = enough_limit(dataset.closure_bytes(&fields, &session.pager, 1));
        let nodes = PagedNodes::new(dataset.zones.clone(), session.pager.worker(), step as u32);
        let flow = GridFlow::new(ZoneLocator::new(nodes, fields), session.zone_order(dataset)?);
        Ok(Self { session, flow, enough })
    }

    /// Repeats restartable work, and waits for its absent pages. The pages of all attempts are held together until the work
    /// is done. So the work is one step, such as one sample: a limit is known to hold that, and no more.
    ///
    /// # Errors
    /// [`FieldError::Page`] for a page that cannot be read; [`FieldError::LimitTooSmall`] where its pages do not fit together.
    pub fn until_here<T>(
        &mut self,
        mut work: impl FnMut(&mut GridFlow<PagedNodes>) -> Result<T, Miss>,
    ) -> Result<T, FieldError> {
        let (session, flow) = (self.session, &mut self.flow);
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
                    // The error of one attempt names its own pages alone. The next may need others.
                    let short = |e| more_than(fetch_error(&session.pager, e, bytes, 0), self.enough);
                    _hold = Some(session.pager.fetch(&wanted).map_err(short)?);
                }
            }
        }
    }
}

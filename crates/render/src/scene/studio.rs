//! The studio: document, session, bricks, and the share of memory for geometry.

use super::document::SceneDocument;
use crate::raycast::SharedBricks;
use field::volume::Volume;
use pager::Event;
use runtime::limits::limit_for;
use runtime::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Divisor: the share of the limit for gathered geometry in memory. The rest goes to disk.
pub(super) const ARENA_SHARE: u64 = 4;

/// Everything that pictures are made from.
pub(super) struct Studio<'a> {
    pub(super) document: &'a SceneDocument,
    pub(super) session: &'a Session,
    /// Bricks kept between pictures of a volume.
    pub(super) kept: &'a Arc<SharedBricks>,
}

impl<'a> Studio<'a> {
    /// The session, if the source is a flow.
    pub(super) fn flow(&self) -> Option<&'a Session> {
        Some(self.session).filter(|s| s.is_flow())
    }

    /// The volume, if the source is one.
    pub(super) fn volume(&self) -> Option<&'a Volume> {
        self.session.volume().ok()
    }

    /// Records the span since `begun_us` of the pager's clock as an event.
    pub(super) fn tell_span(&self, name: &str, begun_us: u64) {
        let took_us = self.session.pager.now_us().saturating_sub(begun_us);
        self.session.pager.record(|| Event::Span { took_us, name: name.into() });
    }

    /// The file of each view, or the pattern of its files.
    pub(super) fn outputs(&self, output: &Path) -> Vec<PathBuf> {
        match &self.document.views[..] {
            [] => vec![output.to_owned()],
            views => views.iter().map(|v| v.output.clone()).collect(),
        }
    }
}

/// A limit that suffices for lines through a dataset in a picture of this size.
pub(super) fn picture_limit(session: &Session, [width, height]: [u32; 2]) -> u64 {
    let dataset = session.dataset();
    let closure = dataset.fields(Some("velocity"), &[], 0).map_or(0, |f| dataset.closure_bytes(&f, &session.pager, 1));
    // Everything of a row of pixels is in memory: colour, depth, normals.
    let row = u64::from(width.max(height)) * 64;
    limit_for(closure + row + (2 << 20), ARENA_SHARE)
}

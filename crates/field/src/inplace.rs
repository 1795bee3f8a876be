//! PLOT3D arrays paged where they lie: a page is a run of whole i-rows of one plane, with all components, which a file
//! holds in one extent a component.

use crate::interleave::interleave;
use crate::plot3d::ArrayLayout;
use crate::translate::Translation;
use pager::error::{PageError, PageErrorKind};
use pager::id::{PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use std::sync::Arc;

/// Points of a page aimed at: as many as a cube of 16, the default of the store.
const PAGE_POINTS: usize = 4096;

/// Points of a page along i, j, k for a zone that is paged in place.
pub fn page_box(dims: [usize; 3]) -> [usize; 3] {
    let most = (PAGE_POINTS / dims[0].max(1)).clamp(1, dims[1].max(1));
    // As many pages as that takes, of about equal rows: the last one is not left with a few.
    let pages = dims[1].max(1).div_ceil(most);
    [dims[0].max(1), dims[1].max(1).div_ceil(pages), 1]
}

/// One array of one zone in its PLOT3D files.
pub struct InPlace {
    layout: Arc<ArrayLayout>,
    /// One a file of the dataset.
    sources: Arc<[SourceId]>,
    translation: Translation,
    name: String,
}

impl InPlace {
    /// `sources` are the dataset's files in the order of [`crate::plot3d::Files::paths`].
    pub fn new(layout: Arc<ArrayLayout>, sources: Arc<[SourceId]>) -> Self {
        let dims = layout.dims();
        let name = layout.name().to_owned();
        Self { layout, sources, translation: Translation::new(dims, page_box(dims)), name }
    }
}

impl PageMap for InPlace {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.translation.pages.map(u64::from))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.layout.components() * self.layout.dtype().size()
    }
    fn locate(&self, page: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let t = &self.translation;
        let step = page.step as usize;
        let plane_pages = u64::from(t.pages[1]);
        let (k, jp) = ((page.page / plane_pages) as usize, (page.page % plane_pages) as usize);
        let j0 = jp * t.page[1] as usize;
        let j1 = (j0 + t.page[1] as usize).min(t.dims[1] as usize);
        let component_bytes = t.component * self.layout.dtype().size();
        let Some(&source) = self.sources.get(self.layout.file(step)) else {
            return Located::Failed(PageError::new(self.name.as_str(), PageErrorKind::Missing));
        };
        let mut segments = Vec::with_capacity(self.layout.components());
        for c in 0..self.layout.components() {
            let mut at = c * component_bytes;
            self.layout.extents(step, c, k, j0..j1, &mut |run| {
                let len = run.len as usize;
                // Vectors not into the frame: there the components of a point stand together.
                let to = if self.layout.components() > 1 { ExtentTarget::Encoded(at) } else { ExtentTarget::Frame(at) };
                segments.push(Extent { source, offset: run.offset, len, to });
                at += len;
            });
        }
        let encoded_len = if self.layout.components() > 1 { component_bytes * self.layout.components() } else { 0 };
        Located::Extents { segments, encoded_len, scratch_len: 0 }
    }
    fn decode(&self, page: PageId, encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let components = self.layout.components();
        if components > 1 {
            interleave(encoded, frame, components, self.layout.dtype().size());
        }
        self.layout.finish(page.step as usize, frame);
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

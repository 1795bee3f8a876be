//! Arrays paged in place. A page is a run of whole i-rows of one plane with all components: one extent per component,
//! or one for interleaved components.

use crate::array_layout::ArrayLayout;
use crate::interleave::interleave;
use crate::translate::Translation;
use pager::error::{PageError, PageErrorKind};
use pager::id::{PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use std::ops::Range;
use std::sync::Arc;

/// Intended points of a page: as in a cube of 16, the store's default.
const PAGE_POINTS: usize = 4096;

/// Points of a page along i, j, k for a zone that is paged in place.
pub fn page_box(dims: [usize; 3]) -> [usize; 3] {
    let most = (PAGE_POINTS / dims[0].max(1)).clamp(1, dims[1].max(1));
    // Rows are spread evenly over the pages.
    let pages = dims[1].max(1).div_ceil(most);
    [dims[0].max(1), dims[1].max(1).div_ceil(pages), 1]
}

/// The page map of one array of one zone in its files.
pub struct InPlace {
    layout: Arc<ArrayLayout>,
    /// One per file of the dataset.
    sources: Arc<[SourceId]>,
    translation: Translation,
    name: String,
}

impl InPlace {
    /// `sources` are the dataset's files in the order of [`crate::data_files::DataFiles::paths`].
    pub fn new(layout: Arc<ArrayLayout>, sources: Arc<[SourceId]>) -> Self {
        let dims = layout.dims();
        let name = layout.name().to_owned();
        Self { layout, sources, translation: Translation::new(dims, page_box(dims)), name }
    }
}

/// The conversion of a page's bytes to its frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Way {
    /// None: the bytes are the frame.
    AsIs,
    /// From planes of components, of the frame's type.
    Planes,
    /// From points with all components, with other data between, or of another type.
    Points,
    /// From planes of components with other data between, or of another type.
    Apart,
}

impl InPlace {
    fn way(&self, step: usize) -> Way {
        let l = &self.layout;
        let is_of = |c| l.numbers(step, c).is_of(l.dtype());
        if l.is_interleaved(step) {
            let (point, own) = (l.point_bytes(step, 0), l.component_bytes(step));
            let size = l.dtype().size();
            return if is_of(0) && own == size && point == size * l.components() { Way::AsIs } else { Way::Points };
        }
        let first = l.numbers(step, 0);
        if !(0..l.components()).all(|c| l.is_plain(step, c) && l.numbers(step, c) == first) {
            return Way::Apart;
        }
        if l.components() > 1 {
            Way::Planes
        } else {
            Way::AsIs
        }
    }

    /// Start of a component in the bytes of a full page, and bytes there from point to point.
    fn encoded(&self, step: usize, c: usize) -> (usize, usize) {
        let l = &self.layout;
        if l.is_interleaved(step) {
            return (c * l.component_bytes(step), l.point_bytes(step, 0));
        }
        let before: usize = (0..c).map(|c| self.translation.component * l.point_bytes(step, c)).sum();
        (before, l.point_bytes(step, c))
    }

    fn encoded_len(&self, step: usize) -> usize {
        let l = &self.layout;
        let points = self.translation.component;
        if l.is_interleaved(step) {
            return points * l.point_bytes(step, 0);
        }
        (0..l.components()).map(|c| points * l.point_bytes(step, c)).sum()
    }

    /// Plane and rows of a page.
    fn rows(&self, page: PageId) -> (usize, Range<usize>) {
        let t = &self.translation;
        let plane_pages = u64::from(t.pages[1]);
        let (k, jp) = ((page.page / plane_pages) as usize, (page.page % plane_pages) as usize);
        let j0 = jp * t.page[1] as usize;
        (k, j0..(j0 + t.page[1] as usize).min(t.dims[1] as usize))
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
        let step = page.step as usize;
        let (k, j) = self.rows(page);
        let l = &self.layout;
        let way = self.way(step);
        // One run has all interleaved components.
        let (runs, together) = if l.is_interleaved(step) { (1, l.components()) } else { (l.components(), 1) };
        let mut segments = Vec::with_capacity(runs);
        for c in 0..runs {
            let Some(&source) = self.sources.get(l.file(step, c)) else {
                return Located::Failed(PageError::new(self.name.as_str(), PageErrorKind::Missing));
            };
            let mut at = self.encoded(step, c).0;
            l.spread_extents(step, c, k, j.clone(), together, &mut |run| {
                let len = run.len as usize;
                // Planes do not go into the frame, whose components are interleaved.
                let to = if way == Way::AsIs { ExtentTarget::Frame(at) } else { ExtentTarget::Encoded(at) };
                segments.push(Extent { source, offset: run.offset, len, to });
                at += len;
            });
        }
        let encoded_len = if way == Way::AsIs { 0 } else { self.encoded_len(step) };
        Located::Extents { segments, encoded_len, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, page: PageId, _: &[u64], encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let step = page.step as usize;
        let l = &self.layout;
        let (components, size) = (l.components(), l.dtype().size());
        let way = self.way(step);
        if way == Way::AsIs || way == Way::Planes {
            if way == Way::Planes {
                interleave(encoded, frame, components, size);
            }
            l.finish(step, frame);
            return Ok(());
        }
        let (_, j) = self.rows(page);
        let points = j.len() * self.translation.dims[0] as usize;
        for c in 0..components {
            let (from, apart) = self.encoded(step, c);
            let numbers = l.numbers(step, c);
            let end = from + (points - 1) * apart + numbers.size();
            let to = &mut frame[c * size..(points - 1) * components * size + (c + 1) * size];
            numbers.convert(&encoded[from..end], apart, l.dtype(), to, components * size);
        }
        l.scaled(frame);
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

//! Volumes in memory, in pages of a simulated source.

use field::translate::Translation;
use field::volume::{Brick, ChannelSpec, Placement, VolumeArray, VolumeLevel, VoxelType};
use pager::source::memory::Memory;
use pager::source::simulated::{Simulated, Simulation};
use pager::{Extent, ExtentTarget, Located, PageError, PageErrorKind, PageId, PageMap, Pager, PagerConfig, SourceId};
use std::sync::Arc;

/// Consecutive pages, some of them unreadable.
struct Bricks {
    source: SourceId,
    first: u64,
    brick: Brick,
    pages: u64,
    failing: Vec<u64>,
}

impl PageMap for Bricks {
    fn name(&self) -> &str {
        "made"
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.brick.bytes()
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        if self.failing.contains(&id.page) {
            let kind = PageErrorKind::Decode("it was made so".into());
            return Located::Failed(PageError::new(format!("made page {}", id.page), kind));
        }
        let bytes = self.brick.bytes();
        let offset = self.first + (u64::from(id.step) * self.pages + id.page) * bytes as u64;
        let segment = Extent { source: self.source, offset, len: bytes, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![segment], encoded_len: 0, scratch_len: 0, found: Box::default() }
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

/// A value by place, component and step.
pub type VoxelRule = dyn Fn([u32; 3], usize, u32) -> f64;

/// An array of a volume.
pub struct SyntheticArray<'a> {
    pub dims: [u32; 3],
    pub page: [u32; 3],
    pub voxel: VoxelType,
    pub channels: Vec<usize>,
    pub steps: u32,
    pub failing: Vec<u64>,
    pub rule: &'a VoxelRule,
}

impl SyntheticArray<'_> {
    pub fn scalar(dims: [u32; 3], page: u32, voxel: VoxelType, rule: &VoxelRule) -> SyntheticArray<'_> {
        SyntheticArray { dims, page: [page; 3], voxel, channels: vec![0], steps: 1, failing: Vec::new(), rule }
    }

    /// Adds it to a source of the pager.
    pub fn array(&self, pager: &Arc<Pager>, simulation: Option<Simulation>) -> VolumeArray {
        let page = [0, 1, 2].map(|a| self.page[a].min(self.dims[a]));
        let translation = Translation::new(self.dims.map(|n| n as usize), page.map(|n| n as usize));
        let brick = Brick { page, components: self.channels.len(), voxel: self.voxel };
        let pages: u64 = translation.pages.iter().map(|n| u64::from(*n)).product();
        let mut bytes = Vec::new();
        for step in 0..self.steps {
            for number in 0..pages {
                // Bytes outside of voxels would be visible.
                let mut frame = vec![0x5a; brick.bytes()];
                let (first, extent) = translation.extent(number);
                for k in 0..extent[2] {
                    for j in 0..extent[1] {
                        for i in 0..extent[0] {
                            let at = [first[0] + i, first[1] + j, first[2] + k];
                            let element = ((k * page[1] + j) * page[0] + i) as usize * brick.components;
                            for c in 0..brick.components {
                                let size = self.voxel.size();
                                let to = (element + c) * size;
                                put(self.voxel, (self.rule)(at, c, step), &mut frame[to..to + size]);
                            }
                        }
                    }
                }
                bytes.extend_from_slice(&frame);
            }
        }
        let source: Arc<dyn pager::source::Source> = match simulation {
            Some(simulation) => Arc::new(Simulated::new(bytes, simulation).unwrap()),
            None => Arc::new(Memory::new("memory", bytes)),
        };
        let source = pager.add_source(source);
        let map = Bricks { source, first: 0, brick, pages, failing: self.failing.clone() };
        VolumeArray {
            name: "made".into(),
            id: pager.add_array(Arc::new(map)),
            translation,
            brick,
            channels: self.channels.clone(),
            steady: self.steps == 1,
            ranges: Vec::new(),
            missing: Vec::new(),
            valued: None,
            vacant: None,
            shards: None,
            row_group: None,
        }
    }
}

fn put(voxel: VoxelType, value: f64, to: &mut [u8]) {
    field::with_voxel!(voxel, T => to.copy_from_slice(&(value as T).to_ne_bytes()));
}

/// A level of arrays.
pub fn level(dims: [u32; 3], placement: Placement, arrays: Vec<VolumeArray>) -> VolumeLevel {
    VolumeLevel { dims, placement, arrays }
}

/// Axes along those of space.
pub fn straight(origin: [f64; 3], spacing: [f64; 3]) -> Placement {
    Placement { origin, axes: [0, 1, 2].map(|a| core::array::from_fn(|c| if a == c { spacing[a] } else { 0.0 })) }
}

pub fn channel(name: &str) -> ChannelSpec {
    ChannelSpec::named(name)
}

pub fn pager(limit: u64, readers: usize) -> Arc<Pager> {
    Pager::new(PagerConfig { limit, readers, ..PagerConfig::default() }).unwrap()
}

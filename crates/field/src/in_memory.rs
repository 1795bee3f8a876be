//! Nodes over flat arrays in memory: the baseline for paging, and the reference of its tests.

use crate::boxes::{BoxPyramid, Xyz};
use crate::catalog::DType;
use crate::nodes::{corner_steps, ArraySlot, BoxLevel, Each, Grain, Miss, Nodes, Zone};
use crate::simd::V4;
use crate::translate::Translation;
use crate::uniform::Uniform;
use pager::error::PageError;
use pager::id::{ArrayId, PageId};
use std::sync::Arc;

/// A whole array, passed as `[component][k][j][i]` and stored as `[k][j][i][component]`.
#[derive(Clone, Debug)]
pub enum FlatArray {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Integers (iblank).
    I32(Vec<i32>),
}

impl FlatArray {
    /// Puts all components of a point together, as in pages.
    fn interleaved(self, components: usize) -> Self {
        fn each<T: Copy>(v: Vec<T>, components: usize) -> Vec<T> {
            let points = v.len() / components.max(1);
            let mut out = Vec::with_capacity(v.len());
            out.extend((0..v.len()).map(|n| v[n % components * points + n / components]));
            out
        }
        match self {
            Self::F32(v) if components > 1 => Self::F32(each(v, components)),
            Self::F64(v) if components > 1 => Self::F64(each(v, components)),
            Self::I32(v) if components > 1 => Self::I32(each(v, components)),
            single => single,
        }
    }

    fn base(&self) -> (*const u8, DType, usize) {
        match self {
            Self::F32(v) => (v.as_ptr().cast(), DType::Float32, v.len()),
            Self::F64(v) => (v.as_ptr().cast(), DType::Float64, v.len()),
            Self::I32(v) => (v.as_ptr().cast(), DType::Int32, v.len()),
        }
    }
}

/// A zone: its name, its points along i, j, k, and its arrays with names and components.
pub type NamedZone = (String, [usize; 3], Vec<(String, usize, FlatArray)>);

/// The data of one zone.
#[derive(Clone, Debug)]
pub struct FlatZone {
    /// One per array of the zone.
    pub arrays: Vec<FlatArray>,
    /// Boxes of blocks of cells, all levels.
    pub boxes: BoxPyramid,
}

/// A dataset wholly in memory. Cheap to clone: workers share the arrays.
#[derive(Clone)]
pub struct FlatNodes {
    zones: Arc<[Zone]>,
    data: Arc<[FlatZone]>,
    missing: Vec<PageId>,
}

impl FlatNodes {
    /// From zones, whose page boxes are the whole zone, and their arrays.
    ///
    /// # Panics
    /// If an array does not have its zone's length: the loaders rely on it.
    pub fn new(zones: Arc<[Zone]>, data: Arc<[FlatZone]>) -> Self {
        for (z, d) in zones.iter().zip(data.iter()) {
            for (slot, a) in z.arrays.iter().zip(&d.arrays) {
                let (_, dtype, len) = a.base();
                assert!(
                    dtype == slot.dtype && len == z.translation.component * slot.components,
                    "{}/{}",
                    z.name,
                    slot.name
                );
                assert_eq!(z.translation.page, z.translation.dims, "a flat zone is one page");
            }
        }
        Self { zones, data, missing: Vec::new() }
    }

    /// From whole arrays. There must be an array `xyz`; an array named `iblank` is used as iblank.
    ///
    /// # Panics
    /// If an array does not have its zone's length, or `xyz` is missing.
    pub fn from_arrays(zones: Vec<NamedZone>) -> Self {
        let mut meta = Vec::new();
        let mut data = Vec::new();
        for (name, dims, arrays) in zones {
            let translation = Translation::new(dims, dims);
            let slots: Vec<ArraySlot> = arrays
                .iter()
                .map(|(n, c, a)| ArraySlot {
                    name: n.clone(),
                    id: ArrayId(u32::MAX),
                    components: *c,
                    dtype: a.base().1,
                    derived: false,
                    making: 0,
                    steady: true,
                })
                .collect();
            let at = |n: &str| slots.iter().position(|a| a.name == n);
            let (xyz, iblank) = (at("xyz").expect("coordinates named xyz"), at("iblank"));
            let blank =
                iblank.and_then(|n| if let FlatArray::I32(v) = &arrays[n].2 { Some(v.as_slice()) } else { None });
            let boxes = match &arrays[xyz].2 {
                FlatArray::F32(v) => BoxPyramid::build(dims, slots[xyz].components, Xyz::F32(v), blank),
                FlatArray::F64(v) => BoxPyramid::build(dims, slots[xyz].components, Xyz::F64(v), blank),
                FlatArray::I32(_) => panic!("coordinates must be floating point"),
            };
            let levels = (0..boxes.levels())
                .map(|l| BoxLevel {
                    id: ArrayId(u32::MAX),
                    translation: Translation::new(boxes.dims(l), boxes.dims(l)),
                    steady: true,
                })
                .collect();
            let uniform = match &arrays[xyz].2 {
                FlatArray::F32(v) => Uniform::find(dims, slots[xyz].components, Xyz::F32(v)),
                FlatArray::F64(v) => Uniform::find(dims, slots[xyz].components, Xyz::F64(v)),
                FlatArray::I32(_) => None,
            };
            meta.push(Zone { name, translation, arrays: slots, xyz, iblank, boxes: levels, uniform });
            data.push(FlatZone { arrays: arrays.into_iter().map(|a| a.2.interleaved(a.1)).collect(), boxes });
        }
        Self::new(meta.into(), data.into())
    }

    /// The data of each zone.
    pub fn data(&self) -> &[FlatZone] {
        &self.data
    }

    /// Bytes of a component of point `n` of an array, to cut it into pages.
    pub fn raw(&self, zone: usize, array: usize, component: usize, n: usize) -> Vec<u8> {
        let n = n * self.zones[zone].arrays[array].components + component;
        match &self.data[zone].arrays[array] {
            FlatArray::F32(v) => v[n].to_ne_bytes().to_vec(),
            FlatArray::F64(v) => v[n].to_ne_bytes().to_vec(),
            FlatArray::I32(v) => v[n].to_ne_bytes().to_vec(),
        }
    }

    #[inline(always)]
    fn grain(&self, zone: usize, array: usize) -> Grain {
        let z = &self.zones[zone];
        let (base, dtype, _) = self.data[zone].arrays[array].base();
        Grain::new(base, dtype, z.arrays[array].components, z.translation.strides())
    }

    #[inline(always)]
    fn element(&self, zone: usize, cell: [u32; 3]) -> usize {
        let d = self.zones[zone].translation.dims;
        (cell[2] as usize * d[1] as usize + cell[1] as usize) * d[0] as usize + cell[0] as usize
    }
}

impl Nodes for FlatNodes {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        &self.zones
    }
    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let steps = corner_steps(self.zones[zone].translation.dims);
        // SAFETY: cells are within the zone and `new` checked the lengths.
        unsafe { self.grain(zone, array).vector(self.element(zone, cell), steps, out) };
        Ok(())
    }
    #[inline(always)]
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let steps = corner_steps(self.zones[zone].translation.dims);
        // SAFETY: as above.
        unsafe { self.grain(zone, array).scalar(self.element(zone, cell), component, steps, out) };
        Ok(())
    }
    fn row_bounds(&mut self, zone: usize, array: usize, cell: [u32; 3], count: u32) -> Result<Option<(V4, V4)>, Miss> {
        if self.zones[zone].thin().contains(&true) {
            return Ok(None);
        }
        // SAFETY: as above, and each cell has eight corners.
        Ok(Some(unsafe { self.grain(zone, array).row_bounds(self.element(zone, cell), count as usize) }))
    }
    #[inline(always)]
    fn prefetch(&self, zone: usize, arrays: &[usize], cell: [u32; 3]) {
        let steps = corner_steps(self.zones[zone].translation.dims);
        for array in arrays {
            self.grain(zone, *array).prefetch(self.element(zone, cell), steps);
        }
    }
    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        self.data[zone].boxes.that_hold(level, p, out);
        Ok(())
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        Ok(self.data[zone].boxes.get(level, block))
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
    fn failure(&mut self) -> Option<PageError> {
        None
    }
}

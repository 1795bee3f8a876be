//! Places of a zone's variables in its file, in the form of array layouts.

use super::options::{ByteOrder, Order, Precision};
use super::reading::{FileReading, ZoneReading};
use crate::array_layout::StoredBlock;
use crate::catalog::Role;
use crate::stored_numbers::StoredNumbers;
use crate::volume::VoxelType;
use std::sync::Arc;

/// One zone's data in one file: floating-point variables, then iblank if present.
#[derive(Clone)]
pub(super) struct ZoneBlocks {
    variables: Arc<StoredBlock>,
    iblank: Option<Arc<StoredBlock>>,
}

impl ZoneBlocks {
    pub(super) fn new(file: usize, reading: &FileReading, zone: &ZoneReading) -> Self {
        let e = &reading.encoding;
        let [ni, nj, nk] = zone.dims.map(u64::from);
        let width = e.precision.bytes();
        let point = u64::from(zone.variables) * width + if e.iblank { 4 } else { 0 };
        let (variable, plane) = match e.order {
            Order::Whole => (width * ni * nj * nk, None),
            Order::Planes => (width * ni * nj, Some(ni * nj * point)),
        };
        let block = |number: VoxelType| {
            let numbers = StoredNumbers { number, big_endian: e.byte_order == ByteOrder::Big };
            let element = number.size() as u64;
            Arc::new(StoredBlock { file, data: zone.data.clone(), numbers, variable, element, row: None, plane })
        };
        let variables = block(match e.precision {
            Precision::Single => VoxelType::Float32,
            Precision::Double => VoxelType::Float64,
        });
        Self { variables, iblank: e.iblank.then(|| block(VoxelType::Int32)) }
    }

    /// The block of an array. iblank is the variable after the last.
    pub(super) fn of(&self, role: Role) -> Arc<StoredBlock> {
        match (&self.iblank, role) {
            (Some(iblank), Role::Iblank) => iblank.clone(),
            _ => self.variables.clone(),
        }
    }
}

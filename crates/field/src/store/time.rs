//! The coordinate `time` of a zone's group, by which xarray and others show the times of steps.
//!
//! It is a plain array of one chunk. It follows from the catalog, and is stored and checked like the documents. By the
//! CF conventions (1.11, chapter 4.4) it has `units`, `standard_name` and `axis`. Times of flows count from the start
//! of the simulation, which is not a date. So units are `s`, or `1` if non-dimensional, never `seconds since`, and
//! readers of dates leave the numbers alone. xarray does so in all versions, because it takes `seconds` for a duration
//! but not `s`.

use super::codec::CRC_BYTES;
use crate::catalog::Catalog;
use crate::heap_size;
use serde_json::json;

/// The coordinate of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeAxis {
    values: Vec<f64>,
    units: String,
    counted: bool,
}

impl TimeAxis {
    /// The time axis of a catalog. `None` if it has no times.
    pub fn of(catalog: &Catalog) -> Option<Self> {
        let units = if catalog.times_counted { "1".to_owned() } else { catalog.time_units.clone() };
        let (values, counted) = (catalog.times.clone(), catalog.times_counted);
        (!values.is_empty()).then_some(Self { values, units, counted })
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        heap_size::list(&self.values) + heap_size::text(&self.units)
    }

    /// Its `zarr.json` and its chunk, with their paths below the zone's group.
    pub(super) fn documents(&self) -> [(&'static str, Vec<u8>); 2] {
        let long_name = match (self.counted, self.units.as_str()) {
            (true, _) => "number of the time step, whose time nothing gives",
            (false, "s") => "time since the simulation began",
            (false, _) => "time since the simulation began, by reference length and speed of sound",
        };
        let mut attributes = json!({"units": self.units, "long_name": long_name, "axis": "T"});
        if !self.counted {
            attributes["standard_name"] = "time".into();
        }
        let shape = [self.values.len()];
        let document = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": "NaN",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "dimension_names": ["time"],
            "attributes": attributes,
        });
        let mut chunk: Vec<u8> = self.values.iter().flat_map(|t| t.to_le_bytes()).collect();
        let crc: [u8; CRC_BYTES] = crc32c::crc32c(&chunk).to_le_bytes();
        chunk.extend_from_slice(&crc);
        [("time/zarr.json", document.to_string().into_bytes()), ("time/c.0", chunk)]
    }
}

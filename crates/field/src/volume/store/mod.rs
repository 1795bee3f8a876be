//! Volumes in Farfield's own store: a pyramid by OME-NGFF 0.5, in plain Zarr v3 with the sharding codec. Every page,
//! index and document has a crc32c.
//!
//! ```text
//! head.zarr/zarr.json                    commit mark: multiscales, omero, and under `farfield` the checksums of all documents
//!           0/zarr.json                  the finest level, [t, c, z, y, x]
//!           0/c.0.0.0.0.0                shard of step 0, group 0: index, pages in C order of their slots
//!           1/...                        each further level
//!           _farfield/ranges_0_0_0/...   ranges of the pages of level 0, group 0
//! ```
//! A page has all components of a colour, or one channel. Everything but values follows from the root document
//! ([`VolumeLayout`]). [`VolumeStore::open`] reads and checks all documents and no page. A page whose shard is missing
//! is *failed*, never fill.

mod layout;
mod ome;
mod open;
mod page_ranges;
mod pyramid;
mod root;

pub use layout::{grouped, range_layouts, LevelLayout, VolumeLayout, RANGE_STEP};
pub use open::{range_spec, VolumeStore};
pub use page_ranges::{RangeDocument, RangedArray};
pub use pyramid::{pyramid, LevelShape};
pub use root::{kept, Downsample, VolumeRoot};

//! A cache of remote bytes on the local disk: what a run has read, the next one need not fetch again.
//!
//! *Theory.* A record is a read as it was asked for, under its place, file and version. A version never changes, so
//! nothing is ever out of date: one check of a file's version decides whether its records may answer. Records are
//! appended to segments of 64 MiB and leave with them. So the disk sees large writes, and there is no list of free
//! places. Each record carries checksums, verified whenever it is read. Whatever is wrong with a folder, a segment or a
//! record is a miss, said once; reads never fail because of it. Only digests of addresses are stored: addresses can
//! hold secrets.
//!
//! *Practice.* One [`DiskCache`] a folder and process, and a [`CachedPlace`] before each place. The pager's owner
//! charges [`DiskCache::index_bytes`] and [`DiskCache::waiting_bytes`], and shows [`DiskCache::take_notice`].
//!
//! | module | for |
//! |---|---|
//! | `format` | the bytes of a segment |
//! | `folder` | the folder: whose it is, its lock, the space of its disk |
//! | `segment` | one file: written, sealed, read |
//! | `index` | the records in memory, 24 bytes each and some room |
//! | `state` | what the threads share |
//! | `writer`, `queue`, `ghost` | write-behind by one thread, and replacement |
//! | `readers` | hits, on a few threads |
//! | `cache` | the cache itself |
//! | `choice` | whether the disk or the server is faster |
//! | `notes` | what places said of names, for work without a network |
//! | `place` | a place with a cache before it |
//! | `manage` | looking at a folder, and clearing it |

mod cache;
mod choice;
mod ends;
mod folder;
mod format;
mod ghost;
mod index;
mod manage;
mod notes;
mod place;
mod queue;
mod readers;
mod segment;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use cache::DiskCache;
pub use manage::{clear, info, DiskCacheInfo};
pub use place::CachedPlace;
pub use state::{DiskCacheCounts, DiskCacheOptions};

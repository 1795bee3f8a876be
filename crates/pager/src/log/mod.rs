//! Logs of events: a file of blocks, each whole by itself.
//!
//! *Theory.* As in NetLogger, every layer appends a small typed record with its time, and analysis follows later. The
//! log must be cheap: a pin is a record of ten bytes. It must not grow in memory, and must be readable up to the point
//! where a run was killed. So records are packed into blocks of about `BLOCK_BYTES` with their length and a crc32c. A
//! block is written when it is full, or when its first event is half a second old.
//!
//! *Practice.* [`EventLog`] writes and [`EventReader`] reads. [`write_chrome`] converts a log to a Chrome trace, which
//! `EventReader` reads, too. All numbers are little-endian.
//!
//! | part | layout |
//! |---|---|
//! | head | `FFEVENTS`, u32 version, u32 length of the document, the JSON document, u32 crc32c of it |
//! | document | `{"kinds": [[kind, [field, ...]], ...]}`; names of texts end in `$` |
//! | block | `FFBK`, u32 bytes, u32 events, u64 microseconds of the first event, u32 crc32c, records |
//! | record | u8 kind, then varints (LEB128): thread, microseconds since the record before (zigzag), the fields in order |
//! | text | its length and UTF-8 |
//! | end | `FFEN` |
//!
//! The crc32c of a block covers all bytes behind `FFBK` except itself.

mod chrome;
mod read;
mod write;

pub use chrome::{write_chrome, Tell};
pub use read::{EventReader, LogEnd};
pub use write::EventLog;

use crate::event::Event;

const MAGIC: &[u8; 8] = b"FFEVENTS";
const VERSION: u32 = 1;
const BLOCK: &[u8; 4] = b"FFBK";
const END: &[u8; 4] = b"FFEN";
/// Approximate bytes of records in a block.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes before a block's records.
const BLOCK_HEAD: usize = 4 + 4 + 4 + 8 + 4;
/// Longest block or document: texts are at most parts of a run's settings.
const MOST_BYTES: usize = 16 << 20;

/// The kinds in the head of a log.
fn kinds() -> serde_json::Value {
    let kind = |(code, name): (usize, &&'static str)| {
        let fields = Event::fields(code as u8);
        let fields: Vec<String> =
            fields.iter().map(|(name, text)| format!("{name}{}", if *text { "$" } else { "" })).collect();
        serde_json::json!([name, fields])
    };
    Event::KINDS.iter().enumerate().map(kind).collect()
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests;

//! Reading a log, or a Chrome trace made from one, in bounded memory.

use super::{chrome, kinds, take_varint, unzigzag, Tell, BLOCK, BLOCK_HEAD, END, MAGIC, MOST_BYTES, VERSION};
use crate::event::{Event, Pick};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// How reading a log ended.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Events passed on.
    pub events: u64,
    /// Records of unknown kinds, or without a needed field.
    pub unknown: u64,
    /// Bytes behind the last whole block.
    pub lost_bytes: u64,
    /// Whether the run ended the log. If not, the run was killed, still runs, or the log is damaged.
    pub whole: bool,
    /// Whether a checksum is wrong, or other bytes stand in place of a block.
    pub damaged: bool,
}

impl LogEnd {
    /// The same, marked as damaged.
    pub(super) fn damaged(self) -> Self {
        Self { whole: false, damaged: true, ..self }
    }
}

/// A log that can be read repeatedly. It always has the same bytes, even if its run continues or replaces the file.
pub struct EventReader {
    file: File,
    size: u64,
    form: Form,
}

/// The bytes of a file up to its end at opening.
struct LogBytes<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for LogBytes<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(to.len());
        let got = self.file.read_at(&mut to[..most], self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

enum Form {
    /// Where blocks begin; names of kinds and fields if they differ from this version's.
    Log(u64, Option<Kinds>),
    Chrome,
}

type Kinds = Vec<(Arc<str>, Vec<(Arc<str>, bool)>)>;

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl EventReader {
    /// Opens a log, or a Chrome trace made from one.
    ///
    /// # Errors
    /// When the file cannot be read or is neither. The error does not name the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut head = Vec::new();
        file.by_ref().take(16).read_to_end(&mut head)?;
        let form = if head.starts_with(MAGIC) && head.len() == 16 {
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (version, len) = (number(8), number(12) as usize);
            if version != VERSION {
                let what = format!("a log of events of version {version}; this Farfield reads version {VERSION}");
                return Err(wrong(&what));
            }
            if len > MOST_BYTES || len as u64 + 20 > size {
                return Err(wrong("its head is cut off: nothing was logged before the run was killed"));
            }
            let mut document = vec![0; len + 4];
            file.read_exact(&mut document)?;
            let crc = document.split_off(len);
            if crc32c::crc32c(&document).to_le_bytes() != crc[..] {
                return Err(wrong("the head of this log of events is damaged"));
            }
            let document: serde_json::Value = serde_json::from_slice(&document).map_err(|e| wrong(&e.to_string()))?;
            let named = (document["kinds"] != kinds()).then(|| named(&document["kinds"]));
            Form::Log(20 + len as u64, named)
        } else if head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
            Form::Chrome
        } else {
            return Err(wrong("not a log of events; --events FILE of a run makes one"));
        };
        Ok(Self { file, size, form })
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Passes on all events in their order: time in microseconds, thread, event, and bytes of the file read so far.
    /// Ends at once if `tell` returns false.
    ///
    /// # Errors
    /// When the file cannot be read. Truncation and damage are no errors: the result reports them.
    pub fn each(&self, tell: &mut Tell<'_>) -> io::Result<LogEnd> {
        let from = |at| BufReader::with_capacity(1 << 20, LogBytes { file: &self.file, at, end: self.size });
        match &self.form {
            Form::Log(begin, named) => self.each_of_log(from(*begin), *begin, named.as_ref(), tell),
            Form::Chrome => chrome::read(from(0), tell),
        }
    }

    fn each_of_log(
        &self,
        mut file: impl Read,
        begin: u64,
        named: Option<&Kinds>,
        tell: &mut Tell<'_>,
    ) -> io::Result<LogEnd> {
        let size = self.size;
        let (mut at, mut ended, mut block) = (begin, LogEnd::default(), Vec::new());
        loop {
            let mut head = [0; BLOCK_HEAD];
            let got = read_up_to(&mut file, &mut head[..4])?;
            if got == 4 && head.starts_with(END) {
                ended.whole = true;
                return Ok(ended);
            }
            if got == 0 {
                return Ok(ended);
            }
            ended.lost_bytes = size.saturating_sub(at);
            if got == 4 && !head.starts_with(BLOCK) {
                return Ok(ended.damaged());
            }
            if got < 4 || read_up_to(&mut file, &mut head[4..])? < BLOCK_HEAD - 4 {
                return Ok(ended);
            }
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (bytes, events, crc) = (number(4) as usize, number(8), number(20));
            let first_us = u64::from(number(12)) | u64::from(number(16)) << 32;
            if bytes > MOST_BYTES {
                return Ok(ended.damaged());
            }
            if bytes as u64 > size.saturating_sub(at) {
                return Ok(ended);
            }
            block.resize(bytes, 0);
            if read_up_to(&mut file, &mut block)? < bytes {
                return Ok(ended);
            }
            if crc32c::crc32c_append(crc32c::crc32c(&head[4..20]), &block) != crc {
                return Ok(ended.damaged());
            }
            ended.lost_bytes = 0;
            at += (BLOCK_HEAD + bytes) as u64;
            let (mut rest, mut at_us) = (&block[..], first_us);
            for _ in 0..events {
                let Some((&code, thread, since)) = record(&mut rest) else {
                    ended.unknown += 1;
                    break;
                };
                at_us = at_us.wrapping_add(unzigzag(since) as u64);
                let event = match named {
                    None => Event::KINDS.get(code as usize).and_then(|kind| Event::pick(kind, &mut InOrder(&mut rest))),
                    Some(kinds) => by_name(kinds, code, &mut rest),
                };
                match event {
                    Some(event) => {
                        ended.events += 1;
                        if !tell(at_us, thread, &event, at) {
                            return Ok(ended);
                        }
                    }
                    None => ended.unknown += 1,
                }
            }
        }
    }
}

fn read_up_to(file: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < to.len() {
        match file.read(&mut to[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

fn record<'a>(rest: &mut &'a [u8]) -> Option<(&'a u8, u32, u64)> {
    let (code, after) = rest.split_first()?;
    *rest = after;
    Some((code, u32::try_from(take_varint(rest)?).ok()?, take_varint(rest)?))
}

fn take_text(from: &mut &[u8]) -> Option<Arc<str>> {
    let len = usize::try_from(take_varint(from)?).ok()?;
    let (text, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(String::from_utf8_lossy(text).into())
}

/// Fields in the order in which this version writes them.
struct InOrder<'a, 'b>(&'a mut &'b [u8]);

impl Pick for InOrder<'_, '_> {
    #[inline]
    fn number(&mut self, _: &'static str) -> Option<u64> {
        take_varint(self.0)
    }
    fn text(&mut self, _: &'static str) -> Option<Arc<str>> {
        take_text(self.0)
    }
}

fn named(kinds: &serde_json::Value) -> Kinds {
    let field = |f: &serde_json::Value| {
        let name = f.as_str().unwrap_or_default();
        (Arc::from(name.trim_end_matches('$')), name.ends_with('$'))
    };
    let kind = |k: &serde_json::Value| {
        let fields = k[1].as_array().map_or_else(Vec::new, |f| f.iter().map(field).collect());
        (Arc::from(k[0].as_str().unwrap_or_default()), fields)
    };
    kinds.as_array().map_or_else(Vec::new, |kinds| kinds.iter().map(kind).collect())
}

/// An event of a log of another version: fields by their names.
fn by_name(kinds: &Kinds, code: u8, rest: &mut &[u8]) -> Option<Event> {
    struct Named<'a>(Vec<(&'a str, u64)>, Vec<(&'a str, Arc<str>)>);
    impl Pick for Named<'_> {
        fn number(&mut self, name: &'static str) -> Option<u64> {
            self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
        }
        fn text(&mut self, name: &'static str) -> Option<Arc<str>> {
            self.1.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
        }
    }
    let (kind, fields) = kinds.get(code as usize)?;
    let mut found = Named(Vec::new(), Vec::new());
    for (name, text) in fields {
        if *text {
            found.1.push((name, take_text(rest)?));
        } else {
            found.0.push((name, take_varint(rest)?));
        }
    }
    Event::pick(kind, &mut found)
}

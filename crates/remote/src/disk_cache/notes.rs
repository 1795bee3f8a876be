//! What places said of names, in few bytes: for work without a network.
//!
//! A note is kept under the digest of its name, so it holds no address. The names in a folder are kept without queries.

use pager::place::{Entry, FileKind, FileStat, FileVersion};

/// Names of a folder that are noted.
const MOST_NAMES: usize = 1 << 16;

/// An answer about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameNote {
    There(FileStat),
    Missing,
    Names(Vec<Entry>),
}

fn kind(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => 0,
        FileKind::Folder => 1,
        FileKind::Other => 2,
    }
}

/// Reads numbers and texts from bytes that may be cut off.
struct NoteReader<'a>(&'a [u8]);

impl<'a> NoteReader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        std::str::from_utf8(self.take(len as usize)?).ok()
    }

    fn kind(&mut self) -> Option<FileKind> {
        match self.byte()? {
            0 => Some(FileKind::File),
            1 => Some(FileKind::Folder),
            2 => Some(FileKind::Other),
            _ => None,
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

impl NameNote {
    /// `None`: too much to note.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Missing => out.push(0),
            Self::There(FileStat { kind: of, version, modified_ns }) => {
                out.extend([1, kind(*of)]);
                out.extend(version.size.to_le_bytes());
                out.extend(modified_ns.to_le_bytes());
                put_text(&mut out, &version.tag);
            }
            Self::Names(names) if names.len() <= MOST_NAMES => {
                out.push(2);
                for entry in names {
                    out.push(kind(entry.kind));
                    out.extend(entry.size.to_le_bytes());
                    put_text(&mut out, entry.name.split('?').next().unwrap_or_default());
                }
            }
            Self::Names(_) => return None,
        }
        Some(out)
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut from = NoteReader(bytes);
        match from.byte()? {
            0 => Some(Self::Missing),
            1 => {
                let kind = from.kind()?;
                let (size, modified_ns) = (from.number()?, from.number()? as i64);
                let version = FileVersion { size, tag: from.text()?.into() };
                Some(Self::There(FileStat { kind, version, modified_ns }))
            }
            2 => {
                let mut names = Vec::new();
                while !from.0.is_empty() {
                    let (kind, size) = (from.kind()?, from.number()?);
                    names.push(Entry { name: from.text()?.to_owned(), kind, size });
                }
                Some(Self::Names(names))
            }
            _ => None,
        }
    }
}

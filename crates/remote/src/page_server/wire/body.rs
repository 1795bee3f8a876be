//! Bodies of requests and replies.

use super::head::{State, WireFault};
use super::limits::{MOST_NAME, MOST_READ};

const MAGIC: &[u8; 8] = b"farfield";

/// Takes parts of a body in order.
pub(super) struct BodyParts<'a>(pub(super) &'a [u8]);

impl<'a> BodyParts<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], WireFault> {
        let Some((head, rest)) = self.0.split_at_checked(len) else {
            return Err(WireFault(format!("a body ends {} bytes early", len - self.0.len())));
        };
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireFault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireFault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireFault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireFault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireFault> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn end(self) -> Result<(), WireFault> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(WireFault(format!("a body has {more} bytes too many"))),
        }
    }
}

/// The body of HELLO.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// The client's version of the protocol.
    pub version: u16,
    /// Its token.
    pub token: Option<[u8; 32]>,
}

impl Hello {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.token.iter().flatten());
        out
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        if parts.take(MAGIC.len())? != MAGIC {
            return Err(WireFault("this is no client of farfield".into()));
        }
        let version = parts.u16()?;
        let token = if parts.0.is_empty() { None } else { Some(parts.array()?) };
        parts.end()?;
        Ok(Self { version, token })
    }
}

/// What a connection may have under way.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Requests.
    pub requests: u32,
    /// Open files.
    pub files: u32,
    /// Bytes of their ranges.
    pub bytes: u64,
}

impl Credits {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.requests.to_le_bytes().to_vec();
        out.extend(self.files.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out
    }

    /// Parses it. No client can work with less than one request of the longest range.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        let credits = Self { requests: parts.u32()?, files: parts.u32()?, bytes: parts.u64()? };
        parts.end()?;
        if credits.requests == 0 || credits.files == 0 || credits.bytes < MOST_READ as u64 {
            return Err(WireFault("the server grants too little to work with".into()));
        }
        Ok(credits)
    }
}

/// The kind of a served name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device.
    Other,
}

impl TryFrom<u8> for RemoteKind {
    type Error = WireFault;
    fn try_from(code: u8) -> Result<Self, WireFault> {
        Ok(match code {
            0 => Self::File,
            1 => Self::Folder,
            2 => Self::Other,
            _ => return Err(WireFault(format!("there is no kind {code} of files"))),
        })
    }
}

/// The state of a name on the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RemoteStat {
    /// Its kind.
    pub kind: RemoteKind,
    /// Bytes.
    pub size: u64,
    /// Last change, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// From inode, size, times of change of bytes and of state.
    pub version: [u8; 16],
}

/// Bytes of a [`RemoteStat`].
pub const STAT_BYTES: usize = 40;

impl RemoteStat {
    /// That of a name that has none.
    pub(crate) fn nothing() -> Self {
        Self { kind: RemoteKind::Other, size: 0, modified_ns: 0, version: [0; 16] }
    }

    /// The digest of its version in heads.
    pub fn digest(&self) -> u64 {
        let (first, _) = self.version.as_chunks::<8>();
        u64::from_le_bytes(first[0])
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; STAT_BYTES] {
        let mut out = [0; STAT_BYTES];
        out[0] = self.kind as u8;
        out[8..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..24].copy_from_slice(&self.modified_ns.to_le_bytes());
        out[24..40].copy_from_slice(&self.version);
        out
    }

    fn take(parts: &mut BodyParts<'_>) -> Result<Self, WireFault> {
        let kind = RemoteKind::try_from(parts.u8()?)?;
        parts.take(7)?;
        Ok(Self { kind, size: parts.u64()?, modified_ns: parts.u64()? as i64, version: parts.array()? })
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        let stat = Self::take(&mut parts)?;
        parts.end()?;
        Ok(stat)
    }
}

/// Appends names.
pub fn write_names<'a>(out: &mut Vec<u8>, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        // A name that is too long for its length is refused as the name that it is cut to: too long.
        let len = u16::try_from(name.len()).unwrap_or(u16::MAX);
        out.extend(len.to_le_bytes());
        out.extend(&name.as_bytes()[..len.into()]);
    }
}

/// Parses names, at most `most`. A name that is no text is an empty one.
///
/// # Errors
/// When they are none.
pub fn read_names(body: &[u8], most: usize) -> Result<Vec<&str>, WireFault> {
    let mut parts = BodyParts(body);
    let mut names = Vec::new();
    while !parts.0.is_empty() {
        let len = parts.u16()?;
        let name = parts.take(len.into())?;
        if names.len() == most {
            return Err(WireFault("too many names".into()));
        }
        names.push(if name.len() > MOST_NAME { "" } else { std::str::from_utf8(name).unwrap_or("") });
    }
    Ok(names)
}

/// Parses the answer to STAT for so many names: a state of each, with what it has.
///
/// # Errors
/// When it is none.
pub fn read_looks(body: &[u8], names: usize) -> Result<Vec<(State, RemoteStat)>, WireFault> {
    let mut parts = BodyParts(body);
    let mut looks = Vec::new();
    for _ in 0..names {
        let state = State::try_from(parts.u8()?)?;
        looks.push((state, RemoteStat::take(&mut parts)?));
    }
    parts.end()?;
    Ok(looks)
}

/// Appends names of a folder: kind, size, name.
pub fn write_entries<'a>(out: &mut Vec<u8>, entries: impl IntoIterator<Item = (RemoteKind, u64, &'a str)>) {
    for (kind, size, name) in entries {
        out.push(kind as u8);
        out.extend(size.to_le_bytes());
        write_names(out, [name]);
    }
}

/// Parses names of a folder.
///
/// # Errors
/// When they are none.
pub fn read_entries(body: &[u8]) -> Result<Vec<(RemoteKind, u64, String)>, WireFault> {
    let mut parts = BodyParts(body);
    let mut entries = Vec::new();
    while !parts.0.is_empty() {
        let (kind, size, len) = (RemoteKind::try_from(parts.u8()?)?, parts.u64()?, parts.u16()?);
        let name = std::str::from_utf8(parts.take(len.into())?);
        let name = name.map_err(|_| WireFault("a name is no text".into()))?;
        // It becomes part of a path.
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(WireFault(format!("{name:?} is no name in a folder")));
        }
        entries.push((kind, size, name.to_owned()));
    }
    Ok(entries)
}

/// A range of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Appends ranges.
pub fn write_ranges(out: &mut Vec<u8>, ranges: impl IntoIterator<Item = Range>) {
    for range in ranges {
        out.extend(range.offset.to_le_bytes());
        out.extend(range.len.to_le_bytes());
    }
}

/// Parses ranges. Together they have the length that the head says.
///
/// # Errors
/// When they are none, or longer than a reply may be.
pub fn read_ranges(body: &[u8], len: u32) -> Result<Vec<Range>, WireFault> {
    let mut parts = BodyParts(body);
    let mut ranges = Vec::new();
    let mut total = 0u64;
    while !parts.0.is_empty() {
        let range = Range { offset: parts.u64()?, len: parts.u32()? };
        total += u64::from(range.len);
        ranges.push(range);
    }
    if total != u64::from(len) {
        return Err(WireFault(format!("ranges of {total} bytes in a request of {len}")));
    }
    Ok(ranges)
}

/// The rule of VIA: an index, and where in it a place and a length stand, as 64-bit words.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Where the index begins; from the end of the file backwards, if `from_end`.
    pub index_offset: u64,
    /// Bytes of the index.
    pub index_len: u32,
    /// Where in the index the place stands. Its length follows it.
    pub slot: u32,
    /// Added to the place.
    pub base: u64,
    /// Whether `index_offset` counts from the end.
    pub from_end: bool,
}

/// Bytes before index and extent in the reply to VIA.
pub const FOUND_BYTES: usize = 20;
/// The place of an extent that was never written.
const NOTHING: u64 = u64::MAX;

impl Via {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.index_offset.to_le_bytes().to_vec();
        out.extend(self.index_len.to_le_bytes());
        out.extend(self.slot.to_le_bytes());
        out.extend(self.base.to_le_bytes());
        out.push(self.from_end.into());
        out
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is none, or its slot is not in its index.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        let via = Self {
            index_offset: parts.u64()?,
            index_len: parts.u32()?,
            slot: parts.u32()?,
            base: parts.u64()?,
            from_end: parts.u8()? != 0,
        };
        parts.end()?;
        let inside = via.slot.checked_add(16).is_some_and(|end| end <= via.index_len);
        if !inside || via.index_len as usize > MOST_READ {
            return Err(WireFault("the slot is not in the index".into()));
        }
        Ok(via)
    }

    /// The extent that an index names in the slot. `None`: none was written.
    ///
    /// # Errors
    /// When no file can have it.
    pub fn extent(&self, index: &[u8]) -> Result<Option<(u64, u64)>, WireFault> {
        let mut parts = BodyParts(index);
        parts.take(self.slot as usize)?;
        let (at, len) = (parts.u64()?, parts.u64()?);
        if at == NOTHING {
            return Ok(None);
        }
        let sound = at.checked_add(self.base).filter(|at| at.checked_add(len).is_some());
        sound.map(|at| Some((at, len))).ok_or_else(|| WireFault("an index names a place beyond any file".into()))
    }
}

/// What VIA found: index and extent in a reply.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ViaFound {
    /// Bytes of the index, which stand first.
    pub index_len: u32,
    /// Place and length of the extent. Its bytes follow the index, if they fit into the length that was asked for.
    pub extent: Option<(u64, u64)>,
}

impl ViaFound {
    /// Its bytes.
    pub fn bytes(&self) -> [u8; FOUND_BYTES] {
        let (at, len) = self.extent.unwrap_or((NOTHING, 0));
        let mut out = [0; FOUND_BYTES];
        out[0..4].copy_from_slice(&self.index_len.to_le_bytes());
        out[4..12].copy_from_slice(&at.to_le_bytes());
        out[12..20].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// Splits a reply: what was found, the index, the bytes of the extent.
    ///
    /// # Errors
    /// When it is none.
    pub fn split(body: &[u8]) -> Result<(Self, &[u8], &[u8]), WireFault> {
        let mut parts = BodyParts(body);
        let index_len = parts.u32()?;
        let (at, len) = (parts.u64()?, parts.u64()?);
        let index = parts.take(index_len as usize)?;
        let extent = (at != NOTHING).then_some((at, len));
        Ok((Self { index_len, extent }, index, parts.0))
    }
}

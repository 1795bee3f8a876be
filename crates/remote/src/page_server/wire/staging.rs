//! Bodies of the operations that stage files.

use super::body::BodyParts;
use super::head::WireFault;
use super::limits::MOST_NAME;

/// A file that is staged. Its name, size and time say which bytes it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedFile {
    /// The name under which it will be served.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// The time of change that it will have, in nanoseconds since 1970.
    pub modified_ns: i64,
}

impl StagedFile {
    /// Its bytes, before those that an operation adds.
    pub fn bytes(&self) -> Vec<u8> {
        // A longer name is refused by the server.
        let len = u16::try_from(self.name.len()).unwrap_or(u16::MAX);
        let mut out = len.to_le_bytes().to_vec();
        out.extend(&self.name.as_bytes()[..len.into()]);
        out.extend(self.size.to_le_bytes());
        out.extend(self.modified_ns.to_le_bytes());
        out
    }

    fn take(parts: &mut BodyParts<'_>) -> Result<Self, WireFault> {
        let len = parts.u16()?;
        let name = std::str::from_utf8(parts.take(len.into())?);
        let name = name.ok().filter(|name| name.len() <= MOST_NAME);
        let name = name.ok_or_else(|| WireFault("the name of a staged file is no text, or too long".into()))?;
        Ok(Self { name: name.to_owned(), size: parts.u64()?, modified_ns: parts.u64()? as i64 })
    }
}

/// The body of STAGE_BEGIN: the file, and whether it is only looked for.
pub fn write_stage_begin(file: &StagedFile, only_look: bool) -> Vec<u8> {
    let mut out = file.bytes();
    out.push(only_look.into());
    out
}

/// Parses the body of STAGE_BEGIN.
///
/// # Errors
/// When it is none.
pub fn read_stage_begin(body: &[u8]) -> Result<(StagedFile, bool), WireFault> {
    let mut parts = BodyParts(body);
    let found = (StagedFile::take(&mut parts)?, parts.u8()? != 0);
    parts.end()?;
    Ok(found)
}

/// The body of STAGE_PUT: the file, the CRC-32C of the bytes, and they. Their offset stands in the head.
pub fn write_stage_put(file: &StagedFile, bytes: &[u8]) -> Vec<u8> {
    let mut out = file.bytes();
    out.reserve(4 + bytes.len());
    out.extend(crc32c::crc32c(bytes).to_le_bytes());
    out.extend(bytes);
    out
}

/// Parses the body of STAGE_PUT: the file, the checksum, the bytes.
///
/// # Errors
/// When it is none.
pub fn read_stage_put(body: &[u8]) -> Result<(StagedFile, u32, &[u8]), WireFault> {
    let mut parts = BodyParts(body);
    Ok((StagedFile::take(&mut parts)?, parts.u32()?, parts.0))
}

/// The body of STAGE_COMMIT: the file, and the CRC-32C of all its bytes.
pub fn write_stage_commit(file: &StagedFile, crc: u32) -> Vec<u8> {
    let mut out = file.bytes();
    out.extend(crc.to_le_bytes());
    out
}

/// Parses the body of STAGE_COMMIT.
///
/// # Errors
/// When it is none.
pub fn read_stage_commit(body: &[u8]) -> Result<(StagedFile, u32), WireFault> {
    let mut parts = BodyParts(body);
    let found = (StagedFile::take(&mut parts)?, parts.u32()?);
    parts.end()?;
    Ok(found)
}

/// The answer to STAGE_BEGIN and STAGE_COMMIT.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StageProgress {
    /// Bytes that are there; if the file was only looked for, those that have their room; for STAGE_COMMIT, those that
    /// were read back.
    pub bytes: u64,
    /// Whether the whole file is there and was read back.
    pub complete: bool,
}

impl StageProgress {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.bytes.to_le_bytes().to_vec();
        out.push(self.complete.into());
        out
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        let found = Self { bytes: parts.u64()?, complete: parts.u8()? != 0 };
        parts.end()?;
        Ok(found)
    }
}

/// The answer to STAGE_ROOM, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StageRoom {
    /// The most that the server keeps of staged data.
    pub limit: u64,
    /// What it keeps, with files that are begun.
    pub used: u64,
    /// What the disk has free.
    pub free: u64,
}

impl StageRoom {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [self.limit, self.used, self.free].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(body: &[u8]) -> Result<Self, WireFault> {
        let mut parts = BodyParts(body);
        let found = Self { limit: parts.u64()?, used: parts.u64()?, free: parts.u64()? };
        parts.end()?;
        Ok(found)
    }

    /// Bytes that can still be staged.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used).min(self.free)
    }
}

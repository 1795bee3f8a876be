//! Heads of 32 bytes.

use super::limits::{MOST_READ, MOST_REQUEST_BODY, MOST_STAGE_BODY, MOST_TOLD};
use std::time::Duration;

/// Bytes of a head.
pub const HEAD: usize = 32;
/// Bytes of a reply's head that its checksum covers.
const CHECKED: usize = HEAD - 4;

/// A fault in what the other end sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WireFault(pub String);

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[$doc:meta])* $item:ident = $code:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $item = $code),* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$item),*];
        }

        impl TryFrom<u8> for $name {
            type Error = WireFault;
            fn try_from(code: u8) -> Result<Self, WireFault> {
                match code {
                    $($code => Ok(Self::$item),)*
                    _ => Err(WireFault(format!(concat!("there is no ", $what, " {}"), code))),
                }
            }
        }
    };
}

codes! {
    /// An operation.
    Op, "operation" {
        /// Begins a connection: protocol, token. Answer: [`Credits`](super::Credits).
        Hello = 1,
        /// Opens a name under a number of the client. Answer: [`RemoteStat`](super::RemoteStat).
        Open = 2,
        /// States of many names.
        Stat = 3,
        /// Names in a folder.
        List = 4,
        /// A range of an open file.
        Read = 5,
        /// Several ranges of an open file, one after another in one reply.
        ReadV = 6,
        /// The extent that stands at a place of an index: index and extent in one reply.
        Via = 7,
        /// Makes a waiting prefetch a demand.
        Promote = 8,
        /// Withdraws a waiting request. Both are answered.
        Cancel = 9,
        /// The server's counts, as JSON.
        Stats = 10,
        /// Nothing: shows that the server is there.
        Ping = 11,
        /// Forgets the number of a file.
        Close = 12,
        /// Bytes that can be staged. Answer: [`StageRoom`](super::StageRoom).
        StageRoom = 13,
        /// Begins a staged file, or goes on with it. Answer: [`StageProgress`](super::StageProgress).
        StageBegin = 14,
        /// Bytes of a staged file.
        StagePut = 15,
        /// The end of a staged file: it is read back and compared. Answer: [`StageProgress`](super::StageProgress).
        StageCommit = 16,
        /// Serves the staged files of a dataset.
        StagePublish = 17,
        /// Removes a staged dataset.
        StageRemove = 18,
    }
}

codes! {
    /// The state of a reply.
    State, "state" {
        /// Done.
        Ok = 0,
        /// The file ends within the range; its bytes up to the end follow.
        Short = 1,
        /// The file is another than at OPEN. Its state now follows.
        Changed = 2,
        /// There is no such name.
        Missing = 3,
        /// A symbolic link stands on the way, which is never followed.
        Link = 4,
        /// A folder, a pipe or a device.
        NotFile = 5,
        /// The server itself may not read it.
        Denied = 6,
        /// The name leads, or could lead, outside what is served.
        BadName = 7,
        /// No token, a wrong or a revoked one.
        Unauthorized = 8,
        /// Not a request of this protocol. The connection ends.
        BadRequest = 9,
        /// More requests or bytes than granted, or too many connections. The connection ends.
        Busy = 10,
        /// The system could not read.
        Io = 11,
        /// Withdrawn by the client.
        Cancelled = 12,
        /// The folder has more names than were asked for.
        TooMany = 13,
        /// Not answered within the deadline of the request.
        Late = 14,
        /// There is no open file of that number.
        NotOpen = 15,
        /// New credits; belongs to no request.
        Granted = 16,
        /// The server ends; belongs to no request.
        Ending = 17,
        /// There is no waiting request of that number.
        NotWaiting = 18,
        /// There is no room for staged bytes. The reason follows.
        Full = 19,
        /// A staged file does not go on like this. The reason follows.
        Unfit = 20,
        /// The origin of the file failed, not this server. What it said follows.
        OriginFailed = 30,
        /// The origin of the name cannot do this. The reason follows.
        Unsupported = 31,
    }
}

codes! {
    /// The urgency of a request.
    Urgency, "urgency" {
        /// A task waits.
        Demand = 0,
        /// Nothing waits yet.
        Prefetch = 1,
    }
}

/// Begins the checksum of a reply, from its request.
pub fn seed(request: &[u8; HEAD], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(request), body)
}

/// The head of a request.
///
/// | bytes | for |
/// |---|---|
/// | 0, 1, 2, 3 | operation, urgency, codecs that the client takes (none yet), 0 |
/// | 4..8 | sequence number |
/// | 8..12 | number of the file; of the request for PROMOTE and CANCEL; most names for LIST |
/// | 12..16 | length of the range |
/// | 16..24 | offset of the range |
/// | 24..28 | deadline in milliseconds; 0: none |
/// | 28..32 | length of the body |
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub op: Op,
    /// Its urgency.
    pub urgency: Urgency,
    /// Chosen by the client, once at a time.
    pub seq: u32,
    /// See the table.
    pub file: u32,
    /// Bytes wanted.
    pub len: u32,
    /// First byte wanted.
    pub offset: u64,
    /// Milliseconds after which no answer is wanted; 0: none.
    pub deadline_ms: u32,
    /// Bytes of the body.
    pub body: u32,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

impl Op {
    /// Whether it changes what is served, or tells who may.
    pub fn is_staging(self) -> bool {
        matches!(
            self,
            Self::StageRoom
                | Self::StageBegin
                | Self::StagePut
                | Self::StageCommit
                | Self::StagePublish
                | Self::StageRemove
        )
    }
}

impl Request {
    /// A request without range or body.
    pub fn new(op: Op, seq: u32) -> Self {
        Self { op, urgency: Urgency::Demand, seq, file: 0, len: 0, offset: 0, deadline_ms: 0, body: 0 }
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[0] = self.op as u8;
        out[1] = self.urgency as u8;
        out[4..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..12].copy_from_slice(&self.file.to_le_bytes());
        out[12..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..28].copy_from_slice(&self.deadline_ms.to_le_bytes());
        out[28..32].copy_from_slice(&self.body.to_le_bytes());
        out
    }

    /// Parses a head.
    ///
    /// # Errors
    /// For unknown codes, nonzero reserved bytes, and lengths beyond the protocol's.
    pub fn parse(head: &[u8; HEAD]) -> Result<Self, WireFault> {
        if head[2] != 0 || head[3] != 0 {
            return Err(WireFault("reserved bytes of a request are not 0".into()));
        }
        let request = Self {
            op: Op::try_from(head[0])?,
            urgency: Urgency::try_from(head[1])?,
            seq: word(head, 4),
            file: word(head, 8),
            len: word(head, 12),
            offset: long(head, 16),
            deadline_ms: word(head, 24),
            body: word(head, 28),
        };
        let most = if request.op == Op::StagePut { MOST_STAGE_BODY } else { MOST_REQUEST_BODY };
        if request.body as usize > most {
            return Err(WireFault(format!("a request claims a body of {} bytes", request.body)));
        }
        if request.len as usize > MOST_READ {
            return Err(WireFault(format!("a request claims a range of {} bytes", request.len)));
        }
        Ok(request)
    }
}

/// The head of a reply.
///
/// | bytes | for |
/// |---|---|
/// | 0..4 | sequence number of the request |
/// | 4, 5, 6, 7 | state, codec (0: none), 0, 0 |
/// | 8..12 | bytes that follow |
/// | 12..16 | the same before the codec |
/// | 16..24 | digest of the file's version; 0: not about a file |
/// | 24..26, 26..28 | time in the queue, time of service: 12 bits of microseconds and a shift of 4 bits |
/// | 28..32 | CRC-32C of request, its body, these 28 bytes, and the bytes before the codec |
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// That of its request.
    pub seq: u32,
    /// Its state.
    pub state: State,
    /// Bytes that follow.
    pub len: u32,
    /// Digest of the version of the file.
    pub version: u64,
    /// Time from arrival to the begin of service, to one part in 2,048.
    pub queued: Duration,
    /// Time of service.
    pub served: Duration,
    /// The checksum.
    pub crc: u32,
}

/// A sequence number that no request has: for what the server says by itself.
pub(crate) const NO_SEQ: u32 = u32::MAX;

fn pack(time: Duration) -> [u8; 2] {
    let micros = time.as_micros().min(u128::from(u32::MAX >> 5)) as u32;
    let shift = (32 - micros.leading_zeros()).saturating_sub(12);
    (((micros >> shift) | shift << 12) as u16).to_le_bytes()
}

fn unpack(low: u8, high: u8) -> Duration {
    let packed = u16::from_le_bytes([low, high]);
    Duration::from_micros(u64::from(packed & 0xFFF) << (packed >> 12))
}

impl Reply {
    /// A reply of a state, with that many bytes.
    pub fn new(seq: u32, state: State, len: usize) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Self { seq, state, len, version: 0, queued: Duration::ZERO, served: Duration::ZERO, crc: 0 }
    }

    /// Its bytes, with the checksum from the seed of its request and the bytes that follow.
    pub fn sealed<'a>(&self, seed: u32, body: impl IntoIterator<Item = &'a [u8]>) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[0..4].copy_from_slice(&self.seq.to_le_bytes());
        out[4] = self.state as u8;
        out[8..12].copy_from_slice(&self.len.to_le_bytes());
        out[12..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..24].copy_from_slice(&self.version.to_le_bytes());
        out[24..26].copy_from_slice(&pack(self.queued));
        out[26..28].copy_from_slice(&pack(self.served));
        let crc = Self::checksum(seed, &out, body);
        out[28..32].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The checksum that a reply must have.
    pub fn checksum<'a>(seed: u32, head: &[u8; HEAD], body: impl IntoIterator<Item = &'a [u8]>) -> u32 {
        let begin = crc32c::crc32c_append(seed, &head[..CHECKED]);
        body.into_iter().fold(begin, crc32c::crc32c_append)
    }

    /// Parses a head. Its checksum is not checked yet.
    ///
    /// # Errors
    /// For unknown codes, nonzero reserved bytes, and lengths beyond the protocol's.
    pub fn parse(head: &[u8; HEAD]) -> Result<Self, WireFault> {
        if head[5] != 0 || head[6] != 0 || head[7] != 0 {
            return Err(WireFault("a reply has a codec that was not asked for".into()));
        }
        let (len, raw) = (word(head, 8), word(head, 12));
        if len != raw || len as usize > MOST_TOLD {
            return Err(WireFault(format!("a reply claims {len} bytes for {raw}")));
        }
        Ok(Self {
            seq: word(head, 0),
            state: State::try_from(head[4])?,
            len,
            version: long(head, 16),
            queued: unpack(head[24], head[25]),
            served: unpack(head[26], head[27]),
            crc: word(head, 28),
        })
    }
}

//! PLOT3D as text, as Fortran's list-directed output writes it. Numbers are separated by blanks, commas or line ends;
//! `3*1.0` is three times 1.0; exponents may have D.
//!
//! **Theory.** Text has no random access, so it is read twice from front to back. The first pass counts its numbers,
//! which settles the reading. The second writes them as a plain little-endian PLOT3D file with 64-bit numbers.
//!
//! **Practice.** Memory is one block of the file and one of the output, whatever their size. A repeat count may expand
//! a file to at most [`MAX_EXPANSION`] numbers a byte, so that a small file cannot fill a disk.

use super::bytes::ByteSource;
use super::options::{ByteOrder, Format, Kind, Order, Precision, ZoneCount};
use super::reading::{
    converted, differing_zones, header_words, Encoding, Expected, FileReading, Header, HeaderBuilder, ReadRequest,
    MAX_ZONES,
};
use super::walk::Why;
use crate::error::FieldError;
use std::io::{self, Write};
use std::path::Path;

/// Called with (done, total); false cancels.
pub type ConversionProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Bytes of a block of the file.
const BLOCK: usize = 1 << 18;
/// Longest word. Fortran writes at most about 30 characters for a double.
const WORD: usize = 256;
/// Most numbers that repeat counts may give, a byte of file.
const MAX_EXPANSION: u128 = 1024;

/// Whether a file starts like text.
pub(super) fn looks_like_text(source: &dyn ByteSource) -> io::Result<bool> {
    let mut head = [0_u8; 1024];
    let len = source.size().min(head.len() as u64) as usize;
    source.read_exact_at(0, &mut head[..len])?;
    Ok(len > 0 && head[..len].iter().all(|&b| (0x20..0x7f).contains(&b) || b.is_ascii_whitespace()))
}

/// One word of the text with its repeat count.
struct Word<'a> {
    repeat: u64,
    text: &'a [u8],
    line: u64,
}

/// Splits a file into words, a block at a time.
struct TextWords<'a> {
    source: &'a dyn ByteSource,
    path: &'a Path,
    buffer: Vec<u8>,
    at: usize,
    len: usize,
    /// Offset of the next block in the file.
    next: u64,
    line: u64,
}

impl<'a> TextWords<'a> {
    fn new(source: &'a dyn ByteSource, path: &'a Path) -> Self {
        let block = source.size().min(BLOCK as u64) as usize;
        Self { source, path, buffer: vec![0; block + WORD], at: 0, len: 0, next: 0, line: 1 }
    }

    /// Keeps the unread rest (at most one word) and reads the next block behind it. False at the end of the file.
    fn fill(&mut self) -> Result<bool, FieldError> {
        let left = self.source.size() - self.next;
        if left == 0 {
            return Ok(false);
        }
        self.buffer.copy_within(self.at..self.len, 0);
        self.len -= self.at;
        self.at = 0;
        let take = left.min((self.buffer.len() - self.len) as u64) as usize;
        self.source
            .read_exact_at(self.next, &mut self.buffer[self.len..self.len + take])
            .map_err(|e| FieldError::io(self.path, e))?;
        self.next += take as u64;
        self.len += take;
        Ok(true)
    }

    fn error(&self, message: &str) -> FieldError {
        FieldError::format(self.path, format!("line {}: {message}", self.line))
    }

    /// The next word. Reports progress when it reads a block.
    fn next(&mut self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Option<Word<'_>>, FieldError> {
        let separator = |b: u8| b.is_ascii_whitespace() || b == b',';
        loop {
            while self.at < self.len && separator(self.buffer[self.at]) {
                self.line += u64::from(self.buffer[self.at] == b'\n');
                self.at += 1;
            }
            let end = self.buffer[self.at..self.len].iter().position(|&b| separator(b)).map(|n| self.at + n);
            let end = match end {
                Some(end) => end,
                None if self.len - self.at >= WORD => return Err(self.error("a word of more than 256 bytes")),
                None => {
                    if self.fill()? {
                        if !progress(self.next) {
                            return Err(FieldError::Interrupted);
                        }
                        continue;
                    }
                    self.len
                }
            };
            if end == self.at {
                return Ok(None);
            }
            let (from, line) = (self.at, self.line);
            self.at = end;
            let whole = &self.buffer[from..end];
            let Some(star) = whole.iter().position(|&b| b == b'*') else {
                return Ok(Some(Word { repeat: 1, text: whole, line }));
            };
            let repeat = std::str::from_utf8(&whole[..star]).ok().and_then(|s| s.parse::<u64>().ok());
            let text = &whole[star + 1..];
            return match repeat {
                Some(repeat) if repeat > 0 && !text.is_empty() => Ok(Some(Word { repeat, text, line })),
                _ => Err(self.error("not a number with a repeat count (or a number too wide for its Fortran format)")),
            };
        }
    }
}

fn integer(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A Fortran number. Exponents may have D or Q, or no letter at all (`1.5-103`).
fn number(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(v) = text.parse() {
        return Some(v);
    }
    if !word.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let mut plain = String::with_capacity(word.len() + 1);
    for (n, c) in text.char_indices() {
        let before = text[..n].chars().next_back();
        match c {
            'd' | 'D' | 'q' | 'Q' => plain.push('e'),
            '+' | '-' if before.is_some_and(|b| b.is_ascii_digit() || b == '.') => {
                plain.push('e');
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain.parse().ok()
}

/// The result of the first pass.
struct Scan {
    /// The integers at the start, `(value, first index)`, up to the length of the longest header.
    head: Vec<(i64, u64)>,
    /// Number of values in `head`, repeats counted.
    head_len: u64,
    /// Number of values in the file, repeats counted.
    total: u64,
}

impl Scan {
    fn word(&self, index: u64) -> Option<i64> {
        if index >= self.head_len {
            return None;
        }
        let n = self.head.partition_point(|h| h.1 <= index);
        n.checked_sub(1).and_then(|n| self.head.get(n)).map(|h| h.0)
    }
}

fn scan(source: &dyn ByteSource, path: &Path, progress: ConversionProgress<'_>) -> Result<Scan, FieldError> {
    let size = source.size();
    let mut words = TextWords::new(source, path);
    let mut scan = Scan { head: Vec::new(), head_len: 0, total: 0 };
    let mut heading = true;
    let mut longest = 8_u64;
    let mut total = 0_u128;
    while let Some(word) = words.next(&mut |done| progress(done, size * 2))? {
        if heading {
            match integer(word.text) {
                Some(value) => {
                    if scan.head.is_empty() {
                        let zones = u64::try_from(value).unwrap_or(0).min(MAX_ZONES);
                        longest = longest.max(4 * zones + 3);
                    }
                    scan.head.push((value, scan.head_len));
                    scan.head_len = scan.head_len.saturating_add(word.repeat);
                    heading = scan.head_len < longest;
                }
                None if scan.head.is_empty() => {
                    let word = String::from_utf8_lossy(word.text).into_owned();
                    let line = words.line;
                    return Err(FieldError::format(
                        path,
                        format!("line {line}: a PLOT3D file starts with integers, but this one with '{word}'"),
                    ));
                }
                None => heading = false,
            }
        }
        total += u128::from(word.repeat);
    }
    if total > MAX_EXPANSION * u128::from(size) {
        return Err(FieldError::format(
            path,
            format!("its repeat counts stand for {total} numbers, too many for a file of {size} bytes"),
        ));
    }
    // At most 1024 times a file's size, far below 2^64.
    scan.total = u64::try_from(total).unwrap_or(u64::MAX);
    Ok(scan)
}

fn encodings(kind: Kind) -> Vec<Encoding> {
    let all = super::sniff::encodings(kind);
    let text = all.into_iter().filter(|e| {
        e.format == Format::Binary && e.byte_order == ByteOrder::Little && e.precision == Precision::Double
    });
    text.map(|e| Encoding { format: Format::Ascii, ..e }).collect()
}

/// Numbers of a q file's header for one zone.
fn flow_numbers(e: &Encoding, species: u32) -> u64 {
    match (e.kind, e.overflow) {
        (Kind::Q, false) => 4,
        (Kind::Q, true) => 14 + u64::from(species.max(2)),
        _ => 0,
    }
}

/// Tests one reading of the scanned numbers.
fn header_of(scan: &Scan, size: u64, e: Encoding, expected: Option<&Expected>) -> Result<Header, (u32, String)> {
    if expected.is_some_and(|x| x.dimension != e.dimension) {
        return Err((0, "the grid has another number of coordinates".to_owned()));
    }
    let mut count = 1;
    let mut at = 0;
    if e.zones == ZoneCount::Multi {
        let word = scan.word(0).unwrap_or(0);
        count = u64::try_from(word).unwrap_or(0);
        if count == 0 || count > MAX_ZONES || count > size {
            return Err((0, format!("the zone count would be {word}")));
        }
        at = 1;
    }
    let (per_zone, extra) = header_words(&e);
    let end = at + count * per_zone;
    let missing = || (1, format!("its header of {count} zones does not consist of integers"));
    let overflow = match extra {
        0 => None,
        _ => Some([scan.word(end).ok_or_else(missing)?, scan.word(end + 1).ok_or_else(missing)?]),
    };
    let mut builder = HeaderBuilder::new(e, overflow).map_err(|t| (1, t))?;
    let mut words = [0_i64; 4];
    for zone in 0..count {
        let part = &mut words[..per_zone as usize];
        for (n, w) in part.iter_mut().enumerate() {
            *w = scan.word(at + zone * per_zone + n as u64).ok_or_else(missing)?;
        }
        builder.zone(part).map_err(|t| (1, t))?;
    }
    let header = builder.finish();
    if let Some(x) = expected {
        if !header.zones.iter().map(|z| &z.0).eq(&x.dims) {
            return Err((5, differing_zones(&header.zones, &x.dims)));
        }
    }
    let mut needs = u128::from(end + extra);
    for (dims, variables) in &header.zones {
        let points: u128 = dims.iter().map(|&d| u128::from(d)).product();
        needs += points * u128::from(variables + u32::from(e.iblank)) + u128::from(flow_numbers(&e, header.species));
    }
    if needs != u128::from(scan.total) {
        let (has, absurd) = (u128::from(scan.total), needs > 1000 * u128::from(scan.total.max(1)));
        let why = if needs > has { "truncated?" } else { "padded?" };
        return Err((if absurd { 5 } else { 20 }, format!("expected {needs} numbers, the file has {has} ({why})")));
    }
    Ok(header)
}

/// The readings of a text file that hold. Their zones' places refer to the file that [`convert`] writes.
pub(super) fn candidates(
    source: &dyn ByteSource,
    path: &Path,
    asked: ReadRequest<'_>,
    progress: ConversionProgress<'_>,
) -> Result<(Vec<FileReading>, Vec<Why>), FieldError> {
    let scan = scan(source, path, progress)?;
    let (mut fits, mut not) = (Vec::new(), Vec::new());
    for encoding in encodings(asked.kind) {
        if !encoding.allowed(asked.options) {
            continue;
        }
        match header_of(&scan, source.size(), encoding, asked.expected) {
            Ok(header) => {
                if let Some((reading, _)) = converted(&encoding, &header) {
                    fits.push(FileReading { encoding, ..reading });
                }
            }
            Err((rank, text)) => not.push(Why { rank, text, encoding }),
        }
    }
    if fits.len() > 1 {
        if let Some(one) = decide(source, path, &fits)? {
            fits = vec![fits.swap_remove(one)];
        }
    }
    Ok((fits, not))
}

/// Numbers of the header before the first zone.
fn head_numbers(reading: &FileReading) -> u64 {
    let e = &reading.encoding;
    let (per_zone, extra) = header_words(e);
    u64::from(e.zones == ZoneCount::Multi) + reading.zones.len() as u64 * per_zone + extra
}

/// For each zone: the counts of its flow header, of planes, and of floating-point data and iblank a plane, in the
/// file's order. A zone in WHOLE order counts as one plane.
fn chunks(reading: &FileReading) -> impl Iterator<Item = (u64, u64, u64, u64)> + '_ {
    let e = reading.encoding;
    reading.zones.iter().map(move |z| {
        let (planes, points) = match e.order {
            Order::Whole => (1, z.points()),
            Order::Planes => (u64::from(z.dims[2]), u64::from(z.dims[0]) * u64::from(z.dims[1])),
        };
        let iblank = if e.iblank { points } else { 0 };
        (flow_numbers(&e, reading.species), planes, points * u64::from(z.variables), iblank)
    })
}

/// Chooses among readings by the places of integers. Headers and iblank have no decimal point; coordinates mostly have
/// one.
fn decide(source: &dyn ByteSource, path: &Path, fits: &[FileReading]) -> Result<Option<usize>, FieldError> {
    /// Counts of values of one kind.
    #[derive(Default)]
    struct ValueCounts {
        whole: u64,
        broken: u64,
        nonzero: u64,
    }
    let mut found = Vec::new();
    for reading in fits {
        let (mut reals, mut blanks) = (ValueCounts::default(), ValueCounts::default());
        let mut values = TextValues::new(source, path);
        let mut free = |_| true;
        let mut take = |n: u64, into: Option<&mut ValueCounts>| -> Result<(), FieldError> {
            let mut none = ValueCounts::default();
            let into = into.unwrap_or(&mut none);
            values.each(n, &mut free, &mut |v, repeat| {
                if v.whole {
                    into.whole += repeat;
                } else {
                    into.broken += repeat;
                }
                into.nonzero += if v.value == 0.0 { 0 } else { repeat };
                Ok(())
            })
        };
        take(head_numbers(reading), None)?;
        for (flow, planes, numbers, iblank) in chunks(reading) {
            take(flow, None)?;
            for _ in 0..planes {
                take(numbers, Some(&mut reals))?;
                take(iblank, Some(&mut blanks))?;
            }
        }
        let possible = blanks.broken == 0;
        let clean = possible && reals.whole == 0 && (blanks.nonzero > 0 || !reading.encoding.iblank);
        found.push((possible, clean));
    }
    let only = |hit: &dyn Fn(&(bool, bool)) -> bool| {
        let hits: Vec<usize> = (0..found.len()).filter(|&n| hit(&found[n])).collect();
        if let [one] = hits[..] {
            Some(one)
        } else {
            None
        }
    };
    Ok(only(&|f| f.1).or_else(|| only(&|f| f.0)))
}

/// A value of the text.
#[derive(Copy, Clone)]
struct TextValue {
    value: f64,
    /// Written without point and exponent.
    whole: bool,
    line: u64,
}

/// The values of a text, with repeats expanded.
struct TextValues<'a> {
    words: TextWords<'a>,
    pending: Option<(TextValue, u64)>,
}

impl<'a> TextValues<'a> {
    fn new(source: &'a dyn ByteSource, path: &'a Path) -> Self {
        Self { words: TextWords::new(source, path), pending: None }
    }

    /// Reads `n` values and calls `sink` with each run of equal ones.
    fn each(
        &mut self,
        mut n: u64,
        progress: &mut dyn FnMut(u64) -> bool,
        sink: &mut dyn FnMut(TextValue, u64) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        while n > 0 {
            let (value, repeat) = match self.pending.take() {
                Some(pending) => pending,
                None => {
                    let path = self.words.path;
                    let Some(word) = self.words.next(progress)? else {
                        return Err(FieldError::format(path, "the file changed while it was read: it is shorter now"));
                    };
                    let Some(value) = number(word.text) else {
                        let (line, word) = (word.line, String::from_utf8_lossy(word.text).into_owned());
                        return Err(FieldError::format(path, format!("line {line}: '{word}' is not a number")));
                    };
                    (TextValue { value, whole: integer(word.text).is_some(), line: word.line }, word.repeat)
                }
            };
            let take = repeat.min(n);
            sink(value, take)?;
            n -= take;
            if repeat > take {
                self.pending = Some((value, repeat - take));
            }
        }
        Ok(())
    }
}

/// Writes a text file as plain little-endian binary with 64-bit numbers and a zone count. `reading`, from
/// [`candidates`], has the places.
///
/// # Errors
/// [`FieldError::Format`] with the line of a word that is not a number. [`FieldError::Io`] if `target` cannot be
/// written. [`FieldError::Interrupted`].
pub(super) fn convert(
    source: &dyn ByteSource,
    path: &Path,
    reading: &FileReading,
    target: &Path,
    out: &mut dyn Write,
    progress: ConversionProgress<'_>,
) -> Result<(), FieldError> {
    let size = source.size();
    let mut tell = |done: u64| progress(size + done, size * 2);
    let mut job = TextConversion {
        values: TextValues::new(source, path),
        out: io::BufWriter::with_capacity(1 << 16, out),
        path,
        target,
        progress: &mut tell,
    };
    if reading.encoding.zones == ZoneCount::Single {
        job.out.write_all(&1_i32.to_le_bytes()).map_err(|e| FieldError::io(target, e))?;
    }
    job.integers(head_numbers(reading))?;
    for (flow, planes, numbers, iblank) in chunks(reading) {
        // OVERFLOW: seven numbers, IGAM, the rest.
        job.reals(flow.min(7))?;
        job.integers(u64::from(flow > 7))?;
        job.reals(flow.saturating_sub(8))?;
        for _ in 0..planes {
            job.reals(numbers)?;
            job.integers(iblank)?;
        }
    }
    job.out.flush().map_err(|e| FieldError::io(target, e))
}

/// A conversion under way.
struct TextConversion<'a> {
    values: TextValues<'a>,
    out: io::BufWriter<&'a mut dyn Write>,
    path: &'a Path,
    target: &'a Path,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl TextConversion<'_> {
    fn reals(&mut self, n: u64) -> Result<(), FieldError> {
        let Self { values, out, target, progress, .. } = self;
        values.each(n, progress, &mut |v, repeat| {
            let bytes = v.value.to_le_bytes();
            (0..repeat).try_for_each(|_| out.write_all(&bytes)).map_err(|e| FieldError::io(*target, e))
        })
    }

    fn integers(&mut self, n: u64) -> Result<(), FieldError> {
        let Self { values, out, path, target, progress } = self;
        values.each(n, progress, &mut |v, repeat| {
            let whole = v.value as i32;
            if f64::from(whole) != v.value {
                let line = v.line;
                let message = format!(
                    "line {line}: {} stands where an integer goes; iblank of a file in PLANES order is elsewhere \
                     (--plot3d-order planes)",
                    v.value
                );
                return Err(FieldError::format(*path, message));
            }
            let bytes = whole.to_le_bytes();
            (0..repeat).try_for_each(|_| out.write_all(&bytes)).map_err(|e| FieldError::io(*target, e))
        })
    }
}

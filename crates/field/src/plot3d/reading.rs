//! One way to read a file, with the meaning of its every byte.
//!
//! **Theory.** A PLOT3D file does not name its encoding. Under each combination of format, byte order, precision, zone
//! count, dimension and iblank, its headers imply its size to the byte. So a reading is a hypothesis, and [`check`]
//! tests it: it walks the headers (and all record marks of a Fortran file). The reading holds only if it ends exactly
//! at the end of the file.
//!
//! **Practice.** A check costs a few small reads a zone. It costs a few dozen bytes of memory for each zone whose
//! header is present and whose data still fit in the file. So a mere claim of a header allocates nothing.
//!
//! OVERFLOW's layout is from appendix A of its users' manual. Dimensions are followed by NQ and NQC. Each zone's header
//! is REFMACH, ALPHA, REY, TIME, GAMINF, BETA, TINF, IGAM (an integer), HTINF, HT1, HT2, RGAS(max(2, NQC)), FSMACH,
//! TVREF, DTVREF.

use super::bytes::{real, ByteSource};
use super::options::{ByteOrder, Dimension, Format, Kind, Order, Plot3dOptions, Precision, ZoneCount};
use super::records::Records;
use super::walk::{read_spans, SectionWalk, Stop};
use crate::byte_runs::Spans;
use crate::catalog::FlowHeader;
use crate::decimal;
use std::io;

/// Most zones of a file, so that a crafted header cannot make a catalog of gigabytes.
pub(super) const MAX_ZONES: u64 = 1 << 17;
/// Most variables of a zone.
const MAX_VARIABLES: u64 = 4096;
/// OVERFLOW's header numbers without the gas constants and IGAM.
const OVERFLOW_FIXED: u64 = 13;

/// How the numbers of a file are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Grid, q or function file.
    pub kind: Kind,
    /// Records, plain, or text.
    pub format: Format,
    /// Bytes of a record mark: 4, or 8 from some old compilers.
    pub mark: u64,
    /// Byte order (little for text).
    pub byte_order: ByteOrder,
    /// Width of the numbers (64 for text).
    pub precision: Precision,
    /// Coordinates.
    pub dimension: Dimension,
    /// Whether there is a zone count.
    pub zones: ZoneCount,
    /// Grids: whether iblank follows the coordinates.
    pub iblank: bool,
    /// Order within a zone.
    pub order: Order,
    /// Fortran: the part of a zone in one record.
    pub records: Records,
    /// q files: OVERFLOW's longer headers.
    pub overflow: bool,
}

impl Encoding {
    /// Whether no field contradicts `options`.
    pub fn allowed(&self, options: &Plot3dOptions) -> bool {
        let text = self.format == Format::Ascii;
        options.format.is_none_or(|f| f == self.format)
            && options.byte_order.is_none_or(|b| text || b == self.byte_order)
            && options.precision.is_none_or(|p| text || p == self.precision)
            && options.dimension.is_none_or(|d| d == self.dimension)
            && options.zones.is_none_or(|z| z == self.zones)
            && options.iblank.is_none_or(|i| self.kind != Kind::Grid || i == self.iblank)
            && options.order.map_or(self.order == Order::Whole || self.records != Records::Zone, |o| o == self.order)
    }

    /// The options that choose this encoding.
    pub fn options(&self) -> Plot3dOptions {
        let binary = self.format != Format::Ascii;
        Plot3dOptions {
            format: Some(self.format),
            byte_order: binary.then_some(self.byte_order),
            precision: binary.then_some(self.precision),
            iblank: (self.kind == Kind::Grid).then_some(self.iblank),
            zones: Some(self.zones),
            dimension: Some(self.dimension),
            order: Some(self.order),
            kind: None,
        }
    }

    /// For `info`, e.g. `Fortran unformatted, little-endian, 32-bit, zone count, no iblank`.
    pub fn describe(&self) -> String {
        let mut words = vec![match self.format {
            Format::Fortran if self.mark == 8 => "Fortran unformatted (8-byte record marks)".to_owned(),
            Format::Fortran => "Fortran unformatted".to_owned(),
            Format::Binary => "plain binary".to_owned(),
            Format::Ascii => "ASCII".to_owned(),
        }];
        if self.format != Format::Ascii {
            words.push(format!("{}-endian", self.byte_order.word()));
            words.push(format!("{}-bit", self.precision.word()));
        }
        words.push(format!("{}-D", self.dimension.word()));
        words.push(if self.zones == ZoneCount::Multi { "with zone count" } else { "without zone count" }.to_owned());
        if self.kind == Kind::Grid {
            words.push(if self.iblank { "with iblank" } else { "without iblank" }.to_owned());
        }
        if self.order == Order::Planes {
            words.push("PLANES order".to_owned());
        }
        if let Some(text) = self.records.describe() {
            words.push(text.to_owned());
        }
        if self.overflow {
            words.push("OVERFLOW headers".to_owned());
        }
        words.join(", ")
    }

    pub(super) fn big(&self) -> bool {
        self.byte_order == ByteOrder::Big
    }

    /// Bytes of the data of one point.
    fn point_bytes(&self, variables: u64) -> Option<u64> {
        let real = variables.checked_mul(self.precision.bytes())?;
        real.checked_add(if self.iblank { 4 } else { 0 })
    }
}

/// One zone as a reading sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReading {
    /// Points along i, j, k.
    pub dims: [u32; 3],
    /// Floating-point variables a point.
    pub variables: u32,
    /// Place of its header numbers (q files).
    pub header: Spans,
    /// Place of its data.
    pub data: Spans,
}

impl ZoneReading {
    /// Number of points. Overflow is checked when the reading is made.
    pub fn points(&self) -> u64 {
        self.dims.iter().map(|&n| u64::from(n)).product()
    }
}

/// A file read in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReading {
    /// How it is written.
    pub encoding: Encoding,
    /// Its zones.
    pub zones: Vec<ZoneReading>,
    /// OVERFLOW: species.
    pub species: u32,
    /// The data after the last zone, in words; empty if there are none.
    pub tail: &'static str,
    /// Another order, with its records, under which the file would have the same records.
    pub also: Option<(Order, Records)>,
}

impl FileReading {
    /// Whether only the values can decide the order. One record a zone, or none, leaves it open.
    pub(super) fn order_is_open(&self) -> bool {
        self.also.is_some() || self.encoding.order == Order::Whole && self.encoding.records == Records::Zone
    }

    /// Sets the order, and the records that belong to it.
    pub(super) fn put_in(&mut self, order: Order) {
        if let Some(other) = self.also.filter(|other| other.0 == order && self.encoding.order != order) {
            self.also = Some((self.encoding.order, self.encoding.records));
            self.encoding.records = other.1;
        }
        self.encoding.order = order;
    }

    /// The zones' dimensions.
    pub fn dims(&self) -> impl Iterator<Item = [u32; 3]> + '_ {
        self.zones.iter().map(|z| z.dims)
    }

    /// The header numbers of zone `n` of a q file. A time in single precision becomes the shortest decimal number that
    /// rounds to it. So a step of 0.1 is not shown as 0.10000000149011612, and users find it by the number they gave.
    /// All other numbers are unchanged.
    ///
    /// # Errors
    /// The system's error.
    pub fn header(&self, source: &dyn ByteSource, n: usize) -> io::Result<FlowHeader> {
        let e = &self.encoding;
        let width = e.precision.bytes();
        let Some(zone) = self.zones.get(n) else { return Err(io::ErrorKind::InvalidInput.into()) };
        // At most a few thousand numbers; the check has found them in the file.
        let mut bytes = vec![0_u8; zone.header.len() as usize];
        read_spans(source, &zone.header, 0, &mut bytes)?;
        let number = |index: u64, shift: u64| {
            let from = (index * width + shift) as usize;
            bytes.get(from..from + width as usize).map_or(f64::NAN, |b| real(b, e.big()))
        };
        let meant = |x: f64| if e.precision == Precision::Single { decimal::of_single(x as f32) } else { x };
        let (mach, alpha, reynolds, mut time) = (number(0, 0), number(1, 0), number(2, 0), meant(number(3, 0)));
        let mut gamma = 1.4;
        if e.overflow {
            gamma = number(4, 0);
            // OVERFLOW's TIME is the iteration number. TVREF is the time in L / V_ref; divided by the reference Mach
            // number it is in L / a_inf. IGAM before it has four bytes in any precision.
            let reference = number(OVERFLOW_FIXED - 2 + u64::from(self.species.max(2)), 4);
            if reference.is_finite() && reference > 0.0 && mach > 0.0 {
                time = meant(reference) / meant(mach);
                if e.precision == Precision::Single {
                    // 0.02 / 0.2 would give 0.09999999999999999. Single precision has fewer than 15 digits.
                    time = format!("{time:.14e}").parse().unwrap_or(time);
                }
            }
        }
        Ok(FlowHeader { mach, alpha, reynolds, time, gamma })
    }
}

/// The grid's requirements on its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Points of each zone.
    pub dims: Vec<[u32; 3]>,
    /// Coordinates.
    pub dimension: Dimension,
}

/// The constraints under which a file is read.
#[derive(Copy, Clone, Debug)]
pub(super) struct ReadRequest<'a> {
    pub kind: Kind,
    /// Options of the user and the settings.
    pub options: &'a Plot3dOptions,
    /// Requirements of the grid, for a file that belongs to one.
    pub expected: Option<&'a Expected>,
}

/// The header words of a file after the zone count: `(words a zone, words at the end)`.
pub(super) fn header_words(e: &Encoding) -> (u64, u64) {
    let dim = e.dimension.count() as u64;
    (if e.kind == Kind::Function { dim + 1 } else { dim }, if e.overflow { 2 } else { 0 })
}

/// Bytes of a q file's header record for one zone.
pub(super) fn flow_header_bytes(e: &Encoding, species: u32) -> u64 {
    match (e.kind, e.overflow) {
        (Kind::Q, false) => 4 * e.precision.bytes(),
        (Kind::Q, true) => (OVERFLOW_FIXED + u64::from(species.max(2))) * e.precision.bytes() + 4,
        _ => 0,
    }
}

/// The contents of a file's integer header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Dimensions and number of variables of each zone.
    pub zones: Vec<([u32; 3], u32)>,
    /// OVERFLOW: species.
    pub species: u32,
}

/// Collects the zones of a header. Refuses senseless words at once, and counts the bytes needed so far.
pub(super) struct HeaderBuilder {
    encoding: Encoding,
    /// Bytes of the data of the zones so far.
    needs: u128,
    variables: u32,
    header: Header,
}

impl HeaderBuilder {
    pub fn new(encoding: Encoding, overflow: Option<[i64; 2]>) -> Result<Self, String> {
        let mut variables = match encoding.kind {
            Kind::Grid | Kind::Function => encoding.dimension.count() as u32,
            Kind::Q => encoding.dimension.count() as u32 + 2,
        };
        let mut species = 0;
        if let Some([nq, nqc]) = overflow {
            let fits = |v: i64, low: i64| u32::try_from(v).ok().filter(|_| v >= low && v <= MAX_VARIABLES as i64);
            variables = fits(nq, 5).ok_or_else(|| format!("NQ is {nq}"))?;
            species = fits(nqc, 0).filter(|&s| s <= variables).ok_or_else(|| format!("NQC is {nqc}"))?;
        }
        Ok(Self { encoding, needs: 0, variables, header: Header { zones: Vec::new(), species } })
    }

    /// Adds a zone from its header words.
    pub fn zone(&mut self, words: &[i64]) -> Result<(), String> {
        let n = self.header.zones.len() + 1;
        let dim = self.encoding.dimension.count();
        let mut dims = [1_u32; 3];
        for (slot, &word) in dims.iter_mut().zip(&words[..dim]) {
            *slot = u32::try_from(word)
                .ok()
                .filter(|&w| w > 0 && w <= i32::MAX as u32)
                .ok_or_else(|| format!("zone {n} would have {word} points along one direction"))?;
        }
        let variables = match words.get(dim) {
            Some(&v) => u32::try_from(v)
                .ok()
                .filter(|&v| v > 0 && u64::from(v) <= MAX_VARIABLES)
                .ok_or_else(|| format!("zone {n} would have {v} functions"))?,
            None => self.variables,
        };
        // Three 31-bit factors and a small one fit in 128 bits.
        let points: u128 = dims.iter().map(|&d| u128::from(d)).product();
        let bytes = self.encoding.point_bytes(u64::from(variables)).unwrap_or(u64::MAX);
        self.needs += points * u128::from(bytes);
        self.header.zones.push((dims, variables));
        Ok(())
    }

    /// Bytes of the data and flow headers after the integer header.
    pub fn needs(&self) -> u128 {
        let flow = flow_header_bytes(&self.encoding, self.header.species);
        self.needs + u128::from(flow) * self.header.zones.len() as u128
    }

    pub fn finish(self) -> Header {
        self.header
    }
}

/// Tests one reading. `expected` has the grid's requirements, for q and function files.
///
/// # Errors
/// [`Stop::Why`] if the reading does not hold, [`Stop::Io`] if the file cannot be read.
pub fn check(source: &dyn ByteSource, encoding: Encoding, expected: Option<&Expected>) -> Result<FileReading, Stop> {
    let size = source.size();
    let mut walk = SectionWalk::new(source, encoding);
    if expected.is_some_and(|e| e.dimension != encoding.dimension) {
        return Err(walk.stop("the grid has another number of coordinates".to_owned()));
    }
    let mut count = 1_u64;
    if encoding.zones == ZoneCount::Multi {
        let mut spans = Spans::new();
        walk.section(4, &|| "the zone count".to_owned(), &mut spans)?;
        let mut word = [0_i32];
        walk.integers(&spans, 0, &mut word)?;
        count = u64::try_from(word[0]).unwrap_or(0);
        if count == 0 {
            return Err(walk.stop(format!("the zone count would be {}", word[0])));
        }
        if count > MAX_ZONES {
            return Err(walk.stop(format!("the zone count would be {count}, more than {MAX_ZONES}")));
        }
        walk.rank += if encoding.format == Format::Fortran { 20 } else { 2 };
    }
    let header = integer_header(&mut walk, count)?;
    if let Some(expected) = expected {
        if !header.zones.iter().map(|z| &z.0).eq(&expected.dims) {
            walk.rank += 1;
            return Err(walk.stop(differing_zones(&header.zones, &expected.dims)));
        }
        walk.rank += 30;
    }
    let mut reading = FileReading {
        encoding,
        zones: Vec::with_capacity(header.zones.len()),
        species: header.species,
        tail: "",
        also: None,
    };
    for (n, &(dims, variables)) in header.zones.iter().enumerate() {
        let zone = zone_data(&mut walk, n, dims, variables, header.species)?;
        reading.zones.push(zone);
    }
    if walk.pos != size && encoding.overflow {
        reading.tail = tail(&mut walk, &header)?;
    }
    if walk.pos != size {
        let over = size - walk.pos;
        return Err(walk.stop(format!(
            "expected {} bytes, the file has {size}: {over} bytes follow the last zone (padded?)",
            walk.pos
        )));
    }
    Ok(reading)
}

fn integer_header(walk: &mut SectionWalk<'_>, count: u64) -> Result<Header, Stop> {
    let e = walk.encoding;
    let (per_zone, extra) = header_words(&e);
    let words = count * per_zone + extra;
    let mut spans = Spans::new();
    walk.section(words * 4, &|| format!("the header of {count} zones"), &mut spans)?;
    walk.rank += if e.format == Format::Fortran { 20 } else { 0 };
    let overflow = if e.overflow {
        let mut two = [0_i32; 2];
        walk.integers(&spans, words - 2, &mut two)?;
        Some(two.map(i64::from))
    } else {
        None
    };
    let mut builder = HeaderBuilder::new(e, overflow).map_err(|text| walk.stop(text))?;
    // 256 zones at a time: the header may claim far more than is sane.
    let mut block = [0_i32; 4 * 256];
    let mut done = 0;
    let left = u128::from(walk.size - walk.pos);
    while done < count {
        let zones = (count - done).min(256);
        let part = &mut block[..(zones * per_zone) as usize];
        walk.integers(&spans, done * per_zone, part)?;
        for words in part.chunks_exact(per_zone as usize) {
            let mut wide = [0_i64; 4];
            for (w, &v) in wide.iter_mut().zip(words) {
                *w = i64::from(v);
            }
            builder.zone(&wide[..words.len()]).map_err(|text| walk.stop(text))?;
            if builder.needs() > left && !(done + zones == count && count <= 256) {
                return Err(walk.stop(format!("the first zones of {count} already need {} bytes", builder.needs())));
            }
        }
        done += zones;
    }
    walk.rank += if e.format == Format::Fortran { 5 } else { 3 };
    let total = builder.needs() + u128::from(walk.pos);
    let absurd = total > 1000 * u128::from(walk.size.max(1));
    // In a Fortran file record marks locate an early end more exactly.
    if builder.needs() > left && (absurd || e.format != Format::Fortran || count > 256) {
        walk.rank += if absurd { 0 } else { 20 };
        let dims: Vec<String> =
            builder.header.zones.iter().take(3).map(|z| dims_text(&z.0, e.dimension.count())).collect();
        return Err(walk.stop(format!(
            "{count} zone{} ({}{}) need{} at least {total} bytes, the file has {}: {}",
            if count == 1 { "" } else { "s" },
            dims.join(", "),
            if count > 3 { ", ..." } else { "" },
            if count == 1 { "s" } else { "" },
            walk.size,
            if absurd { "no sensible header" } else { "truncated?" }
        )));
    }
    Ok(builder.finish())
}

/// `65 x 64 x 32`.
pub(super) fn dims_text(dims: &[u32; 3], dimension: usize) -> String {
    dims[..dimension].iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")
}

pub(super) fn differing_zones(zones: &[([u32; 3], u32)], expected: &[[u32; 3]]) -> String {
    if zones.len() != expected.len() {
        return format!("it would have {} zones, the grid has {}", zones.len(), expected.len());
    }
    let differs = zones.iter().zip(expected).enumerate().find(|(_, (z, e))| z.0 != **e);
    differs.map_or_else(String::new, |(n, (z, e))| {
        format!("zone {} would be {}, the grid's is {}", n + 1, dims_text(&z.0, 3), dims_text(e, 3))
    })
}

fn zone_data(
    walk: &mut SectionWalk<'_>,
    n: usize,
    dims: [u32; 3],
    variables: u32,
    species: u32,
) -> Result<ZoneReading, Stop> {
    let e = walk.encoding;
    let mut header = Spans::new();
    let flow = flow_header_bytes(&e, species);
    if flow > 0 {
        walk.section(flow, &|| format!("the flow header of zone {}", n + 1), &mut header)?;
        walk.rank += 10;
    }
    let plane = u64::from(dims[0]) * u64::from(dims[1]);
    let planes = u64::from(dims[2]);
    let bytes = e.point_bytes(u64::from(variables)).and_then(|b| b.checked_mul(plane)?.checked_mul(planes));
    let mut data = Spans::new();
    if bytes.is_none() {
        return Err(walk.stop(format!("zone {} is too large for any file", n + 1)));
    }
    for part in e.records.parts(&e, plane, planes, u64::from(variables)) {
        walk.section(part.bytes, &|| part.words(&e, n), &mut data)?;
        if e.records != Records::Zone && part.number == 0 {
            walk.rank += 5;
        }
    }
    walk.rank = walk.rank.saturating_add(10);
    Ok(ZoneReading { dims, variables, header, data })
}

/// OVERFLOW's data after the last zone: the previous time level (restart files), or one record with the number of
/// averaged steps (`q.avg`).
fn tail(walk: &mut SectionWalk<'_>, header: &Header) -> Result<&'static str, Stop> {
    let before = walk.pos;
    let mut count = Spans::new();
    if walk.section(4, &|| "the number of averaged steps".to_owned(), &mut count).is_ok() && walk.pos == walk.size {
        return Ok(AVERAGED);
    }
    walk.pos = before;
    for (n, &(dims, variables)) in header.zones.iter().enumerate() {
        zone_data(walk, n, dims, variables, header.species)?;
    }
    Ok("a previous time level follows the last zone; it is not used")
}

/// The tail of OVERFLOW's averages.
pub(super) const AVERAGED: &str = "the number of averaged steps follows the last zone";

/// The layout of converted text: the reading of a plain little-endian binary file with 64-bit numbers and these zones.
pub(super) fn converted(text: &Encoding, header: &Header) -> Option<(FileReading, u64)> {
    let encoding = Encoding {
        format: Format::Binary,
        byte_order: ByteOrder::Little,
        precision: Precision::Double,
        zones: ZoneCount::Multi,
        ..*text
    };
    let (per_zone, extra) = header_words(&encoding);
    let mut pos = (header.zones.len() as u64).checked_mul(per_zone)?.checked_add(extra + 1)?.checked_mul(4)?;
    let mut reading = FileReading {
        encoding,
        zones: Vec::with_capacity(header.zones.len()),
        species: header.species,
        tail: "",
        also: None,
    };
    for &(dims, variables) in &header.zones {
        let flow_len = flow_header_bytes(&encoding, header.species);
        let mut flow = Spans::new();
        flow.push(pos, flow_len);
        pos = pos.checked_add(flow_len)?;
        let mut bytes = encoding.point_bytes(u64::from(variables))?;
        for d in dims {
            bytes = bytes.checked_mul(u64::from(d))?;
        }
        let mut data = Spans::new();
        data.push(pos, bytes);
        pos = pos.checked_add(bytes)?;
        reading.zones.push(ZoneReading { dims, variables, header: flow, data });
    }
    Some((reading, pos))
}

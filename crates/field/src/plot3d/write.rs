//! Writes PLOT3D files, plane by plane, in every variant that the reader supports. For generators and tests.

use super::options::{ByteOrder, Dimension, Format, Kind, Order, Precision, ZoneCount};
use super::records::Records;
use crate::catalog::FlowHeader;
use std::io::{self, Write};

/// The longest sub-record that gfortran writes by default: 2^31 - 9 bytes.
pub const MAX_SUBRECORD: u64 = 2_147_483_639;

/// Contents and encoding of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteSpec {
    /// Grid, q or function file.
    pub kind: Kind,
    /// Records, plain or text.
    pub format: Format,
    /// Byte order of a binary file.
    pub byte_order: ByteOrder,
    /// Width of the numbers.
    pub precision: Precision,
    /// Coordinates.
    pub dimension: Dimension,
    /// Whether a zone count is written.
    pub zones: ZoneCount,
    /// Grids: whether iblank follows the coordinates.
    pub iblank: bool,
    /// Order within a zone.
    pub order: Order,
    /// Fortran: the part of a zone in one record. With [`Records::Zone`] in PLANES order each plane is a record.
    pub records: Records,
    /// Points of each zone; the third is 1 in 2-D.
    pub dims: Vec<[usize; 3]>,
    /// Function files: number of functions.
    pub functions: usize,
    /// q files: OVERFLOW's NQ and NQC.
    pub overflow: Option<(usize, usize)>,
    /// q files: header numbers of each zone. The last one repeats for further zones.
    pub headers: Vec<FlowHeader>,
    /// Bytes of a record mark, 4 or 8.
    pub mark: usize,
    /// Longer records are split into sub-records of this many bytes.
    pub max_subrecord: u64,
}

impl WriteSpec {
    /// Little-endian Fortran records with a zone count, double precision, 3-D, no iblank, WHOLE.
    pub fn new(kind: Kind, dims: Vec<[usize; 3]>) -> Self {
        Self {
            kind,
            format: Format::Fortran,
            byte_order: ByteOrder::Little,
            precision: Precision::Double,
            dimension: Dimension::Three,
            zones: ZoneCount::Multi,
            iblank: false,
            order: Order::Whole,
            records: Records::Zone,
            dims,
            functions: 1,
            overflow: None,
            headers: Vec::new(),
            mark: 4,
            max_subrecord: MAX_SUBRECORD,
        }
    }

    /// Floating-point variables a point.
    pub fn variables(&self) -> usize {
        match self.kind {
            Kind::Grid => self.dimension.count(),
            Kind::Q => self.overflow.map_or(self.dimension.count() + 2, |o| o.0),
            Kind::Function => self.functions,
        }
    }
}

/// Fills one plane, `[j][i]`, of (zone, variable, k). Variables are x, y, z; or density, momentum, energy, ...; or the
/// functions. iblank is the variable after the coordinates, and is rounded.
pub type Plane<'a> = &'a mut dyn FnMut(usize, usize, usize, &mut [f64]);

/// Writes the file to `out`. Uses memory for one plane.
///
/// ```
/// # use field::plot3d::{write::{write, WriteSpec}, Kind};
/// let spec = WriteSpec::new(Kind::Grid, vec![[3, 4, 5]]);
/// let mut file = Vec::new();
/// write(&mut file, &spec, &mut |_zone, axis, k, plane| {
///     for (n, value) in plane.iter_mut().enumerate() {
///         *value = [n % 3, n / 3, k][axis] as f64;
///     }
/// })?;
/// assert_eq!(file.len(), (4 + 8) + (3 * 4 + 8) + (3 * 3 * 4 * 5 * 8 + 8));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut dyn Write, spec: &WriteSpec, plane: Plane<'_>) -> io::Result<()> {
    let mut w =
        RecordWriter { out: io::BufWriter::with_capacity(1 << 18, out), spec, left: 0, len: 0, room: 0, first: true };
    let word = |n: usize| i32::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    if spec.zones == ZoneCount::Multi {
        w.begin(4)?;
        w.integer(word(spec.dims.len())?)?;
        w.end()?;
    }
    let dim = spec.dimension.count();
    let words = spec.dims.len() * (dim + usize::from(spec.kind == Kind::Function));
    let extra = if spec.overflow.is_some() { 2 } else { 0 };
    w.begin(4 * (words + extra) as u64)?;
    for dims in &spec.dims {
        for &n in &dims[..dim] {
            w.integer(word(n)?)?;
        }
        if spec.kind == Kind::Function {
            w.integer(word(spec.functions)?)?;
        }
    }
    if let Some((nq, nqc)) = spec.overflow {
        w.integer(word(nq)?)?;
        w.integer(word(nqc)?)?;
    }
    w.end()?;
    for (zone, dims) in spec.dims.iter().enumerate() {
        if spec.kind == Kind::Q {
            w.flow_header(zone)?;
        }
        w.zone(zone, *dims, plane)?;
    }
    w.out.flush()
}

/// Writes record marks around the contents.
struct RecordWriter<'a> {
    out: io::BufWriter<&'a mut dyn Write>,
    spec: &'a WriteSpec,
    /// Bytes of the record after this sub-record.
    left: u64,
    /// Length of this sub-record.
    len: u64,
    /// Bytes of this sub-record still to come.
    room: u64,
    /// Whether this sub-record is the record's first.
    first: bool,
}

impl RecordWriter<'_> {
    fn big(&self) -> bool {
        self.spec.byte_order == ByteOrder::Big
    }

    fn mark(&mut self, negative: bool) -> io::Result<()> {
        if self.spec.format != Format::Fortran {
            return Ok(());
        }
        if self.spec.mark == 8 {
            let bytes = if self.big() { self.len.to_be_bytes() } else { self.len.to_le_bytes() };
            return self.out.write_all(&bytes);
        }
        let len = i32::try_from(self.len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let len = if negative { -len } else { len };
        self.out.write_all(&if self.big() { len.to_be_bytes() } else { len.to_le_bytes() })
    }

    fn begin(&mut self, len: u64) -> io::Result<()> {
        (self.left, self.first) = (len, true);
        self.open()
    }

    fn open(&mut self) -> io::Result<()> {
        let longest = if self.spec.mark == 8 { u64::MAX } else { self.spec.max_subrecord };
        self.len = self.left.min(longest);
        self.room = self.len;
        self.left -= self.len;
        self.mark(self.left > 0)
    }

    fn close(&mut self) -> io::Result<()> {
        let negative = !self.first;
        self.first = false;
        self.mark(negative)
    }

    fn end(&mut self) -> io::Result<()> {
        if self.spec.format == Format::Ascii {
            return self.out.write_all(b"\n");
        }
        self.close()
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.spec.format != Format::Fortran {
            return self.out.write_all(bytes);
        }
        while !bytes.is_empty() {
            if self.room == 0 {
                self.close()?;
                self.open()?;
            }
            let take = self.room.min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at(take);
            self.out.write_all(now)?;
            self.room -= take as u64;
            bytes = later;
        }
        Ok(())
    }

    fn integer(&mut self, v: i32) -> io::Result<()> {
        match self.spec.format {
            Format::Ascii => write!(self.out, "{v} "),
            _ if self.big() => self.bytes(&v.to_be_bytes()),
            _ => self.bytes(&v.to_le_bytes()),
        }
    }

    fn real(&mut self, v: f64) -> io::Result<()> {
        match (self.spec.format, self.spec.precision, self.big()) {
            // Rust writes the shortest text that parses to the same number.
            (Format::Ascii, ..) => write!(self.out, "{v:e} "),
            (_, Precision::Single, true) => self.bytes(&(v as f32).to_be_bytes()),
            (_, Precision::Single, false) => self.bytes(&(v as f32).to_le_bytes()),
            (_, Precision::Double, true) => self.bytes(&v.to_be_bytes()),
            (_, Precision::Double, false) => self.bytes(&v.to_le_bytes()),
        }
    }

    fn flow_header(&mut self, zone: usize) -> io::Result<()> {
        let spec = self.spec;
        let plain = FlowHeader { mach: 0.0, alpha: 0.0, reynolds: 0.0, time: 0.0, gamma: 1.4 };
        let h = spec.headers.get(zone).or(spec.headers.last()).copied().unwrap_or(plain);
        let width = spec.precision.bytes();
        let Some((_, species)) = spec.overflow else {
            self.begin(4 * width)?;
            for v in [h.mach, h.alpha, h.reynolds, h.time] {
                self.real(v)?;
            }
            return self.end();
        };
        let gases = species.max(2);
        self.begin((13 + gases as u64) * width + 4)?;
        // BETA, TINF (Rankine), then IGAM.
        for v in [h.mach, h.alpha, h.reynolds, h.time, h.gamma, 0.0, 518.67] {
            self.real(v)?;
        }
        self.integer(0)?;
        // HTINF, HT1, HT2, gas constants, FSMACH, TVREF (time in L / V_ref), DTVREF.
        let rest = [0.0, 1.0, 1.0].into_iter().chain(std::iter::repeat_n(1.0, gases));
        for v in rest.chain([h.mach, h.time * h.mach, 0.0]) {
            self.real(v)?;
        }
        self.end()
    }

    fn zone(&mut self, zone: usize, dims: [usize; 3], plane: Plane<'_>) -> io::Result<()> {
        let spec = self.spec;
        let [ni, nj, nk] = dims;
        let variables = spec.variables();
        let all = variables + usize::from(spec.iblank);
        // Bytes of a plane of one array, and of several.
        let array = |v: usize| (ni * nj) as u64 * if v == variables { 4 } else { spec.precision.bytes() };
        let arrays = |from: usize, to: usize| (from..to).map(array).sum::<u64>();
        let (records, planes) = (spec.records, spec.order == Order::Planes);
        // End of the arrays of the record that begins at `v`: a record of the zone, or of a plane.
        let cut = |v: usize| match records {
            Records::Zone | Records::Plane => (v == 0).then_some(all),
            Records::Array | Records::ArrayPlane => Some(v + 1),
            Records::Coordinates if v == 0 => Some(variables),
            Records::Coordinates => (v == variables).then_some(all),
        };
        let mut values = vec![0.0; ni * nj];
        let mut put = |w: &mut Self, v: usize, k: usize| -> io::Result<()> {
            plane(zone, v, k, &mut values);
            for &value in &values {
                if v == variables {
                    w.integer(value.round() as i32)?;
                } else {
                    w.real(value)?;
                }
            }
            Ok(())
        };
        if planes {
            for (k, v) in (0..nk).flat_map(|k| (0..all).map(move |v| (k, v))) {
                if let Some(end) = cut(v) {
                    self.between(k + v > 0)?;
                    self.begin(arrays(v, end))?;
                }
                put(self, v, k)?;
            }
            return self.end();
        }
        for (v, k) in (0..all).flat_map(|v| (0..nk).map(move |k| (v, k))) {
            let end = cut(v).filter(|_| k == 0 || records == Records::ArrayPlane);
            if let Some(end) = end {
                self.between(v + k > 0)?;
                self.begin(arrays(v, end) * if records == Records::ArrayPlane { 1 } else { nk as u64 })?;
            }
            put(self, v, k)?;
        }
        self.end()
    }

    /// Ends the previous record, if there is one.
    fn between(&mut self, one: bool) -> io::Result<()> {
        if one {
            return self.end();
        }
        Ok(())
    }
}

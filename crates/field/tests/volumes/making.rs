//! Arrays made by the test, and files of them in the formats' layouts: the inverse of the tested code.

use field::volume::{ArraySpec, ChannelSpec, CodecSpec, Fill, LevelSpec, PlaceSpec, VolumeKind, VolumeSpec};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A folder that is removed when the test ends.
pub struct TempFolder(pub PathBuf);

impl TempFolder {
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let name = format!("farfield-volume-{}-{}", std::process::id(), SERIAL.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The places of chunks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Where {
    Contiguous,
    Planes,
    Table,
    Keys,
    Shards { crc: bool, at_end: bool },
}

#[derive(Clone, Debug)]
pub struct SyntheticStore {
    pub axes: String,
    pub shape: Vec<u64>,
    pub chunk: Vec<u64>,
    pub order: Option<Vec<usize>>,
    pub dtype: String,
    pub big: bool,
    pub codecs: Vec<CodecSpec>,
    pub place: Where,
    /// Chunks that are not written.
    pub holes: Vec<u64>,
    pub fill: Option<f64>,
    /// Whether chunks at the edge end where the array does, as far as their order allows.
    pub cut: bool,
}

impl SyntheticStore {
    pub fn size(&self) -> usize {
        match self.dtype.as_str() {
            "uint8" | "int8" | "bool" => 1,
            "uint16" | "int16" | "float16" => 2,
            "uint32" | "int32" | "float32" => 4,
            _ => 8,
        }
    }

    /// The value of an element by its number in the array, small enough for every type.
    pub fn value(&self, number: u64) -> f64 {
        let x = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        match self.dtype.as_str() {
            "bool" => (x % 2) as f64,
            "uint8" => ((number / 3 + x % 7) % 251) as f64,
            "int8" => ((number / 3 + x % 7) % 251) as f64 - 125.0,
            "float16" => (x % 2000) as f64 - 1000.0,
            "uint16" | "uint32" | "uint64" => ((number + x % 5) % 60_000) as f64,
            "int16" => ((number + x % 5) % 60_000) as f64 - 30_000.0,
            "float32" | "float64" => (number as f64 * 0.01).sin() as f32 as f64,
            _ => ((number + x % 5) % 60_000) as f64 - 30_000.0,
        }
    }

    /// A stored element.
    pub fn element(&self, v: f64) -> Vec<u8> {
        macro_rules! number {
            ($t:ty) => {
                if self.big {
                    (v as $t).to_be_bytes().to_vec()
                } else {
                    (v as $t).to_le_bytes().to_vec()
                }
            };
        }
        match self.dtype.as_str() {
            "uint8" | "bool" => number!(u8),
            "int8" => number!(i8),
            "uint16" => number!(u16),
            "int16" => number!(i16),
            "uint32" => number!(u32),
            "int32" => number!(i32),
            "uint64" => number!(u64),
            "int64" => number!(i64),
            "float32" => number!(f32),
            "float64" => number!(f64),
            _ => {
                let half = half(v);
                if self.big {
                    half.to_be_bytes().to_vec()
                } else {
                    half.to_le_bytes().to_vec()
                }
            }
        }
    }

    pub fn grid(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.chunk).map(|(s, c)| s.div_ceil(*c)).collect()
    }

    /// Number of an element in the array, slowest first.
    pub fn number(&self, at: &[u64]) -> u64 {
        at.iter().zip(&self.shape).fold(0, |n, (a, s)| n * s + a)
    }

    /// The value at a place: the fill value if its chunk is not written.
    pub fn truth(&self, at: &[u64]) -> f64 {
        let grid = self.grid();
        let chunk = at.iter().zip(&self.chunk).map(|(a, c)| a / c);
        let chunk = chunk.zip(&grid).fold(0, |n, (c, g)| n * g + c);
        if self.holes.contains(&chunk) {
            return self.fill.unwrap();
        }
        self.value(self.number(at))
    }

    /// The bytes of a chunk before its codecs.
    fn chunk_bytes(&self, at: &[u64]) -> Vec<u8> {
        let n = self.shape.len();
        let order = self.order.clone().unwrap_or_else(|| (0..n).collect());
        let lengths: Vec<u64> = order.iter().map(|d| self.chunk[*d]).collect();
        let total: u64 = lengths.iter().product();
        let mut out = Vec::new();
        let mut end = 0;
        for e in 0..total {
            let mut rest = e;
            let mut within = vec![0; n];
            for (d, len) in order.iter().zip(&lengths).rev() {
                within[*d] = rest % len;
                rest /= len;
            }
            let place: Vec<u64> = (0..n).map(|d| at[d] * self.chunk[d] + within[d]).collect();
            let inside = place.iter().zip(&self.shape).all(|(p, s)| p < s);
            out.extend(self.element(if inside { self.value(self.number(&place)) } else { 77.0 }));
            if inside {
                end = out.len();
            }
        }
        if self.cut {
            out.truncate(end);
        }
        out
    }

    /// Stored chunks in the order of the grid.
    pub fn chunks(&self) -> Vec<Option<Vec<u8>>> {
        let grid = self.grid();
        let count: u64 = grid.iter().product();
        let chunks = (0..count).map(|number| {
            if self.holes.contains(&number) {
                return None;
            }
            let mut rest = number;
            let mut at = vec![0; grid.len()];
            for (a, g) in at.iter_mut().zip(&grid).rev() {
                *a = rest % g;
                rest /= g;
            }
            let mut bytes = self.chunk_bytes(&at);
            for codec in self.codecs.iter().rev() {
                bytes = encode(codec, &bytes, self.size(), self.big);
            }
            Some(bytes)
        });
        chunks.collect()
    }

    /// Writes the files, and returns a reader's description of them.
    pub fn write(&self, folder: &Path, shard: Option<Vec<u64>>) -> (ArraySpec, Vec<Vec<u8>>) {
        std::fs::create_dir_all(folder).unwrap();
        let text = |name: &str| folder.join(name).display().to_string();
        let chunks = self.chunks();
        let grid = self.grid();
        let key = |number: u64, grid: &[u64]| {
            let mut rest = number;
            let mut at = vec![String::new(); grid.len()];
            for (a, g) in at.iter_mut().zip(grid).rev() {
                *a = (rest % g).to_string();
                rest /= g;
            }
            at.join("/")
        };
        let mut tables = Vec::new();
        let place = match self.place {
            Where::Contiguous => {
                let mut all = vec![9; 13];
                chunks.iter().for_each(|c| all.extend(c.as_ref().unwrap()));
                std::fs::write(text("all"), all).unwrap();
                PlaceSpec::Contiguous { file: text("all"), offset: 13 }
            }
            Where::Planes => {
                let mut files = Vec::new();
                let mut offsets = Vec::new();
                for (n, c) in chunks.iter().enumerate() {
                    let mut bytes = vec![3; n % 3];
                    bytes.extend(c.as_ref().unwrap());
                    std::fs::write(text(&format!("plane{n}")), bytes).unwrap();
                    files.push(text(&format!("plane{n}")));
                    offsets.push((n % 3) as u64);
                }
                PlaceSpec::Planes { files, offset: 0, offsets: Some(offsets) }
            }
            Where::Table => {
                let mut parts = [vec![1u8; 5], vec![2u8; 9]];
                let mut table = Vec::new();
                for (n, c) in chunks.iter().enumerate() {
                    let file = n % 2;
                    let row = match c {
                        Some(c) => {
                            let at = parts[file].len() as u64;
                            parts[file].extend(c);
                            [file as u64, at, c.len() as u64]
                        }
                        None => [0, 0, 0],
                    };
                    row.iter().for_each(|w| table.extend(w.to_le_bytes()));
                }
                let files = vec![text("a"), text("b")];
                parts.iter().zip(&files).for_each(|(p, f)| std::fs::write(f, p).unwrap());
                tables.push(table);
                PlaceSpec::Table { files, table: 0 }
            }
            Where::Keys => {
                for (n, c) in chunks.iter().enumerate().filter_map(|(n, c)| Some((n, c.as_ref()?))) {
                    let path = folder.join("c").join(key(n as u64, &grid));
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, c).unwrap();
                }
                PlaceSpec::Keys { prefix: format!("{}/", text("c")), separator: "/".into() }
            }
            Where::Shards { crc, at_end } => {
                let shard = shard.unwrap();
                let per: Vec<u64> = shard.iter().zip(&self.chunk).map(|(s, c)| s / c).collect();
                let shards: Vec<u64> = self.shape.iter().zip(&shard).map(|(s, n)| s.div_ceil(*n)).collect();
                let slots: u64 = per.iter().product();
                for s in 0..shards.iter().product() {
                    let mut index = Vec::new();
                    let mut body = Vec::new();
                    let head = slots as usize * 16 + if crc { 4 } else { 0 };
                    let base = if at_end { 0 } else { head };
                    for slot in 0..slots {
                        // The slot's chunk in the whole grid.
                        let (mut r, mut q) = (slot, s);
                        let mut number = Some(0);
                        let mut scale = 1;
                        for d in (0..per.len()).rev() {
                            let at = (q % shards[d]) * per[d] + r % per[d];
                            (r, q) = (r / per[d], q / shards[d]);
                            number = number.filter(|_| at < grid[d]).map(|n| n + at * scale);
                            scale *= grid[d];
                        }
                        let words = match number.and_then(|n| chunks[n as usize].as_ref()) {
                            Some(c) => {
                                let at = (base + body.len()) as u64;
                                body.extend(c);
                                [at, c.len() as u64]
                            }
                            None => [u64::MAX; 2],
                        };
                        words.iter().for_each(|w| index.extend(w.to_le_bytes()));
                    }
                    if body.is_empty() {
                        continue;
                    }
                    if crc {
                        index.extend(crc32c::crc32c(&index).to_le_bytes());
                    }
                    let bytes = if at_end { [body, index].concat() } else { [index, body].concat() };
                    let path = folder.join("s").join(key(s, &shards));
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, bytes).unwrap();
                }
                let prefix = format!("{}/", text("s"));
                PlaceSpec::Shards {
                    prefix,
                    separator: "/".into(),
                    shard,
                    index_crc32c: crc,
                    index_at_end: at_end,
                    root: None,
                }
            }
        };
        let whole = matches!(self.place, Where::Contiguous | Where::Planes);
        let components = self.axes.find('c').map_or(1, |c| self.shape[c] as usize);
        let spec = ArraySpec {
            name: "made".into(),
            dtype: self.dtype.clone(),
            big_endian: self.big,
            shape: self.shape.clone(),
            axes: self.axes.clone(),
            chunk: (!whole).then(|| self.chunk.clone()),
            order: self.order.clone(),
            channels: (0..components).collect(),
            fill: self.fill.map(Fill::Number),
            codecs: self.codecs.clone(),
            place,
        };
        (spec, tables)
    }

    /// A volume of this array alone.
    pub fn volume(&self, array: ArraySpec, kind: VolumeKind) -> VolumeSpec {
        let length = |axis: char| self.axes.find(axis).map_or(1, |d| self.shape[d]);
        let steps = length('t');
        VolumeSpec {
            path: "made".into(),
            format: "test".into(),
            guessed: Vec::new(),
            kind,
            channels: (0..length('c')).map(|c| ChannelSpec::named(format!("c{c}"))).collect(),
            length_unit: "voxel".into(),
            anatomy: None,
            direction: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            times: if steps > 1 { (0..steps).map(|t| t as f64).collect() } else { Vec::new() },
            time_units: "1".into(),
            levels: vec![LevelSpec {
                dims: ['x', 'y', 'z'].map(length),
                origin: [0.0; 3],
                spacing: [1.0; 3],
                arrays: vec![array],
            }],
            ranges: None,
            label_colors: Default::default(),
        }
    }
}

/// The half-precision form of a whole number below 2049.
fn half(v: f64) -> u16 {
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    let v = v.abs();
    if v == 0.0 {
        return sign;
    }
    let exponent = v.log2().floor() as i32;
    let fraction = ((v / 2f64.powi(exponent) - 1.0) * 1024.0).round() as u16;
    sign | ((exponent + 15) as u16) << 10 | fraction
}

pub fn encode(codec: &CodecSpec, bytes: &[u8], size: usize, big: bool) -> Vec<u8> {
    use std::io::Write;
    let level = flate2::Compression::new(3);
    match codec {
        CodecSpec::Zstd {} => zstd::bulk::compress(bytes, 1).unwrap(),
        CodecSpec::Gzip {} => {
            let mut e = flate2::GzBuilder::new().filename("name").comment("c").write(Vec::new(), level);
            e.write_all(bytes).unwrap();
            e.finish().unwrap()
        }
        CodecSpec::Zlib {} => {
            let mut e = flate2::write::ZlibEncoder::new(Vec::new(), level);
            e.write_all(bytes).unwrap();
            e.finish().unwrap()
        }
        CodecSpec::Deflate {} => {
            let mut e = flate2::write::DeflateEncoder::new(Vec::new(), level);
            e.write_all(bytes).unwrap();
            e.finish().unwrap()
        }
        CodecSpec::Bz2 {} => {
            let mut e = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
            e.write_all(bytes).unwrap();
            e.finish().unwrap()
        }
        CodecSpec::Lz4 {} => {
            let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
            out.extend(lz4_flex::block::compress(bytes));
            out
        }
        CodecSpec::Lzw {} => {
            weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(bytes).unwrap()
        }
        CodecSpec::Blosc {} => blosc(bytes, size, c"lz4", 1),
        CodecSpec::Packbits {} => {
            let mut out = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let run = bytes[at..].iter().take(128).take_while(|b| **b == bytes[at]).count();
                if run > 2 {
                    out.extend([(1 - run as i32) as i8 as u8, bytes[at]]);
                    at += run;
                } else {
                    let n = (bytes.len() - at).min(5);
                    out.push(n as u8 - 1);
                    out.extend(&bytes[at..at + n]);
                    at += n;
                }
            }
            out
        }
        CodecSpec::Shuffle { size } => {
            let n = bytes.len() / size;
            let mut out = bytes.to_vec();
            for e in 0..n {
                for b in 0..*size {
                    out[b * n + e] = bytes[e * size + b];
                }
            }
            out
        }
        CodecSpec::Delta {} => differences(bytes, size, big, bytes.len(), 1),
        CodecSpec::Predictor { kind: 2, width, samples } => {
            differences(bytes, size, big, width * samples * size, *samples)
        }
        CodecSpec::Predictor { width, samples, .. } => {
            let row = width * samples * size;
            let elements = row / size;
            let mut out = Vec::new();
            for r in bytes.chunks(row) {
                let mut sorted = vec![0; row];
                for e in 0..elements {
                    for b in 0..size {
                        let place = if big { b } else { size - 1 - b };
                        sorted[place * elements + e] = r[e * size + b];
                    }
                }
                for n in (*samples..row).rev() {
                    sorted[n] = sorted[n].wrapping_sub(sorted[n - samples]);
                }
                out.extend(sorted);
            }
            out
        }
        CodecSpec::Crc32c {} => [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat(),
        CodecSpec::Fletcher32 {} => {
            let (mut a, mut b) = (0u64, 0u64);
            for w in bytes.chunks(2) {
                a += u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0));
                b += a;
            }
            // Sums modulo 65535, never 0 after an addition.
            let fold = |x: u64| if x == 0 { 0 } else { ((x - 1) % 65535 + 1) as u32 };
            [bytes, &(fold(b) << 16 | fold(a)).to_le_bytes()].concat()
        }
        other => panic!("{other:?}"),
    }
}

/// Differences within rows, of integers.
fn differences(bytes: &[u8], size: usize, big: bool, row: usize, stride: usize) -> Vec<u8> {
    let number = |e: &[u8]| {
        let mut e = e.to_vec();
        if big {
            e.reverse();
        }
        e.resize(8, 0);
        u64::from_le_bytes(e.try_into().unwrap())
    };
    let mut out = Vec::new();
    for row in bytes.chunks(row) {
        let elements: Vec<u64> = row.chunks(size).map(number).collect();
        for n in 0..elements.len() {
            let d = elements[n].wrapping_sub(if n >= stride { elements[n - stride] } else { 0 });
            let mut e = d.to_le_bytes()[..size].to_vec();
            if big {
                e.reverse();
            }
            out.extend(e);
        }
    }
    out
}

/// A Blosc buffer from the C library.
pub fn blosc(bytes: &[u8], size: usize, name: &std::ffi::CStr, shuffle: i32) -> Vec<u8> {
    let mut out = vec![0u8; bytes.len() + 16];
    // SAFETY: both buffers are valid for the lengths given, the name is a C string.
    let n = unsafe {
        blosc_src::blosc_compress_ctx(
            5,
            shuffle,
            size,
            bytes.len(),
            bytes.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            out.len(),
            name.as_ptr(),
            0,
            1,
        )
    };
    assert!(n > 0, "{n}");
    out.truncate(n as usize);
    out
}

//! NumPy's `.npy` header (format versions 1.0 to 3.0): writer and parser.

use super::number::Number;

/// The header of an array of native-order type `descr` (`<f8`, `<U10`) in C order, padded to a multiple of 64 bytes. It
/// has room for `spare` more characters, so that a later shape fits.
pub(crate) fn header(descr: &str, shape: &[u64], spare: usize) -> Vec<u8> {
    let mut dimensions: String = shape.iter().map(|n| format!("{n}, ")).collect();
    if shape.len() > 1 {
        dimensions.truncate(dimensions.len() - 2);
    } else if shape.len() == 1 {
        dimensions.truncate(dimensions.len() - 1);
    }
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dimensions}), }}");
    // Magic, version and length take 10 bytes; a newline ends the text.
    let total = (10 + text.len() + spare + 1).next_multiple_of(64);
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    // Our headers are a few hundred bytes: the 16-bit length of version 1.0 holds them.
    out.extend_from_slice(&((total - 10) as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.resize(total - 1, b' ');
    out.push(b'\n');
    out
}

/// Writes `shape` into a header made by [`header`] with enough spare room.
pub(crate) fn header_of_length(descr: &str, shape: &[u64], total: usize) -> Vec<u8> {
    let mut out = header(descr, shape, 0);
    out.truncate(out.len() - 1);
    while out.last() == Some(&b' ') {
        out.pop();
    }
    out.resize(total - 1, b' ');
    out.push(b'\n');
    out[8..10].copy_from_slice(&((total - 10) as u16).to_le_bytes());
    out
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NpyType {
    /// Numbers.
    Number(Number),
    /// Strings of a fixed number of UCS-4 characters.
    Text(usize),
}

/// A parsed header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// Type of an element.
    pub dtype: NpyType,
    /// Byte order.
    pub big_endian: bool,
    /// Whether the first axis is the fastest.
    pub fortran: bool,
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// Where the numbers begin.
    pub data_at: u64,
}

impl NpyHeader {
    /// Bytes of one element.
    pub(crate) fn element_bytes(&self) -> u64 {
        match self.dtype {
            NpyType::Number(number) => number.bytes() as u64,
            NpyType::Text(characters) => 4 * characters as u64,
        }
    }

    /// Bytes of all elements; `None` on overflow.
    pub fn data_bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element_bytes(), |bytes, n| bytes.checked_mul(*n))
    }
}

/// Bytes of the longest header that is read: NumPy itself refuses headers above 10,000 characters.
pub const MAX_HEADER_BYTES: usize = 10_000 + 12;

/// Parses the header at the front of `bytes` (the first [`MAX_HEADER_BYTES`] of the file, or all of it).
///
/// # Errors
/// A message for bytes that are no valid header.
pub fn parse(bytes: &[u8]) -> Result<NpyHeader, String> {
    if bytes.len() < 10 || &bytes[..6] != b"\x93NUMPY" {
        return Err("is not a .npy file (it does not begin with the bytes of one)".into());
    }
    let (at, length) = match bytes[6] {
        1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
        2 | 3 if bytes.len() >= 12 => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
        version => return Err(format!("has .npy format version {version}, which is not known")),
    };
    if length > MAX_HEADER_BYTES {
        return Err(format!("has a .npy header of {length} bytes, which no plain array has"));
    }
    let text = bytes.get(at..at + length).ok_or("ends within its .npy header")?;
    let text = std::str::from_utf8(text).map_err(|_| "has a .npy header that is not text")?;
    let descr = value_of(text, "descr").ok_or("has a .npy header without 'descr'")?;
    let fortran = match value_of(text, "fortran_order").ok_or("has a .npy header without 'fortran_order'")? {
        value if value.starts_with("True") => true,
        value if value.starts_with("False") => false,
        _ => return Err("has a .npy header with a wrong 'fortran_order'".into()),
    };
    let shape = value_of(text, "shape").ok_or("has a .npy header without 'shape'")?;
    let shape =
        shape.strip_prefix('(').and_then(|s| s.split_once(')')).ok_or("has a .npy header with a wrong 'shape'")?.0;
    let mut dimensions = Vec::new();
    for part in shape.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        dimensions.push(part.parse::<u64>().map_err(|_| "has a .npy header with a wrong 'shape'")?);
        if dimensions.len() > 32 {
            return Err("has more than 32 dimensions".into());
        }
    }
    let descr = descr
        .strip_prefix('\'')
        .and_then(|s| s.split_once('\''))
        .ok_or("holds records or objects; a plain array of numbers is needed")?
        .0;
    let (dtype, big_endian) = parse_descr(descr)?;
    Ok(NpyHeader { dtype, big_endian, fortran, shape: dimensions, data_at: (at + length) as u64 })
}

fn parse_descr(descr: &str) -> Result<(NpyType, bool), String> {
    let unknown = || format!("holds numbers of type '{descr}'; f4, f8 and integers are read");
    let mut letters = descr.chars();
    let order = letters.next().ok_or_else(unknown)?;
    let kind = letters.next().ok_or_else(unknown)?;
    let size: usize = letters.as_str().parse().map_err(|_| unknown())?;
    let big_endian = match order {
        '<' | '|' => false,
        '>' => true,
        '=' => cfg!(target_endian = "big"),
        _ => return Err(unknown()),
    };
    if kind == 'U' && size <= 1_000_000 {
        return Ok((NpyType::Text(size), big_endian));
    }
    Number::from_numpy(kind, size).map(|number| (NpyType::Number(number), big_endian)).ok_or_else(unknown)
}

/// The text behind `'key':` in the header's dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let quoted = format!("'{key}'");
    let after = &text[text.find(&quoted)? + quoted.len()..];
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::mutations;

    #[test]
    fn headers_round_trip() {
        for shape in [vec![], vec![0], vec![5], vec![7, 3], vec![u64::MAX, 1, 2]] {
            let bytes = header("<f8", &shape, 0);
            assert_eq!(bytes.len() % 64, 0);
            let parsed = parse(&bytes).unwrap();
            assert_eq!(parsed.shape, shape);
            assert_eq!(parsed.data_at, bytes.len() as u64);
            assert_eq!(parsed.dtype, NpyType::Number(Number::F64));
            assert!(!parsed.fortran && !parsed.big_endian);
        }
        assert_eq!(parse(&header("<U10", &[2], 0)).unwrap().element_bytes(), 40);
        assert_eq!(parse(&header("<f8", &[u64::MAX, 3], 0)).unwrap().data_bytes(), None);
    }

    #[test]
    fn a_shape_can_be_written_again() {
        let first = header("<i8", &[0, 4], 20);
        let second = header_of_length("<i8", &[123_456_789_012, 4], first.len());
        assert_eq!(first.len(), second.len());
        assert_eq!(parse(&second).unwrap().shape, [123_456_789_012, 4]);
    }

    #[test]
    fn numpys_spellings_are_read() {
        let with = |text: &str| {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
            parse(&bytes)
        };
        let parsed = with("{'descr': '>f4', 'fortran_order': True, 'shape': (10L, 3L), }");
        assert!(parsed.is_err());
        let parsed = with("{'descr': '>f4', 'fortran_order': True, 'shape': (10, 3), }\n").unwrap();
        assert!(parsed.big_endian && parsed.fortran);
        let records = with("{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }");
        assert!(records.unwrap_err().contains("plain array"));
        assert!(with("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }").unwrap_err().contains("<c16"));
    }

    #[test]
    fn damaged_headers_do_not_panic() {
        mutations(&header("<f8", &[7, 3], 0), 2000, |bytes| {
            // Any result is valid: the test is that it returns.
            let _ = parse(bytes);
        });
    }
}

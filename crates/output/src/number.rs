//! Number types of files that are read back.

/// A number as a file stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// VTK's name of the type.
    pub(crate) fn from_vtk(name: &str) -> Option<Self> {
        Some(match name {
            "Int8" => Self::I8,
            "UInt8" => Self::U8,
            "Int16" => Self::I16,
            "UInt16" => Self::U16,
            "Int32" => Self::I32,
            "UInt32" => Self::U32,
            "Int64" => Self::I64,
            "UInt64" => Self::U64,
            "Float32" => Self::F32,
            "Float64" => Self::F64,
            _ => return None,
        })
    }

    /// NumPy's kind character and size.
    pub(crate) fn from_numpy(kind: char, size: usize) -> Option<Self> {
        Some(match (kind, size) {
            ('i', 1) => Self::I8,
            ('u' | 'b', 1) => Self::U8,
            ('i', 2) => Self::I16,
            ('u', 2) => Self::U16,
            ('i', 4) => Self::I32,
            ('u', 4) => Self::U32,
            ('i', 8) => Self::I64,
            ('u', 8) => Self::U64,
            ('f', 4) => Self::F32,
            ('f', 8) => Self::F64,
            _ => return None,
        })
    }

    /// The number at the front of `bytes`, which hold at least [`Number::bytes`]; integers above 2^53 are rounded.
    pub(crate) fn to_f64(self, bytes: &[u8], big_endian: bool) -> f64 {
        let word = word(&bytes[..self.bytes()], big_endian);
        match self {
            Self::I8 => f64::from(word as u8 as i8),
            Self::U8 => f64::from(word as u8),
            Self::I16 => f64::from(word as u16 as i16),
            Self::U16 => f64::from(word as u16),
            Self::I32 => f64::from(word as u32 as i32),
            Self::U32 => f64::from(word as u32),
            Self::I64 => word as i64 as f64,
            Self::U64 => word as f64,
            Self::F32 => f64::from(f32::from_bits(word as u32)),
            Self::F64 => f64::from_bits(word),
        }
    }

    /// The integer at the front of `bytes`; `None` for a floating-point type or on overflow.
    pub(crate) fn to_i64(self, bytes: &[u8], big_endian: bool) -> Option<i64> {
        let word = word(&bytes[..self.bytes()], big_endian);
        match self {
            Self::F32 | Self::F64 => None,
            Self::I8 => Some(i64::from(word as u8 as i8)),
            Self::I16 => Some(i64::from(word as u16 as i16)),
            Self::I32 => Some(i64::from(word as u32 as i32)),
            Self::I64 => Some(word as i64),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => i64::try_from(word).ok(),
        }
    }

    /// Appends the little-endian bytes of a number in text; `None` if it is not one.
    pub(crate) fn parse_text(self, text: &str, into: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::F32 => into.extend_from_slice(&text.parse::<f32>().ok()?.to_le_bytes()),
            Self::F64 => into.extend_from_slice(&text.parse::<f64>().ok()?.to_le_bytes()),
            Self::U64 => into.extend_from_slice(&text.parse::<u64>().ok()?.to_le_bytes()),
            whole => {
                let value = text.parse::<i64>().ok()?;
                let (low, high) = match whole {
                    Self::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
                    Self::U8 => (0, i64::from(u8::MAX)),
                    Self::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
                    Self::U16 => (0, i64::from(u16::MAX)),
                    Self::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    Self::U32 => (0, i64::from(u32::MAX)),
                    _ => (i64::MIN, i64::MAX),
                };
                if value < low || value > high {
                    return None;
                }
                into.extend_from_slice(&value.to_le_bytes()[..whole.bytes()]);
            }
        }
        Some(())
    }
}

/// Up to eight bytes as a word.
fn word(bytes: &[u8], big_endian: bool) -> u64 {
    let fold = |word: u64, byte: &u8| (word << 8) | u64::from(*byte);
    if big_endian {
        bytes.iter().fold(0, fold)
    } else {
        bytes.iter().rev().fold(0, fold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_in_both_orders() {
        assert_eq!(Number::F64.to_f64(&(-1.5f64).to_le_bytes(), false), -1.5);
        assert_eq!(Number::F64.to_f64(&(-1.5f64).to_be_bytes(), true), -1.5);
        assert_eq!(Number::F32.to_f64(&0.25f32.to_be_bytes(), true), 0.25);
        assert_eq!(Number::I16.to_f64(&(-7i16).to_be_bytes(), true), -7.0);
        assert_eq!(Number::I8.to_i64(&[0xff], false), Some(-1));
        assert_eq!(Number::U64.to_i64(&[0xff; 8], false), None);
        assert_eq!(Number::F64.to_i64(&[0; 8], false), None);
    }

    #[test]
    fn text_is_range_checked() {
        let mut out = Vec::new();
        assert!(Number::U8.parse_text("256", &mut out).is_none());
        assert!(Number::I8.parse_text("-128", &mut out).is_some());
        assert!(Number::F32.parse_text("nan", &mut out).is_some());
        assert!(Number::I32.parse_text("1.5", &mut out).is_none());
        assert_eq!(out.len(), 5);
    }
}

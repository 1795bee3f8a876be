//! Hexadecimal digits.

/// Bytes from hexadecimal digits.
pub(super) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let digit = |d: u8| char::from(d).to_digit(16).map(|d| d as u8);
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

/// Hexadecimal digits of bytes.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

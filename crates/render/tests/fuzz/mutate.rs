//! Damage as by disks, transfers, editors and forgers.

/// xorshift64*: a case depends only on its number and its target's name.
pub struct XorShift(u64);

impl XorShift {
    pub fn new(name: &str, case: u64) -> Self {
        let seed = (u64::from(crc32c::crc32c(name.as_bytes())) << 32) ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Self(seed | 1);
        // Neighbouring cases must begin differently.
        for _ in 0..4 {
            random.next();
        }
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 11) % n as u64) as usize
    }

    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Numbers at which size arithmetic breaks.
const NUMBERS: [i64; 26] = [
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    12,
    16,
    64,
    100,
    127,
    128,
    255,
    256,
    4096,
    32767,
    65535,
    65536,
    131_072,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX,
    i64::MIN,
];

/// The same in text, and words that are no numbers.
const DIGITS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "65",
    "1000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e300",
    "1e999",
    "-0",
    "nan",
    "inf",
    "0.5",
    "00000000000000000000000000000001",
];

/// An input of the corpus, damaged in up to six ways.
pub fn mutate(corpus: &[Vec<u8>], words: &[&str], random: &mut XorShift) -> Vec<u8> {
    let mut bytes = random.of(corpus).clone();
    // Usually few changes: a file with many errors is refused at the first.
    let count = 1 + random.below(6).min(random.below(6));
    for _ in 0..count {
        once(&mut bytes, corpus, words, random);
    }
    // Inputs must stay small.
    bytes.truncate(1 << 16);
    bytes
}

/// A place: in half of all cases near the start, where headers are.
fn place(len: usize, random: &mut XorShift) -> usize {
    let reach = if random.below(2) == 0 { len.min(96) } else { len };
    random.below(reach.max(1))
}

fn once(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str], random: &mut XorShift) {
    let len = bytes.len();
    if len == 0 {
        bytes.extend_from_slice(random.of::<Vec<u8>>(corpus));
        return;
    }
    let at = place(len, random);
    let run = |random: &mut XorShift| (at + 1 + random.below(32)).min(len);
    match random.below(15) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.next() as u8,
        3 => bytes.truncate(at),
        4 => {
            // Padding, by zeros as on tapes and blocks, or by other bytes.
            let (more, with) = (1 + random.below(600), random.next());
            bytes.extend((0..more).map(|n| if with % 2 == 0 { 0 } else { (with >> (n % 48)) as u8 }));
        }
        5 | 6 => {
            // A critical number: a length of this file, or one at which arithmetic breaks.
            let near =
                [len as i64, (len - at) as i64, (len - at) as i64 - 4, at as i64, len as i64 + 1, len as i64 / 4];
            let number = if random.below(3) == 0 { *random.of(&near) } else { *random.of(&NUMBERS) };
            let width = *random.of(&[2, 4, 4, 8]);
            let mut word = number.to_le_bytes()[..width].to_vec();
            if random.below(2) == 0 {
                word.reverse();
            }
            let at = if random.below(4) == 0 { at } else { at / 4 * 4 };
            let end = (at + width).min(len);
            bytes[at..end].copy_from_slice(&word[..end - at]);
        }
        7 => {
            // Two words are swapped.
            let (a, b) = (at / 4 * 4, place(len, random) / 4 * 4);
            if a + 4 <= len && b + 4 <= len {
                (0..4).for_each(|n| bytes.swap(a + n, b + n));
            }
        }
        8 => {
            let end = run(random);
            let value = *random.of(&[0, 0xff, 0x7f, 0x80, b' ', b'9']);
            bytes[at..end].fill(value);
        }
        9 => {
            let copy = bytes[at..run(random)].to_vec();
            let to = place(len, random);
            bytes.splice(to..to, copy);
        }
        10 => drop(bytes.drain(at..run(random))),
        11 => {
            // The front of one input and the back of another.
            let other = random.of(corpus);
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        12 | 13 => {
            // A number in text is replaced.
            let mut digits = at;
            while digits < len && !bytes[digits].is_ascii_digit() {
                digits += 1;
            }
            let end = (digits..len).find(|&n| !bytes[n].is_ascii_digit()).unwrap_or(len);
            bytes.splice(digits..end, random.of(&DIGITS).bytes());
        }
        _ => {
            let word = if words.is_empty() { random.of(&DIGITS) } else { random.of(words) };
            let end = if random.below(2) == 0 { at } else { run(random) };
            bytes.splice(at..end, word.bytes());
        }
    }
}

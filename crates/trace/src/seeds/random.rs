//! Random numbers by a seed's index.
//!
//! Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A block of
//! four 32-bit numbers is a function of a key and a counter. The key is the user's seed. The counter holds the index
//! and the number of the block. So every index has a stream of its own without overlap. Drawing more or fewer numbers
//! for one index changes none of another.

/// The random numbers of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedStream {
    key: [u32; 2],
    index: u64,
    /// The next block.
    block: u64,
    /// The second half of a block, once the first is used.
    spare: Option<u64>,
}

impl SeedStream {
    /// The stream of seed number `index` under the generator's seed.
    pub fn new(seed: u64, index: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], index, block: 0, spare: None }
    }

    /// The index of the stream.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let counter = [self.block as u32, (self.block >> 32) as u32, self.index as u32, (self.index >> 32) as u32];
        let [a, b, c, d] = philox(counter, self.key);
        self.block = self.block.wrapping_add(1);
        self.spare = Some(u64::from(c) | u64::from(d) << 32);
        u64::from(a) | u64::from(b) << 32
    }

    /// The next number in `[0, 1)`, a multiple of 2^-53.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A position in a box, uniform in each axis.
    pub fn next_in(&mut self, low: [f64; 3], high: [f64; 3]) -> [f64; 3] {
        let mut point = low;
        for axis in 0..3 {
            let t = self.next_f64();
            point[axis] += (high[axis] - low[axis]) * t;
        }
        point
    }
}

/// Ten rounds of Philox over one counter. The constants are the paper's.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers, published by the authors with the generator.
    #[test]
    fn published_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn streams_do_not_depend_on_each_other() {
        let draw = |index, n: usize| {
            let mut stream = SeedStream::new(42, index);
            (0..n).map(|_| stream.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(5, 7), draw(5, 10)[..7]);
        assert_ne!(draw(5, 7), draw(6, 7));
        assert_ne!(SeedStream::new(1, 5).next_u64(), SeedStream::new(2, 5).next_u64());
    }

    #[test]
    fn numbers_are_uniform() {
        let n = 100_000u64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for index in 0..n {
            let v = SeedStream::new(1, index).next_f64();
            assert!((0.0..1.0).contains(&v));
            sum += v;
            squares += v * v;
        }
        // Four standard deviations of the means.
        let (mean, square) = (sum / n as f64, squares / n as f64);
        assert!((mean - 0.5).abs() < 4.0 * (1.0 / 12.0f64 / n as f64).sqrt());
        assert!((square - 1.0 / 3.0).abs() < 4.0 * (4.0 / 45.0f64 / n as f64).sqrt());
    }
}

//! Common tools of tests and experiments: folders, random numbers, damaged bytes, volumes from formulas.
//!
//! # Theory
//! Inputs are computed from seeds and formulas and not stored. So a test states the exact value of every voxel, and a
//! failure repeats on any machine.
//!
//! # Practice
//! [`TestDir`] is a directory that is removed after the test. [`Lcg`] gives reproducible numbers. [`mutations`] passes
//! damaged variants of a file to a parser. [`volumes::Formula`] makes the pages of a volume on demand.

pub mod volumes;

use std::path::{Path, PathBuf};

/// A directory of one test, removed at its end.
pub struct TestDir(PathBuf);

impl TestDir {
    /// An empty directory. Its name has `name` and the number of the process.
    ///
    /// # Panics
    /// When the directory cannot be created.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farfield-{name}-{}", std::process::id()));
        // An earlier process with this number may have left it.
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it, and returns its path.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Its own path.
    pub fn at(&self) -> &Path {
        &self.0
    }

    /// Every name in it, in order.
    ///
    /// # Panics
    /// When the directory cannot be listed.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small generator for tests (64-bit linear congruential, high bits). Seeds are fixed, so tests are reproducible.
pub struct Lcg(pub u64);

impl Lcg {
    /// The next number, below 2^31.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Passes bytes to `parse` with flips, truncation, repetition and overwrites, `rounds` times. A parser may return an
/// error, and must not panic.
pub fn mutations(original: &[u8], rounds: usize, mut parse: impl FnMut(&[u8])) {
    let mut random = Lcg(7);
    for _ in 0..rounds {
        let mut bytes = original.to_vec();
        for _ in 0..=random.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(6) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes[at] = random.next() as u8,
                3 => bytes[at] = b"0123456789-.,:/<>\"= \n"[random.below(21) as usize],
                4 => {
                    let end = (at + 8).min(bytes.len());
                    let value = [0xff, 0x7f, 0x80, 0][random.below(4) as usize];
                    bytes[at..end].fill(value);
                }
                _ => {
                    let copy = bytes[at..(at + 20).min(bytes.len())].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        parse(&bytes);
    }
}

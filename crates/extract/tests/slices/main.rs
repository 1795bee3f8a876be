//! Slices as pictures: values against references of their own, the same for every means, whole files.

mod grid;
mod made;
mod volume;

use std::path::PathBuf;

/// A folder of one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A folder of its own.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farfield-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Bits of numbers: what is no number is equal to itself.
pub fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

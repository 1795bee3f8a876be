//! Existing files of a grid, by listing folders. One listing settles all files that are not in it.

use pager::place;
use std::io::ErrorKind;
use std::path::Path;

/// Sorted numbers of the existing files of a grid of names. A name is `prefix`, then places in the grid, slowest first,
/// with `separator` between them. `None` if the folders have more than `most` names, or if one cannot be listed. Only
/// "not found" counts as empty.
pub(super) fn listed(prefix: &str, separator: &str, grid: &[u64], most: usize) -> Option<Vec<u64>> {
    if place::is_remote(Path::new(prefix)) {
        // Each folder would cost a round trip before the first page is read.
        return None;
    }
    let cut = prefix.rfind('/').map_or(0, |at| at + 1);
    let (folder, stem) = prefix.split_at(cut);
    let folder = if folder.is_empty() { "./" } else { folder };
    let mut walk = ChunkWalk { grid, separator, left: most, found: Vec::new() };
    walk.folder(folder, stem, 0, 0)?;
    walk.found.sort_unstable();
    Some(walk.found)
}

struct ChunkWalk<'w> {
    grid: &'w [u64],
    separator: &'w str,
    /// Names that may still be examined.
    left: usize,
    found: Vec<u64>,
}

impl ChunkWalk<'_> {
    /// Lists a folder whose files are at place `base` along the first `known` dimensions. Their names begin with
    /// `stem`.
    fn folder(&mut self, path: &str, stem: &str, known: usize, base: u64) -> Option<()> {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Some(()),
            Err(_) => return None,
        };
        let nested = self.separator == "/";
        for entry in entries {
            let name = entry.ok()?.file_name();
            self.left = self.left.checked_sub(1)?;
            let Some(rest) = name.to_str().and_then(|n| n.strip_prefix(stem)) else { continue };
            let numbers = if nested { 1.min(self.grid.len() - known) } else { self.grid.len() - known };
            let Some(at) = self.number(rest, known, numbers, base) else { continue };
            if known + numbers == self.grid.len() {
                self.found.push(at);
            } else {
                self.folder(&format!("{path}{stem}{rest}/"), "", known + numbers, at)?;
            }
        }
        Some(())
    }

    /// The file number of the text, if it has exactly `count` places in the form of names.
    fn number(&self, text: &str, known: usize, count: usize, base: u64) -> Option<u64> {
        let mut parts = if count <= 1 { vec![text] } else { text.split(self.separator).collect() };
        if count == 0 {
            // A grid without dimensions has one file, named by the prefix alone.
            return text.is_empty().then_some(base);
        }
        if parts.len() != count {
            return None;
        }
        parts.iter_mut().zip(&self.grid[known..]).try_fold(base, |n, (part, count)| {
            let at: u64 = part.parse().ok()?;
            // The form of names has no sign and no leading zero.
            (at < *count && at.to_string() == *part).then(|| n * count + at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_under_any_kind_of_name() {
        let dir = std::env::temp_dir().join(format!("ff-listed-{}", std::process::id()));
        let touch = |name: &str| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        };
        for name in ["c/1/2/3", "c/0/0/0", "c/0/01/0", "c/0/9/0", "c/x", "zarr.json"] {
            touch(name);
        }
        for name in
            ["f/1.2.3", "f/0.0.0", "f/0.0", "f/+1.2.3", "f/1.2.4", "f/.zarray", "g/c.1.2.3", "g/c.0.0.0", "g/d.0.0.0"]
        {
            touch(name);
        }
        let at = |of: &str| format!("{}/{of}", dir.display());
        let grid = [2, 3, 4];
        let both = Some(vec![0, (3 + 2) * 4 + 3]);
        assert_eq!(listed(&at("c/"), "/", &grid, 100), both);
        assert_eq!(listed(&at("f/"), ".", &grid, 100), both);
        assert_eq!(listed(&at("g/c."), ".", &grid, 100), both);
        assert_eq!(listed(&at("nothing/c/"), "/", &grid, 100), Some(vec![]), "what is not there has nothing");
        assert_eq!(listed(&at("f/"), ".", &grid, 3), None, "more than one looks at");
        assert_eq!(listed(&at("f/0.0.0/"), "/", &grid, 100), None, "no folder");
        std::fs::remove_dir_all(dir).unwrap();
    }
}

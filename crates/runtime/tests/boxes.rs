//! Boxes of files paged in place are kept in the cache, and are used for these files alone.

use field::plot3d::write::{write, WriteSpec};
use field::plot3d::Kind;
use pager::PolicyKind;
use runtime::session::{Resources, Session, SourceSpec};
use runtime::values;
use std::path::{Path, PathBuf};

struct GridFolder(PathBuf);

impl GridFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farfield-boxes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A grid whose first point lies at `origin` on each axis.
    fn grid(&self, name: &str, origin: f64) -> PathBuf {
        let mut bytes = Vec::new();
        let spec = WriteSpec::new(Kind::Grid, vec![[9, 8, 7]]);
        let mut plane = |_: usize, variable: usize, k: usize, plane: &mut [f64]| {
            for (n, value) in plane.iter_mut().enumerate() {
                *value = origin + [(n % 9) as f64, (n / 9) as f64, k as f64][variable.min(2)];
            }
        };
        write(&mut bytes, &spec, &mut plane).unwrap();
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn open(&self, path: &Path) -> Session {
        let spec = SourceSpec { path: path.to_owned(), cache_dir: self.0.join("cache"), ..SourceSpec::default() };
        let resources = Resources {
            memory_limit: 64 << 20,
            workers: 1,
            readers: 1,
            replacement: PolicyKind::Clock,
            observer: None,
        };
        Session::open(spec, resources, &mut |_, _, _| true).unwrap()
    }

    /// Whether a point on the diagonal lies in the grid, and whether boxes had to be built for the answer.
    fn has(&self, path: &Path, at: f64) -> (bool, bool) {
        let mut made = false;
        let found = values::probe(&self.open(path), [at; 3], None, 0, &mut |phase, _, _| {
            made |= phase == "indexing";
            true
        });
        (found.unwrap().is_some(), made)
    }

    fn indexes(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.0.join("cache/data")).unwrap().map(|e| e.unwrap().path());
        all.filter(|p| p.extension().is_some_and(|e| e == "index")).collect()
    }
}

impl Drop for GridFolder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_in_the_place_of_another_has_boxes_of_its_own() {
    let folder = GridFolder::new("replaced");
    let grid = folder.grid("g.xyz", 0.0);
    assert_eq!(folder.has(&grid, 2.5), (true, true));
    assert_eq!(folder.has(&grid, 2.5), (true, false), "they are kept");
    // As `mv` after `cp -p`: size and time are those of the old file.
    let when = std::fs::metadata(&grid).unwrap().modified().unwrap();
    let other = folder.grid("other.xyz", 100.0);
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(when).unwrap();
    std::fs::rename(&other, &grid).unwrap();
    assert_eq!(folder.has(&grid, 102.5), (true, true));
    assert!(!folder.has(&grid, 2.5).0);
}

#[test]
fn boxes_of_other_files_are_not_taken_whatever_their_name() {
    let folder = GridFolder::new("renamed");
    let (near, far) = (folder.grid("near.xyz", 0.0), folder.grid("far.xyz", 100.0));
    assert!(folder.has(&near, 2.5).0);
    let of_near = folder.indexes().remove(0);
    assert!(folder.has(&far, 102.5).0);
    let of_far = folder.indexes().into_iter().find(|p| *p != of_near).unwrap();
    std::fs::remove_dir_all(&of_far).unwrap();
    std::fs::rename(&of_near, &of_far).unwrap();
    assert_eq!(folder.has(&far, 102.5), (true, true));
}

#[test]
fn a_source_that_is_gone_is_an_error_and_not_a_name() {
    let folder = GridFolder::new("gone");
    let grid = folder.grid("g.xyz", 0.0);
    let session = folder.open(&grid);
    std::fs::remove_file(&grid).unwrap();
    let e = session.located(&mut |_, _, _| true).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("g.xyz"), "{e}");
}

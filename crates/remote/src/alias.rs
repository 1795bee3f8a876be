//! Names for folders of another place: `ssh://me@host/data` for the page server that was started there.

use pager::place::{self, Entry, ExtentRead, FileRef, IndexedExtent, Looked, Place, TailRead};
use pager::source::{Completion, Read, ReadForm};
use pager::PageErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The scheme of aliases.
pub const SCHEME: &str = "ssh";

static ALIASES: RwLock<Vec<Arc<Alias>>> = RwLock::new(Vec::new());

/// Sets the folder for which a name stands. A name that is set again stands for the new folder from then on.
///
/// # Errors
/// When `target` is in no place.
pub fn set_alias(name: &str, target: &str) -> Result<(), PageErrorKind> {
    let inner = place::of(Path::new(target))?;
    let inner = inner.ok_or_else(|| PageErrorKind::Unsupported(format!("{target} is a local path")))?;
    let (name, target) = (name.trim_end_matches('/').to_owned(), target.trim_end_matches('/').to_owned());
    let mut aliases = ALIASES.write().unwrap_or_else(PoisonError::into_inner);
    aliases.retain(|alias| alias.name != name);
    aliases.push(Arc::new(Alias { name, target, inner }));
    // The longest name first: it is the most specific one.
    aliases.sort_by_key(|alias| std::cmp::Reverse(alias.name.len()));
    Ok(())
}

/// Registers the scheme.
pub fn register() {
    place::register(SCHEME, Arc::new(|url| find(url).map(|alias| alias as Arc<dyn Place>)));
}

fn find(url: &str) -> Result<Arc<Alias>, PageErrorKind> {
    let aliases = ALIASES.read().unwrap_or_else(PoisonError::into_inner);
    let found = aliases.iter().find(|alias| alias.rest(url).is_some());
    let unknown = || PageErrorKind::Unsupported(format!("{url}: no server was started for this folder"));
    found.cloned().ok_or_else(unknown)
}

/// A name, and its folder in another place.
struct Alias {
    name: String,
    target: String,
    inner: Arc<dyn Place>,
}

impl Alias {
    /// What follows the name in a path: nothing, or from a slash on.
    fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(&self.name).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn targeted(&self, path: &Path) -> PathBuf {
        let text = path.to_str().unwrap_or_default();
        // A path of another name is left as it is, and is not found.
        self.rest(text).map_or_else(|| path.to_owned(), |rest| format!("{}{rest}", self.target).into())
    }

    fn file(&self, file: &FileRef) -> FileRef {
        FileRef { path: self.targeted(&file.path).into(), ..file.clone() }
    }
}

impl Place for Alias {
    fn describe(&self) -> String {
        format!("{} ({})", self.name, self.inner.describe())
    }

    fn form(&self) -> ReadForm {
        self.inner.form()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn bytes_per_read(&self) -> u64 {
        self.inner.bytes_per_read()
    }

    fn held_bytes(&self) -> u64 {
        self.inner.held_bytes()
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        self.inner.submit(&self.file(file), reads, done);
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.inner.promote(tokens, done);
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.inner.withdraw(tokens, done);
    }

    fn indexed(&self, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        self.inner.indexed(&self.file(file), wanted, then)
    }

    fn tail(&self, file: &FileRef, len: usize, then: TailRead) -> Result<(), TailRead> {
        self.inner.tail(&self.file(file), len, then)
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        self.inner.look(paths.iter().map(|path| self.targeted(path)).collect(), then);
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        self.inner.list(&self.targeted(folder), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::place::{mirror::Mirror, read_small, FileKind, Opening};

    #[test]
    fn a_name_stands_for_a_folder_of_another_place() {
        let root = std::env::temp_dir().join(format!("farfield-alias-{}", std::process::id()));
        std::fs::create_dir_all(root.join("data/sub")).unwrap();
        std::fs::write(root.join("data/sub/a.txt"), b"here").unwrap();
        let _mirror = Mirror::register("mirror-alias", &root);
        register();
        let _opening = Opening::begin();
        set_alias("ssh://me@host/scratch/", "mirror-alias://host/data").unwrap();
        assert_eq!(&*read_small(Path::new("ssh://me@host/scratch/sub/a.txt"), 10).unwrap(), b"here");
        let found = place::list(Path::new("ssh://me@host/scratch"), 10).unwrap();
        assert_eq!((&*found[0].name, found[0].kind), ("sub", FileKind::Folder));
        for other in ["ssh://me@host/scratchy/sub/a.txt", "ssh://you@host/scratch/sub/a.txt"] {
            let refused = read_small(Path::new(other), 10);
            assert!(matches!(refused, Err(PageErrorKind::Unsupported(_))), "{refused:?}");
        }
        assert!(set_alias("ssh://h/a", "/data").is_err());
        std::fs::remove_dir_all(root).unwrap();
    }
}

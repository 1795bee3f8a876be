//! The files of each step of a series, and their identities.
//!
//! A store records identities of each step's files, but no names: it does not reveal where it was made. Appending a
//! simulation's new steps then skips those in the store, and detects changed files.

use crate::error::FieldError;
use crate::file::{identities, Digest, FileIdentity};
use crate::heap_size;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// The files of a series, as named by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesFiles {
    /// The files of every step, as a steady grid.
    pub steady: Vec<PathBuf>,
    /// The files of each step.
    pub steps: Vec<Vec<PathBuf>>,
}

/// The identity of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Digest of its path.
    pub name: Digest,
    /// Digest of its path, size, time of change and number in the file system.
    pub state: Digest,
}

/// The source files of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// As [`SeriesFiles::steady`].
    pub steady: Vec<SourceFile>,
    /// As [`SeriesFiles::steps`].
    pub steps: Vec<Vec<SourceFile>>,
}

/// A step of a series, as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It is this step of the store, made of the same files.
    Step(usize),
    /// This file has changed since the store was made.
    Changed(PathBuf),
    /// It is not in the store.
    New,
}

impl SourceFile {
    fn of(id: &FileIdentity) -> Self {
        Self { name: Digest::default().text(&id.path().to_string_lossy()), state: Digest::of(std::slice::from_ref(id)) }
    }
}

impl SeriesFiles {
    /// The present identities.
    ///
    /// # Errors
    /// [`FieldError::Io`] names a missing file.
    pub fn identify(&self) -> Result<Sources, FieldError> {
        let each = |files: &Vec<PathBuf>| -> Result<Vec<SourceFile>, FieldError> {
            Ok(identities(files)?.iter().map(SourceFile::of).collect())
        };
        Ok(Sources { steady: each(&self.steady)?, steps: self.steps.iter().map(each).collect::<Result<_, _>>()? })
    }

    /// The files of a step, after those of all steps.
    pub fn of_step(&self, step: usize) -> impl Iterator<Item = &PathBuf> {
        self.steady.iter().chain(self.steps.get(step).into_iter().flatten())
    }

    /// The distinguishing file of a step, for messages.
    pub fn name_of(&self, step: usize) -> &Path {
        let own = self.steps.get(step).and_then(|files| files.last());
        own.or(self.steady.first()).map_or(Path::new(""), PathBuf::as_path)
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        let paths = |v: &Vec<PathBuf>| {
            heap_size::list(v) + v.iter().map(|p| heap_size::grown::<u8>(p.as_os_str().len() / 2 + 1)).sum::<u64>()
        };
        paths(&self.steady) + heap_size::list(&self.steps) + self.steps.iter().map(paths).sum::<u64>()
    }
}

impl Sources {
    /// The files of a step, after those of all steps.
    fn of_step(&self, step: usize) -> impl Iterator<Item = &SourceFile> {
        self.steady.iter().chain(self.steps.get(step).into_iter().flatten())
    }

    /// Whether a file of all steps, or of the only step, is among these.
    pub fn has_steady(&self, file: &SourceFile) -> bool {
        let only = if self.steps.len() == 1 { self.steps.first() } else { None };
        self.steady.iter().chain(only.into_iter().flatten()).any(|f| f == file)
    }

    /// The state of step `step` of `series`, whose files are `now`.
    pub fn known(&self, series: &SeriesFiles, now: &Self, step: usize) -> StepState {
        let files: Vec<&SourceFile> = now.of_step(step).collect();
        // A file may belong to a step and hold the grid of all.
        let same = |s: &usize| {
            self.of_step(*s).all(|g| files.contains(&g)) && files.iter().all(|f| self.of_step(*s).any(|g| g == *f))
        };
        // If one file has all steps, each step is itself.
        let likely = Some(step).filter(|s| *s < self.steps.len());
        if let Some(found) = likely.into_iter().chain(0..self.steps.len()).find(same) {
            return StepState::Step(found);
        }
        let all = || self.steady.iter().chain(self.steps.iter().flatten());
        let other = |f: &SourceFile| all().any(|g| g.name == f.name) && !all().any(|g| g == f);
        match files.iter().zip(series.of_step(step)).find(|(f, _)| other(f)) {
            Some((_, path)) => StepState::Changed(path.clone()),
            None => StepState::New,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        heap_size::list(&self.steady)
            + heap_size::list(&self.steps)
            + self.steps.iter().map(heap_size::list).sum::<u64>()
    }

    /// As JSON.
    pub fn value(&self) -> Value {
        let files = |v: &Vec<SourceFile>| -> Value {
            v.iter().map(|f| json!([f.name.to_string(), f.state.to_string()])).collect()
        };
        json!({"steady": files(&self.steady), "steps": self.steps.iter().map(files).collect::<Value>()})
    }

    /// From [`Self::value`]'s JSON.
    pub fn from_value(v: &Value) -> Option<Self> {
        let file = |v: &Value| {
            let part = |n: usize| Digest::parse(v.get(n)?.as_str()?);
            Some(SourceFile { name: part(0)?, state: part(1)? })
        };
        let files = |v: &Value| v.as_array()?.iter().map(file).collect::<Option<Vec<_>>>();
        Some(Self {
            steady: files(&v["steady"])?,
            steps: v["steps"].as_array()?.iter().map(files).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_known_by_their_files() {
        let dir = std::env::temp_dir().join(format!("farfield-series-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).unwrap();
            dir.join(name)
        };
        let (grid, q0, q1) = (file("grid", "g"), file("q0", "0"), file("q1", "11"));
        let one = SeriesFiles { steady: vec![grid.clone()], steps: vec![vec![q0.clone()]] };
        let kept = one.identify().unwrap();
        let back = Sources::from_value(&serde_json::from_str(&kept.value().to_string()).unwrap()).unwrap();
        assert_eq!(back, kept);
        assert!(!kept.value().to_string().contains("q0"), "no names");
        let two = SeriesFiles { steps: vec![vec![q0.clone()], vec![q1.clone()]], ..one.clone() };
        let known = |series: &SeriesFiles, step| kept.known(series, &series.identify().unwrap(), step);
        assert_eq!((known(&two, 0), known(&two, 1)), (StepState::Step(0), StepState::New));
        // A grid that turns out to move is that of the first step.
        let moves = SeriesFiles { steady: Vec::new(), steps: vec![vec![grid.clone(), q0.clone()], vec![q1.clone()]] };
        assert_eq!((known(&moves, 0), known(&moves, 1)), (StepState::Step(0), StepState::New));
        file("q0", "other");
        assert_eq!((known(&two, 0), known(&two, 1)), (StepState::Changed(q0.clone()), StepState::New));
        file("grid", "other");
        assert_eq!(known(&two, 1), StepState::Changed(grid));
        assert_eq!(two.name_of(1), q1);
        // One file has all steps, or its own step and the grid of all.
        let whole = SeriesFiles { steady: vec![q0.clone()], steps: vec![Vec::new(), Vec::new()] };
        let all = whole.identify().unwrap();
        assert_eq!([0, 1].map(|s| all.known(&whole, &all, s)), [StepState::Step(0), StepState::Step(1)]);
        let both = SeriesFiles { steady: vec![q0.clone()], steps: vec![vec![q0.clone()], vec![q1.clone()]] };
        let apart = SeriesFiles { steady: Vec::new(), ..both.clone() };
        let now = apart.identify().unwrap();
        assert_eq!(both.identify().unwrap().known(&apart, &now, 0), StepState::Step(0));
        std::fs::remove_file(&q1).unwrap();
        assert!(two.identify().unwrap_err().to_string().contains("q1"));
        for bad in ["{}", r#"{"steady":[["0","1"]],"steps":[]}"#, r#"{"steady":[],"steps":[[["x"]]]}"#] {
            assert_eq!(Sources::from_value(&serde_json::from_str(bad).unwrap()), None);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}

//! Typed errors of datasets.

use pager::error::{PageError, PageErrorKind};
use pager::place::shown;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Errors of datasets. Every message names the path and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// The path cannot be opened or read.
    #[error("{path}: {source}", path = shown(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The content violates the format.
    #[error("{path}: {message}", path = shown(path))]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault, and what to do.
        message: String,
    },
    /// Several readings of the content add up (exit code 2).
    #[error("{path}: {count} readings fit this file; choose one:\n{list}", path = shown(path), count = readings.len(), list = readings.join("\n"))]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// Each reading, with the options that choose it.
        readings: Vec<String>,
    },
    /// A name that the dataset does not have.
    #[error("no {what} named '{name}'; {hint}there are: {}", if known.is_empty() { "none (a PLOT3D grid alone has no fields: add +q=FILE)".to_owned() } else { known.join(", ") }, hint = did_you_mean(name, known))]
    Unknown {
        /// `field`, `zone`, ...
        what: &'static str,
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// A field that only other zones have.
    #[error("no field named '{name}' in {}; {scope}there are: {}", few(zones), if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Lacking {
        /// The requested name.
        name: String,
        /// The zones that do not have it.
        zones: Vec<String>,
        /// Words before "there are", if `known` is not about these zones.
        scope: &'static str,
        /// The existing names.
        known: Vec<String>,
    },
    /// An invalid argument.
    #[error("{0}")]
    Usage(String),
    /// An error in a part of a user's document.
    #[error("{place}: {inner}")]
    At {
        /// The part, as `objects.2.color`.
        place: String,
        /// The error.
        inner: Box<Self>,
    },
    /// The request exceeds the memory limit.
    #[error("the memory limit of {limit} bytes is too small: {what} needs {needs} bytes")]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// A sufficient limit.
        needs: u64,
        /// The subject.
        what: String,
    },
    /// A page failed.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A result cannot be written. The message names the file.
    #[error("{0}")]
    Output(String),
    /// This user may not write a result (exit code 5). The message names the file.
    #[error("{0}")]
    Denied(String),
    /// The system refuses a resource of a run, as a thread.
    #[error("{0}")]
    System(String),
    /// A fault of Farfield itself (exit code 70).
    #[error("a fault in Farfield: {0}; please report it with the command that shows it")]
    Internal(&'static str),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Names of zones; only the first of many.
fn few(zones: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = zones[..zones.len().min(SHOWN)].join(", ");
    match zones.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more zones"),
    }
}

/// The one of `known` nearest to a misspelt name.
pub fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    let most = match name.chars().count() {
        0..4 => return None,
        4..8 => 1,
        _ => 2,
    };
    let near = known.iter().map(|k| (distance(name, k), k.as_str())).filter(|(d, _)| (1..=most).contains(d));
    near.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// Edit distance: insertions, deletions, substitutions, and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(100).collect(), b.chars().take(100).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    nearest(name, known).map(|k| format!("did you mean '{k}'? ")).unwrap_or_default()
}

impl FieldError {
    /// Adds the part of a document, if the error is about a user's input there.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Self {
        match self {
            Self::Unknown { .. } | Self::Lacking { .. } | Self::Usage(_) => {
                Self::At { place: place.into(), inner: Box::new(self) }
            }
            other => other,
        }
    }
    /// The error for a result that cannot be written. `message` names the file; `why` is the system's error.
    pub fn output(message: String, why: &std::io::Error) -> Self {
        if why.kind() == ErrorKind::PermissionDenied {
            Self::Denied(message)
        } else {
            Self::Output(message)
        }
    }
    /// Whether permissions or the network are the cause, of a source or of a result.
    pub fn is_access(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                source.kind() == ErrorKind::PermissionDenied || PageErrorKind::from(source).is_network()
            }
            Self::Page(p) => matches!(p.kind, PageErrorKind::Denied(_)) || p.kind.is_network(),
            Self::Denied(_) => true,
            _ => false,
        }
    }
    /// A [`FieldError::Format`].
    pub fn format(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Format { path: path.into(), message: message.into() }
    }
    /// Adds advice to errors of files in `folder`, a cache.
    #[must_use]
    pub fn in_cache(self, folder: &Path) -> Self {
        match self {
            Self::Io { path, source } if path.starts_with(folder) => {
                // The system's message alone: a converter's advice is for stores.
                let why = if source.kind() == ErrorKind::StorageFull {
                    "no space left on device".into()
                } else {
                    source.to_string()
                };
                let message = format!(
                    "{why}; what paging in place needs is kept in this cache: choose another folder for it with FARFIELD_CACHE_DIR, \
                     or `farfield config set cache_dir FOLDER`"
                );
                Self::Io { path, source: std::io::Error::new(source.kind(), message) }
            }
            other => other,
        }
    }
    /// A [`FieldError::Io`].
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        if PageErrorKind::from(&source) == PageErrorKind::Interrupted {
            return Self::Interrupted;
        }
        Self::Io { path: path.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_stays_so() {
        for (kind, access) in [(ErrorKind::PermissionDenied, true), (ErrorKind::StorageFull, false)] {
            assert_eq!(FieldError::io("a.xyz", kind.into()).is_access(), access);
            let e = FieldError::output("l.vtp: no".into(), &kind.into());
            assert_eq!((e.is_access(), e.to_string().as_str()), (access, "l.vtp: no"));
        }
        let page = |kind| FieldError::from(PageError::new("a.xyz", kind));
        assert!(page(PageErrorKind::Denied("no".into())).is_access());
        assert!(!page(PageErrorKind::Io("no".into())).is_access() && !FieldError::Interrupted.is_access());
    }

    #[test]
    fn a_cache_that_cannot_be_written_says_where_else() {
        let e = FieldError::io("cache/data/a.index", ErrorKind::ReadOnlyFilesystem.into())
            .in_cache(Path::new("cache/data"));
        assert!(e.to_string().contains("cache/data/a.index: ") && e.to_string().contains("FARFIELD_CACHE_DIR"), "{e}");
        let denied = FieldError::io("cache/a", ErrorKind::PermissionDenied.into()).in_cache(Path::new("cache"));
        assert!(denied.is_access());
        let source = FieldError::io("a.xyz", ErrorKind::NotFound.into()).in_cache(Path::new("cache"));
        assert!(!source.to_string().contains("CACHE"), "{source}");
    }

    #[test]
    fn a_misspelt_name_is_met_with_the_nearest() {
        let known = ["pressure", "density", "mach", "velocity"].map(str::to_owned);
        for (name, near) in [
            ("presure", Some("pressure")),
            ("densitty", Some("density")),
            ("veloctiy", Some("velocity")),
            ("machh", Some("mach")),
            ("mac", None),
            ("entropy", None),
            ("mach", None),
        ] {
            assert_eq!(nearest(name, &known), near, "{name}");
        }
        let unknown = |name: &str| FieldError::Unknown { what: "field", name: name.into(), known: known.to_vec() };
        let said = unknown("presure").at("objects.0.color").to_string();
        let meant = "objects.0.color: no field named 'presure'; did you mean 'pressure'? there are: ";
        assert!(said.starts_with(meant), "{said}");
        assert!(unknown("q").to_string().starts_with("no field named 'q'; there are: pressure, "));
        assert!(matches!(FieldError::Interrupted.at("step"), FieldError::Interrupted));
    }

    #[test]
    fn of_many_zones_the_first_are_named() {
        let said = |n: usize| {
            let zones = (1..=n).map(|n| format!("zone{n}")).collect();
            FieldError::Lacking { name: "f3".into(), zones, scope: "", known: vec!["f1".into()] }.to_string()
        };
        assert_eq!(said(2), "no field named 'f3' in zone1, zone2; there are: f1");
        assert!(said(9).contains("in zone1, zone2, zone3, zone4 and 5 more zones;"), "{}", said(9));
    }
}

//! The names of a folder at all servers together.

use super::engine::ServerPlace;
use pager::place::{Entry, FileKind};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

type Listed = Result<Vec<Entry>, PageErrorKind>;

/// Once as many servers have answered as are enough, the others get so many times their time, and this much more.
const TIMES: u32 = 3;
const MORE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 256 << 10;

/// The names in a folder at any of the servers. `replicas`: each file is at so many of them at least, so that the lists
/// of all but one fewer are enough.
///
/// # Errors
/// As [`pager::place::Place::list`]; [`PageErrorKind::Differs`] for a file of two sizes.
pub(super) fn list(
    places: &[Arc<dyn ServerPlace>],
    names: &[String],
    replicas: usize,
    folder: &Path,
    most: usize,
) -> Listed {
    let (told, answers) = mpsc::channel();
    for (server, place) in places.iter().enumerate() {
        let (told, place, folder) = (told.clone(), place.clone(), folder.to_owned());
        let listed = move || {
            // Whoever asked may have had enough of it.
            let _late = told.send((server, place.list(&folder, most)));
        };
        let builder = std::thread::Builder::new().name("farfield-list".into()).stack_size(STACK_BYTES);
        builder.spawn(listed).map_err(|e| PageErrorKind::from(&e))?;
    }
    drop(told);
    let begun = Instant::now();
    let enough = places.len() + 1 - replicas;
    let (mut lists, mut missing, mut silent) = (Vec::new(), 0, Vec::new());
    let mut until: Option<Instant> = None;
    while lists.len() + missing + silent.len() < places.len() {
        let next = match until {
            None => answers.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(until) => answers.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        let Ok((server, listed)) = next else { break };
        match listed {
            Ok(entries) => lists.push((server, entries)),
            Err(PageErrorKind::Missing) => missing += 1,
            Err(kind) if kind.is_transient() => silent.push((server, kind)),
            Err(kind) => return Err(kind),
        }
        if lists.len() + missing >= enough {
            until.get_or_insert_with(|| Instant::now() + begun.elapsed() * TIMES + MORE);
        }
    }
    if lists.len() + missing < enough {
        let kind = silent.into_iter().next().map(|(_, kind)| kind);
        return Err(kind.unwrap_or_else(|| PageErrorKind::Io("its place gave no answer".into())));
    }
    if lists.is_empty() {
        return Err(PageErrorKind::Missing);
    }
    merged(lists, names, most)
}

fn merged(lists: Vec<(usize, Vec<Entry>)>, names: &[String], most: usize) -> Listed {
    let mut found: HashMap<String, (usize, Entry)> = HashMap::new();
    for (server, entries) in lists {
        for entry in entries {
            match found.get(&entry.name) {
                None => _ = found.insert(entry.name.clone(), (server, entry)),
                Some((_, known)) if (known.kind, known.size) == (entry.kind, entry.size) => {}
                Some((other, known)) => {
                    let state = |server: usize, entry: &Entry| match entry.kind {
                        FileKind::File => format!("{} has {} of {} bytes", names[server], entry.name, entry.size),
                        _ => format!("at {} {} is no file", names[server], entry.name),
                    };
                    return Err(PageErrorKind::Differs { one: state(*other, known), other: state(server, &entry) });
                }
            }
        }
    }
    if found.len() > most {
        return Err(PageErrorKind::TooMany { most });
    }
    Ok(found.into_values().map(|(_, entry)| entry).collect())
}

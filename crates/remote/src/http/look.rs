//! The states of names: files, and folders by what stands in them.

use super::address::{Name, StoreKind};
use super::fault::AttemptFault;
use super::line::{buffer_of_reply, Attempts, LineJob, ServerLine};
use super::origin::{Origin, Patience};
use super::status;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use pager::error::PageErrorKind;
use pager::place::{FileKind, FileStat, FileVersion, Looked};
use std::sync::{Arc, Mutex, PoisonError};

/// Documents that mark a folder as a dataset. A web server lists no folders, so a folder is what has one of these.
const MARKERS: [&str; 6] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", "attributes.json"];

type NameAnswer = Result<FileStat, PageErrorKind>;

/// The answers for the names of one call. The last one tells all.
pub(super) struct Answers(Mutex<(Vec<Option<NameAnswer>>, Option<Looked>)>);

impl Answers {
    pub(super) fn new(names: usize, then: Looked) -> Arc<Self> {
        let answers = Arc::new(Self(Mutex::new((vec![None; names], Some(then)))));
        if names == 0 {
            answers.tell();
        }
        answers
    }

    pub(super) fn put(&self, number: usize, answer: NameAnswer) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = state.0.get_mut(number) {
            *slot = Some(answer);
        }
        let complete = state.0.iter().all(Option::is_some);
        drop(state);
        if complete {
            self.tell();
        }
    }

    fn tell(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (answers, then) = (std::mem::take(&mut state.0), state.1.take());
        drop(state);
        if let Some(then) = then {
            then(answers.into_iter().flatten().collect());
        }
    }
}

/// A name to check.
pub(super) struct LookJob {
    name: Name,
    number: usize,
    answers: Option<Arc<Answers>>,
}

impl LookJob {
    pub(super) fn new(name: Name, number: usize, answers: Arc<Answers>) -> Self {
        Self { name, number, answers: Some(answers) }
    }

    async fn answer(mut self, line: &ServerLine) {
        let answer = look(line, &self.name).await;
        if let Some(answers) = self.answers.take() {
            answers.put(self.number, answer);
        }
    }
}

impl LineJob for LookJob {
    fn run(self: Box<Self>, line: &ServerLine) -> BoxFuture<'_, ()> {
        Box::pin(self.answer(line))
    }

    fn buffer_bytes(&self) -> u64 {
        buffer_of_reply(0)
    }
}

impl Drop for LookJob {
    fn drop(&mut self) {
        if let Some(answers) = self.answers.take() {
            answers.put(self.number, Err(PageErrorKind::Exhausted("the network thread could not do it".into())));
        }
    }
}

/// The state of a name, by as many attempts as it takes.
async fn look(line: &ServerLine, name: &Name) -> NameAnswer {
    let mut attempts = Attempts::new(line);
    loop {
        match look_once(line, name, attempts.patience(line)).await {
            Ok(stat) => return Ok(stat),
            Err(fault) => attempts.again(line, fault, false).await?,
        }
    }
}

/// The state of a name, by one attempt.
pub(super) async fn look_once(line: &ServerLine, name: &Name, patience: Patience) -> Result<FileStat, AttemptFault> {
    if name.is_folder() {
        return match state_of_folder(line, name, patience).await {
            // A page that the server makes of a folder.
            Err(AttemptFault::Final(PageErrorKind::Missing)) if line.origin.kind().0 == StoreKind::Web => {
                status::stat(line, name, patience).await.map(|_| a_folder())
            }
            found => found,
        };
    }
    match status::stat(line, name, patience).await {
        Ok(found) if found.is_folder => match state_of_folder(line, name, patience).await {
            Err(AttemptFault::Final(PageErrorKind::Missing)) => Ok(a_folder()),
            found => found,
        },
        Ok(found) => Ok(FileStat { kind: FileKind::File, version: found.version, modified_ns: found.modified_ns }),
        Err(AttemptFault::Final(PageErrorKind::Missing)) if may_be_folder(name.last()) => {
            state_of_folder(line, name, patience).await
        }
        Err(fault) => Err(fault),
    }
}

fn a_folder() -> FileStat {
    FileStat { kind: FileKind::Folder, version: FileVersion { size: 0, tag: "".into() }, modified_ns: 0 }
}

/// Whether a name that is no file is worth a search for what is in it. Chunks and markers are missing by the thousand.
pub(super) fn may_be_folder(last: &str) -> bool {
    let chunk = last.strip_prefix('c').unwrap_or(last).bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'/'));
    !chunk && !MARKERS.contains(&last)
}

/// The state of a folder: whether anything that marks one is in it.
pub(super) async fn state_of_folder(
    line: &ServerLine,
    name: &Name,
    patience: Patience,
) -> Result<FileStat, AttemptFault> {
    match (&line.origin, name) {
        (Origin::Bucket(bucket), Name::Key(key, _)) => {
            let page = bucket.list(key, 1, None, line.list_deadline()).await?;
            let there = !page.entries.is_empty() || key.as_ref().is_empty();
            there.then(a_folder).ok_or_else(|| PageErrorKind::Missing.into())
        }
        (_, Name::Url(url)) => {
            let mut asked: FuturesUnordered<_> = MARKERS
                .iter()
                .map(|marker| {
                    let mut url = url.clone();
                    let path = format!("{}/{marker}", url.path().trim_end_matches('/'));
                    url.set_path(&path);
                    async move { status::stat(line, &Name::Url(url), patience).await }
                })
                .collect();
            let mut worst = AttemptFault::Final(PageErrorKind::Missing);
            while let Some(found) = asked.next().await {
                match found {
                    Ok(_) => return Ok(a_folder()),
                    Err(AttemptFault::Final(PageErrorKind::Missing)) => {}
                    Err(fault) => worst = fault,
                }
            }
            Err(worst)
        }
        _ => Err(PageErrorKind::Missing.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::may_be_folder;

    #[test]
    fn chunks_are_not_searched() {
        for (name, expected) in [
            ("wing.zarr", true),
            ("0", false),
            ("1.2.3", false),
            ("c0", false),
            ("c", false),
            (".zgroup", false),
            ("q5", true),
        ] {
            assert_eq!(may_be_folder(name), expected, "{name}");
        }
    }
}

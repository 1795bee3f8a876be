//! Datasets that are brought near: from an archive, a store or a disk to page servers.
//!
//! *Theory.* The blocks of a dataset are cached near the computation before, or while, they are read, spread over
//! several servers (DPSS, Tierney 1999). Each file goes to the first servers of its rendezvous order. A server takes
//! checked chunks, and reads the whole file back after it brought it to its disk. Only then it becomes a file of its
//! dataset; and the dataset appears once all of them are there. What is there already is never sent again.
//!
//! *Practice.* [`stage`] plans, asks for room, transfers files by some threads, and publishes. Memory is bounded: a
//! file begins once there is room for a block of it, and for its chunks on their way to each server.
//!
//! | module | for |
//! |---|---|
//! | `plan` | which file goes where |
//! | `transfer` | one file to its servers |
//! | `rate` | bytes a second |

mod plan;
mod rate;
mod transfer;

use crate::page_server::client::{RemotePlace, StagingRefusal};
use pager::PageErrorKind;
use plan::Plan;
use rate::Rate;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use transfer::{MemoryShare, Transfers};

/// Interval of looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(80);
/// Files that are transferred at the same time, for each server: a small one takes a few round trips.
const FILES_PER_SERVER: usize = 16;
/// Files that are transferred at the same time.
const MOST_FILES: usize = 64;
/// Bytes of buffers, whatever the limit: more gain nothing.
const MOST_MEMORY: u64 = 256 << 20;

/// A file of the dataset.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path or URL.
    pub path: PathBuf,
    /// Its name below the dataset; empty if it is all of the dataset.
    pub name: String,
}

/// What is staged, and where.
#[derive(Clone, Debug)]
pub struct StageOptions {
    /// The files of the dataset.
    pub files: Vec<SourceFile>,
    /// URLs of the servers.
    pub servers: Vec<String>,
    /// The name under which they will serve the dataset.
    pub dataset: String,
    /// The number of servers that get each file.
    pub replicas: usize,
    /// Most bytes a second, to all servers together.
    pub rate: Option<u64>,
    /// Most bytes of buffers.
    pub memory: u64,
    /// Whether nothing is sent.
    pub dry_run: bool,
}

/// The reason why a dataset was not staged.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file of the source.
    #[error("{path}: {kind}", path = pager::place::shown(path))]
    Source {
        /// The file.
        path: PathBuf,
        /// Its error.
        kind: PageErrorKind,
    },
    /// A server.
    #[error("{kind}")]
    Server {
        /// Its URL.
        url: String,
        /// The error.
        kind: PageErrorKind,
    },
    /// A server has no room, or does not take what it is sent.
    #[error("{0}")]
    Refused(String),
    /// The user ended it. What is at the servers stays there.
    #[error("interrupted")]
    Interrupted,
}

/// A server, with what went to it.
pub(crate) struct Target {
    url: String,
    /// Host and port, by which files are distributed.
    name: String,
    place: RemotePlace,
    sent: AtomicU64,
    there: AtomicU64,
}

impl Target {
    /// An error of this server. `about`: the file or dataset.
    fn error(&self, about: &str, refusal: StagingRefusal) -> StageError {
        match refusal {
            StagingRefusal::Full(why) => StageError::Refused(format!("{}: no room: {why}", self.name)),
            StagingRefusal::Unfit(why) => StageError::Refused(format!("{about}: {} did not take it: {why}", self.name)),
            StagingRefusal::Other(kind) => StageError::Server { url: self.url.clone(), kind },
        }
    }
}

fn targets(options: &StageOptions) -> Result<Vec<Target>, StageError> {
    let open = |url: &String| match RemotePlace::apart(url) {
        Ok(place) => Ok(Target {
            url: url.clone(),
            name: pager::place::Place::describe(&place),
            place,
            sent: AtomicU64::new(0),
            there: AtomicU64::new(0),
        }),
        Err(kind) => Err(StageError::Server { url: url.clone(), kind }),
    };
    let targets = options.servers.iter().map(open).collect::<Result<Vec<Target>, StageError>>()?;
    for (n, target) in targets.iter().enumerate() {
        if targets[..n].iter().any(|other| other.name == target.name) {
            return Err(StageError::Usage(format!("the server {} is named twice", target.name)));
        }
    }
    if options.replicas == 0 || options.replicas > targets.len() {
        let (asked, there) = (options.replicas, targets.len());
        return Err(StageError::Usage(format!("{asked} replicas on {there} servers: give a number from 1 to {there}")));
    }
    Ok(targets)
}

/// Stages a dataset. `progress` gets a phase, bytes done and bytes in all; `false` ends it. Returns a document of files,
/// bytes, seconds and servers.
///
/// # Errors
/// When a file cannot be read or has changed, or a server cannot be reached, refuses or has no room. What is at the
/// servers by then stays, out of sight: the same call goes on from there.
pub fn stage(options: StageOptions, progress: &mut dyn FnMut(&str, f64, f64) -> bool) -> Result<Value, StageError> {
    let begun = Instant::now();
    let targets = Arc::new(targets(&options)?);
    let stop = Arc::new(AtomicBool::new(false));
    let result = staged(&options, &targets, &stop, progress);
    stop.store(true, Relaxed);
    let (mut report, plan) = match result {
        Ok(done) => done,
        Err(error) => {
            // Threads that wait for a server end with its connections.
            targets.iter().for_each(|target| target.place.close());
            return Err(error);
        }
    };
    report["seconds"] = json!(begun.elapsed().as_secs_f64());
    report["servers"] = targets
        .iter()
        .enumerate()
        .map(|(n, target)| {
            let (files, bytes) = plan.of_server(n);
            json!({
                "server": target.name,
                "files": files,
                "bytes": bytes,
                "bytes_sent": target.sent.load(Relaxed),
                "bytes_there": target.there.load(Relaxed),
            })
        })
        .collect();
    Ok(report)
}

fn staged(
    options: &StageOptions,
    targets: &Arc<Vec<Target>>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str, f64, f64) -> bool,
) -> Result<(Value, Arc<Plan>), StageError> {
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let plan = Arc::new(Plan::new(options, &names, progress)?);
    // Servers that refuse say it before anything is sent.
    let made = in_background(progress, "asking for room", {
        let (plan, targets) = (plan.clone(), targets.clone());
        move || plan.check_room(&targets)
    })?;
    made?;
    let copies = plan.copies();
    let mut report = json!({
        "files": plan.files.len(),
        "bytes": plan.bytes(),
        "replicas": options.replicas,
        "copies": copies.0,
        "bytes_of_copies": copies.1,
        "dry_run": options.dry_run,
    });
    if !options.dry_run {
        transfer_all(options, targets, &plan, stop, progress)?;
        let published = in_background(progress, "publishing", {
            let (plan, targets) = (plan.clone(), targets.clone());
            move || {
                for n in (0..targets.len()).filter(|n| plan.of_server(*n).0 > 0) {
                    let target = &targets[n];
                    let result = target.place.stage_publish(&plan.dataset);
                    result.map_err(|refusal| target.error(&plan.dataset, refusal))?;
                }
                Ok(())
            }
        })?;
        published?;
    }
    let sum = |of: fn(&Target) -> &AtomicU64| targets.iter().map(|target| of(target).load(Relaxed)).sum::<u64>();
    report["bytes_sent"] = json!(sum(|target| &target.sent));
    report["bytes_there"] = json!(sum(|target| &target.there));
    Ok((report, plan))
}

/// Does on another thread what waits, so that the user can end it.
fn in_background<T: Send + 'static>(
    progress: &mut dyn FnMut(&str, f64, f64) -> bool,
    phase: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StageError> {
    let (told, answer) = mpsc::channel();
    // Who was interrupted needs no answer.
    std::thread::spawn(move || drop(told.send(work())));
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(done) => return Ok(done),
            Err(mpsc::RecvTimeoutError::Timeout) if progress(phase, 0.0, 0.0) => {}
            Err(_) => return Err(StageError::Interrupted),
        }
    }
}

fn transfer_all(
    options: &StageOptions,
    targets: &Arc<Vec<Target>>,
    plan: &Arc<Plan>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str, f64, f64) -> bool,
) -> Result<(), StageError> {
    let threads = (targets.len() * FILES_PER_SERVER).min(MOST_FILES).min(plan.files.len()).max(1);
    let memory = MemoryShare::new(options.memory.min(MOST_MEMORY));
    let rate = options.rate.map(Rate::new);
    let transfers = Arc::new(Transfers::new(plan.clone(), targets.clone(), rate, memory, stop.clone()));
    let (told, ended) = mpsc::channel();
    for _ in 0..threads {
        let (transfers, told) = (transfers.clone(), told.clone());
        std::thread::spawn(move || drop(told.send(transfers.run())));
    }
    drop(told);
    let total = plan.copies().1 as f64;
    let (mut left, mut ended_early) = (threads, false);
    while left > 0 {
        match ended.recv_timeout(LOOK_EVERY) {
            // Ended by the error of another thread, which comes.
            Ok(Err(StageError::Interrupted)) => (left, ended_early) = (left - 1, true),
            Ok(result) => {
                result?;
                left -= 1;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(StageError::Refused("a thread that stages has ended without a word".into()));
            }
        }
        let done = targets.iter().map(|t| t.sent.load(Relaxed) + t.there.load(Relaxed)).sum::<u64>();
        if !progress("staging", (done as f64).min(total), total) {
            return Err(StageError::Interrupted);
        }
    }
    if ended_early {
        return Err(StageError::Interrupted);
    }
    Ok(())
}

/// Removes a staged dataset from servers, and what was begun of it. Returns the servers that had it.
///
/// # Errors
/// When a server cannot be reached or refuses, or none has the dataset.
pub fn remove(servers: &[String], dataset: &str) -> Result<Vec<String>, StageError> {
    let mut had = Vec::new();
    for url in servers {
        let place = RemotePlace::apart(url).map_err(|kind| StageError::Server { url: url.clone(), kind })?;
        let name = pager::place::Place::describe(&place);
        let target = Target { url: url.clone(), name, place, sent: AtomicU64::new(0), there: AtomicU64::new(0) };
        match target.place.stage_remove(dataset) {
            Ok(()) => had.push(target.name),
            Err(StagingRefusal::Other(PageErrorKind::Missing)) => {}
            Err(refusal) => return Err(target.error(dataset, refusal)),
        }
    }
    match had.is_empty() {
        true => Err(StageError::Refused(format!("no server has a staged dataset '{dataset}'"))),
        false => Ok(had),
    }
}

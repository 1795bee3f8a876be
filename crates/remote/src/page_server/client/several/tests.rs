//! Servers of these tests answer by the clock, and fail on demand.

use super::engine::{ServerPlace, SeveralOptions};
use super::SeveralServers;
use pager::place::{Entry, FileKind, FilePin, FileRef, FileStat, FileVersion, Looked, Place};
use pager::source::{Buffer, Completion, Read, ReadClass, ReadForm, ReadNote, ReadStep};
use pager::PageErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The behaviour of a fake server.
#[derive(Clone)]
struct Behaviour {
    latency: Duration,
    /// Answers nothing, and lets go of what is withdrawn.
    hangs: bool,
    lost: bool,
    /// Has no file.
    empty: bool,
    size: u64,
    modified_ns: i64,
    /// The error of each read.
    fails: Option<PageErrorKind>,
    /// Does not let go of reads.
    holds: bool,
}

struct PendingRead {
    due: Instant,
    read: Read,
    done: Arc<dyn Completion>,
}

#[derive(Default)]
struct Pending {
    reads: Vec<PendingRead>,
    looks: Vec<(Instant, Vec<PathBuf>, Looked)>,
    over: bool,
}

struct FakeServer {
    name: String,
    behaviour: Mutex<Behaviour>,
    pending: Mutex<Pending>,
    bell: Condvar,
    requests: AtomicUsize,
    withdrawn: AtomicUsize,
    promoted: AtomicUsize,
}

const SIZE: u64 = 1 << 30;

/// The byte of the file at an offset.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl FakeServer {
    fn new(name: &str, latency: Duration) -> Arc<Self> {
        let behaviour = Behaviour {
            latency,
            hangs: false,
            lost: false,
            empty: false,
            size: SIZE,
            modified_ns: 77,
            fails: None,
            holds: false,
        };
        let this = Arc::new(Self {
            name: name.to_owned(),
            behaviour: Mutex::new(behaviour),
            pending: Mutex::default(),
            bell: Condvar::new(),
            requests: AtomicUsize::new(0),
            withdrawn: AtomicUsize::new(0),
            promoted: AtomicUsize::new(0),
        });
        let server = this.clone();
        std::thread::spawn(move || server.run());
        this
    }

    fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().unwrap());
        self.bell.notify_all();
    }

    fn now(&self) -> Behaviour {
        self.behaviour.lock().unwrap().clone()
    }

    fn run(&self) {
        loop {
            let behaviour = self.now();
            let answers = !behaviour.hangs && !behaviour.lost;
            let mut pending = self.pending.lock().unwrap();
            if pending.over {
                return;
            }
            let now = Instant::now();
            let reads: Vec<PendingRead> = pending.reads.extract_if(.., |r| answers && r.due <= now).collect();
            let looks: Vec<_> = pending.looks.extract_if(.., |l| answers && l.0 <= now).collect();
            if reads.is_empty() && looks.is_empty() {
                drop(self.bell.wait_timeout(pending, Duration::from_millis(1)));
                continue;
            }
            drop(pending);
            reads.into_iter().for_each(|r| self.answer(&behaviour, r));
            for (_, paths, then) in looks {
                let answer = |path: &PathBuf| match path.ends_with("f") && !behaviour.empty {
                    true => Ok(self.stat(&behaviour)),
                    false => Err(PageErrorKind::Missing),
                };
                then(paths.iter().map(answer).collect());
            }
        }
    }

    fn stat(&self, behaviour: &Behaviour) -> FileStat {
        let version = FileVersion { size: behaviour.size, tag: format!("of {}", self.name).into() };
        FileStat { kind: FileKind::File, version, modified_ns: behaviour.modified_ns }
    }

    fn answer(&self, behaviour: &Behaviour, PendingRead { read, done, .. }: PendingRead) {
        let note = ReadNote { server: &self.name, connection: 1, step: ReadStep::Sent };
        done.note(read.token, note);
        let mut at = read.offset;
        for buffer in &read.buffers {
            if !buffer.is_hole() {
                // SAFETY: the read is not completed.
                let to = unsafe { std::slice::from_raw_parts_mut(buffer.ptr, buffer.len) };
                to.iter_mut().enumerate().for_each(|(n, byte)| *byte = byte_at(at + n as u64));
            }
            at += buffer.len as u64;
        }
        done.complete(read.token, behaviour.fails.clone().map_or(Ok(()), Err));
    }
}

impl Place for FakeServer {
    fn describe(&self) -> String {
        self.name.clone()
    }
    fn form(&self) -> ReadForm {
        ReadForm::default()
    }
    fn room(&self) -> usize {
        16
    }
    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        let behaviour = self.now();
        assert_eq!(file.pin.check(&self.stat(&behaviour).version), Ok(()), "a read with the pin of another server");
        self.requests.fetch_add(reads.len(), SeqCst);
        let due = Instant::now() + behaviour.latency;
        let mut pending = self.pending.lock().unwrap();
        pending.reads.extend(reads.into_iter().map(|read| PendingRead { due, read, done: done.clone() }));
        drop(pending);
        self.bell.notify_all();
    }
    fn promote(&self, tokens: &[u64], _: &Arc<dyn Completion>) {
        self.promoted.fetch_add(tokens.len(), SeqCst);
    }
    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        if self.now().holds {
            return;
        }
        let mut pending = self.pending.lock().unwrap();
        let gone: Vec<PendingRead> =
            pending.reads.extract_if(.., |r| Arc::ptr_eq(&r.done, done) && tokens.contains(&r.read.token)).collect();
        drop(pending);
        self.withdrawn.fetch_add(gone.len(), SeqCst);
        gone.into_iter().for_each(|r| r.done.complete(r.read.token, Err(PageErrorKind::Withdrawn)));
    }
    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        self.pending.lock().unwrap().looks.push((Instant::now() + self.now().latency, paths, then));
        self.bell.notify_all();
    }
    fn list(&self, _: &Path, _: usize) -> Result<Vec<Entry>, PageErrorKind> {
        let b = self.now();
        match b.lost {
            true => {
                Err(PageErrorKind::Unreachable { server: self.name.clone(), tried: "once".into(), last: "gone".into() })
            }
            false if b.empty => Err(PageErrorKind::Missing),
            false => Ok(vec![Entry { name: "f".into(), kind: FileKind::File, size: b.size }]),
        }
    }
}

impl ServerPlace for FakeServer {
    fn lost(&self) -> Option<String> {
        self.now().lost.then(|| "nothing listens".to_owned())
    }
    fn was_reached(&self) -> bool {
        true
    }
}

struct Rig {
    servers: Vec<Arc<FakeServer>>,
    several: SeveralServers,
    file: FileRef,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.servers.iter().for_each(|server| server.pending.lock().unwrap().over = true);
    }
}

fn rig(count: usize, latency_ms: u64, replicas: usize) -> Rig {
    let servers: Vec<_> =
        (0..count).map(|n| FakeServer::new(&format!("s{n}:1"), Duration::from_millis(latency_ms))).collect();
    let places = servers.iter().map(|server| server.clone() as Arc<dyn ServerPlace>).collect();
    let (network_timeout, first_timeout) = (Duration::from_secs(1), Duration::from_secs(1));
    let options = SeveralOptions { network_timeout, first_timeout, replicas };
    let several = SeveralServers::over(places, "farfield://s/".into(), options);
    let path = PathBuf::from("farfield://s0,s1,s2/data/f");
    let file = FileRef { path: path.into(), base: 0, pin: Arc::new(FilePin::default()) };
    Rig { servers, several, file }
}

/// Results and notes by token.
#[derive(Default)]
struct TokenLog {
    results: Mutex<Vec<(u64, Result<(), PageErrorKind>)>>,
    notes: Mutex<Vec<(u64, String, ReadStep)>>,
    bell: Condvar,
}

impl Completion for TokenLog {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.results.lock().unwrap().push((token, result));
        self.bell.notify_all();
    }
    fn note(&self, token: u64, note: ReadNote<'_>) {
        self.notes.lock().unwrap().push((token, note.server.to_owned(), note.step));
    }
}

impl TokenLog {
    fn wait(&self, count: usize) -> Vec<(u64, Result<(), PageErrorKind>)> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut results = self.results.lock().unwrap();
        while results.len() < count {
            let left = end.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("{} of {count} reads ended", results.len()));
            results = self.bell.wait_timeout(results, left).unwrap().0;
        }
        results.clone()
    }
}

const PAGE: usize = 1000;

impl Rig {
    /// Reads pages at places that are spread over the file, so many at a time, and checks their bytes. Returns the time.
    fn read(&self, count: u64, depth: u64, class: ReadClass) -> (Duration, Vec<Result<(), PageErrorKind>>) {
        let begun = Instant::now();
        let mut results = Vec::new();
        let mut waits = 0;
        let mut memory = vec![vec![0xAAu8; PAGE]; depth as usize];
        let ends = Arc::new(TokenLog::default());
        let done: Arc<dyn Completion> = ends.clone();
        let offset = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (SIZE - PAGE as u64);
        let mut slots: Vec<u64> = Vec::new();
        let start = |n: u64, slot: usize, memory: &mut [Vec<u8>]| {
            memory[slot].fill(0xAA);
            let (ptr, hole) = (memory[slot].as_mut_ptr(), Buffer::hole(10));
            let second = Buffer { ptr: ptr.wrapping_add(400), len: PAGE - 410 };
            let buffers = vec![Buffer { ptr, len: 400 }, hole, second];
            self.several.submit(&self.file, vec![Read { token: n, offset: offset(n), buffers, class }], &done);
        };
        for n in 0..depth.min(count) {
            slots.push(n);
            start(n, n as usize, &mut memory);
        }
        let mut next = slots.len() as u64;
        while waits < count {
            let (token, result) = ends.wait(waits as usize + 1)[waits as usize].clone();
            waits += 1;
            let slot = slots.iter().position(|n| *n == token).expect("a read ended twice");
            if result.is_ok() {
                let right = |n: usize| byte_at(offset(token) + if n < 400 { n as u64 } else { n as u64 + 10 });
                assert!((0..PAGE - 10).all(|n| memory[slot][n] == right(n)), "wrong bytes");
            }
            results.push(result);
            if next < count {
                slots[slot] = next;
                start(next, slot, &mut memory);
                next += 1;
            }
        }
        (begun.elapsed(), results)
    }

    fn requests(&self) -> Vec<usize> {
        self.servers.iter().map(|server| server.requests.load(SeqCst)).collect()
    }
}

fn all_good(results: &[Result<(), PageErrorKind>]) {
    assert!(results.iter().all(Result::is_ok), "{:?}", results.iter().find(|r| r.is_err()));
}

#[test]
fn reads_are_spread_evenly() {
    let rig = rig(3, 2, 1);
    all_good(&rig.read(900, 30, ReadClass::Demand).1);
    let requests = rig.requests();
    assert!(requests.iter().all(|n| (200..420).contains(n)), "{requests:?}");
    assert!(requests.iter().sum::<usize>() <= 954, "{requests:?}");
    assert_eq!(rig.several.room(), 48);
    // Without anything under way all memory of reads and hedges is gone.
    assert!(rig.several.held_bytes() < 1000, "{}", rig.several.held_bytes());
}

/// The time of healthy servers, and of the same with a fault of one of them in the middle.
fn with_a_fault(fault: impl FnOnce(&FakeServer) + Send, most: f64) -> (f64, usize) {
    let rig = rig(3, 10, 1);
    let (healthy, results) = rig.read(2000, 24, ReadClass::Demand);
    all_good(&results);
    let before: usize = rig.requests().iter().sum();
    let (hurt, results) = std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(healthy / 3);
            fault(&rig.servers[1]);
        });
        rig.read(2000, 24, ReadClass::Demand)
    });
    all_good(&results);
    let requests = rig.requests().iter().sum::<usize>() - before;
    let ratio = hurt.as_secs_f64() / healthy.as_secs_f64();
    eprintln!("{ratio:.3} of the healthy time {healthy:?}, {requests} requests");
    assert!(ratio < most && requests <= 2120, "{ratio} {requests}");
    (ratio, requests)
}

#[test]
fn one_of_three_goes() {
    with_a_fault(|server| server.set(|b| b.lost = true), 1.3);
}

#[test]
fn one_of_three_stands_still() {
    with_a_fault(|server| server.set(|b| b.hangs = true), 1.3);
}

#[test]
fn one_of_three_is_slow() {
    with_a_fault(|server| server.set(|b| b.latency = Duration::from_millis(200)), 1.3);
}

#[test]
fn one_of_three_fails_its_reads() {
    let kind = PageErrorKind::Protocol { server: "s1:1".into(), message: "nonsense".into() };
    with_a_fault(move |server| server.set(|b| b.fails = Some(kind)), 1.3);
}

#[test]
fn a_prefetch_is_no_hedge_until_it_is_promoted() {
    let rig = rig(2, 2, 1);
    all_good(&rig.read(600, 4, ReadClass::Demand).1);
    rig.servers.iter().for_each(|server| server.set(|b| b.latency = Duration::from_millis(300)));
    let before: usize = rig.requests().iter().sum();
    let ends = Arc::new(TokenLog::default());
    let done: Arc<dyn Completion> = ends.clone();
    let mut memory = vec![0u8; PAGE];
    let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len: PAGE }];
    let read = Read { token: 9, offset: 5, buffers, class: ReadClass::Prefetch };
    rig.several.submit(&rig.file, vec![read], &done);
    std::thread::sleep(Duration::from_millis(80));
    assert_eq!(rig.requests().iter().sum::<usize>(), before + 1);
    rig.several.promote(&[9], &done);
    std::thread::sleep(Duration::from_millis(80));
    assert_eq!(rig.requests().iter().sum::<usize>(), before + 2);
    assert_eq!(rig.servers.iter().map(|s| s.promoted.load(SeqCst)).sum::<usize>(), 1);
    assert_eq!(ends.wait(1), [(9, Ok(()))]);
    assert!(memory.iter().enumerate().all(|(n, byte)| *byte == byte_at(5 + n as u64)));
    let notes = ends.notes.lock().unwrap();
    assert!(notes.iter().any(|(token, _, step)| (*token, *step) == (9, ReadStep::Hedged)), "{notes:?}");
}

#[test]
fn a_withdrawn_read_ends_once() {
    let rig = rig(3, 5, 1);
    all_good(&rig.read(300, 8, ReadClass::Demand).1);
    rig.servers.iter().for_each(|server| server.set(|b| b.hangs = true));
    let ends = Arc::new(TokenLog::default());
    let done: Arc<dyn Completion> = ends.clone();
    let mut memory = vec![vec![0u8; PAGE]; 20];
    let reads = memory.iter_mut().enumerate().map(|(n, memory)| Read {
        token: n as u64,
        offset: n as u64 * 3_000_000,
        buffers: vec![Buffer { ptr: memory.as_mut_ptr(), len: PAGE }],
        class: ReadClass::Demand,
    });
    rig.several.submit(&rig.file, reads.collect(), &done);
    std::thread::sleep(Duration::from_millis(100));
    let all: Vec<u64> = (0..20).collect();
    rig.several.withdraw(&all, &done);
    rig.several.withdraw(&all, &done);
    let results = ends.wait(20);
    assert!(results.iter().all(|(_, result)| *result == Err(PageErrorKind::Withdrawn)), "{results:?}");
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(ends.results.lock().unwrap().len(), 20);
    assert!(rig.several.held_bytes() < 1000, "{}", rig.several.held_bytes());
}

#[test]
fn bytes_wait_for_a_server_that_does_not_let_go() {
    let rig = rig(2, 2, 1);
    all_good(&rig.read(600, 4, ReadClass::Demand).1);
    rig.servers.iter().for_each(|server| server.set(|b| b.holds = true));
    rig.servers[0].set(|b| b.latency = Duration::from_millis(150));
    let (_, results) = rig.read(40, 4, ReadClass::Demand);
    all_good(&results);
}

#[test]
fn copies_that_differ_are_refused() {
    let rig = rig(3, 2, 1);
    rig.servers[2].set(|b| b.modified_ns = 78);
    let (_, results) = rig.read(1, 1, ReadClass::Demand);
    let Err(kind @ PageErrorKind::Differs { .. }) = &results[0] else { panic!("{results:?}") };
    let text = kind.to_string();
    assert!(text.contains(" has 1073741824 bytes of 0.000000077 s") && text.contains("s2:1 has "), "{text}");
    let found = looked(&rig, "f");
    assert!(matches!(&found, Err(PageErrorKind::Differs { .. })), "{found:?}");
}

fn looked(rig: &Rig, name: &str) -> Result<FileStat, PageErrorKind> {
    let (told, found) = std::sync::mpsc::channel();
    let path = PathBuf::from(format!("farfield://s0,s1,s2/data/{name}"));
    rig.several.look(vec![path], Box::new(move |mut answers| told.send(answers.remove(0)).unwrap()));
    found.recv_timeout(Duration::from_secs(10)).unwrap()
}

#[test]
fn files_may_lie_at_some_servers() {
    let rig = rig(3, 2, 1);
    rig.servers[0].set(|b| b.empty = true);
    assert_eq!(looked(&rig, "f").unwrap().version, FileVersion { size: SIZE, tag: "4d".into() });
    assert_eq!(looked(&rig, "g"), Err(PageErrorKind::Missing));
    all_good(&rig.read(300, 8, ReadClass::Demand).1);
    assert_eq!(rig.requests()[0], 0);
    assert!(rig.requests()[1..].iter().all(|n| *n > 60), "{:?}", rig.requests());
    assert_eq!(rig.several.list(Path::new("farfield://s/data"), 5).unwrap().len(), 1);
}

#[test]
fn what_is_at_no_server_that_answers_may_be_at_another() {
    for (replicas, missing) in [(1, false), (2, true)] {
        let rig = rig(3, 2, replicas);
        let gone = || PageErrorKind::Unreachable { server: "s2:1".into(), tried: "once".into(), last: "gone".into() };
        rig.servers[2].set(|b| b.lost = true);
        // What is there is found without the lost server.
        assert!(looked(&rig, "f").is_ok());
        all_good(&rig.read(100, 8, ReadClass::Demand).1);
        assert_eq!(rig.requests()[2], 0);
        let listed = rig.several.list(Path::new("farfield://s/data"), 5);
        assert_eq!(listed.is_ok(), missing, "{listed:?}");
        if missing {
            assert_eq!(looked(&rig, "g"), Err(PageErrorKind::Missing));
            continue;
        }
        let (told, found) = std::sync::mpsc::channel();
        rig.several.look(vec!["farfield://s/g".into()], Box::new(move |all| told.send(all).unwrap()));
        assert!(found.recv_timeout(Duration::from_millis(200)).is_err());
        // Its own place gives up.
        let looks: Vec<_> = rig.servers[2].pending.lock().unwrap().looks.drain(..).collect();
        looks.into_iter().for_each(|(_, paths, then)| then(paths.iter().map(|_| Err(gone())).collect()));
        let answer = found.recv_timeout(Duration::from_secs(5)).unwrap().remove(0);
        let Err(PageErrorKind::Unreachable { server, last, .. }) = answer else { panic!("{answer:?}") };
        assert!(server == "s2:1" && last.contains("s0:1, s1:1") && last.contains("FARFIELD_REPLICAS"), "{last}");
    }
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let rig = rig(3, 2, 1);
    rig.servers[1].set(|b| b.lost = true);
    all_good(&rig.read(200, 8, ReadClass::Demand).1);
    assert_eq!(rig.requests()[1], 0);
    rig.servers[1].set(|b| b.lost = false);
    all_good(&rig.read(300, 8, ReadClass::Demand).1);
    assert!(rig.requests()[1] > 50, "{:?}", rig.requests());
    rig.servers[2].set(|b| b.hangs = true);
    all_good(&rig.read(200, 8, ReadClass::Demand).1);
    rig.servers[2].set(|b| b.hangs = false);
    let before = rig.requests()[2];
    all_good(&rig.read(600, 8, ReadClass::Demand).1);
    assert!(rig.requests()[2] > before + 50, "{:?}", rig.requests());
}

#[test]
fn without_any_server_reads_end_by_the_deadline() {
    let rig = rig(3, 2, 1);
    all_good(&rig.read(100, 8, ReadClass::Demand).1);
    rig.servers.iter().for_each(|server| server.set(|b| b.lost = true));
    let (took, results) = rig.read(8, 8, ReadClass::Demand);
    assert!(took >= Duration::from_millis(950) && took < Duration::from_secs(3), "{took:?}");
    for result in results {
        let Err(PageErrorKind::Unreachable { server, last, .. }) = result else { panic!("{result:?}") };
        assert_eq!(server, "s0:1, s1:1, s2:1");
        assert!(last.contains("s1:1: nothing listens"), "{last}");
    }
}

#[test]
fn a_changed_copy_ends_with_changed() {
    let rig = rig(3, 2, 1);
    all_good(&rig.read(100, 8, ReadClass::Demand).1);
    let kind = PageErrorKind::Changed { was: "x".into(), is: "y".into() };
    rig.servers[1].set(|b| b.fails = Some(kind));
    let (_, results) = rig.read(100, 8, ReadClass::Demand);
    let changed = PageErrorKind::Changed { was: "x at s1:1".into(), is: "y".into() };
    assert!(results.iter().all(|result| result.is_ok() || *result == Err(changed.clone())), "{results:?}");
    // What was under way at the others when it was seen still succeeds.
    assert!(results.iter().filter(|result| result.is_err()).count() > 50, "{results:?}");
}

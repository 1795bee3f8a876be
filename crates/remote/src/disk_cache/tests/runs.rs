//! Runs through the pager's own readers and sources, and what a place is asked for.

use super::super::CachedPlace;
use super::places::{close, look, read, Setting};
use pager::error::PageErrorKind;
use pager::place::{
    Entry, FilePin, FileReader, FileRef, FileStat, FileVersion, Looked, Opening, PinTable, Place, TailRead,
};
use pager::source::file::{Backend, FileSet};
use pager::source::folder::{About, FileNames, Folder, ABOUT_BYTES};
use pager::source::{conformance, Buffer, Completion, Read, ReadClass, ReadForm, ReadNote, ReadStep, Source};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A place that can read ends, and keeps what it is asked for.
struct Asked {
    inner: Arc<dyn Place>,
    tails: Mutex<usize>,
    promoted: Mutex<Vec<u64>>,
    withdrawn: Mutex<Vec<u64>>,
    /// Reads that wait.
    held: Mutex<Vec<(Read, Arc<dyn Completion>)>>,
    /// Checks that wait.
    looks: Mutex<Vec<(Vec<PathBuf>, Looked)>>,
    hold: bool,
}

impl Asked {
    fn new(inner: Arc<dyn Place>, hold: bool) -> Arc<Self> {
        let (tails, promoted, withdrawn) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (held, looks) = (Mutex::default(), Mutex::default());
        Arc::new(Self { inner, tails, promoted, withdrawn, held, looks, hold })
    }
}

impl Place for Asked {
    fn describe(&self) -> String {
        "asked".into()
    }
    fn form(&self) -> ReadForm {
        self.inner.form()
    }
    fn room(&self) -> usize {
        self.inner.room()
    }
    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        if !self.hold {
            return self.inner.submit(file, reads, done);
        }
        for read in reads {
            done.note(read.token, ReadNote { server: "s", connection: 3, step: ReadStep::Sent });
            self.held.lock().unwrap().push((read, done.clone()));
        }
    }
    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let held = self.held.lock().unwrap();
        for token in tokens {
            assert!(held.iter().any(|(read, d)| read.token == *token && Arc::ptr_eq(d, done)), "by its own names");
        }
        self.promoted.lock().unwrap().extend(tokens);
    }
    fn withdraw(&self, tokens: &[u64], _: &Arc<dyn Completion>) {
        self.withdrawn.lock().unwrap().extend(tokens);
    }
    fn tail(&self, file: &FileRef, len: usize, then: TailRead) -> Result<(), TailRead> {
        if file.path.to_string_lossy().contains("refuse") {
            return Err(then);
        }
        *self.tails.lock().unwrap() += 1;
        let answer = look(&*self.inner, &file.path.to_string_lossy()).and_then(|stat| {
            file.pin.check(&stat.version)?;
            let from = stat.version.size.saturating_sub(len as u64);
            let bytes = read(&*self.inner, file, from, (stat.version.size - from) as usize)?;
            Ok((stat.version, bytes))
        });
        then(answer);
        Ok(())
    }
    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        match self.hold {
            true => self.looks.lock().unwrap().push((paths, then)),
            false => self.inner.look(paths, then),
        }
    }
    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        self.inner.list(folder, most)
    }
}

type TailAnswer = Result<(FileVersion, Vec<u8>), PageErrorKind>;

/// The end of a file; `None`: the place gave the question back.
fn tail(place: &dyn Place, file: &FileRef, len: usize) -> Option<TailAnswer> {
    let (tx, rx) = channel();
    place.tail(file, len, Box::new(move |found| tx.send(found).unwrap())).ok()?;
    Some(rx.recv_timeout(Duration::from_secs(10)).unwrap())
}

#[test]
fn the_end_of_a_file_is_read_once() {
    let at = Setting::new("tails");
    let truth = conformance::bytes(50_000);
    at.write("shard", &truth);
    at.write("refuse", &truth);
    for (offline, tails) in [(false, 2), (false, 0), (true, 0)] {
        let asked = Asked::new(at.mirror.clone(), false);
        let cache = super::open(&at.folder, super::small());
        let place = CachedPlace::new(asked.clone(), cache.clone(), offline);
        let shard = at.with("shard", Arc::<PinTable>::default().file(4));
        let refused = at.file("refuse");
        if tails > 0 {
            assert_eq!(tail(&place, &shard, 1000).unwrap().unwrap().1, truth[49_000..]);
            assert_eq!(tail(&place, &at.file("none"), 10), Some(Err(PageErrorKind::Missing)));
            assert_eq!(tail(&place, &refused, 10), None, "the question itself comes back");
        } else {
            let before = at.mirror.calls();
            assert_eq!(tail(&place, &shard, 1000), None, "a check tells the size");
            let stat: FileStat = look(&place, &at.url("shard")).unwrap();
            shard.pin.check(&stat.version).unwrap();
            assert_eq!(read(&place, &shard, stat.version.size - 1000, 1000).unwrap(), truth[49_000..]);
            if offline {
                assert_eq!(look(&place, &at.url("none")), Err(PageErrorKind::Missing));
            }
            let after = at.mirror.calls();
            assert_eq!((after[0] - before[0], after[1] - before[1]), (0, usize::from(!offline)));
        }
        assert_eq!(*asked.tails.lock().unwrap(), tails);
        close(cache, place);
    }
}

#[test]
fn promotions_withdrawals_and_notes_pass_through() {
    struct Notes(Mutex<Vec<u64>>);
    impl Completion for Notes {
        fn complete(&self, _: u64, _: Result<(), PageErrorKind>) {}
        fn note(&self, token: u64, note: ReadNote<'_>) {
            assert_eq!((note.server, note.connection, note.step), ("s", 3, ReadStep::Sent));
            self.0.lock().unwrap().push(token);
        }
    }
    let at = Setting::new("promotions");
    at.write("a", &[1; 1000]);
    let asked = Asked::new(at.mirror.clone(), true);
    let place = CachedPlace::new(asked.clone(), super::open(&at.folder, super::small()), false);
    let (mine, other) = (Arc::new(Notes(Mutex::default())), Arc::new(Notes(Mutex::default())));
    let mut memory = vec![0u8; 1000];
    let file = at.with("a", Arc::new(FilePin::default()));
    for (done, tokens) in [(&mine, [1, 2]), (&other, [1, 3])] {
        let done: Arc<dyn Completion> = done.clone();
        for token in tokens {
            let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len: 10 }];
            place.submit(&file, vec![Read { token, offset: 0, buffers, class: ReadClass::Prefetch }], &done);
        }
    }
    let done: Arc<dyn Completion> = mine.clone();
    place.promote(&[2, 3, 9], &done);
    assert_eq!(*asked.promoted.lock().unwrap(), [2], "3 is another's");
    place.withdraw(&[1, 3, 9], &done);
    assert_eq!(*asked.withdrawn.lock().unwrap(), [1], "3 is another's");
    assert_eq!((mine.0.lock().unwrap().clone(), other.0.lock().unwrap().clone()), (vec![1, 2], vec![1, 3]));
    for (read, done) in asked.held.lock().unwrap().drain(..) {
        done.complete(read.token, Err(PageErrorKind::Missing));
    }
    place.promote(&[1], &done);
    assert_eq!(*asked.promoted.lock().unwrap(), [2], "it is done");
}

#[test]
fn what_waits_for_a_check_is_promoted_or_withdrawn_before_it_is_asked_for() {
    let at = Setting::new("waiting");
    at.write("a", &[1; 1000]);
    {
        let cache = super::open(&at.folder, super::small());
        let place = CachedPlace::new(Asked::new(at.mirror.clone(), false), cache.clone(), false);
        read(&place, &at.file("a"), 0, 100).unwrap();
        close(cache, place);
    }
    let asked = Asked::new(at.mirror.clone(), true);
    let place = CachedPlace::new(asked.clone(), super::open(&at.folder, super::small()), false);
    #[derive(Default)]
    struct Ends(Mutex<Vec<(u64, Result<(), PageErrorKind>)>>);
    impl Completion for Ends {
        fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
            self.0.lock().unwrap().push((token, result));
        }
    }
    let ends = Arc::<Ends>::default();
    let done: Arc<dyn Completion> = ends.clone();
    let (mut memory, file) = (vec![0u8; 1000], at.file("a"));
    for token in [1, 2, 3] {
        let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len: 500 }];
        place.submit(&file, vec![Read { token, offset: 300, buffers, class: ReadClass::Prefetch }], &done);
    }
    place.promote(&[2], &done);
    place.withdraw(&[3], &done);
    assert_eq!(*ends.0.lock().unwrap(), [(3, Err(PageErrorKind::Withdrawn))]);
    let mut looks = std::mem::take(&mut *asked.looks.lock().unwrap());
    assert_eq!(looks.len(), 1, "one check for both");
    let (paths, then) = looks.remove(0);
    at.mirror.look(paths, then);
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while asked.held.lock().unwrap().len() < 2 {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut classes: Vec<_> = asked.held.lock().unwrap().iter().map(|(read, _)| (read.token, read.class)).collect();
    classes.sort_by_key(|(token, _)| *token);
    assert_eq!(classes, [(1, ReadClass::Prefetch), (2, ReadClass::Demand)]);
}

struct Chunks(String);

impl FileNames for Chunks {
    fn describe(&self) -> String {
        self.0.clone()
    }
    fn count(&self) -> u64 {
        8
    }
    fn path(&self, number: u64) -> PathBuf {
        format!("{}/c/{number}", self.0).into()
    }
}

fn source_bytes(source: &dyn Source, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    struct OneAnswer(Mutex<std::sync::mpsc::Sender<Result<(), PageErrorKind>>>);
    impl Completion for OneAnswer {
        fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
            self.0.lock().unwrap().send(result).unwrap();
        }
    }
    let (tx, rx) = channel();
    let mut bytes = vec![0xAA; len];
    let buffers = vec![Buffer { ptr: bytes.as_mut_ptr(), len }];
    let done: Arc<dyn Completion> = Arc::new(OneAnswer(Mutex::new(tx)));
    source.submit(vec![Read { token: 1, offset, buffers, class: ReadClass::Demand }], &done);
    rx.recv_timeout(Duration::from_secs(10)).unwrap().map(|()| bytes)
}

/// A dataset of a header, a document and chunks is opened and read: from the place, from the disk, without a network.
#[test]
fn datasets_open_from_the_disk() {
    let at = Setting::new("runs");
    let truth = conformance::bytes(200_000);
    at.write("zarr.json", b"{}");
    at.write("header", &truth);
    for n in [0, 1, 2, 5] {
        at.write(&format!("c/{n}"), &truth[n * 100..n * 100 + 3000]);
    }
    let url = |name: &str| PathBuf::from(at.url(name));
    for (offline, looks, reads) in [(false, 9, 8), (false, 11, 0), (true, 0, 0)] {
        let (cache, place) = at.open(offline);
        let found = place.clone();
        pager::place::register(&at.scheme, Arc::new(move |_| Ok(Arc::new(found.clone()))));
        let before = at.mirror.calls();
        let opening = Opening::begin();
        assert_eq!(pager::place::stat(&[url(".zgroup")]), [Err(PageErrorKind::Missing)]);
        assert_eq!(&*pager::place::read_small(&url("zarr.json"), 100).unwrap(), b"{}");
        let reader = FileReader::open(&url("header")).unwrap();
        assert_eq!(reader.read_up_to(70_000, 130_000).unwrap(), truth[70_000..]);
        assert_eq!(reader.read_up_to(0, 100).unwrap(), truth[..100]);
        let names: Arc<dyn FileNames> = Arc::new(Chunks(at.url("").trim_end_matches('/').to_owned()));
        let files = FileSet::new(Backend::Threads, 4).unwrap();
        let folder: Arc<Folder> = FileSet::folder(&files, names).unwrap();
        for n in 0..8 {
            let about = source_bytes(&*folder, folder.about(n), ABOUT_BYTES).unwrap();
            let expected = if [0, 1, 2, 5].contains(&n) { About::There(3000) } else { About::Missing };
            assert_eq!(About::parse(&about), Some(expected), "file {n}");
            if expected != About::Missing {
                let from = n as usize * 100;
                assert_eq!(
                    source_bytes(&*folder, folder.place(n) + 500, 2000).unwrap(),
                    truth[from + 500..from + 2500]
                );
                super::flush(&cache);
                assert_eq!(source_bytes(&*folder, folder.place(n) + 600, 10).unwrap(), truth[from + 600..from + 610]);
            }
        }
        let after = at.mirror.calls();
        assert_eq!((after[1] - before[1], after[0] - before[0]), (looks, reads), "offline {offline}");
        assert_eq!(cache.take_notice(), None);
        drop(opening);
        drop((folder, reader));
        pager::place::register(&at.scheme, Arc::new(|_| Err(PageErrorKind::Missing)));
        // What an opening has learned ends with the next one.
        drop(Opening::begin());
        close(cache, place);
    }
}

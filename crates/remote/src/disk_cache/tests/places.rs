use super::super::choice::ByteOrigin;
use super::super::place::shown;
use super::super::{CachedPlace, DiskCache};
use super::{cases, scrap, small, Dice, Scrap};
use pager::error::PageErrorKind;
use pager::place::mirror::{Mirror, MirrorOptions};
use pager::place::{FilePin, FileRef, FileStat, FileVersion, PinTable, Place, PlaceFile, VersionPin};
use pager::source::{conformance, Buffer, Completion, Read, ReadClass};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct ReadsTold(Mutex<Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for ReadsTold {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.0.lock().unwrap().send((token, result)).unwrap();
    }
}

type ReadBytes = (Result<(), PageErrorKind>, Vec<u8>);

/// Reads ranges, each scattered over three buffers.
fn read_many(place: &dyn Place, file: &FileRef, ranges: &[(u64, usize)]) -> Vec<ReadBytes> {
    let (tx, rx) = channel();
    let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0xAA; *len]).collect();
    let reads = ranges.iter().zip(&mut memory).enumerate().map(|(n, ((offset, len), bytes))| {
        let (first, second) = (len / 3, len / 2);
        let parts = [(0, first), (first, second), (second, *len)].into_iter().filter(|(from, to)| from < to);
        let ptr = bytes.as_mut_ptr();
        let buffers = parts.map(|(from, to)| Buffer { ptr: ptr.wrapping_add(from), len: to - from }).collect();
        Read { token: n as u64, offset: file.base + offset, buffers, class: ReadClass::Demand }
    });
    let done: Arc<dyn Completion> = Arc::new(ReadsTold(Mutex::new(tx)));
    place.submit(file, reads.collect(), &done);
    let mut results = vec![None; ranges.len()];
    for _ in ranges {
        let (token, result) = rx.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(results[token as usize].replace(result).is_none(), "completed twice");
    }
    results.into_iter().zip(memory).map(|(result, bytes)| (result.unwrap(), bytes)).collect()
}

pub fn read(place: &dyn Place, file: &FileRef, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    let (result, bytes) = read_many(place, file, &[(offset, len)]).remove(0);
    result.map(|()| bytes)
}

pub fn look(place: &dyn Place, path: &str) -> Result<FileStat, PageErrorKind> {
    let (tx, rx) = channel();
    place.look(vec![PathBuf::from(path)], Box::new(move |mut found| tx.send(found.remove(0)).unwrap()));
    rx.recv_timeout(Duration::from_secs(20)).unwrap()
}

pub struct Setting {
    pub folder: Scrap,
    pub mirror: Arc<Mirror>,
    pub scheme: String,
}

impl Setting {
    pub fn new(name: &str) -> Self {
        let folder = scrap(name);
        std::fs::create_dir(folder.0.join("origin")).unwrap();
        let scheme = format!("cached-{name}");
        let mirror = Mirror::register(&scheme, &folder.0.join("origin"));
        Self { folder, mirror, scheme }
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.0.join("origin").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _old = std::fs::remove_file(&path);
        std::fs::write(path, bytes).unwrap();
    }

    pub fn url(&self, name: &str) -> String {
        format!("{}://host/{name}", self.scheme)
    }

    pub fn file(&self, name: &str) -> FileRef {
        self.with(name, Arc::new(FilePin::default()))
    }

    pub fn with(&self, name: &str, pin: Arc<dyn VersionPin>) -> FileRef {
        FileRef { path: Path::new(&self.url(name)).into(), base: 0, pin }
    }

    pub fn open(&self, offline: bool) -> (Arc<DiskCache>, CachedPlace) {
        let cache = super::open(&self.folder, small());
        (cache.clone(), CachedPlace::new(self.mirror.clone(), cache, offline))
    }
}

/// Ends a run. A reply's own thread may still have the place for a moment.
pub fn close(cache: Arc<DiskCache>, place: CachedPlace) {
    drop(place);
    let mut cache = cache;
    while let Err(shared) = Arc::try_unwrap(cache) {
        cache = shared;
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_cached_place_is_a_source() {
    let at = Setting::new("conformance");
    let number = AtomicUsize::new(0);
    let make = |place: Arc<dyn Place>, bytes: Vec<u8>| {
        let name = format!("f{}", number.fetch_add(1, SeqCst));
        at.write(&name, &bytes);
        Arc::new(PlaceFile::new(place, Path::new(&at.url(&name))))
    };
    let (cache, place) = at.open(false);
    let shared: Arc<dyn Place> = Arc::new(place.clone());
    conformance::check(|bytes| make(shared.clone(), bytes));
    drop(shared);
    close(cache, place);
    // Again, from the disk.
    let (cache, place) = at.open(false);
    let (before, hits) = (at.mirror.calls()[0], cache.counts().hits);
    let truth = conformance::bytes(300_001);
    let file = at.file("f0");
    assert!(read(&place, &file, 100_000, 65_536).unwrap() == truth[100_000..165_536]);
    assert!(read(&place, &file, 0, 4000).unwrap() == truth[..4000]);
    assert_eq!((at.mirror.calls()[0], cache.counts().hits), (before, hits + 2));
}

#[test]
fn any_reads_in_any_order_give_the_truth() {
    let at = Setting::new("random");
    let truth = conformance::bytes(700_000);
    for n in 0..3 {
        at.write(&format!("f{n}"), &truth[n * 1000..]);
    }
    let table: Arc<PinTable> = Arc::default();
    let mut hits = 0;
    at.mirror.set(MirrorOptions { latency: Duration::from_millis(1), ..MirrorOptions::default() });
    for run in 0..cases(4) {
        let (cache, place) = at.open(false);
        std::thread::scope(|s| {
            for thread in 0..3u64 {
                let (at, place, truth, table) = (&at, &place, &truth, &table);
                s.spawn(move || {
                    let mut dice = Dice(run * 10 + thread + 1);
                    for _ in 0..60 {
                        let n = dice.below(3) as usize;
                        let mut file = at.with(&format!("f{n}"), table.file(n as u64));
                        if dice.below(4) == 0 {
                            file = at.file(&format!("f{n}"));
                        }
                        file.base = dice.below(2) << 40;
                        let ranges: Vec<(u64, usize)> = (0..1 + dice.below(5))
                            .map(|_| {
                                let page = dice.below(150) * 4096;
                                (page + dice.below(2) * dice.below(4096), 1 + dice.below(60_000) as usize)
                            })
                            .collect();
                        for ((from, len), (result, got)) in ranges.iter().zip(read_many(place, &file, &ranges)) {
                            let from = *from as usize + n * 1000;
                            let have = (truth.len().max(from) - from).min(*len);
                            assert_eq!(result.is_ok(), have == *len, "{result:?}");
                            assert!(have == 0 || got[..have] == truth[from..from + have], "{len} bytes at {from}");
                        }
                    }
                });
            }
        });
        super::flush(&cache);
        let counts = cache.counts();
        hits += counts.hits;
        assert_eq!((counts.faults, cache.take_notice()), (0, None));
        close(cache, place);
    }
    assert!(hits > 100, "{hits}");
}

/// The second run asks once a file, and reads nothing.
#[test]
fn a_second_run_asks_once_a_file() {
    let at = Setting::new("second");
    let truth = conformance::bytes(1 << 20);
    at.write("wing", &truth);
    at.write("c/0", &truth[..5000]);
    let ranges: Vec<(u64, usize)> = (0..24).map(|n| (n << 15, 1 << 15)).collect();
    for run in 0..3 {
        let (cache, place) = at.open(false);
        let before = at.mirror.calls();
        let wing = at.file("wing");
        for _ in 0..2 {
            for ((from, len), (result, got)) in ranges.iter().zip(read_many(&place, &wing, &ranges)) {
                assert!(result.is_ok() && got == truth[*from as usize..*from as usize + len]);
            }
            super::flush(&cache);
        }
        // A file of a table of pins, whose length was told.
        let chunk = at.with("c/0", Arc::<PinTable>::default().file(0));
        chunk.pin.check(&look(&place, &at.url("c/0")).unwrap().version).unwrap();
        assert_eq!(read(&place, &chunk, 0, 5000).unwrap(), truth[..5000]);
        let after = at.mirror.calls();
        let expected = if run == 0 { [25, 1] } else { [0, 2] };
        assert_eq!([after[0] - before[0], after[1] - before[1]], expected, "run {run}");
        close(cache, place);
    }
    // Whole, parts, and over several records.
    let (cache, place) = at.open(false);
    let wing = at.file("wing");
    for (from, len) in [(0, 24 << 15), (100, 200), (40_000, 100_000), ((24 << 15) - 1, 1)] {
        assert_eq!(read(&place, &wing, from, len).unwrap(), truth[from as usize..from as usize + len]);
    }
    assert_eq!((cache.counts().hits, cache.counts().misses), (4, 0));
}

#[test]
fn bytes_of_an_old_version_are_never_given_out() {
    let at = Setting::new("versions");
    for round in 0..6u8 {
        let bytes = vec![round; 50_000];
        at.write("a", &bytes);
        let (cache, place) = at.open(false);
        for part in 0..5u64 {
            assert_eq!(read(&place, &at.file("a"), part * 10_000, 10_000).unwrap(), vec![round; 10_000]);
        }
        super::flush(&cache);
        let file = at.file("a");
        // Replaced while it is open: old bytes from the disk, or an error, but nothing mixed.
        assert_eq!(read(&place, &file, 0, 10).unwrap(), vec![round; 10]);
        at.write("a", &[99; 50_000]);
        assert_eq!(read(&place, &file, 20_000, 10).unwrap(), vec![round; 10]);
        let fresh = read(&place, &at.file("a"), 0, 50_000).unwrap();
        assert_eq!(fresh, vec![99; 50_000]);
        let beyond = read(&place, &file, 0, 50_001);
        assert!(matches!(beyond, Err(PageErrorKind::Short { .. } | PageErrorKind::Changed { .. })), "{beyond:?}");
        close(cache, place);
    }
    // A pin that another version has: the answer is `Changed`, also where the disk has bytes of the new one.
    let (_cache, place) = at.open(false);
    let old = Arc::new(FilePin::known(FileVersion { size: 50_000, tag: "none".into() }));
    let changed = read(&place, &at.with("a", old), 0, 10);
    assert!(matches!(changed, Err(PageErrorKind::Changed { .. })), "{changed:?}");
}

#[test]
fn offline_what_was_read_is_there_and_the_rest_is_named() {
    let at = Setting::new("offline");
    let truth = conformance::bytes(100_000);
    at.write("d/wing", &truth);
    at.write("d/other", &truth);
    {
        let (cache, place) = at.open(false);
        assert_eq!(look(&place, &at.url("d/.zgroup")), Err(PageErrorKind::Missing));
        assert!(look(&place, &at.url("d/wing")).is_ok());
        read(&place, &at.file("d/wing"), 0, 65_536).unwrap();
        let short = read(&place, &at.file("d/other"), 90_000, 65_536);
        assert!(matches!(short, Err(PageErrorKind::Short { .. })));
        assert_eq!(read(&place, &at.file("d/none"), 0, 10), Err(PageErrorKind::Missing));
        let mut names = place.list(Path::new(&at.url("d")), 10).unwrap();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(names.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["other", "wing"]);
        close(cache, place);
    }
    let before = at.mirror.calls();
    let (_cache, place) = at.open(true);
    assert!(place.room() > 0);
    let stat = look(&place, &at.url("d/wing")).unwrap();
    assert_eq!(stat.version.size, 100_000);
    assert_eq!(look(&place, &at.url("d/.zgroup")), Err(PageErrorKind::Missing));
    assert_eq!(place.list(Path::new(&at.url("d")), 10).unwrap().len(), 2);
    assert!(matches!(place.list(Path::new(&at.url("d")), 1), Err(PageErrorKind::TooMany { .. })));
    let wing = at.file("d/wing");
    assert_eq!(read(&place, &wing, 1000, 30_000).unwrap(), truth[1000..31_000]);
    assert_eq!(wing.pin.expected(), Some(stat.version));
    let (result, got) = read_many(&place, &at.file("d/other"), &[(90_000, 65_536)]).remove(0);
    assert_eq!(result, Err(PageErrorKind::Short { offset: 90_000, end: 155_536, have: 100_000 }));
    assert_eq!(got[..10_000], truth[90_000..]);
    assert_eq!(read(&place, &at.file("d/none"), 0, 10), Err(PageErrorKind::Missing));
    let past = read(&place, &wing, 100_000, 1);
    assert!(matches!(past, Err(PageErrorKind::Short { have: 100_000, .. })), "{past:?}");
    let missing = [
        read(&place, &wing, 70_000, 10).unwrap_err(),
        read(&place, &at.file("d/new?sig=secret"), 0, 10).unwrap_err(),
        look(&place, &at.url("d/new?sig=secret")).unwrap_err(),
    ];
    for (kind, name) in missing.iter().zip(["d/wing", "d/new", "d/new"]) {
        let message = kind.to_string();
        assert!(message.contains(&format!("host/{name} is not in the disk cache")), "{message}");
        assert!(!message.contains("secret") && matches!(kind, PageErrorKind::Unreachable { .. }), "{message}");
    }
    assert_eq!(at.mirror.calls(), before, "the place is never asked");
    assert_eq!(shown(Path::new("https://me:pw@host/a/b?x=1#f")), "https://host/a/b");
}

#[test]
fn the_newest_note_counts() {
    let at = Setting::new("notes");
    let (cache, place) = at.open(false);
    let stat = |n: u64| FileStat {
        kind: pager::place::FileKind::File,
        version: FileVersion { size: n, tag: "t".into() },
        modified_ns: 0,
    };
    for n in [1u64, 2, 1, 1, 3, 2] {
        let bytes = super::super::notes::NameNote::There(stat(n)).bytes().unwrap();
        cache.note("stat", &place.describe(), Path::new("x://host/a"), bytes.clone());
        super::flush(&cache);
        assert_eq!(cache.note_of("stat", &place.describe(), Path::new("x://host/a")), Some(bytes));
    }
    assert_eq!(cache.counts().stored, 5, "what is newest is not stored again");
}

#[test]
fn no_address_is_stored() {
    let at = Setting::new("secrets");
    at.write("a?sig=verysecret", &[1; 5000]);
    at.write("plain", &[1; 5000]);
    let (cache, place) = at.open(false);
    read(&place, &at.file("a?sig=verysecret"), 0, 5000).unwrap();
    look(&place, &at.url("a?sig=verysecret")).unwrap();
    place.list(Path::new(&at.url("")), 10).unwrap();
    close(cache, place);
    for (path, _) in super::files(&at.folder.0.join("cache")) {
        let bytes = std::fs::read(path).unwrap();
        assert!(!bytes.windows(10).any(|w| w == b"verysecret") && !bytes.windows(7).any(|w| w == b"://host"));
    }
}

#[test]
fn faults_of_the_place_pass_and_a_faster_server_is_asked() {
    let at = Setting::new("faults");
    at.write("a", &[5; 100_000]);
    let (cache, place) = at.open(false);
    let file = at.file("a");
    read(&place, &file, 0, 32_768).unwrap();
    super::flush(&cache);
    let refused = PageErrorKind::Unauthorized { server: "host".into(), message: "403".into() };
    let kind = refused.clone();
    at.mirror.set(MirrorOptions { fault: Some(Arc::new(move |_| Some(kind.clone()))), ..MirrorOptions::default() });
    assert_eq!(read(&place, &file, 40_000, 10), Err(refused.clone()));
    assert_eq!(read(&place, &file, 0, 32_768).unwrap(), vec![5; 32_768]);
    assert_eq!(read(&place, &at.file("a"), 0, 32_768), Err(refused), "its version is unknown");
    at.mirror.set(MirrorOptions::default());
    for _ in 0..40 {
        place.choice().note(ByteOrigin::Disk, 32_768, Duration::from_secs(1));
        place.choice().note(ByteOrigin::Server, 32_768, Duration::from_millis(1));
    }
    let before = at.mirror.calls()[0];
    for _ in 0..50 {
        assert_eq!(read(&place, &file, 0, 32_768).unwrap(), vec![5; 32_768]);
    }
    let asked = at.mirror.calls()[0] - before;
    assert!((45..=50).contains(&asked), "{asked}");
}

use super::mirror::{Mirror, MirrorOptions};
use super::*;
use crate::error::{PageError, PageErrorKind};
use crate::id::{PageId, SourceId};
use crate::map::{Extent, ExtentTarget, Located, PageMap};
use crate::source::conformance;
use crate::source::file::{Backend, FileSet};
use crate::source::folder::{FileIndex, FileNames, ABOUT_BYTES};
use crate::source::Completion;
use crate::source::Source;
use crate::{Lookup, Pager, PagerConfig};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

struct TestFolder(PathBuf);

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> TestFolder {
    let path = std::env::temp_dir().join(format!("farfield-place-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    TestFolder(path)
}

#[test]
fn schemes_are_not_mistaken_for_local_names() {
    for (path, expected) in [
        ("https://host/a", Some("https")),
        ("s3://bucket/key", Some("s3")),
        ("/data/a", None),
        ("a:b", None),
        ("1x://a", None),
        ("://a", None),
        ("dir/https://a", None),
    ] {
        assert_eq!(scheme(Path::new(path)), expected, "{path}");
    }
    for (path, expected) in [
        ("https://me:pw@host/a?sig=secret/@x", "https://host/a?..."),
        ("https://host?sig=secret", "https://host?..."),
        ("s3://bucket/a@b?c", "s3://bucket/a@b?c"),
        ("az://box@account/a", "az://box@account/a"),
        ("/data/a?b@c", "/data/a?b@c"),
    ] {
        assert_eq!(shown(Path::new(path)), expected);
    }
    let Err(PageErrorKind::Unsupported(message)) = of(Path::new("gopher://host/a")) else { panic!("no such place") };
    assert!(message.contains("gopher://"), "{message}");
}

#[test]
fn a_remote_file_is_a_source() {
    let dir = folder("source");
    let mirror = Mirror::register("mirror-source", &dir.0);
    let number = AtomicUsize::new(0);
    conformance::check(|bytes| {
        let name = format!("f{}", number.fetch_add(1, SeqCst));
        std::fs::write(dir.0.join(&name), bytes).unwrap();
        Arc::new(PlaceFile::new(mirror.clone(), Path::new(&format!("mirror-source://host/{name}"))))
    });
}

/// Pages of 1,000 bytes, one after the other.
struct Plain(SourceId);

impl PageMap for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    fn pages(&self) -> u64 {
        40
    }
    fn page_bytes(&self, _: PageId) -> usize {
        1000
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        // Apart, so that each is a read of its own.
        let extent = Extent { source: self.0, offset: id.page * 5000, len: 1000, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![extent], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

#[test]
fn a_place_that_never_has_room_is_read_from_nevertheless() {
    let dir = folder("room");
    let mirror = Mirror::register("mirror-room", &dir.0);
    let truth = conformance::bytes(200_000);
    std::fs::write(dir.0.join("a"), &truth).unwrap();
    for no_room in [false, true] {
        mirror.set(MirrorOptions { no_room, ..MirrorOptions::default() });
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let source = pager.add_file(Path::new("mirror-room://host/a"));
        let array = pager.add_array(Arc::new(Plain(source)));
        let pages: Vec<PageId> = (0..40).map(|n| PageId::new(array, 0, n)).collect();
        let _hold = pager.fetch(&pages).unwrap();
        let worker = pager.worker();
        for page in pages {
            let Lookup::Here(bytes) = worker.page(page) else { panic!("held, so it is here") };
            let at = page.page as usize * 5000;
            assert!(bytes == &truth[at..at + 1000], "{page:?}");
        }
    }
}

#[test]
fn readers_see_every_byte_of_one_version() {
    let dir = folder("reader");
    let _mirror = Mirror::register("mirror-reader", &dir.0);
    let truth = conformance::bytes(3 << 20);
    let path = dir.0.join("a");
    std::fs::write(&path, &truth).unwrap();
    for name in [path.clone(), PathBuf::from("mirror-reader://host/a")] {
        let _opening = Opening::begin();
        let reader = FileReader::open(&name).unwrap();
        assert_eq!(reader.size(), truth.len() as u64);
        let mut seed = 1u64;
        for _ in 0..400 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % truth.len();
            let len =
                ((seed >> 20) as usize % if seed.is_multiple_of(7) { 1 << 20 } else { 5000 }).min(truth.len() - at);
            let mut buf = vec![0; len];
            reader.read_exact_at(at as u64, &mut buf).unwrap();
            assert!(buf == truth[at..at + len], "{len} bytes at {at}");
        }
        for at in (0..truth.len()).step_by(30_000) {
            assert_eq!(reader.read_up_to(at as u64, 30_000).unwrap(), truth[at..(at + 30_000).min(truth.len())]);
        }
        let past = reader.read_exact_at(truth.len() as u64 - 1, &mut [0; 2]);
        assert!(matches!(past, Err(PageErrorKind::Short { .. })), "{past:?}");
        assert!(FileReader::open(&dir.0).is_err());
    }
    // Another version, of the same size, while the reader is open.
    let remote = FileReader::open(Path::new("mirror-reader://host/a")).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![7; truth.len()]).unwrap();
    let changed = remote.read_exact_at(2_900_000, &mut [0; 10]);
    assert!(matches!(changed, Err(PageErrorKind::Changed { .. })), "{changed:?}");
}

#[test]
fn an_opening_asks_once_and_the_next_one_again() {
    let dir = folder("known");
    let mirror = Mirror::register("mirror-known", &dir.0);
    std::fs::write(dir.0.join("zarr.json"), b"{}").unwrap();
    let url = PathBuf::from("mirror-known://host/zarr.json");
    let none = PathBuf::from("mirror-known://host/.zgroup");
    // Openings of other tests may be active at the same time, so counts are bounds.
    let opening = Opening::begin();
    for _ in 0..5 {
        assert_eq!(&*read_small(&url, 1000).unwrap(), b"{}");
        assert_eq!(&*read_small(&url, 1).unwrap(), b"{");
        assert_eq!(stat(std::slice::from_ref(&none)), vec![Err(PageErrorKind::Missing)]);
        assert_eq!(read_small(&none, 10), Err(PageErrorKind::Missing));
    }
    assert_eq!(mirror.calls(), [1, 1, 0]);
    drop(opening);
    // A fault is never kept, and never "missing".
    let unauthorized = PageErrorKind::Unauthorized { server: "host".into(), message: "403".into() };
    let kind = unauthorized.clone();
    mirror.set(MirrorOptions { fault: Some(Arc::new(move |_| Some(kind.clone()))), ..MirrorOptions::default() });
    let other = PathBuf::from("mirror-known://host/.zattrs");
    assert_eq!(stat(std::slice::from_ref(&other)), vec![Err(unauthorized.clone())]);
    assert_eq!(read_small(&other, 10), Err(unauthorized));
    mirror.set(MirrorOptions::default());
    assert_eq!(stat(&[other]), vec![Err(PageErrorKind::Missing)]);
}

/// Files in a folder, with an index.
struct Names(u64, PathBuf, FileIndex);

impl FileNames for Names {
    fn describe(&self) -> String {
        "mirror-folder://host/c/".into()
    }
    fn count(&self) -> u64 {
        self.0
    }
    fn path(&self, number: u64) -> PathBuf {
        self.1.join(number.to_string())
    }
    fn index(&self) -> Option<FileIndex> {
        Some(self.2)
    }
}

#[test]
fn many_remote_files_are_one_source_of_one_version_each() {
    let dir = folder("folder");
    let mirror = Mirror::register("mirror-folder", &dir.0);
    std::fs::create_dir(dir.0.join("c")).unwrap();
    let files = FileSet::new(Backend::Threads, 4).unwrap();
    for n in 0..6 {
        std::fs::write(dir.0.join(format!("c/{n}")), vec![n; 100 + usize::from(n)]).unwrap();
    }
    let folder = FileSet::folder(&files, Arc::new(Names(8, "mirror-folder://host/c".into(), END))).unwrap();
    assert!(folder.is_remote() && folder.limited_by().is_some());
    let abouts = read_bytes(&*folder, folder.about(4), 3 * ABOUT_BYTES).unwrap();
    let about = |n: usize| crate::source::folder::About::parse(&abouts[n * ABOUT_BYTES..]).unwrap();
    use crate::source::folder::About;
    assert_eq!([about(0), about(1), about(2)], [About::There(104), About::There(105), About::Missing]);
    assert_eq!(read_bytes(&*folder, folder.place(3) + 10, 20).unwrap(), vec![3; 20]);
    assert_eq!(read_bytes(&*folder, folder.place(7), 1), Err(PageErrorKind::Missing));
    let short = read_bytes(&*folder, folder.place(5) + 100, 10);
    assert_eq!(
        short,
        Err(PageErrorKind::Short {
            offset: folder.place(5) + 100,
            end: folder.place(5) + 110,
            have: folder.place(5) + 105
        })
    );
    assert!(folder.held_bytes().unwrap() > 0);
    // Another file of the same name and size.
    std::fs::remove_file(dir.0.join("c/3")).unwrap();
    std::fs::write(dir.0.join("c/3"), vec![9; 103]).unwrap();
    let changed = read_bytes(&*folder, folder.place(3), 20);
    assert!(matches!(changed, Err(PageErrorKind::Changed { .. })), "{changed:?}");
    // Nor is its length told.
    let changed = read_bytes(&*folder, folder.about(3), ABOUT_BYTES);
    assert!(matches!(changed, Err(PageErrorKind::Changed { .. })), "{changed:?}");
    // A file that was there is not missing, and no fill stands in for it; one that never was is.
    std::fs::remove_file(dir.0.join("c/4")).unwrap();
    let gone = |result| matches!(result, Err(PageErrorKind::Changed { is, .. }) if is == "deleted");
    assert!(gone(read_bytes(&*folder, folder.about(4), ABOUT_BYTES)));
    assert!(gone(read_bytes(&*folder, folder.index(4), ABOUT_BYTES + END.len)));
    let missing = read_bytes(&*folder, folder.place(4), 1).unwrap_err();
    assert!(gone(Err(folder.explain(folder.place(4), missing).1)));
    assert_eq!(folder.explain(folder.place(7), PageErrorKind::Missing).1, PageErrorKind::Missing);
    // A refused check is not a missing file.
    let fault: mirror::Fault =
        Arc::new(|_| Some(PageErrorKind::Unauthorized { server: "h".into(), message: "403".into() }));
    mirror.set(MirrorOptions { fault: Some(fault), ..MirrorOptions::default() });
    let refused = read_bytes(&*folder, folder.about(6), ABOUT_BYTES);
    assert!(matches!(refused, Err(PageErrorKind::Unauthorized { .. })), "{refused:?}");
}

const END: FileIndex = FileIndex { len: 30, at_end: true };

#[test]
fn many_files_have_the_versions_of_the_opening() {
    let dir = folder("opened");
    let _mirror = Mirror::register("mirror-opened", &dir.0);
    let write = |name: &str, bytes: [u8; 100]| std::fs::write(dir.0.join(name), bytes).unwrap();
    ["0", "1"].iter().for_each(|name| write(name, [1; 100]));
    // While it lasts, no opening of another test forgets what it has seen.
    let _opening = Opening::begin();
    assert!(stat(&[PathBuf::from("mirror-opened://host/0")])[0].is_ok());
    for name in ["0", "1"] {
        std::fs::remove_file(dir.0.join(name)).unwrap();
        write(name, [2; 100]);
    }
    let files = FileSet::new(Backend::Threads, 1).unwrap();
    let folder = FileSet::folder(&files, Arc::new(Names(2, "mirror-opened://host".into(), END))).unwrap();
    let changed = read_bytes(&*folder, folder.place(0), 20);
    assert!(matches!(changed, Err(PageErrorKind::Changed { .. })), "{changed:?}");
    // One that the opening has not met is of the version of its first read.
    assert_eq!(read_bytes(&*folder, folder.place(1), 20).unwrap(), vec![2; 20]);
}

#[test]
fn indexes_of_shards_are_read_with_their_state() {
    use crate::source::folder::About;
    let dir = folder("index");
    let _mirror = Mirror::register("mirror-index", &dir.0);
    let files = FileSet::new(Backend::Threads, 4).unwrap();
    let whole: Vec<u8> = (0..200).collect();
    std::fs::write(dir.0.join("0"), &whole).unwrap();
    std::fs::write(dir.0.join("1"), &whole[..30]).unwrap();
    std::fs::write(dir.0.join("2"), &whole[..29]).unwrap();
    std::fs::create_dir(dir.0.join("3")).unwrap();
    for root in [dir.0.clone(), PathBuf::from("mirror-index://host")] {
        for at_end in [true, false] {
            let index = FileIndex { at_end, ..END };
            let folder = FileSet::folder(&files, Arc::new(Names(5, root.clone(), index))).unwrap();
            let read = |n: u64| {
                let bytes = read_bytes(&*folder, folder.index(n), ABOUT_BYTES + 30)?;
                Ok((About::parse(&bytes).unwrap(), bytes[ABOUT_BYTES..].to_vec()))
            };
            let (about, bytes) = read(0).unwrap();
            assert!(matches!(about, About::There(30..=200)), "{about:?}");
            assert_eq!(bytes, if at_end { &whole[170..] } else { &whole[..30] });
            assert_eq!(read(1), Ok((About::There(30), whole[..30].to_vec())));
            assert_eq!(read(2), Ok((About::There(29), vec![0; 30])));
            assert!(read(3).is_err_and(|kind: PageErrorKind| kind != PageErrorKind::Missing));
            assert_eq!(read(4), Ok((About::Missing, vec![0; 30])));
            // In parts, and past the end.
            assert_eq!(read_bytes(&*folder, folder.index(0) + 16 + 3, 5).unwrap(), bytes[3..8]);
            let past = read_bytes(&*folder, folder.index(0) + 40, 7);
            assert!(matches!(past, Err(PageErrorKind::Short { have, .. }) if have == folder.index(0) + 46), "{past:?}");
        }
    }
}

/// Files of one chunk each.
struct ChunkNames(u64, PathBuf, usize);

impl FileNames for ChunkNames {
    fn describe(&self) -> String {
        self.1.display().to_string()
    }
    fn count(&self) -> u64 {
        self.0
    }
    fn path(&self, number: u64) -> PathBuf {
        self.1.join(number.to_string())
    }
    fn usual_len(&self) -> usize {
        self.2
    }
}

#[test]
fn a_file_of_one_chunk_is_read_with_its_state() {
    use crate::source::folder::About;
    let dir = folder("chunks");
    let mirror = Mirror::register("mirror-chunks", &dir.0);
    for n in 0..5u8 {
        std::fs::write(dir.0.join(n.to_string()), vec![n; 60 + 10 * usize::from(n)]).unwrap();
    }
    let files = FileSet::new(Backend::Threads, 4).unwrap();
    let folder = FileSet::folder(&files, Arc::new(ChunkNames(6, "mirror-chunks://host".into(), 80))).unwrap();
    let abouts = || {
        let bytes = read_bytes(&*folder, folder.about(0), 6 * ABOUT_BYTES).unwrap();
        bytes.chunks(ABOUT_BYTES).map(|b| About::parse(b).unwrap()).collect::<Vec<_>>()
    };
    let mut expected: Vec<About> = (0..5).map(|n| About::There(60 + 10 * n)).collect();
    expected.push(About::Missing);
    // Without memory for first reads, each file is checked.
    assert_eq!(abouts(), expected);
    assert_eq!(mirror.calls(), [0, 6, 0]);
    files.first_budget().set(500);
    assert_eq!(abouts(), expected);
    assert_eq!(mirror.calls(), [6, 6, 0], "absent files, too, by one read each");
    for n in 0..5u8 {
        let len = 60 + 10 * usize::from(n);
        assert_eq!(read_bytes(&*folder, folder.place(n.into()), len).unwrap(), vec![n; len]);
    }
    // Those of at most 80 bytes were here already.
    assert_eq!(mirror.calls(), [8, 6, 0]);
    assert_eq!(read_bytes(&*folder, folder.place(1), 70).unwrap(), vec![1; 70], "again");
    assert_eq!(mirror.calls(), [9, 6, 0]);
    // Bytes that nobody reads keep others out for a while, and no longer.
    assert_eq!(abouts(), expected);
    assert!(folder.held_bytes().unwrap() >= 60 + 70 + 80);
    files.first_budget().set(220);
    assert_eq!(abouts(), expected);
    assert!(mirror.calls()[1] > 6, "checked for lack of memory");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let checks = mirror.calls()[1];
    read_bytes(&*folder, folder.about(4), ABOUT_BYTES).unwrap();
    assert_eq!(mirror.calls()[1], checks);
    // A fault is one, and never an absent file.
    let fault: mirror::Fault = Arc::new(|_| Some(PageErrorKind::Io("gone".into())));
    mirror.set(MirrorOptions { fault: Some(fault), ..MirrorOptions::default() });
    assert_eq!(read_bytes(&*folder, folder.about(5), ABOUT_BYTES), Err(PageErrorKind::Io("gone".into())));
}

#[test]
fn first_bytes_come_with_the_states_of_files() {
    let dir = folder("begin");
    let mirror = Mirror::register("mirror-begin", &dir.0);
    std::fs::write(dir.0.join("a"), vec![7; 100]).unwrap();
    std::fs::write(dir.0.join("long"), vec![8; 100_000]).unwrap();
    std::fs::create_dir(dir.0.join("f")).unwrap();
    std::fs::write(dir.0.join("zarr.json"), b"{}").unwrap();
    let at = |name: &str| PathBuf::from(format!("mirror-begin://host/{name}"));
    let _opening = Opening::begin();
    let found = begin(&[at("a"), at("long"), at("f"), at("none"), at("zarr.json")]);
    let sizes: Vec<_> = found.iter().map(|f| f.as_ref().map(|s| (s.kind, s.version.size))).collect();
    assert_eq!(sizes[0], Ok((FileKind::File, 100)));
    assert_eq!(sizes[1], Ok((FileKind::File, 100_000)));
    assert_eq!(sizes[2].map(|f| f.0), Ok(FileKind::Folder));
    assert_eq!(found[3], Err(PageErrorKind::Missing));
    let calls = mirror.calls();
    assert_eq!(calls[1], 5);
    // Nothing of that is asked again: not of the folder of a document either.
    assert_eq!(stat(&[at("")]).remove(0).unwrap().kind, FileKind::Folder);
    assert_eq!(&*read_small(&at("a"), 3).unwrap(), [7; 3]);
    assert_eq!(FileReader::open(&at("a")).unwrap().read_up_to(90, 50).unwrap(), vec![7; 10]);
    let long = FileReader::open(&at("long")).unwrap();
    assert_eq!(long.read_up_to(65_000, 500).unwrap(), vec![8; 500]);
    assert_eq!(mirror.calls(), calls);
    assert_eq!(long.read_up_to(65_000, 900).unwrap(), vec![8; 900]);
    assert_eq!(mirror.calls()[0], calls[0] + 1, "the block after the first one");
}

fn read_bytes(source: &dyn Source, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    use crate::source::{Buffer, Read, ReadClass};
    struct OneResult(std::sync::Mutex<std::sync::mpsc::Sender<Result<(), PageErrorKind>>>);
    impl Completion for OneResult {
        fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
            self.0.lock().unwrap().send(result).unwrap();
        }
    }
    let (tx, rx) = std::sync::mpsc::channel();
    let mut bytes = vec![0xAA; len];
    let buffers = vec![Buffer { ptr: bytes.as_mut_ptr(), len }];
    let done: Arc<dyn Completion> = Arc::new(OneResult(std::sync::Mutex::new(tx)));
    source.submit(vec![Read { token: 1, offset, buffers, class: ReadClass::Demand }], &done);
    rx.recv_timeout(std::time::Duration::from_secs(10)).unwrap().map(|()| bytes)
}

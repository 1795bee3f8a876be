//! Every source of this crate under the one suite, and the properties of files only.

use super::conformance::{bytes, check};
use super::file::{Backend, FileSet};
use super::memory::Memory;
use super::simulated::{Simulated, Simulation};
use super::{Buffer, Completion, Read, ReadClass, Source};
use crate::error::PageErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

/// A file that is removed when the test ends.
struct TempFile(PathBuf);

impl TempFile {
    fn new(content: &[u8]) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let name = format!("farfield-pager-{}-{}", std::process::id(), SERIAL.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Sender(Mutex<mpsc::Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for Sender {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let _ = self.0.lock().unwrap().send((token, result));
    }
}

fn read_one(source: &dyn Source, offset: u64, len: usize) -> (Result<(), PageErrorKind>, Vec<u8>) {
    let (tx, rx) = mpsc::channel();
    let done: Arc<dyn Completion> = Arc::new(Sender(Mutex::new(tx)));
    let mut memory = vec![0u8; len];
    let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len }];
    source.submit(vec![Read { token: 7, offset, buffers, class: ReadClass::Demand }], &done);
    let (token, result) = rx.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(token, 7);
    (result, memory)
}

#[test]
fn memory_conforms() {
    check(|b| Arc::new(Memory::new("memory", b)));
}

#[test]
fn simulated_conforms() {
    let simulations = [
        Simulation::default(),
        Simulation {
            shuffle: true,
            short_reads: 0.5,
            latency: Duration::ZERO..Duration::from_millis(1),
            ..Simulation::default()
        },
        Simulation { depth: 2, seed: 9, ..Simulation::fixed(Duration::from_micros(200), 2) },
    ];
    for s in simulations {
        check(|b| Arc::new(Simulated::new(b, s.clone()).unwrap()));
    }
    check(|b| {
        let len = b.len() as u64;
        Arc::new(Simulated::made(len, move |at| b[at as usize], Simulation::default()).unwrap())
    });
}

#[test]
fn simulated_lies_as_told() {
    let b = bytes(10_000);
    let s = Simulated::new(
        b.clone(),
        Simulation {
            broken: std::iter::once(100..200).collect(),
            flipped: vec![500, 9_000],
            truncated: Some(8_000),
            ..Simulation::default()
        },
    )
    .unwrap();
    assert_eq!(s.size(), Ok(8_000));
    assert!(matches!(read_one(&s, 150, 1).0, Err(PageErrorKind::Io(_))));
    assert!(matches!(read_one(&s, 0, 101).0, Err(PageErrorKind::Io(_))));
    assert_eq!(read_one(&s, 0, 100), (Ok(()), b[..100].to_vec()));
    let (result, got) = read_one(&s, 400, 200);
    assert_eq!(result, Ok(()));
    let different: Vec<usize> = (0..200).filter(|i| got[*i] != b[400 + i]).collect();
    assert_eq!(different, [100]);
    assert!(matches!(read_one(&s, 7_999, 2).0, Err(PageErrorKind::Short { have: 8_000, .. })));
    assert_eq!(s.submitted(), 5);
}

#[test]
fn simulated_takes_its_time() {
    let s = Simulated::new(bytes(1000), Simulation::fixed(Duration::from_millis(3), 2)).unwrap();
    let (tx, rx) = mpsc::channel();
    let done: Arc<dyn Completion> = Arc::new(Sender(Mutex::new(tx)));
    let mut memory = [0u8; 10];
    let begin = std::time::Instant::now();
    let reads = memory.chunks_mut(1).enumerate().map(|(i, b)| Read {
        token: i as u64,
        offset: i as u64,
        buffers: vec![Buffer { ptr: b.as_mut_ptr(), len: 1 }],
        class: ReadClass::Demand,
    });
    s.submit(reads.collect(), &done);
    for _ in 0..10 {
        assert_eq!(rx.recv_timeout(Duration::from_secs(10)).unwrap().1, Ok(()));
    }
    // Ten reads, two at a time.
    assert!(begin.elapsed() >= Duration::from_millis(15), "{:?}", begin.elapsed());
}

fn backends() -> Vec<Arc<FileSet>> {
    let mut all = vec![FileSet::new(Backend::Threads, 4).unwrap(), FileSet::new(Backend::Threads, 1).unwrap()];
    for depth in [1, 16] {
        match FileSet::new(Backend::Uring, depth) {
            Ok(files) => {
                assert_eq!(files.backend_name(), "io_uring");
                all.push(files);
            }
            Err(e) => eprintln!("no io_uring here: {e}"),
        }
    }
    all.push(FileSet::new(Backend::Auto, 4).unwrap());
    for backend in [Backend::Auto, Backend::Threads] {
        let files = FileSet::new(backend, 4).unwrap();
        files.set_direct(true);
        all.push(files);
    }
    all
}

#[test]
fn files_conform() {
    for files in backends() {
        let made = Mutex::new(Vec::new());
        check(|b| {
            let scratch = TempFile::new(&b);
            let source = FileSet::file(&files, &scratch.0);
            made.lock().unwrap().push(scratch);
            source
        });
    }
}

/// Files of one folder, and one that is not there.
struct FolderFiles(Vec<PathBuf>);

impl super::folder::FileNames for FolderFiles {
    fn describe(&self) -> String {
        "few".into()
    }
    fn count(&self) -> u64 {
        self.0.len() as u64
    }
    fn path(&self, number: u64) -> PathBuf {
        self.0[number as usize].clone()
    }
}

#[test]
fn folders_conform() {
    for files in backends() {
        let made = Mutex::new(Vec::new());
        check(|b| {
            let scratch = TempFile::new(&b);
            let source = FileSet::folder(&files, Arc::new(FolderFiles(vec![scratch.0.clone()]))).unwrap();
            made.lock().unwrap().push(scratch);
            source
        });
    }
}

#[test]
fn a_folder_has_many_files_and_knows_of_each() {
    use super::folder::{About, ABOUT_BYTES};
    for files in backends() {
        let scratch: Vec<TempFile> = (0..600).map(|n| TempFile::new(&bytes(1000 + n))).collect();
        let mut paths: Vec<PathBuf> = scratch.iter().map(|s| s.0.clone()).collect();
        paths.push(std::env::temp_dir().join("farfield-no-such-file"));
        paths.push(std::env::temp_dir());
        paths.push(scratch[0].0.join("below-a-file"));
        let folder = FileSet::folder(&files, Arc::new(FolderFiles(paths.clone()))).unwrap();
        for n in (0..600).rev() {
            let (result, got) = read_one(folder.as_ref(), folder.place(n) + 10, 990 + n as usize);
            assert_eq!(result, Ok(()), "{n}");
            assert!(got == bytes(1000 + n as usize)[10..], "{n}");
        }
        assert_eq!(read_one(folder.as_ref(), folder.place(600), 1).0, Err(PageErrorKind::Missing));
        // Beyond the end of a file: the error counts in that file.
        let at = folder.place(3) + 900;
        let kind = read_one(folder.as_ref(), at, 200).0.unwrap_err();
        let (name, kind) = folder.explain(at, kind);
        assert_eq!(name, paths[3].display().to_string());
        assert_eq!(kind, PageErrorKind::Short { offset: 900, end: 1100, have: 1003 });
        // The states of all files at once, and a part of them.
        let (result, got) = read_one(folder.as_ref(), folder.about(0), 603 * ABOUT_BYTES);
        assert_eq!(result, Ok(()));
        let about: Vec<About> = got.chunks(ABOUT_BYTES).map(|b| About::parse(b).unwrap()).collect();
        assert!((0..600).all(|n| about[n] == About::There(1000 + n as u64)));
        assert_eq!(about[600].error(), Some(PageErrorKind::Missing));
        assert!(matches!(about[601].error(), Some(PageErrorKind::Io(_))));
        assert!(
            matches!(about[602].error(), Some(PageErrorKind::Io(_))),
            "only not found is missing: {:?}",
            about[602]
        );
        let (result, some) = read_one(folder.as_ref(), folder.about(598) + 3, 40);
        assert_eq!(result, Ok(()));
        assert!(some == got[598 * ABOUT_BYTES + 3..][..40]);
        assert!(read_one(folder.as_ref(), folder.about(603), 16).0.is_err());
    }
}

#[test]
fn direct_reads_end_where_the_file_does() {
    #[repr(align(4096))]
    struct Aligned([u8; 16_384]);
    for files in backends() {
        let truth = bytes(20_481);
        let scratch = TempFile::new(&truth);
        let source = FileSet::file(&files, &scratch.0);
        // Inside; then beyond an unaligned end.
        for (offset, result) in
            [(4096, Ok(())), (8192, Err(PageErrorKind::Short { offset: 8192, end: 24_576, have: 20_481 }))]
        {
            let mut memory = Box::new(Aligned([0; 16_384]));
            let (tx, rx) = mpsc::channel();
            let done: Arc<dyn Completion> = Arc::new(Sender(Mutex::new(tx)));
            let (a, b) = memory.0.split_at_mut(4096);
            let buffers = [a, b].map(|b| Buffer { ptr: b.as_mut_ptr(), len: b.len() });
            source.submit(vec![Read { token: 7, offset, buffers: buffers.to_vec(), class: ReadClass::Demand }], &done);
            assert_eq!(rx.recv_timeout(Duration::from_secs(10)).unwrap(), (7, result));
            let n = truth.len().min(offset as usize + 16_384) - offset as usize;
            assert!(memory.0[..n] == truth[offset as usize..][..n]);
        }
    }
}

#[test]
fn only_not_found_is_missing() {
    for files in backends() {
        let gone = FileSet::file(&files, &std::env::temp_dir().join("farfield-no-such-file"));
        assert_eq!(gone.size(), Err(PageErrorKind::Missing));
        assert_eq!(read_one(gone.as_ref(), 0, 1).0, Err(PageErrorKind::Missing));
        let directory = FileSet::file(&files, &std::env::temp_dir());
        assert!(matches!(read_one(directory.as_ref(), 0, 1).0, Err(PageErrorKind::Io(_))));
    }
}

#[test]
fn refused_is_not_broken() {
    use std::io::{Error, ErrorKind};
    for code in [libc::EACCES, libc::EPERM] {
        let e = Error::from_raw_os_error(code);
        assert_eq!(PageErrorKind::from(&e), PageErrorKind::Denied(e.to_string()));
    }
    for kind in [ErrorKind::Interrupted, ErrorKind::TimedOut, ErrorKind::Other] {
        assert!(matches!(PageErrorKind::from(&Error::from(kind)), PageErrorKind::Io(_)), "{kind:?}");
    }
}

#[test]
fn a_file_that_shrinks_is_short() {
    for files in backends() {
        let scratch = TempFile::new(&bytes(20_000));
        let source = FileSet::file(&files, &scratch.0);
        assert_eq!(read_one(source.as_ref(), 10_000, 100).0, Ok(()));
        std::fs::OpenOptions::new().write(true).open(&scratch.0).unwrap().set_len(10_050).unwrap();
        let short = PageErrorKind::Short { offset: 10_000, end: 10_100, have: 10_050 };
        assert_eq!(read_one(source.as_ref(), 10_000, 100).0, Err(short));
    }
}

#[test]
fn many_files_few_descriptors() {
    let open = || std::fs::read_dir("/proc/self/fd").map_or(0, |d| d.count());
    for files in [FileSet::new(Backend::Threads, 4).unwrap(), FileSet::new(Backend::Auto, 4).unwrap()] {
        let scratch: Vec<_> = (0..400u32).map(|i| TempFile::new(&i.to_le_bytes())).collect();
        let sources: Vec<_> = scratch.iter().map(|s| FileSet::file(&files, &s.0)).collect();
        let before = open();
        for round in 0..2 {
            for (i, s) in sources.iter().enumerate() {
                assert_eq!(read_one(s.as_ref(), 0, 4), (Ok(()), (i as u32).to_le_bytes().to_vec()), "round {round}");
            }
        }
        // Other tests of this process have a few files open too.
        assert!(open() < before + 300, "{} descriptors", open());
    }
}

/// Checks that the bytes of a read are there when it is completed, and that it is completed once.
struct Checker {
    truth: Vec<u8>,
    reads: Vec<(usize, u64, AtomicU32)>,
    wrong: AtomicU32,
    left: AtomicU32,
}

impl Completion for Checker {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let (address, offset, times) = &self.reads[token as usize];
        // SAFETY: the read is over, so its buffer, which outlives the test, has no other user.
        let got = unsafe { std::slice::from_raw_parts(*address as *const u8, 4096) };
        let once = times.fetch_add(1, SeqCst) == 0;
        if result.is_err() || !once || *got != self.truth[*offset as usize..][..4096] {
            self.wrong.fetch_add(1, SeqCst);
        }
        if once {
            self.left.fetch_sub(1, SeqCst);
        }
    }
}

/// Where the device has blocks smaller than a page of the system, a direct read may begin and end at one.
#[test]
fn direct_reads_of_small_blocks() {
    #[repr(align(4096))]
    struct Aligned([u8; 4096]);
    let truth = bytes(20_480);
    let scratch = TempFile::new(&truth);
    std::fs::File::open(&scratch.0).unwrap().sync_all().unwrap();
    for backend in [Backend::Auto, Backend::Threads] {
        let files = FileSet::new(backend, 4).unwrap();
        files.set_direct(true);
        let source = FileSet::file(&files, &scratch.0);
        // The first read opens the file, which determines its blocks.
        for (offset, len) in [(4096, 4096), (512, 512), (1536, 3072), (19_968, 512), (8192, 4096)] {
            let mut memory = Box::new(Aligned([0; 4096]));
            let (tx, rx) = mpsc::channel();
            let done: Arc<dyn Completion> = Arc::new(Sender(Mutex::new(tx)));
            let buffers = vec![Buffer { ptr: memory.0.as_mut_ptr(), len }];
            source.submit(vec![Read { token: 7, offset, buffers, class: ReadClass::Demand }], &done);
            assert_eq!(rx.recv_timeout(Duration::from_secs(10)).unwrap(), (7, Ok(())), "{offset}");
            assert!(memory.0[..len] == truth[offset as usize..][..len] && memory.0[len..].iter().all(|b| *b == 0));
        }
        assert!(files.direct_block().is_some_and(|b| b.is_power_of_two() && b <= 4096));
    }
}

/// Threads check for arrivals while others take them: no read completes before its bytes are there, or twice.
#[test]
fn each_arrival_is_taken_once() {
    const PAGES: usize = 256;
    let truth: Vec<u8> = (0..PAGES * 4096).map(|n| (n / 4096 + n % 251) as u8).collect();
    let scratch = TempFile::new(&truth);
    std::fs::File::open(&scratch.0).unwrap().sync_all().unwrap();
    for files in backends() {
        // Past the page cache, so that every read is in flight for a while.
        files.set_direct(true);
        let source = FileSet::file(&files, &scratch.0);
        for round in 0..8u64 {
            let layout = std::alloc::Layout::from_size_align(PAGES * 4096, 4096).unwrap();
            // SAFETY: the layout has a size.
            let memory = unsafe { std::alloc::alloc_zeroed(layout) };
            let offset = |n: usize| ((n as u64 * 97 + round * 31) % PAGES as u64) * 4096;
            let reads =
                (0..PAGES).map(|n| (memory as usize + n * 4096, offset(n), AtomicU32::new(0))).collect::<Vec<_>>();
            let left = AtomicU32::new(PAGES as u32);
            let checker = Arc::new(Checker { truth: truth.clone(), reads, wrong: AtomicU32::new(0), left });
            let done: Arc<dyn Completion> = checker.clone();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let began = std::time::Instant::now();
                        while checker.left.load(SeqCst) > 0 && began.elapsed() < Duration::from_secs(20) {
                            if files.ready() {
                                files.poll();
                            }
                        }
                    });
                }
                for chunk in (0..PAGES).collect::<Vec<_>>().chunks(16) {
                    let read = |n: &usize| {
                        let ptr = memory.wrapping_add(n * 4096);
                        Read {
                            token: *n as u64,
                            offset: offset(*n),
                            buffers: vec![Buffer { ptr, len: 4096 }],
                            class: ReadClass::Demand,
                        }
                    };
                    source.submit(chunk.iter().map(read).collect(), &done);
                }
            });
            assert_eq!(checker.left.load(SeqCst), 0, "{}: reads that never ended", files.backend_name());
            assert_eq!(checker.wrong.load(SeqCst), 0, "{}: reads completed wrongly", files.backend_name());
            // SAFETY: allocated above, and every read is over.
            unsafe { std::alloc::dealloc(memory, layout) };
        }
    }
}

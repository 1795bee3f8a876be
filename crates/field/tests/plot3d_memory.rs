//! Invariant 6 for PLOT3D: a header's claims are never allocated. A file of 1 KB costs less than 1 MB, whatever its
//! contents.

use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{fuzz_sniff, Format, Kind, Plot3d, Plot3dOptions, Precision};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts allocated bytes and their maximum.
struct CountingAllocator;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator; only sizes are noted.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Peak memory of `work`, in bytes.
fn peak(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

/// xorshift64, with a fixed seed and no dependencies.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        for format in [Format::Fortran, Format::Binary, Format::Ascii] {
            let precision = Precision::Single;
            let spec = WriteSpec { format, precision, ..WriteSpec::new(kind, vec![[3, 2, 2], [2, 2, 2]]) };
            let mut bytes = Vec::new();
            write(&mut bytes, &spec, &mut |_, _, _, plane| plane.fill(1.5)).expect("memory takes everything");
            all.push(bytes);
        }
    }
    for words in [
        vec![1, 1 << 30, 1 << 30, 1 << 30],
        vec![i32::MAX; 256],
        vec![1 << 17; 256],
        vec![1; 256],
        vec![100, 1, 1, 1],
        vec![4, 131_000, 4, 12 * 131_000, 1, 1, 1],
        vec![4, 1, 4, 12, 8, 8, 1 << 30, 12],
    ] {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w: &i32| w.to_le_bytes()).collect();
        bytes.resize(1024, 0);
        all.push(bytes);
    }
    for text in ["131072 1000000*1 1000000*1.5", "1 1024 1024 1024 1024*1.5", "500000*1 1.5", "1 50 50 50 375000*1.5"] {
        all.push(text.as_bytes().to_vec());
    }
    all.push([b"131072 ".as_slice(), &b"1 ".repeat(500)].concat());
    all
}

#[test]
fn a_kilobyte_costs_less_than_a_megabyte() {
    let seed = 0x0070_6c6f_7433_6421;
    let mut random = XorShift(seed);
    let folder = std::env::temp_dir().join(format!("farfield-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let path = folder.join("a.xyz");
    let mut most = 0;
    let soak_s = std::env::var("FARFIELD_SOAK_S").ok().and_then(|v| v.parse().ok()).unwrap_or(0.0);
    let (begun, starts) = (std::time::Instant::now(), seeds());
    for (n, start) in starts.iter().enumerate() {
        // Each start gets its share of a soak.
        let share = soak_s * (n + 1) as f64 / starts.len() as f64;
        for round in (0..).take_while(|round| *round < 40 || begun.elapsed().as_secs_f64() < share) {
            let mut bytes = start.clone();
            for _ in 0..round.min(8) {
                let at = random.below(bytes.len());
                bytes[at] =
                    if random.below(2) == 0 { random.next() as u8 } else { [0, 1, 0x7f, 0xff][random.below(4)] };
            }
            bytes.truncate(1024);
            let used = peak(|| fuzz_sniff(&bytes));
            most = most.max(used);
            assert!(used < 1 << 20, "seed {seed:#x}: {used} bytes for {bytes:?}");
            if round < 4 {
                std::fs::write(&path, &bytes).expect("the file is written");
                let used = peak(|| drop(Plot3d::open(&path, &[], &[], &Plot3dOptions::default(), &folder)));
                assert!(used < 1 << 20, "{used} bytes to open {bytes:?}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes away");
    println!("at most {most} bytes");
}

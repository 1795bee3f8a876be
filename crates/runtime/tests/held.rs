//! The charge of an open dataset covers its memory, and is not much larger. A limit that is too small names a
//! sufficient one. A test program of its own, because it counts all allocations of the process.

use convert::{convert, ConvertOptions};
use field::error::FieldError;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{Kind, Precision};
use pager::PolicyKind;
use runtime::session::{charge_for, Resources, Session, SourceSpec};
use runtime::whole_dataset::convert_input;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts allocated bytes, with the system allocator's own for each block.
struct SizingAllocator;

static NOW: AtomicUsize = AtomicUsize::new(0);

fn with_header(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator; only sizes are recorded.
unsafe impl GlobalAlloc for SizingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.fetch_add(with_header(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        NOW.fetch_sub(with_header(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: SizingAllocator = SizingAllocator;

fn file(path: PathBuf, kind: Kind, zones: usize, functions: usize) -> PathBuf {
    let spec = WriteSpec { precision: Precision::Single, functions, ..WriteSpec::new(kind, vec![[3, 3, 2]; zones]) };
    let mut bytes = Vec::new();
    let mut plane = |zone: usize, variable: usize, k: usize, plane: &mut [f64]| {
        for (n, value) in plane.iter_mut().enumerate() {
            let at = [(n % 3) as f64, (n / 3) as f64, k as f64];
            *value = if kind == Kind::Grid { at[variable.min(2)] + zone as f64 } else { 1.0 + 0.1 * variable as f64 };
        }
    };
    write(&mut bytes, &spec, &mut plane).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(spec: &SourceSpec, memory_limit: u64) -> Result<Session, FieldError> {
    let resources = Resources { memory_limit, workers: 1, readers: 1, replacement: PolicyKind::Clock, observer: None };
    Session::open(spec.clone(), resources, &mut |_, _, _| true)
}

/// Opens it twice, so that memory made once is not counted. Returns bytes charged and bytes held.
fn measure(spec: &SourceSpec) -> (u64, u64) {
    let of = |spec: &SourceSpec| {
        let before = NOW.load(Relaxed);
        let session = open(spec, 1 << 30).unwrap();
        (session.pager.ledger().used(), (NOW.load(Relaxed) - before) as u64)
    };
    of(spec);
    of(spec)
}

#[test]
fn what_is_kept_of_zones_is_charged() {
    let folder = std::env::temp_dir().join(format!("farfield-held-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let of = |zones: usize, steps: usize, functions: usize| {
        let stem = folder.join(format!("{zones}-{steps}-{functions}"));
        let name = |e: &str| Path::new(&format!("{}{e}", stem.display())).to_owned();
        let function = (functions > 0).then(|| file(name(".f"), Kind::Function, zones, functions));
        SourceSpec {
            path: file(name(".xyz"), Kind::Grid, zones, 1),
            q: (0..steps).map(|s| file(name(&format!("{s}.q")), Kind::Q, zones, 1)).collect(),
            function: function.into_iter().collect(),
            cache_dir: folder.join("cache"),
            ..SourceSpec::default()
        }
    };
    let store = |spec: &SourceSpec, name: &str| {
        let session = open(spec, 1 << 30).unwrap();
        let input = convert_input(&session.dataset()).unwrap();
        let path = folder.join(name);
        convert(&input, &path, &ConvertOptions::default(), &charge_for(&session), &mut |_| true).unwrap();
        SourceSpec { path, ..SourceSpec::default() }
    };
    let few = of(1, 1, 0);
    // Memory and charge of every session, of which little is the dataset's.
    let least = measure(&few);
    let many = of(400, 1, 0);
    let converted = store(&of(120, 2, 7), "s.zarr");
    let one = measure(&store(&few, "one.zarr"));
    for (name, spec, least) in [
        ("a grid", of(3000, 0, 0), least),
        ("with q", of(1000, 1, 0), least),
        ("with steps", of(300, 5, 0), least),
        ("with functions", of(300, 1, 30), least),
        ("a store", converted.clone(), one),
    ] {
        let (charged, held) = measure(&spec);
        let (charged, held) = (charged - least.0, held - least.1);
        println!("{name}: {charged} charged, {held} held");
        // Never charged, because every dataset has as much.
        let free = 32 << 10;
        assert!(charged + free >= held, "{name}: {charged} charged, {held} held");
        assert!(charged <= held * 2, "{name}: {charged} charged, {held} held");
    }
    // Refused if it does not fit, with a sufficient limit.
    for spec in [&of(3000, 1, 0), &converted] {
        let Err(FieldError::LimitTooSmall { limit, needs, what }) = open(spec, 4 << 20).map(drop) else {
            panic!("too much for four megabytes")
        };
        assert!(limit == 4 << 20 && needs > limit && what.contains("zones"), "{limit} {needs} {what}");
        open(spec, needs).unwrap();
    }
    open(&many, 8 << 20).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

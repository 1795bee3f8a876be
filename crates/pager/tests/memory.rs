//! The process itself stays under the limit, not only the ledger. Alone in its process, since it measures it.

mod common;
use common::*;
use pager::*;
use std::io::Write;

fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn resident_memory_grows_by_less_than_the_limit() {
    let limit = 24u64 << 20;
    let path = std::env::temp_dir().join(format!("farfield-memory-{}", std::process::id()));
    let specs = [
        MapArray { kind: MapKind::Plain(1), steps: 1, pages: 2000, bytes: 12_000, holes: 0 },
        MapArray { kind: MapKind::Coded, steps: 1, pages: 1000, bytes: 30_000, holes: 0 },
        MapArray { kind: MapKind::Indexed, steps: 1, pages: 300, bytes: 100_000, holes: 0 },
        MapArray { kind: MapKind::Plain(64), steps: 1, pages: 2000, bytes: 4096, holes: 0 },
    ];
    let mut written = write(61, &specs);
    std::fs::File::create(&path).unwrap().write_all(&written.blob).unwrap();
    assert!(written.blob.len() as u64 > 3 * limit);
    written.blob = Vec::new();
    for &policy in PolicyKind::ALL {
        let o = written.open_file(PagerConfig { limit, policy, ..PagerConfig::default() }, &path);
        // From now on the peak is that of the following code.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS");
        std::thread::scope(|s| {
            for t in 0..2 {
                let o = &o;
                s.spawn(move || tasks(o, 7 + t, 1500, 5));
            }
        });
        let c = o.pager.counters();
        assert!(c.evictions > 2500, "{c:?}");
        let grown = status("VmHWM").saturating_sub(before);
        assert!(c.peak_bytes <= limit && o.pager.ledger().overdraft() == 0, "{c:?}");
        assert!(c.peak_bytes > limit * 9 / 10, "the limit is used: {c:?}");
        // Two threads' stacks and heaps, and the allocator's caches, are not the pager's.
        assert!(grown < limit + (2 << 20), "grown by {grown} under a limit of {limit}");
        println!("{policy:?}: limit {limit}, ledger {}, process {grown}", c.peak_bytes);
    }
    std::fs::remove_file(&path).unwrap();
}

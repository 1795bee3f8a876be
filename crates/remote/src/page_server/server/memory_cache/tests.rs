use super::*;

const A: FileDigest = [1; 16];
const B: FileDigest = [2; 16];

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((n >> 8) as u8)).collect()
}

fn read(cache: &MemoryCache, file: &FileDigest, offset: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let n = cache.read(file, offset, len, &mut out);
    assert_eq!(n, out.len());
    out
}

#[test]
fn bytes_come_back_at_any_offset_and_of_their_version_only() {
    let cache = MemoryCache::new(4 << 20);
    let truth = bytes(3, 100_000);
    cache.insert(&A, 0, &truth);
    for (offset, len) in [(0, 1), (4095, 2), (10, 70_000), (99_999, 1), (65_530, 20)] {
        assert_eq!(read(&cache, &A, offset, len), truth[offset as usize..][..len]);
    }
    assert_eq!(read(&cache, &A, 99_000, 5000), truth[99_000..], "up to what is absent");
    assert!(read(&cache, &B, 0, 10).is_empty() && !cache.contains(&B, 0) && cache.contains(&A, 24));
    // Neighbours that came apart.
    cache.insert(&B, 2, &truth[..BLOCK]);
    cache.insert(&B, 1, &truth[BLOCK..2 * BLOCK]);
    let expected = [&truth[BLOCK..2 * BLOCK], &truth[..BLOCK]].concat();
    assert_eq!(read(&cache, &B, BLOCK as u64, 3 * BLOCK), expected);
}

#[test]
fn the_limit_holds_and_blocks_that_were_used_stay() {
    let limit = 2 << 20;
    let cache = MemoryCache::new(limit);
    let block = bytes(9, BLOCK);
    for n in 0..64 {
        cache.insert(&A, n, &block);
    }
    for n in 0..5000 {
        cache.insert(&B, n, &block);
        // Used again and again while others come once.
        if n % 16 == 0 {
            assert_eq!(read(&cache, &A, 0, 64 * BLOCK).len(), 64 * BLOCK, "{n}");
        }
        assert!(cache.usage().used <= limit, "{n}");
    }
    assert!(cache.usage().used > limit * 9 / 10);
    let blocks =
        (0..64).filter(|n| cache.contains(&A, *n)).count() + (0..5000).filter(|n| cache.contains(&B, *n)).count();
    let of_records = cache.usage().used as f64 / (blocks * BLOCK) as f64 - 1.0;
    println!("records of blocks: {:.1} %", 100.0 * of_records);
    assert!((0.02..0.07).contains(&of_records), "{of_records}");
    let nothing = MemoryCache::new(0);
    nothing.insert(&A, 0, &block);
    assert!(read(&nothing, &A, 0, 10).is_empty() && nothing.usage() == MemoryUse::default());
}

#[test]
fn a_flipped_bit_is_never_given() {
    let cache = MemoryCache::new(1 << 20);
    let truth = bytes(5, 3 * BLOCK + 77);
    cache.insert(&A, 0, &truth);
    assert_eq!(cache.damage(), 4);
    for block in 0..4 {
        assert!(read(&cache, &A, block * BLOCK as u64, 10).is_empty());
        assert!(!cache.contains(&A, block));
    }
    assert_eq!((cache.usage().damaged, cache.usage().used), (4, 0));
    cache.insert(&A, 0, &truth);
    assert_eq!(read(&cache, &A, 0, truth.len()), truth);
}

/// Resident kilobytes of the mapping that has an address.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4
}

#[test]
fn what_is_given_back_leaves_the_process() {
    let cache = MemoryCache::new(128 << 20);
    let piece = bytes(1, 1 << 20);
    for n in 0..112 {
        cache.insert(&A, n * 256, &piece);
    }
    let (full, used) = (resident_kib(), cache.usage().used);
    assert!(used > 100 << 20);
    cache.allow(16 << 20);
    let now = cache.usage();
    assert!(now.used <= 16 << 20 && now.allowed <= 16 << 20, "{now:?}");
    assert!(now.given_back > 80 << 20, "{now:?}");
    // Other tests run beside this one.
    assert!(resident_kib() + (64 << 10) < full, "{} of {full}", resident_kib());
    cache.allow(0);
    assert_eq!(cache.usage().used, 0);
    cache.insert(&A, 0, &piece);
    assert!(read(&cache, &A, 0, 10).is_empty());
    cache.allow(128 << 20);
    cache.insert(&A, 0, &piece);
    assert_eq!(read(&cache, &A, 0, 1 << 20), piece);
}

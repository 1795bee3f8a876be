//! Rendezvous hashing: each server gets a weight for each part of a file, and the heaviest one is the part's home. All
//! clients find the same homes without a map, so the memories of the servers add up. A server that is gone leaves its
//! parts to all others evenly.

/// Bytes of a part.
const PART_BITS: u32 = 20;

/// The number of the part with a byte.
pub(super) fn part_of(offset: u64) -> u64 {
    offset >> PART_BITS
}

/// The key of a name. It is the same on every machine and in every release.
pub(super) fn key_of(name: &str) -> u64 {
    mixed(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
}

/// The weight of a server for a part of a file.
pub(super) fn weight(server: u64, file: u64, part: u64) -> u64 {
    mixed(server ^ mixed(file.wrapping_add(mixed(part))))
}

fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_stay_where_they_are() {
        let servers = ["a:7207", "b:7207", "c:7207", "d:7207"].map(key_of);
        let home = |among: &[u64], file: u64, part: u64| {
            among.iter().copied().max_by_key(|server| weight(*server, file, part)).unwrap()
        };
        let (mut counts, mut moved) = ([0; 4], 0);
        for n in 0..4000u64 {
            let (file, part) = (key_of(&format!("data/c/{}", n / 40)), n % 40);
            let first = home(&servers, file, part);
            counts[servers.iter().position(|server| *server == first).unwrap()] += 1;
            let left = home(&servers[..3], file, part);
            assert!(left == first || first == servers[3], "a part of a server that stays has moved");
            moved += usize::from(left != first);
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(moved, counts[3]);
    }
}

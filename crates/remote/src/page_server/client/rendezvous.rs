//! Homes of files and blocks among several servers, from a hash alone.
//!
//! Rendezvous hashing (Thaler and Ravishankar 1998): each server has a score for a block, and the highest score is its
//! home. No map is kept. The blocks of a server that leaves spread over the others; all other blocks stay. The hash
//! never changes: staged files lie on disks by it, and later versions look for them.

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The finalizer of `MurmurHash3`: each bit of the input changes half of the output.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

/// The key of a file's or a server's name.
pub(super) fn key_of(name: &str) -> u64 {
    mix(fnv(name.as_bytes()))
}

/// The score of a server for a block of a file, by the keys of their names.
pub(super) fn score(server: u64, file: u64, block: u64) -> u64 {
    mix(mix(file ^ block) ^ server)
}

/// The servers of a block of a file, best first, as positions in `servers`.
///
/// `block` is 0 for a whole file. The order depends on the names of the servers, not on their positions; equal names
/// stand in the order of their positions.
pub fn order(name: &str, block: u64, servers: &[String]) -> Vec<usize> {
    let file = key_of(name);
    let scores: Vec<u64> = servers.iter().map(|server| score(key_of(server), file, block)).collect();
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by(|a, b| scores[*b].cmp(&scores[*a]).then_with(|| servers[*a].cmp(&servers[*b])));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("node{n}:7207")).collect()
    }

    #[test]
    fn the_order_is_fixed() {
        assert_eq!(order("wing/q/c/0/0/0", 0, &servers(5)), [0, 4, 2, 3, 1]);
        assert_eq!(order("wing/q/c/0/0/0", 1, &servers(5)), [3, 2, 4, 1, 0]);
        assert_eq!(order("", 0, &servers(5)), [4, 0, 1, 3, 2]);
        assert_eq!(order("wing", 0, &[]), Vec::<usize>::new());
    }

    #[test]
    fn it_depends_on_names_not_on_positions() {
        let (all, mut turned) = (servers(5), servers(5));
        turned.reverse();
        for block in 0..100 {
            let names = |order: Vec<usize>, of: &[String]| order.iter().map(|n| of[*n].clone()).collect::<Vec<_>>();
            assert_eq!(names(order("a", block, &all), &all), names(order("a", block, &turned), &turned));
        }
    }

    #[test]
    fn servers_have_equal_shares_and_a_dead_one_s_share_spreads() {
        let all = servers(5);
        let mut homes = [[0u32; 5]; 5];
        for file in 0..200 {
            for block in 0..100 {
                let order = order(&format!("wing/q/c/0/0/{file}"), block, &all);
                homes[order[0]][order[1]] += 1;
            }
        }
        for (home, seconds) in homes.iter().enumerate() {
            let share: u32 = seconds.iter().sum();
            assert!((3800..4200).contains(&share), "server {home} is home of {share} of 20,000 blocks");
            for (second, share) in seconds.iter().enumerate().filter(|(second, _)| *second != home) {
                assert!((900..1100).contains(share), "server {second} takes {share} blocks of server {home}");
            }
        }
        // Without the last server, the order of the others is the same.
        let without = order("a", 7, &servers(4));
        assert_eq!(without, order("a", 7, &all).into_iter().filter(|n| *n != 4).collect::<Vec<_>>());
    }
}

//! Damaged chunks, in every codec. They give an error or a page, never a panic, and no write beside the page.

use super::making::{SyntheticStore, TempFolder, Where};
use super::reading::{compare, made, open};
use field::volume::{CodecSpec, Volume, VolumeKind};
use pager::{Lookup, PageId, Pager, PagerConfig};
use std::sync::Arc;

const LIMIT: u64 = 24 << 20;

/// Cases of each codec; `make soak` runs more.
fn cases() -> u64 {
    let cases = std::env::var("FARFIELD_CASES").ok().and_then(|c| c.parse::<u64>().ok());
    cases.map_or(60, |all| (all / 20).max(60))
}

struct DamageRandom(u64);

impl DamageRandom {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// The bytes with some damage.
fn damaged(whole: &[u8], random: &mut DamageRandom) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        // Heads are short, and have the most effect.
        let at = if random.below(3) == 0 { at.min(random.below(24)) } else { at };
        match random.below(7) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = [0, 0x7f, 0x80, 0xff][random.below(4)],
            3 => {
                let end = bytes.len().min(at + 1 + random.below(8));
                bytes[at.min(end)..end].fill([0, 0xff][random.below(2)]);
            }
            4 => bytes.insert(at, random.below(256) as u8),
            5 => drop(bytes.drain(at..bytes.len().min(at + 1 + random.below(6)))),
            _ => bytes.extend((0..random.below(40)).map(|n| n as u8)),
        }
    }
    bytes
}

/// All pages of the one array.
fn pages(volume: &Volume) -> Vec<PageId> {
    let array = &volume.levels[0].arrays[0];
    (0..array.translation.count()).map(|page| PageId::new(array.id, 0, page)).collect()
}

/// The voxels of held pages. The other bytes of a frame are undefined.
fn copies(pager: &Arc<Pager>, volume: &Volume, of: &[PageId]) -> Vec<Vec<u8>> {
    let (worker, bytes) = (pager.worker(), volume.levels[0].arrays[0].brick.voxel_bytes());
    let copy = |id: &PageId| match worker.page(*id) {
        Lookup::Here(frame) => frame[..bytes].to_vec(),
        _ => panic!("held, so it is here"),
    };
    of.iter().map(copy).collect()
}

/// Reads a volume repeatedly, each time with different damage to its first chunk. `encoded`: the bytes of all chunks,
/// if they are not encoded here. `sealed`: whether a checksum covers everything.
fn hurt(name: &str, made: &SyntheticStore, kind: VolumeKind, encoded: Option<(CodecSpec, &[u8])>, sealed: bool) {
    let scratch = TempFolder::new();
    let (mut spec, tables) = open(made, kind, &scratch, None);
    let chunk = |n: u64| {
        let grid = made.grid();
        let mut rest = n;
        let mut at = vec![String::new(); grid.len()];
        for (a, g) in at.iter_mut().zip(&grid).rev() {
            *a = (rest % g).to_string();
            rest /= g;
        }
        scratch.0.join("c").join(at.join("/"))
    };
    let own = encoded.is_none();
    if let Some((codec, bytes)) = encoded {
        spec.levels[0].arrays[0].codecs = vec![codec];
        (0..made.grid().iter().product()).for_each(|n| std::fs::write(chunk(n), bytes).unwrap());
    }
    let read = || {
        let pager = Pager::new(PagerConfig { limit: LIMIT, readers: 1, ..PagerConfig::default() }).unwrap();
        let volume = Volume::open(spec.clone(), tables.clone(), &pager).unwrap();
        (pager, volume)
    };
    let (pager, volume) = read();
    if own {
        compare(made, &volume, &pager);
    }
    let all = pages(&volume);
    assert!(all.len() > 1);
    let hold = pager.fetch(&all).unwrap();
    let truth = copies(&pager, &volume, &all);
    drop((hold, volume, pager));
    let whole = std::fs::read(chunk(0)).unwrap();
    let mut random = DamageRandom(0x9E37_79B9_7F4A_7C15 ^ whole.len() as u64);
    let (mut refused, mut taken) = (0, 0);
    for case in 0..cases() {
        let bytes = damaged(&whole, &mut random);
        std::fs::write(chunk(0), &bytes).unwrap();
        let (pager, volume) = read();
        let all = pages(&volume);
        let others = pager.fetch(&all[1..]).unwrap();
        match pager.fetch(&all[..1]) {
            Ok(_hold) => {
                taken += 1;
                let found = copies(&pager, &volume, &all[..1]);
                assert_eq!(found[0].len(), truth[0].len());
                assert!(
                    !sealed || found[0] == truth[0],
                    "{name}, case {case}: other numbers under a checksum that holds"
                );
            }
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("c/0") || e.to_string().contains("chunk"), "{name}, case {case}: {e}");
            }
        }
        for (n, (found, truth)) in copies(&pager, &volume, &all[1..]).iter().zip(&truth[1..]).enumerate() {
            let at = found.iter().zip(truth).position(|(a, b)| a != b);
            assert_eq!(at, None, "{name}, case {case}: page {} of {} bytes was written to", n + 1, truth.len());
        }
        assert!(pager.ledger().peak() <= LIMIT, "{name}, case {case}: {}", pager.ledger().peak());
        drop(others);
    }
    assert!(refused > 0, "{name}: of {taken} nothing was wrong");
}

#[test]
fn every_codec_is_told_from_rubbish() {
    use CodecSpec::*;
    let chains: Vec<(&str, Vec<CodecSpec>)> = vec![
        ("zlib", vec![Zlib {}]),
        ("gzip", vec![Gzip {}]),
        ("deflate", vec![Deflate {}]),
        ("zstd", vec![Zstd {}]),
        ("lz4", vec![Lz4 {}]),
        ("blosc", vec![Blosc {}]),
        ("lzw", vec![Lzw {}]),
        ("packbits", vec![Packbits {}]),
        ("bz2", vec![Bz2 {}]),
        ("none", vec![]),
        ("zlib, shuffle", vec![Zlib {}, Shuffle { size: 2 }]),
        ("gzip, blosc", vec![Gzip {}, Blosc {}]),
        ("lzw, predictor", vec![Lzw {}, Predictor { kind: 2, width: 6, samples: 1 }]),
        ("crc32c, zstd", vec![Crc32c {}, Zstd {}]),
        ("fletcher32, zlib", vec![Fletcher32 {}, Zlib {}]),
    ];
    for (name, codecs) in chains {
        let sealed = matches!(codecs.first(), Some(Crc32c {}));
        // Whole chunks: elements beyond the volume are undefined.
        let shape = vec![8, 10, 12];
        let made = SyntheticStore { dtype: "uint16".into(), shape, codecs, place: Where::Keys, ..made() };
        hurt(name, &made, VolumeKind::Scalar, None, sealed);
    }
}

#[test]
fn pictures_are_told_from_rubbish() {
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|n| u8::from_str_radix(&text[n..n + 2], 16).unwrap()).collect()
    };
    let grey = SyntheticStore { shape: vec![2, 16, 16], chunk: vec![1, 16, 16], ..made() };
    let colours =
        SyntheticStore { axes: "zyxc".into(), shape: vec![2, 16, 16, 3], chunk: vec![1, 16, 16, 3], ..made() };
    let jpeg = || CodecSpec::Jpeg { tables: None };
    hurt("jpeg", &grey, VolumeKind::Scalar, Some((jpeg(), &unhex(JPEG))), false);
    hurt("jpeg of colours", &colours, VolumeKind::Rgb, Some((jpeg(), &unhex(JPEG_COLOURS))), false);
    hurt("png", &grey, VolumeKind::Scalar, Some((CodecSpec::Png {}, &unhex(PNG))), false);
}

// 16 x 16 pixels each, written by Pillow.
const JPEG: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e292d2c333a4a\
    3e333646372c2d405741464c4e525352323e5a615a50604a51524fffc0000b080010001001011100ffc4001f000001050101010101010000000000000000\
    0102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552\
    d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485\
    868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2\
    f3f4f5f6f7f8f9faffda0008010100003f00e3ad74fe9f2d6cdae9fd3e5ad4b5d3fa7cb5b16ba7f4f96bffd9\
    ";
const JPEG_COLOURS: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb004300140e0f120f0d14121012171514181e32211e1c1c1e3d2c2e243249404c4b47404645505a73\
    6250556d5645466488656d777b8182814e608d978c7d96737e817cffdb0043011517171e1a1e3b21213b7c5346537c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c\
    7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7cffc00011080010001003012200021101031101ffc4001f0000010501\
    010101010100000000000000000102030405060708090a0bffc400b5100002010303020403050504040000017d0102030004110512213141061351610722\
    7114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768\
    696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9\
    dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b511000201\
    02040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a2627\
    28292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4\
    a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311\
    003f00c7b787a569dbc3d2a2b787a715a96f0f4ae9c56304e91fffd9\
    ";
const PNG: &str = "\
    89504e470d0a1a0a0000000d49484452000000100000001008000000003a98a0bd0000001449444154789c63646045058c9c68022c234a0000e17a05726b\
    fd15dc0000000049454e44ae426082\
    ";

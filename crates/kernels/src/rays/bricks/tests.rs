//! The recorded states of bricks are right.

use super::super::appearance::{Clip, Manner, VolumeAppearance, VoxelPaint};
use super::super::brick_shape::{PLANE, ROW, STRIP};
use super::super::pages::piece;
use super::super::scene::{RaySetting, Scene};
use super::super::transfer::TransferFunction;
use super::*;
use crate::draw::{Camera, Lens};
use field::translate::Translation;
use field::volume::{write_ranges, Brick, Placement, VolumeArray, VolumeLevel, VoxelType, BLOCK};
use pager::id::ArrayId;
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

/// Bricks of a volume of bytes with this many cells.
fn bricks(cells: [u32; 3]) -> Bricks {
    Bricks::new(Room { element: 1, bytes: 4 << 20, cells, all: false })
}

/// Longer than any window; and one with its window over all of one axis.
const LARGE: [[u32; 3]; 2] = [[1 << 20; 3], [1 << 20, 90 * EDGE as u32, 100]];

fn voxel([i, j, k]: [i32; 3]) -> I4 {
    I4::new([i, j, k, 0]).up::<{ EDGE_BITS as i32 }>()
}

/// The bricks of a window.
fn all(bricks: &Bricks) -> impl Iterator<Item = [i32; 3]> {
    let (corner, [ni, nj, nk]) = (bricks.corner, bricks.shape.edges());
    (0..ni * nj * nk).map(move |n| [corner[0] + n % ni, corner[1] + n / ni % nj, corner[2] + n / (ni * nj)])
}

proptest! {
    /// After the window has moved, the state of each brick inside it is kept, and no other.
    #[test]
    fn a_window_that_moves_knows_what_it_knew(
        large in 0..LARGE.len(),
        ways in prop::collection::vec(prop::array::uniform3(0i32..90), 1..6),
    ) {
        let mut bricks = bricks(LARGE[large]);
        let edges = bricks.shape.edges();
        let mut known = std::collections::HashSet::new();
        for (n, at) in ways.iter().enumerate() {
            let at: [i32; 3] = core::array::from_fn(|a| at[a] % (LARGE[large][a] as i32 / EDGE as i32 + 1));
            let to: [i32; 3] = core::array::from_fn(|a| (at[a] + 7 * n as i32 % 20).min(at[a] + edges[a] - 1));
            prop_assert!(bricks.reach(voxel(at), voxel(to)));
            prop_assert!(bricks.in_window(at) && bricks.in_window(to));
            known.retain(|brick| bricks.in_window(*brick));
            // One place in seven gets a state.
            for brick in all(&bricks).collect::<Vec<_>>().into_iter().skip(n).step_by(7) {
                bricks.nothing(brick, brick.map(|b| b * EDGE as i32), brick.map(|b| (b + 1) * EDGE as i32));
                known.insert(brick);
            }
            for brick in all(&bricks) {
                let found = bricks.window[bricks.place(brick)] == NOTHING;
                prop_assert_eq!(found, known.contains(&brick), "{:?} of the window from {:?}", brick, bricks.corner);
            }
        }
    }
}

#[test]
fn a_segment_longer_than_a_window_is_not_for_bricks() {
    assert!(!bricks(LARGE[0]).reach(voxel([0; 3]), voxel([0, 32, 0])));
    assert!(!bricks(LARGE[1]).reach(voxel([0; 3]), voxel([0, 64, 0])));
    assert!(bricks(LARGE[1]).reach(voxel([0; 3]), voxel([0, 63, 0])));
}

#[test]
fn bricks_take_no_more_than_they_are_given_and_than_a_volume_needs() {
    let room = |bytes, cells| Room { element: 1, bytes, cells, all: false };
    let two = room(64 << 20, [40, 30, 30]);
    assert_eq!(two.slots(), 2);
    assert_eq!(room(1 << 20, [1000; 3]).taken(), 0, "too few bricks of many");
    for bytes in [2 << 20, 5 << 20, 64 << 20] {
        let taken = room(bytes, [1000; 3]).taken();
        assert!(taken > bytes / 2 && taken <= bytes, "{taken} of {bytes}");
    }
}

/// Voxels in pages: invisible bytes, except a ball and some specks.
struct Ball {
    dims: [u32; 3],
    scene: Arc<Scene>,
    frames: Vec<Vec<u8>>,
    /// All voxels, i fastest.
    voxels: Vec<u8>,
}

/// With whole bricks to the ends, and with smaller bricks there, one cell in the least. Pages are as large as bricks,
/// rows of them, end within bricks, or are so small that a brick needs many.
const BALLS: [([u32; 3], [u32; 3]); 8] = [
    ([97; 3], [32; 3]),
    ([90, 71, 66], [32; 3]),
    ([97; 3], [64, 8, 8]),
    ([90, 71, 66], [90, 4, 4]),
    ([90, 71, 66], [32, 16, 66]),
    ([97; 3], [40, 12, 20]),
    ([90, 71, 66], [4; 3]),
    ([97; 3], [30, 7, 32]),
];
/// Bytes from here on are visible.
const SEEN: f64 = 100.0;

fn ball_voxel(at: [u32; 3]) -> u8 {
    let far = at.map(|n| (f64::from(n) - 50.0).powi(2)).iter().sum::<f64>().sqrt();
    let [i, j, k] = at;
    let noise = (i * 7 + j * 13 + k * 29) % 5;
    match (far < 21.0, (i * 31 + j * 17 + k * 5) % 19973) {
        (true, _) => 180 + noise as u8,
        (_, 7) => 120,
        _ => 34 + noise as u8,
    }
}

/// The number of a voxel among all, if there is one.
fn number_of(dims: [u32; 3], at: [u32; 3]) -> Option<usize> {
    let there = (0..3).all(|a| at[a] < dims[a]);
    there.then(|| ((at[2] * dims[1] + at[1]) * dims[0] + at[0]) as usize)
}

impl Ball {
    fn new((dims, page): ([u32; 3], [u32; 3])) -> Self {
        let [ni, nj, nk] = dims;
        let voxels: Vec<u8> = (0..ni * nj * nk).map(|n| ball_voxel([n % ni, n / ni % nj, n / ni / nj])).collect();
        let translation = Translation::new(dims.map(|n| n as usize), page.map(|n| n as usize));
        let brick = Brick { page, components: 1, voxel: VoxelType::Uint8 };
        let frames = (0..translation.count()).map(|n| {
            let (first, size) = translation.extent(n);
            let mut frame = vec![0; brick.bytes()];
            for n in 0..brick.voxels() as u32 {
                let [i, j, k] = [n % page[0], n / page[0] % page[1], n / page[0] / page[1]];
                let at = [first[0] + i, first[1] + j, first[2] + k];
                frame[n as usize] = number_of(dims, at).map_or(0, |n| voxels[n]);
            }
            write_ranges(&brick, size, &mut frame);
            frame
        });
        let frames = frames.collect();
        let array = VolumeArray {
            name: "ball".into(),
            id: ArrayId(0),
            translation,
            brick,
            channels: vec![0],
            steady: true,
            ranges: Vec::new(),
            missing: vec![field::volume::Missing::none()],
            valued: None,
            vacant: None,
            shards: None,
            row_group: None,
        };
        let placement = Placement { origin: [0.0; 3], axes: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] };
        let opacities = vec![(0.0, 0.0), (SEEN - 1.0, 0.0), (SEEN, 0.5), (255.0, 0.5)];
        let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], opacities).unwrap();
        let look = VolumeAppearance {
            level: VolumeLevel { dims, placement, arrays: vec![array] },
            step: 0,
            paint: VoxelPaint::Scalar { channel: 0, transfer },
            clip: Clip::default(),
            manner: Manner::default(),
        };
        let lens = Lens::Perspective { fov_degrees: 30.0 };
        let camera = Camera { position: [200.0; 3], target: [50.0; 3], up: [0.0, 0.0, 1.0], lens, center: [0.5; 2] };
        let setting = RaySetting { camera, size: [8; 2], dt: 1.0, unit: 1.0, skip: true };
        Self { dims, scene: Scene::new(setting, vec![look]).unwrap(), frames, voxels }
    }

    fn source(&self) -> &RaySource {
        &self.scene.sources[0]
    }

    /// The voxels of a block, with all corners of its cells, inside the volume.
    fn corners(&self, brick: [i32; 3], block: usize) -> impl Iterator<Item = (usize, u8)> + '_ {
        let at = [block % SIDE, block / SIDE % SIDE, block / (SIDE * SIDE)].map(|n| n * BLOCK);
        let each = BLOCK + 1;
        (0..each * each * each).filter_map(move |n| {
            let of = [n % each, n / each % each, n / (each * each)];
            let within: [usize; 3] = core::array::from_fn(|a| at[a] + of[a]);
            let voxel = core::array::from_fn(|a| brick[a] as u32 * EDGE as u32 + within[a] as u32);
            let place = within[2] * PLANE + at[0] / BLOCK * STRIP + within[1] * ROW + of[0];
            number_of(self.dims, voxel).map(|n| (place, self.voxels[n]))
        })
    }

    /// The error in the state of a brick, if any.
    fn wrong(&self, bricks: &Bricks, brick: [i32; 3]) -> Option<String> {
        let code = bricks.window[bricks.place(brick)];
        let slot = (code & !ALIKE) as usize;
        let seen = |block| self.corners(brick, block).any(|(_, v)| f64::from(v) >= SEEN);
        if code == NOTHING {
            return (0..BLOCKS).any(seen).then(|| format!("{brick:?} shows something"));
        }
        if slot < CODES {
            return None;
        }
        let map = &bricks.maps[slot * WORDS..][..WORDS];
        let words = &bricks.data[(slot - CODES) * bricks.words_each..][..bricks.words_each];
        let data: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        (0..BLOCKS).find_map(|n| {
            let block = map[n / A_WORD] as u32 >> (2 * (n % A_WORD)) & 3;
            let same = || self.corners(brick, n).all(|(at, v)| data[at] == v);
            let wrong = match block {
                BLOCK_HERE => !same(),
                BLOCK_NOTHING => seen(n),
                _ => false,
            };
            wrong.then(|| format!("block {n} of {brick:?}, of which {block} is known"))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// Pages come while a brick is made, and are evicted when it is made again, in slots of other bricks.
    #[test]
    fn what_is_known_of_a_brick_is_true_whichever_pages_come_and_go(seed in any::<u64>(), which in 0..BALLS.len()) {
        static OF: [OnceLock<Ball>; BALLS.len()] = [const { OnceLock::new() }; BALLS.len()];
        let ball = OF[which].get_or_init(|| Ball::new(BALLS[which]));
        let source = ball.source();
        // Fewer than the volume has.
        let mut bricks = bricks(ball.dims.map(|n| n - 1));
        let slots = bricks.owners.len();
        prop_assert!(slots > 0);
        bricks.owners.truncate(8.min(slots));
        let mut state = seed | 1;
        let mut dice = move |sides: u32| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            ((state >> 33) as u32) % sides
        };
        for step in 0..60 {
            bricks.begin();
            let brick: [i32; 3] = core::array::from_fn(|_| dice(3) as i32);
            prop_assert!(bricks.reach(voxel(brick), voxel(brick)));
            let code = bricks.window[bricks.place(brick)];
            if code == UNKNOWN || code == SHOWS {
                let (often, is_known) = (1 + dice(6), dice(2) == 0);
                let mut here = vec![false; ball.frames.len()];
                let page = |voxel: [u32; 3]| {
                    let place = source.array.translation.node(voxel);
                    let here = &mut here[place.page as usize];
                    *here |= dice(6) < often;
                    here.then(|| piece::<u8>(source, place, voxel, &ball.frames[place.page as usize])).flatten()
                };
                let between = |voxel: [u32; 3]| {
                    let frame = &ball.frames[source.array.translation.node(voxel).page as usize];
                    let ends = frame[source.array.brick.ranges_at()..].as_chunks::<2>().0;
                    let [low, high] = ends.iter().fold([u8::MAX, 0], |all, r| [all[0].min(r[0]), all[1].max(r[1])]);
                    if is_known { [low, high] } else { [0, u8::MAX] }
                };
                bricks.make(source, brick, page, &between);
            }
            let wrong = ball.wrong(&bricks, brick);
            prop_assert!(wrong.is_none(), "step {}: {}", step, wrong.unwrap());
        }
        let wrong = all(&bricks).filter(|b| b.iter().all(|n| (0..3).contains(n))).find_map(|b| ball.wrong(&bricks, b));
        prop_assert!(wrong.is_none(), "at the end: {}", wrong.unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// No block waits for pages in which it has no corner.
    #[test]
    fn a_block_is_here_as_soon_as_all_its_pages_are(seed in any::<u64>(), which in 0..6usize, often in 1u64..8) {
        static OF: [OnceLock<Ball>; 6] = [const { OnceLock::new() }; 6];
        let ball = OF[which].get_or_init(|| Ball::new(BALLS[which]));
        let source = ball.source();
        let is_here = |page: u64| ((page + 1).wrapping_mul(seed | 1) >> 40) % 8 < often;
        let mut bricks = bricks(ball.dims.map(|n| n - 1));
        let brick: [i32; 3] = core::array::from_fn(|a| (seed >> (8 * a)) as i32 & 1);
        prop_assert!(bricks.reach(voxel(brick), voxel(brick)));
        let page = |voxel: [u32; 3]| {
            let place = source.array.translation.node(voxel);
            is_here(place.page).then(|| piece::<u8>(source, place, voxel, &ball.frames[place.page as usize])).flatten()
        };
        bricks.make(source, brick, page, &|_| [0, u8::MAX]);
        let slot = (bricks.window[bricks.place(brick)] & !ALIKE) as usize;
        let all_here = |block| {
            let at = [block % SIDE, block / SIDE % SIDE, block / (SIDE * SIDE)].map(|n| (n * BLOCK) as u32);
            let low: [u32; 3] = core::array::from_fn(|a| brick[a] as u32 * EDGE as u32 + at[a]);
            let cells = (0..3).all(|a| low[a] + 1 < ball.dims[a]);
            let last: [u32; 3] = core::array::from_fn(|a| (low[a] + BLOCK as u32).min(ball.dims[a] - 1));
            let mut corners = (low[2]..=last[2]).flat_map(|k| (low[1]..=last[1]).flat_map(move |j| (low[0]..=last[0]).map(move |i| [i, j, k])));
            cells && corners.all(|voxel| is_here(source.array.translation.node(voxel).page))
        };
        if slot == APART as usize {
            prop_assert!(!(0..BLOCKS).any(all_here), "{:?} could be made", brick);
        }
        if slot >= CODES {
            for block in 0..BLOCKS {
                let known = bricks.maps[slot * WORDS + block / A_WORD] as u32 >> (2 * (block % A_WORD)) & 3;
                prop_assert!(known != BLOCK_APART || !all_here(block), "block {} of {:?} waits", block, brick);
            }
        }
    }
}

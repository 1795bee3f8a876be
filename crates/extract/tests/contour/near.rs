//! The part of a surface nearest to a point: in space for any spacing, and never in unreadable pages.

use crate::across::files;
use crate::joined_pieces::WholeSurface;
use crate::volumes::{ball, draw, pager, spec};
use crate::zones::{draw as draw_zones, iso, open, ZonesFolder};
use extract::contour::{run_volume, ContourSpec, VolumeContour};
use field::error::FieldError;
use field::plot3d::Precision;
use field::volume::{Placement, VolumeLevel, VoxelType};
use pager::source::simulated::{Simulated, Simulation};
use pager::{Pager, PolicyKind};
use std::ops::Range;
use std::sync::Arc;
use testing::volumes::Formula;

/// Radius of the balls, and length of cells along their long axis.
const RADIUS: f64 = 12.0;
const LONG: f64 = 10.0;
/// Error of a ball between two nodes. One node is nearer to the other ball, which is much farther off.
const BULGE: f64 = 3.0;
/// The point, along the long axis and the two others.
const POINT: [f64; 3] = [31.0, 20.0, 30.0];

/// Two balls: the first at this distance from the point along a short axis, the second along the long one.
#[derive(Copy, Clone)]
struct Balls {
    long: usize,
    gaps: [f64; 2],
}

/// The nearer ball for each pair of gaps: nearer, though more cells away; the reverse; and beyond the cells that are
/// always visited.
const GAPS: [([f64; 2], usize); 4] = [([6.0, 14.0], 0), ([16.0, 4.0], 1), ([10.5, 14.0], 0), ([12.5, 11.0], 1)];

impl Balls {
    fn spacing(self) -> [f64; 3] {
        std::array::from_fn(|a| if a == self.long { LONG } else { 1.0 })
    }

    fn dims(self) -> [u32; 3] {
        std::array::from_fn(|a| [8, 72, 48][self.which(a)])
    }

    /// Whether `a` is the long axis (0), or the first or second of the others.
    fn which(self, a: usize) -> usize {
        (a + 3 - self.long) % 3
    }

    fn point(self) -> [f64; 3] {
        std::array::from_fn(|a| POINT[self.which(a)])
    }

    fn centres(self) -> [[f64; 3]; 2] {
        let of = |n: usize| {
            let mut c = self.point();
            c[(self.long + 1 - n) % 3] += RADIUS + self.gaps[n];
            c
        };
        [of(0), of(1)]
    }

    /// The largest depth of a place inside a ball.
    fn depth(self, x: [f64; 3]) -> f64 {
        self.centres().iter().map(|c| RADIUS - distance(x, *c)).fold(f64::NEG_INFINITY, f64::max)
    }
}

fn distance(x: [f64; 3], c: [f64; 3]) -> f64 {
    (0..3).map(|a| (x[a] - c[a]).powi(2)).sum::<f64>().sqrt()
}

/// Rows of a rotation about no axis of the grid.
fn turn() -> [[f64; 3]; 3] {
    let ((s, c), (t, d)) = (0.6f64.sin_cos(), 1.1f64.sin_cos());
    [[c * d, s * d, -t], [-s, c, 0.0], [c * t, s * t, d]]
}

fn formula(of: Balls) -> Formula {
    let spacing = of.spacing();
    let value = move |x: [u32; 3]| 100.0 + of.depth(std::array::from_fn(|a| f64::from(x[a]) * spacing[a]));
    Formula {
        name: "two balls".into(),
        dims: of.dims(),
        page: [16; 3],
        voxel: VoxelType::Float32,
        value: Arc::new(value),
    }
}

fn index(p: &Placement, x: [f64; 3]) -> [f64; 3] {
    let spacing = p.spacing();
    std::array::from_fn(|a| {
        (0..3).map(|c| p.axes[a][c] * (x[c] - p.origin[c])).sum::<f64>() / (spacing[a] * spacing[a])
    })
}

#[test]
fn the_nearest_part_is_nearest_in_space() {
    for turned in [false, true] {
        for long in 0..3 {
            for (gaps, nearer) in GAPS {
                let of = Balls { long, gaps };
                let f = formula(of);
                let p = pager(64 << 20, PolicyKind::Clock, 4);
                let mut level = f.level(&p, None, None);
                let (spacing, rows) = (of.spacing(), turn());
                let axis = |a: usize| -> [f64; 3] {
                    std::array::from_fn(|c| if turned { rows[a][c] } else { f64::from(u8::from(a == c)) } * spacing[a])
                };
                level.placement = Placement { origin: [3.0, -40.0, 7.0], axes: std::array::from_fn(axis) };
                let (both, _) = draw(&p, &level, 2, &spec(&[100.0]));
                assert!(both.rim().is_empty() && both.euler() == 4);
                let point = of.point();
                let near = Some(level.placement.position(std::array::from_fn(|a| point[a] / spacing[a])));
                let (s, made) = draw(&p, &level, 1, &VolumeContour { near, ..spec(&[100.0]) });
                assert!(s.rim().is_empty() && s.euler() == 2 && !made.partial());
                let from = |x: &[f64; 3]| {
                    let at = index(&level.placement, *x);
                    distance(std::array::from_fn(|a| at[a] * spacing[a]), of.centres()[nearer])
                };
                let far = s.points.iter().map(from).fold(0.0, f64::max);
                assert!(far < RADIUS + BULGE, "{gaps:?} along {long}, turned {turned}: {far}");
            }
        }
    }
}

#[test]
fn in_zones_too_the_nearest_part_is_nearest_in_space() {
    // Bent, so that no spacing is regular.
    let bend =
        |x: [f64; 3]| -> [f64; 3] { std::array::from_fn(|a| x[a] + 0.8 * (0.05 * x[(a + 1) % 3] + a as f64).sin()) };
    for long in [0, 2] {
        for (gaps, nearer) in GAPS {
            let of = Balls { long, gaps };
            let (spacing, dims) = (of.spacing(), of.dims().map(|n| n as usize));
            let folder = ZonesFolder::new(&format!("near-{long}-{}", gaps[0] + gaps[1]));
            let place = |_: usize, f: [f64; 3]| bend(std::array::from_fn(|a| f[a] * spacing[a] * (dims[a] - 1) as f64));
            let session =
                open(&files(&folder, &[dims], Precision::Double, place, |x| 100.0 + of.depth(x)), 64 << 20, 1);
            let near = |s| ContourSpec { near: Some(of.point()), ..s };
            let (both, _) = draw_zones(&session, &iso("density", &[100.0]));
            assert!(both.rim().is_empty() && both.euler() == 4);
            let (s, made) = draw_zones(&session, &near(iso("density", &[100.0])));
            assert!(s.rim().is_empty() && s.euler() == 2 && !made.partial());
            let far = s.points.iter().map(|x| distance(*x, of.centres()[nearer])).fold(0.0, f64::max);
            assert!(far < RADIUS + BULGE, "{gaps:?} along {long}: {far}");
            // Pages make no difference.
            let other = open(&folder.store(&session, 8), 14 << 20, 2);
            assert!(draw_zones(&other, &near(iso("density", &[100.0]))).0.bits() == s.bits());
            assert!(other.pager.ledger().peak() <= 14 << 20);
        }
    }
}

/// The ball, with some unreadable bytes in its file.
fn damaged(broken: impl Fn(&Formula, u64) -> Vec<Range<u64>>) -> (Arc<Pager>, VolumeLevel) {
    let f = ball([80, 70, 66], [16; 3], VoxelType::Float32, 25.0);
    let mut frame = vec![0; f.brick().bytes()];
    let mut bytes = Vec::new();
    for page in 0..f.translation().count() {
        f.frame(page, &mut frame);
        bytes.extend_from_slice(&frame);
    }
    let simulation = Simulation { broken: broken(&f, frame.len() as u64), ..Simulation::default() };
    let p = pager(32 << 20, PolicyKind::Clock, 4);
    let source = p.add_source(Arc::new(Simulated::new(bytes, simulation).unwrap()));
    let level = f.level(&p, Some(source), None);
    (p, level)
}

/// Inside the ball, some cells from its surface at x = 64.7.
fn inside() -> VolumeContour {
    VolumeContour { near: Some([62.0, 34.7, 32.7]), ..spec(&[10_000.0]) }
}

#[test]
#[allow(clippy::single_range_in_vec_init)] // one range of bytes is broken
fn where_pages_cannot_be_read_that_is_what_is_said() {
    let (p, level) = damaged(|f, page| vec![0..f.translation().count() * page]);
    let mut said = Vec::new();
    for _ in 0..2 {
        let e = run_volume(&p, 1, &level, &inside(), &mut |_| Ok(()), &mut |_, _| true).unwrap_err();
        assert!(matches!(&e, FieldError::Page(e) if e.what.contains("ball")), "{e}");
        said.push(e.to_string());
    }
    assert_eq!(said[0], said[1]);
    // If all is readable and there is no surface, the point is at fault.
    let (p, level) = damaged(|_, _| Vec::new());
    let far = VolumeContour { near: Some([40.0, 35.0, 33.0]), ..inside() };
    let e = run_volume(&p, 1, &level, &far, &mut |_| Ok(()), &mut |_, _| true).unwrap_err();
    assert!(matches!(&e, FieldError::Usage(m) if m.contains("8 cells")), "{e}");
}

#[test]
#[allow(clippy::single_range_in_vec_init)] // one range of bytes is broken
fn beside_a_page_that_cannot_be_read_the_surface_is_found_in_part() {
    let whole: WholeSurface = {
        let (p, level) = damaged(|_, _| Vec::new());
        draw(&p, &level, 1, &inside()).0
    };
    assert!(whole.rim().is_empty() && whole.euler() == 2);
    // The page with the nearest surface.
    let (p, level) = damaged(|f, page| {
        let at = f.translation().number([4, 2, 2]) * page;
        vec![at..at + 8]
    });
    let (s, made) = draw(&p, &level, 2, &inside());
    assert!(made.partial() && made.drawn.failed_pages == 1, "{:?}", made.drawn);
    assert!(made.drawn.failure.as_ref().is_some_and(|e| e.contains("ball")), "{:?}", made.drawn.failure);
    assert!(s.triangles.len() < whole.triangles.len() && s.triangles.len() > whole.triangles.len() * 8 / 10);
}

//! Rays against sums of short steps over exact fields, or over cold searches.

use super::appearance::CellAppearance;
use super::scene::{CellRaySetting, CellScene};
use super::tile::CellTile;
use crate::draw::{srgb_to_linear, Camera, Lens};
use crate::flow::{GridFlow, ZoneOrder};
use crate::rays::{Projection, Shading, TransferFunction, TILE};
use crate::streamline::StepProgress;
use field::domain::Locator;
use field::in_memory::{FlatArray, FlatNodes};
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::Nodes;
use std::sync::Arc;

type TestPoint = [f64; 3];

/// A linear field, which cells of any shape represent exactly.
fn linear(x: TestPoint) -> f64 {
    0.2 + (0..3).map(|a| GRADIENT[a] * x[a]).sum::<f64>()
}

const GRADIENT: TestPoint = [0.5, -0.3, 0.6];

/// A zone of `dims` points at `at(r, s, t)`, with the field, and holes where `hole` says so.
fn zone(
    name: &str,
    dims: [usize; 3],
    at: impl Fn(TestPoint) -> TestPoint,
    hole: impl Fn(TestPoint) -> bool,
) -> (String, [usize; 3], Vec<(String, usize, FlatArray)>) {
    let count = dims.iter().product::<usize>();
    let (mut xyz, mut f, mut ib) = (vec![0.0f64; 3 * count], vec![0.0f64; count], vec![1i32; count]);
    for n in 0..count {
        let ijk = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]];
        let x = at(core::array::from_fn(|a| ijk[a] as f64 / (dims[a] - 1) as f64));
        (0..3).for_each(|c| xyz[c * count + n] = x[c]);
        f[n] = linear(x);
        ib[n] = i32::from(!hole(x));
    }
    let gradient = GRADIENT.iter().flat_map(|c| std::iter::repeat_n(*c, count)).collect();
    let arrays = vec![
        ("xyz".to_owned(), 3, FlatArray::F64(xyz)),
        ("iblank".to_owned(), 1, FlatArray::I32(ib)),
        ("f".to_owned(), 1, FlatArray::F64(f)),
        ("g".to_owned(), 3, FlatArray::F64(gradient)),
    ];
    (name.to_owned(), dims, arrays)
}

/// The unit cube, warped within, and with cells that are much thinner at one side.
fn warped([r, s, t]: TestPoint) -> TestPoint {
    let r = r * r * (0.3 + 0.7 * r);
    [
        r + 0.1 * (3.0 * s).sin() * r * (1.0 - r),
        s + 0.12 * (2.0 * t + r).sin() * s * (1.0 - s),
        t + 0.1 * (2.0 * r).cos() * t * (1.0 - t),
    ]
}

/// A ring around an axis. Its first face coincides with its last.
fn ring([r, s, t]: TestPoint) -> TestPoint {
    let (radius, turn) = (0.3 + 0.5 * r, std::f64::consts::TAU * s);
    [radius * turn.cos(), radius * turn.sin(), t]
}

/// Name, points and fields of a zone.
type TestZone = (String, [usize; 3], Vec<(String, usize, FlatArray)>);

fn space(zones: Vec<TestZone>) -> ZoneLocator<FlatNodes> {
    let nodes = FlatNodes::from_arrays(zones);
    let fields = sampled(&nodes);
    ZoneLocator::new(nodes, fields)
}

fn transfer() -> TransferFunction {
    let colours = vec![(-0.2, [0.1, 0.2, 0.9]), (0.4, [0.9, 0.4, 0.1]), (1.2, [1.0, 1.0, 0.9])];
    TransferFunction::new(colours, vec![(-0.2, 0.02), (0.3, 0.08), (0.6, 0.01), (1.2, 0.15)]).unwrap()
}

const UNIT: f64 = 0.1;

fn camera(position: TestPoint, lens: Lens) -> Camera {
    Camera { position, target: [0.5, 0.5, 0.5], up: [0.0, 0.0, 1.0], lens, center: [0.5; 2] }
}

fn cameras() -> [Camera; 3] {
    let lens = Lens::Perspective { fov_degrees: 40.0 };
    [
        camera([2.3, -1.4, 1.2], lens),
        camera([-1.5, 1.9, 0.9], Lens::Orthographic { height: 1.9 }),
        // Inside the scene.
        camera([0.45, 0.3, 0.35], Lens::Perspective { fov_degrees: 80.0 }),
    ]
}

fn setting(camera: Camera, zones: usize) -> CellRaySetting {
    CellRaySetting {
        camera,
        size: [TILE; 2],
        longest: 0.05,
        halvings: 6,
        samples: 4.0,
        zones: (0..zones as u32).collect(),
    }
}

fn look() -> CellAppearance {
    CellAppearance::new(transfer(), UNIT)
}

fn scene(setting: CellRaySetting) -> Arc<CellScene> {
    CellScene::new(setting, vec![look()]).unwrap()
}

fn cast(
    space: &mut ZoneLocator<FlatNodes>,
    scene: &CellScene,
    depth: Option<&dyn Fn(u32, u32) -> f64>,
) -> Vec<[f32; 4]> {
    let mut tile = CellTile::new(scene, [0, 0]);
    if let Some(depth) = depth {
        tile = tile.ending(scene, depth);
    }
    assert_eq!(tile.step(scene, space, |_| false), StepProgress::Done);
    assert!(tile.pixels(scene).all(|(_, _, gap)| !gap));
    tile.pixels(scene).map(|(_, colour, _)| colour).collect()
}

/// Light along a ray by short steps; `value` is the field at a point.
fn summed(scene: &CellScene, x: u32, y: u32, step: f64, mut value: impl FnMut(TestPoint) -> Option<f64>) -> [f64; 4] {
    let (ray, transfer) = (scene.ray(x, y), transfer());
    let from = ray.low.max(-3.0);
    let (mut light, mut through) = ([0.0; 3], 1.0);
    for n in 0..(9.0 / step) as u64 {
        let t = (n as f64 + 0.5).mul_add(step, from);
        if t >= ray.high {
            break;
        }
        let Some(v) = value(ray.at(t).xyz()) else { continue };
        let a = 1.0 - (1.0 - f64::from(transfer.opacity(v))).powf(step / UNIT);
        for (sum, c) in light.iter_mut().zip(transfer.colour(v)) {
            *sum += through * a * f64::from(c);
        }
        through *= 1.0 - a;
    }
    [light[0], light[1], light[2], 1.0 - through]
}

/// The largest difference, and the number of pixels with light, of every third.
fn differ(scene: &CellScene, cast: &[[f32; 4]], mut truth: impl FnMut(u32, u32) -> [f64; 4]) -> (f64, usize) {
    let (mut most, mut seen) = (0.0f64, 0);
    for (n, pixel) in cast.iter().enumerate().step_by(3) {
        let truth = truth(n as u32 % scene.size()[0], n as u32 / scene.size()[0]);
        seen += usize::from(truth[3] > 0.05);
        most = pixel.iter().zip(truth).fold(most, |m, (a, b)| m.max((f64::from(*a) - b).abs()));
    }
    (most, seen)
}

fn in_cube(x: TestPoint) -> bool {
    x.iter().all(|c| (0.0..=1.0).contains(c))
}

#[test]
fn a_linear_field_on_a_warped_grid_is_what_the_integral_says() {
    let mut space = space(vec![zone("z", [25, 18, 15], warped, |_| false)]);
    for camera in cameras() {
        let scene = scene(setting(camera, 1));
        let got = cast(&mut space, &scene, None);
        let exact = |x, y| summed(&scene, x, y, 2e-4, |p| in_cube(p).then(|| linear(p)));
        let (most, seen) = differ(&scene, &got, exact);
        assert!(seen > 25 && most < 1.5e-3, "{seen} pixels seen, {most} off");
    }
    // The transfer function's own colours are linear light.
    assert!((f64::from(transfer().colour(1.2)[2]) - f64::from(srgb_to_linear(0.9))).abs() < 1e-6);
}

#[test]
fn more_samples_come_closer() {
    let mut space = space(vec![zone("z", [9, 8, 7], warped, |_| false)]);
    let mut errors = Vec::new();
    for samples in [1.0, 2.0, 4.0, 8.0] {
        let setting = CellRaySetting { samples, longest: 0.4, ..setting(cameras()[0], 1) };
        let scene = scene(setting);
        let got = cast(&mut space, &scene, None);
        errors.push(differ(&scene, &got, |x, y| summed(&scene, x, y, 2e-4, |p| in_cube(p).then(|| linear(p)))).0);
    }
    assert!(errors[0] > 2.0 * errors[2] && errors[3] < 2e-3, "{errors:?}");
}

#[test]
fn zones_that_abut_are_one() {
    let at = |a: usize, b: usize| move |[r, s, t]: TestPoint| warped([(a as f64 + r * (b - a) as f64) / 24.0, s, t]);
    let mut one = space(vec![zone("z", [25, 18, 15], at(0, 24), |_| false)]);
    let mut two =
        space(vec![zone("a", [11, 18, 15], at(0, 10), |_| false), zone("b", [15, 18, 15], at(10, 24), |_| false)]);
    for camera in cameras() {
        let [of_one, of_two] = [(&mut one, 1), (&mut two, 2)].map(|(space, zones)| {
            let scene = scene(setting(camera, zones));
            cast(space, &scene, None)
        });
        let most = of_one.iter().flatten().zip(of_two.iter().flatten()).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(most < 6e-4, "{most}");
    }
}

/// The result of a cold search of all zones, which is that of a seed.
fn searched(space: ZoneLocator<FlatNodes>, zones: usize) -> impl FnMut(TestPoint) -> Option<f64> {
    let mut flow = GridFlow::new(space, ZoneOrder::file(zones));
    move |p| {
        let spot = flow.start(p).unwrap()?;
        let mut out = Vec::new();
        flow.space.sample(&spot, &mut out).unwrap();
        Some(out[0])
    }
}

#[test]
fn holes_seams_and_zones_that_overlap_are_what_a_search_finds() {
    let hole = |x: TestPoint| (x[0] - 0.5).hypot(x[1] - 0.4) < 0.15;
    // A finer zone partly inside the other, turned against it, with another field, so that the choice of zone matters.
    let turned = |[r, s, t]: TestPoint| {
        let (a, b) = (0.5 * r, 0.6 * s);
        [0.3 + 0.8 * a - 0.6 * b, 0.2 + 0.6 * a + 0.8 * b, 0.3 + 0.4 * t]
    };
    let other = |z: (String, [usize; 3], Vec<(String, usize, FlatArray)>)| {
        let (name, dims, mut arrays) = z;
        if let FlatArray::F64(v) = &mut arrays[2].2 {
            v.iter_mut().for_each(|v| *v = 0.9 - *v);
        }
        (name, dims, arrays)
    };
    let worlds = [
        vec![zone("z", [21, 20, 15], warped, hole)],
        vec![zone("a", [13, 12, 11], warped, hole), other(zone("b", [15, 13, 12], turned, |_| false))],
        vec![zone("r", [9, 41, 7], ring, |_| false)],
    ];
    for (n, world) in worlds.into_iter().enumerate() {
        let zones = world.len();
        let mut space = space(world);
        for camera in cameras() {
            let setting = CellRaySetting { samples: 6.0, ..setting(camera, zones) };
            let scene = scene(setting);
            let got = cast(&mut space, &scene, None);
            let mut at = searched(ZoneLocator::new(space.nodes.clone(), sampled(&space.nodes)), zones);
            let (most, seen) = differ(&scene, &got, |x, y| summed(&scene, x, y, 2e-3, &mut at));
            assert!(seen > 25 && most < 4e-3, "world {n}: {seen} pixels seen, {most} off");
        }
    }
}

/// The field, and its gradient.
fn sampled(nodes: &FlatNodes) -> Arc<[ZoneFields]> {
    let names = ["f".to_owned(), "g".to_owned()];
    nodes.zones().iter().map(|z| ZoneFields::named(z, None, &names, 1.4, 1.0).unwrap()).collect()
}

#[test]
fn what_is_before_a_surface_and_what_is_behind_it_are_the_whole() {
    let mut space = space(vec![zone("z", [25, 18, 15], warped, |_| false)]);
    let camera = cameras()[1];
    let whole = scene(setting(camera, 1));
    let all = cast(&mut space, &whole, None);
    let axis = camera.axes().z_axis;
    let eye = glam::DVec3::from_array(camera.position);
    for depth in [1.3, 1.9, 2.417] {
        let front = cast(&mut space, &whole, Some(&|_, _| depth));
        // Parallel rays: the depth is a plane, equal to a clip there.
        let planes = vec![(axis.to_array(), axis.dot(eye) + depth)];
        let back = CellScene::new(setting(camera, 1), vec![CellAppearance { planes, ..look() }]).unwrap();
        let back = cast(&mut space, &back, None);
        let mut least = 1.0f32;
        for (n, all) in all.iter().enumerate() {
            let through = 1.0 - front[n][3];
            for c in 0..4 {
                let sum = front[n][c] + through * back[n][c];
                assert!((sum - all[c]).abs() < 1e-3, "depth {depth}, pixel {n}: {sum} and {}", all[c]);
            }
            least = least.min(front[n][3] - all[3]);
        }
        assert!(least < -0.01, "at depth {depth} nothing is hidden");
    }
    let none = cast(&mut space, &whole, Some(&|_, _| f64::NEG_INFINITY));
    assert!(none.iter().flatten().all(|c| *c == 0.0));
}

#[test]
fn what_is_cut_away_is_not_seen() {
    let mut space = space(vec![zone("z", [25, 18, 15], warped, |_| false)]);
    let normal = [0.6, 0.0, -0.8];
    let keeps = |p: TestPoint| 0.6 * p[0] - 0.8 * p[2] >= -0.1 && p[1] >= 0.2 && p[1] <= 0.7;
    for camera in cameras() {
        let within = Some([[-5.0, 0.2, -5.0], [5.0, 0.7, 5.0]]);
        let looks = vec![CellAppearance { planes: vec![(normal, -0.1)], within, ..look() }];
        let scene = CellScene::new(setting(camera, 1), looks).unwrap();
        let got = cast(&mut space, &scene, None);
        let exact = |x, y| summed(&scene, x, y, 2e-4, |p| (in_cube(p) && keeps(p)).then(|| linear(p)));
        let (most, seen) = differ(&scene, &got, exact);
        assert!(seen > 10 && most < 1.5e-3, "{seen} pixels seen, {most} off");
    }
}

/// Opacities from which values can be read: linear over values from -0.2 (none) to 1.4 (full).
fn readable(projection: Projection) -> CellAppearance {
    let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(-0.2, 0.0), (1.4, 1.0)]).unwrap();
    CellAppearance { projection, ..CellAppearance::new(transfer, UNIT) }
}

/// Both ends of the part of a pixel's ray within the unit cube.
fn through_cube(scene: &CellScene, n: usize) -> Option<[TestPoint; 2]> {
    let ray = scene.ray(n as u32 % TILE, n as u32 / TILE);
    let [low, high] = ray.within([0.0; 3], [1.0; 3])?;
    let low = low.max(ray.low);
    (low < high).then(|| [low, high].map(|t| ray.at(t).xyz()))
}

#[test]
fn of_a_linear_field_the_largest_value_is_at_an_end_and_the_mean_in_the_middle() {
    let straight = |x: TestPoint| x;
    for grid in [zone("u", [21, 17, 13], straight, |_| false), zone("w", [25, 18, 15], warped, |_| false)] {
        let mut space = space(vec![grid]);
        for camera in cameras() {
            let [maximum, mean] = [Projection::Maximum, Projection::Mean].map(|projection| {
                let scene = CellScene::new(setting(camera, 1), vec![readable(projection)]).unwrap();
                (cast(&mut space, &scene, None), scene)
            });
            let mut seen = 0;
            for n in 0..maximum.0.len() {
                let [highest, middle] = [&maximum, &mean].map(|(image, _)| -0.2 + 1.6 * f64::from(image[n][3]));
                let Some([a, b]) = through_cube(&maximum.1, n) else {
                    assert!(maximum.0[n] == [0.0; 4] && mean.0[n] == [0.0; 4]);
                    continue;
                };
                // Corners with a chord shorter than a step.
                if (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt() < 0.05 {
                    continue;
                }
                seen += 1;
                let [a, b] = [a, b].map(linear);
                let off = a.max(b) - highest;
                // Samples are in the middle of steps of 0.025 at most: half of one, and half an entry of the table, are
                // lost.
                assert!((-1e-3..1.15e-2).contains(&off), "pixel {n}: {highest} is {off} below the largest");
                assert!((middle - 0.5 * (a + b)).abs() < 1.5e-3, "pixel {n}: {middle}, and {a} to {b}");
            }
            assert!(seen > 60, "{seen}");
        }
    }
}

#[test]
fn a_surface_is_opaque_where_its_value_is_reached() {
    let mut space = space(vec![zone("w", [25, 18, 15], warped, |_| false)]);
    for camera in cameras() {
        let surface = CellAppearance { projection: Projection::Surface { value: 0.6 }, ..look() };
        let scene = CellScene::new(setting(camera, 1), vec![surface]).unwrap();
        let colour = transfer().colour(0.6);
        let mut seen = [0; 2];
        for (n, pixel) in cast(&mut space, &scene, None).into_iter().enumerate() {
            let most = through_cube(&scene, n).map_or(0.0, |ends| ends.map(linear).into_iter().fold(0.0, f64::max));
            if (most - 0.6).abs() < 0.01 {
                continue;
            }
            seen[usize::from(most > 0.6)] += 1;
            let wanted = if most > 0.6 { [colour[0], colour[1], colour[2], 1.0] } else { [0.0; 4] };
            assert!(pixel.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 2e-3), "{n}: {pixel:?} and {wanted:?}");
        }
        assert!(seen.iter().all(|n| *n > 15), "{seen:?}");
    }
}

#[test]
fn several_looks_are_seen_together() {
    let mut space = space(vec![zone("z", [25, 18, 15], warped, |_| false)]);
    for camera in cameras() {
        let whole = scene(setting(camera, 1));
        let all = cast(&mut space, &whole, None);
        // Both halves, and a plane that cuts away nothing, make the whole.
        let half = |sign: f64| CellAppearance { planes: vec![([sign, 0.0, 0.0], 0.43 * sign)], ..look() };
        let nowhere = CellAppearance { within: Some([[4.0; 3], [5.0; 3]]), ..look() };
        let halves = CellScene::new(setting(camera, 1), vec![half(1.0), nowhere, half(-1.0)]).unwrap();
        let both = cast(&mut space, &halves, None);
        let most = all.iter().flatten().zip(both.iter().flatten()).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(most < 1e-3, "{most}");
        // A projection is behind composited light.
        let alone = CellScene::new(setting(camera, 1), vec![readable(Projection::Mean)]).unwrap();
        let alone = cast(&mut space, &alone, None);
        let with = CellScene::new(setting(camera, 1), vec![readable(Projection::Mean), look()]).unwrap();
        let with = cast(&mut space, &with, None);
        for (n, pixel) in with.iter().enumerate() {
            let behind = |c: usize| all[n][c] + (1.0 - all[n][3]) * alone[n][c];
            assert!((0..4).all(|c| (pixel[c] - behind(c)).abs() < 2e-3), "{n}: {pixel:?}");
        }
    }
}

#[test]
fn light_falls_on_gradients() {
    let mut space = space(vec![zone("z", [25, 18, 15], warped, |_| false)]);
    let camera = cameras()[1];
    let plain = cast(&mut space, &scene(setting(camera, 1)), None);
    let length = GRADIENT.iter().map(|c| c * c).sum::<f64>().sqrt();
    let seen = glam::DVec3::from_array(camera.axes().z_axis.to_array()).dot(glam::DVec3::from_array(GRADIENT));
    // Surfaces show the side towards the eye.
    let side = if seen > 0.0 { -1.0 } else { 1.0 };
    for turned in [1.0, 0.25, -1.0] {
        // A lamp with this cosine to the normals: along the normal, and across it.
        let normal = GRADIENT.map(|c| side * c / length);
        let across = glam::DVec3::from_array(normal).cross(glam::DVec3::Z).normalize().to_array();
        let towards = core::array::from_fn(|a| turned * normal[a] + (1.0f64 - turned * turned).sqrt() * across[a]);
        let shading =
            Shading { ambient: [0.2; 3], lights: vec![(towards, [0.7, 0.5, 0.3])], specular: 0.0, power: 1.0 };
        let lit = CellAppearance { shading: Some(shading), gradient: Some(1), ..look() };
        let lit = cast(&mut space, &CellScene::new(setting(camera, 1), vec![lit]).unwrap(), None);
        for (plain, lit) in plain.iter().zip(lit) {
            assert_eq!(plain[3], lit[3]);
            for (c, lamp) in [0.7, 0.5, 0.3].into_iter().enumerate() {
                let wanted = plain[c] * (0.2 + lamp * turned.max(0.0) as f32);
                assert!((lit[c] - wanted).abs() < 1e-4, "{} and {wanted}", lit[c]);
            }
        }
    }
}

#[test]
fn lengths_that_are_none_are_refused() {
    let bad = [
        CellRaySetting { longest: 0.0, ..setting(cameras()[0], 1) },
        CellRaySetting { samples: -1.0, ..setting(cameras()[0], 1) },
    ];
    let none = CellAppearance { unit: f64::NAN, ..look() };
    let bad = bad.map(|bad| (bad, look())).into_iter().chain([(setting(cameras()[0], 1), none)]);
    for (setting, look) in bad {
        let e = CellScene::new(setting, vec![look]).err().map(|e| e.to_string());
        assert!(e.is_some_and(|e| e.contains("must be a positive number")));
    }
}

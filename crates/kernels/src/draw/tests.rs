//! Pictures with every measure known beforehand.

mod odd;

use super::*;
use glam::DVec3;

struct ClosureGeometry<F: Fn(&mut dyn FnMut(Chunk<'_>)) + Sync>(Aabb, F);

impl<F: Fn(&mut dyn FnMut(Chunk<'_>)) + Sync> Geometry for ClosureGeometry<F> {
    fn bounds(&self) -> Aabb {
        self.0
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        if self.0.is_empty() || wanted(&self.0) {
            (self.1)(visit);
        }
        Ok(())
    }
}

fn unit_box() -> Aabb {
    Aabb { min: DVec3::NEG_ONE, max: DVec3::ONE }
}

/// A camera along negative z from z = 10 with y up and x to the right. Parallel rays show a height of `height`.
fn front(height: Option<f64>, fov_degrees: f64) -> Camera {
    let lens = height.map_or(Lens::Perspective { fov_degrees }, |height| Lens::Orthographic { height });
    Camera { position: [0.0, 0.0, 10.0], target: [0.0; 3], up: [0.0, 1.0, 0.0], lens, center: [0.5, 0.5] }
}

fn plain(size: [u32; 2], camera: Camera) -> StageSetting {
    StageSetting {
        size,
        camera,
        background: Background::Solid([255, 255, 255]),
        effects: Effects { occlusion: 0.0, depth_cue: 0.0 },
        lighting: Lighting::default(),
        samples: Samples::Eight,
        furniture: Furniture::default(),
    }
}

struct Drawn {
    size: [u32; 2],
    pixels: Vec<u8>,
    counts: DrawCounts,
}

impl Drawn {
    fn at(&self, x: u32, y: u32) -> Srgb8 {
        let i = (y as usize * self.size[0] as usize + x as usize) * 3;
        [self.pixels[i], self.pixels[i + 1], self.pixels[i + 2]]
    }

    /// Pixels covered by black geometry on white, in linear light.
    fn ink(&self) -> f64 {
        self.pixels.chunks(3).map(|p| 1.0 - f64::from(srgb_to_linear(f32::from(p[0]) / 255.0))).sum()
    }
}

fn draw_in(setting: StageSetting, layers: Vec<Layer<'_>>, band_rows: u32) -> Drawn {
    let size = setting.size;
    let mut stage = Stage::new(setting, layers).unwrap();
    let survey = stage.survey(0..stage.survey_rows()).unwrap();
    let counts = survey.counts;
    stage.surveyed(vec![survey]);
    let light = stage.contacts(0..stage.survey_rows());
    stage.shadowed(vec![light]);
    let mut pixels = Vec::new();
    let mut canvas = Canvas::new(&stage, band_rows);
    let mut first = 0;
    while first < size[1] {
        let end = (first + band_rows).min(size[1]);
        let mut out = vec![0; (end - first) as usize * size[0] as usize * 3];
        canvas.draw(&stage, first..end, &mut out).unwrap();
        pixels.extend(out);
        first = end;
    }
    Drawn { size, pixels, counts }
}

fn draw(setting: StageSetting, layers: Vec<Layer<'_>>) -> Drawn {
    let rows = setting.size[1];
    draw_in(setting, layers, rows)
}

const BLACK: Colour = Colour::Solid([0, 0, 0]);

fn flat(colour: Colour, radius: Radius) -> Style {
    Style { finish: Finish::Flat, ..Style::tubes(colour, radius) }
}

fn line(points: Vec<[f64; 3]>) -> impl Geometry {
    let bounds = Aabb::of(points.iter().map(|p| DVec3::from_array(*p)));
    ClosureGeometry(bounds, move |visit| {
        visit(Chunk::Line(Polyline {
            points: Positions::F64(&points),
            scalars: None,
            radii: None,
            before: None,
            after: None,
        }));
    })
}

fn points(points: Vec<[f64; 3]>) -> impl Geometry {
    let bounds = Aabb::of(points.iter().map(|p| DVec3::from_array(*p)));
    ClosureGeometry(bounds, move |visit| {
        visit(Chunk::Spheres(Spheres { points: Positions::F64(&points), scalars: None, radii: None }))
    })
}

fn triangles(points: Vec<[f32; 3]>, triangles: Vec<[u32; 3]>) -> impl Geometry {
    let bounds = Aabb::of(points.iter().map(|p| DVec3::from_array(p.map(f64::from))));
    ClosureGeometry(bounds, move |visit| {
        visit(Chunk::Mesh(Mesh {
            points: Positions::F32(&points),
            normals: None,
            scalars: None,
            triangles: &triangles,
        }));
    })
}

#[test]
fn a_sphere_covers_its_disc() {
    let ball = points(vec![[0.0; 3]]);
    // 100 pixels a unit: a radius of 0.8 covers pi 80^2 pixels.
    let d = draw(
        plain([300, 300], front(Some(3.0), 0.0)),
        vec![Layer { geometry: &ball, style: flat(BLACK, Radius::Physical(0.8)) }],
    );
    assert!((d.ink() / (std::f64::consts::PI * 6400.0) - 1.0).abs() < 2e-3, "{}", d.ink());
    assert_eq!((d.counts.spheres, d.counts.skipped), (1, 0));
    // From near, its outline is the circle of tangents: radius f r / sqrt(d^2 - r^2) pixels.
    let d = draw(
        plain([300, 300], front(None, 20.0)),
        vec![Layer { geometry: &ball, style: flat(BLACK, Radius::Physical(0.8)) }],
    );
    let f = 150.0 / 10f64.to_radians().tan();
    let r = f * 0.8 / (100.0f64 - 0.64).sqrt();
    assert!((d.ink() / (std::f64::consts::PI * r * r) - 1.0).abs() < 2e-3, "{} {r}", d.ink());
    // Off the axis the picture of a sphere is an ellipse of known area: its half axes are the outline cone's cuts.
    let aside = points(vec![[1.2, 0.0, 0.0]]);
    let mut camera = front(None, 60.0);
    camera.position[2] = 2.5;
    let d =
        draw(plain([600, 300], camera), vec![Layer { geometry: &aside, style: flat(BLACK, Radius::Physical(0.5)) }]);
    let f = 150.0 / 30f64.to_radians().tan();
    let (theta, distance) = ((1.2f64 / 2.5).atan(), (1.2f64 * 1.2 + 6.25).sqrt());
    let alpha = (0.5 / distance).asin();
    let long = f * ((theta + alpha).tan() - (theta - alpha).tan()) / 2.0;
    let eccentricity = theta.sin() / alpha.cos();
    let short = long * (1.0 - eccentricity * eccentricity).sqrt();
    assert!(
        (d.ink() / (std::f64::consts::PI * long * short) - 1.0).abs() < 3e-3,
        "{} {}",
        d.ink(),
        std::f64::consts::PI * long * short
    );
}

#[test]
fn a_tube_covers_its_hull() {
    // Length 2, radius 0.25, at 100 pixels a unit: a rectangle of 200 x 50 and two half discs.
    let tube = line(vec![[-1.0, -0.3, 0.0], [1.0, 0.3, 0.0]]);
    let length = 100.0 * (4.0f64 + 0.36).sqrt();
    let d = draw(
        plain([300, 200], front(Some(2.0), 0.0)),
        vec![Layer { geometry: &tube, style: flat(BLACK, Radius::Physical(0.25)) }],
    );
    let area = length * 50.0 + std::f64::consts::PI * 625.0;
    assert!((d.ink() / area - 1.0).abs() < 2e-3, "{} {area}", d.ink());
    assert_eq!(d.counts.segments, 1);
    // Divided anywhere, and with a repeated vertex, it is the same tube.
    let cut = line(vec![[-1.0, -0.3, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.15, 0.0], [1.0, 0.3, 0.0]]);
    let e = draw(
        plain([300, 200], front(Some(2.0), 0.0)),
        vec![Layer { geometry: &cut, style: flat(BLACK, Radius::Physical(0.25)) }],
    );
    assert_eq!(e.counts.segments, 3);
    assert!((d.ink() - e.ink()).abs() < 1.0);
    // A radius in pixels is the same near and far.
    let deep = line(vec![[-0.4, 0.0, 5.0], [0.8, 0.0, -5.0]]);
    let d = draw(
        plain([400, 200], front(None, 30.0)),
        vec![Layer { geometry: &deep, style: flat(BLACK, Radius::Pixels(6.0)) }],
    );
    let column = |x: u32| (0..200).map(|y| 1.0 - srgb_to_linear(f32::from(d.at(x, y)[0]) / 255.0)).sum::<f32>();
    assert!((column(195) - 12.0).abs() < 0.2 && (column(215) - 12.0).abs() < 0.2, "{} {}", column(195), column(215));
}

#[test]
fn a_tapered_tube_is_the_hull_of_its_spheres() {
    let ends = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
    let cone = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        visit(Chunk::Line(Polyline {
            points: Positions::F64(&ends),
            scalars: None,
            radii: Some(&[0.6, 0.2]),
            before: None,
            after: None,
        }));
    });
    let d = draw(
        plain([400, 200], front(Some(2.0), 0.0)),
        vec![Layer { geometry: &cone, style: flat(BLACK, Radius::Pixels(1.0)) }],
    );
    // Hull of two discs: trapezium of the tangents and two circular segments.
    let (a, b, l) = (60.0f64, 20.0, 200.0);
    let tangent = (l * l - (a - b) * (a - b)).sqrt();
    let phi = ((a - b) / l).asin();
    let area =
        tangent * (a + b) + a * a * (std::f64::consts::FRAC_PI_2 + phi) + b * b * (std::f64::consts::FRAC_PI_2 - phi);
    assert!((d.ink() / area - 1.0).abs() < 2e-3, "{} {area}", d.ink());
    // From its end, it is the larger sphere's disc, from either end.
    for z in [10.0, -10.0] {
        let along = [[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]];
        let cone = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
            visit(Chunk::Line(Polyline {
                points: Positions::F64(&along),
                scalars: None,
                radii: Some(&[0.6, 0.2]),
                before: None,
                after: None,
            }));
        });
        let camera = Camera { position: [0.0, 0.0, z], ..front(Some(2.0), 0.0) };
        let d =
            draw(plain([200, 200], camera), vec![Layer { geometry: &cone, style: flat(BLACK, Radius::Pixels(1.0)) }]);
        assert!((d.ink() / (std::f64::consts::PI * 3600.0) - 1.0).abs() < 2e-3, "{z} {}", d.ink());
    }
}

#[test]
fn a_long_thin_tube_keeps_its_width() {
    // Two thousand pixels of one piece, three pixels wide: single precision has to hold.
    let tube = line(vec![[-10.0, -1.0, 3.0], [10.0, 1.1, -3.0]]);
    let d = draw(
        plain([2000, 240], front(Some(2.4), 0.0)),
        vec![Layer { geometry: &tube, style: flat(BLACK, Radius::Pixels(1.5)) }],
    );
    let seen = 3.0 * (400.0f64 + 2.1 * 2.1).sqrt() * 100.0;
    let caps = std::f64::consts::PI * 1.5 * 1.5;
    assert!((d.ink() / (seen + caps) - 1.0).abs() < 4e-3, "{} {}", d.ink(), seen + caps);
}

#[test]
fn the_nearer_tube_hides_the_other() {
    let near = line(vec![[-1.0, 0.0, 0.3], [1.0, 0.0, 0.3]]);
    let far = line(vec![[0.0, -1.0, -0.3], [0.0, 1.0, -0.3]]);
    let red = flat(Colour::Solid([255, 0, 0]), Radius::Physical(0.2));
    let blue = flat(Colour::Solid([0, 0, 255]), Radius::Physical(0.2));
    let layers = vec![Layer { geometry: &near, style: red.clone() }, Layer { geometry: &far, style: blue.clone() }];
    let mirrored: Vec<_> = layers.iter().rev().cloned().collect();
    for fov in [None, Some(30.0)] {
        let camera = |z: f64| {
            let mut c = front(fov.is_none().then_some(3.0), 30.0);
            c.position[2] = z;
            c
        };
        let d = draw(plain([90, 90], camera(10.0)), layers.clone());
        assert_eq!((d.at(45, 45), d.at(45, 30), d.at(30, 45)), ([255, 0, 0], [0, 0, 255], [255, 0, 0]));
        // From behind the order is reversed, and the order of layers does not matter.
        assert_eq!(draw(plain([90, 90], camera(-10.0)), layers.clone()).at(45, 45), [0, 0, 255]);
        assert_eq!(draw(plain([90, 90], camera(10.0)), mirrored.clone()).pixels, d.pixels);
    }
}

#[test]
fn what_faces_the_eye_has_its_own_colour() {
    // A square in the plane of the picture, lit: its colour is that of the table to the bit.
    let square = triangles(
        vec![[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    for colour in [[12, 200, 99], [253, 231, 37], [68, 1, 84]] {
        let layer = Layer { geometry: &square, style: Style::surface(Colour::Solid(colour)) };
        let mut setting = plain([60, 60], front(Some(3.0), 0.0));
        setting.effects = Effects::default();
        assert_eq!(draw(setting.clone(), vec![layer.clone()]).at(30, 30), colour);
        // From behind as well: both sides are lit.
        setting.camera.position[2] = -10.0;
        assert_eq!(draw(setting, vec![layer]).at(30, 30), colour);
    }
    // So is the middle of a matte sphere, and its upper left is lighter than its lower right.
    let ball = points(vec![[0.0; 3]]);
    let style = Style { finish: Finish::Matte, ..Style::points(Colour::Solid([120, 120, 120]), Radius::Physical(1.0)) };
    let d = draw(plain([81, 81], front(Some(3.0), 0.0)), vec![Layer { geometry: &ball, style }]);
    assert!(d.at(40, 40)[0].abs_diff(120) <= 1);
    assert!(d.at(30, 28)[0] > 125 && d.at(52, 54)[0] < 100);
}

#[test]
fn triangles_meet_without_gap_or_overlap() {
    // A fan of thin triangles whose union is a disc's polygon. Transparent, so that an overlap would be darker.
    let n = 97;
    let mut p = vec![[0.013f32, -0.021, 0.0]];
    p.extend((0..n).map(|i| {
        let a = i as f32 / n as f32 * std::f32::consts::TAU;
        [a.cos(), a.sin(), 0.0]
    }));
    let fan = triangles(p, (0..n).map(|i| [0, 1 + i, 1 + (i + 1) % n]).collect());
    let style = Style { finish: Finish::Flat, opacity: 0.5, ..Style::surface(BLACK) };
    for fov in [None, Some(40.0)] {
        let d = draw(
            plain([240, 240], front(fov.is_none().then_some(2.4), 16.0)),
            vec![Layer { geometry: &fan, style: style.clone() }],
        );
        let inside = |x: u32, y: u32| (x as f64 - 119.5).hypot(y as f64 - 119.5) < 70.0;
        let odd = (0..240)
            .flat_map(|y| (0..240).map(move |x| (x, y)))
            .filter(|(x, y)| inside(*x, *y) && d.at(*x, *y) != [188; 3])
            .count();
        assert_eq!(odd, 0);
    }
}

#[test]
fn a_quad_grid_is_what_it_should_be() {
    // A sphere of 65 x 33 points with both poles and a seam: no hole, no crease, and normals that point outwards.
    let (ni, nj) = (65usize, 33usize);
    let mut p = Vec::new();
    for j in 0..nj {
        for i in 0..ni {
            let (a, b) =
                (i as f64 / (ni - 1) as f64 * std::f64::consts::TAU, j as f64 / (nj - 1) as f64 * std::f64::consts::PI);
            p.push([(b.sin() * a.cos()) as f32, (b.sin() * a.sin()) as f32, b.cos() as f32]);
        }
    }
    for j in [0, nj - 1] {
        let pole = [0.0, 0.0, if j == 0 { 1.0 } else { -1.0 }];
        p[j * ni..(j + 1) * ni].fill(pole);
    }
    let globe = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        visit(Chunk::Quads(QuadGrid { size: [ni, nj], points: Positions::F32(&p), scalars: None, draw: None }));
    });
    let ball = points(vec![[0.0; 3]]);
    let matte = |style: Style| Style { finish: Finish::Matte, ..style };
    let grey = Colour::Solid([140, 140, 140]);
    for position in [[0.0, 0.0, 10.0], [10.0, 0.0, 0.0], [6.0, -5.0, 6.0]] {
        let camera = Camera { position, up: [0.1, 1.0, 0.2], ..front(Some(2.4), 0.0) };
        let d = draw(
            plain([120, 120], camera),
            vec![Layer { geometry: &globe, style: matte(Style::surface(grey.clone())) }],
        );
        let e = draw(
            plain([120, 120], camera),
            vec![Layer { geometry: &ball, style: matte(Style::points(grey.clone(), Radius::Physical(1.0))) }],
        );
        for (x, y) in (0..120)
            .flat_map(|y| (0..120).map(move |x| (x, y)))
            .filter(|(x, y)| (*x as f64 - 59.5).hypot(*y as f64 - 59.5) < 40.0)
        {
            assert!(
                d.at(x, y)[0].abs_diff(e.at(x, y)[0]) <= 5,
                "{position:?} {x} {y} {:?} {:?}",
                d.at(x, y),
                e.at(x, y)
            );
        }
    }
}

#[test]
fn pieces_of_a_grid_meet_without_a_seam() {
    let (ni, nj) = (40usize, 30usize);
    let point = |i: usize, j: usize| {
        let (x, y) = (i as f32 / 20.0 - 1.0, j as f32 / 15.0 - 1.0);
        [x, y, 0.3 * (4.0 * x).sin() * (3.0 * y).cos()]
    };
    let whole: Vec<[f32; 3]> = (0..nj).flat_map(|j| (0..ni).map(move |i| point(i, j))).collect();
    let one = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        visit(Chunk::Quads(QuadGrid { size: [ni, nj], points: Positions::F32(&whole), scalars: None, draw: None }));
    });
    // Four pieces with a layer of the neighbours' points around each; two layers, since normals at edges use two points
    // ahead.
    let four = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        for (i0, i1) in [(20usize, 39usize), (0, 20)] {
            for (j0, j1) in [(0usize, 11usize), (11, 29)] {
                let (a0, a1, b0, b1) =
                    (i0.saturating_sub(2), (i1 + 2).min(ni - 1), j0.saturating_sub(2), (j1 + 2).min(nj - 1));
                let p: Vec<[f32; 3]> = (b0..=b1).flat_map(|j| (a0..=a1).map(move |i| point(i, j))).collect();
                let draw = Some([[i0 - a0, i1 - a0], [j0 - b0, j1 - b0]]);
                visit(Chunk::Quads(QuadGrid {
                    size: [a1 - a0 + 1, b1 - b0 + 1],
                    points: Positions::F32(&p),
                    scalars: None,
                    draw,
                }));
            }
        }
    });
    let style = Style::surface(Colour::Solid([180, 170, 160]));
    let camera = Camera { position: [3.0, -6.0, 6.0], ..front(None, 22.0) };
    let a = draw(plain([200, 160], camera), vec![Layer { geometry: &one, style: style.clone() }]);
    let b = draw(plain([200, 160], camera), vec![Layer { geometry: &four, style }]);
    assert!(a.pixels == b.pixels && a.counts == b.counts);
}

#[test]
fn pieces_of_a_line_meet_without_a_seam() {
    let p: Vec<[f64; 3]> = (0..60)
        .map(|i| (i as f64 * 0.2, i as f64 / 30.0 - 1.0))
        .map(|(a, y)| [0.7 * a.cos(), y, 0.7 * a.sin()])
        .collect();
    let one = line(p.clone());
    // The box is the scene's scale, so equal bits need equal boxes.
    let many = ClosureGeometry(one.bounds(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        for first in (0..59).rev().step_by(7) {
            let last = (first + 7).min(59);
            let at = |i: usize| DVec3::from_array(p[i]);
            visit(Chunk::Line(Polyline {
                points: Positions::F64(&p[first..=last]),
                scalars: None,
                radii: None,
                before: (first > 0).then(|| at(first - 1)),
                after: (last < 59).then(|| at(last + 1)),
            }));
        }
        // The steps end at vertex 2.
        let after = Some(DVec3::from_array(p[3]));
        visit(Chunk::Line(Polyline {
            points: Positions::F64(&p[..=2]),
            scalars: None,
            radii: None,
            before: None,
            after,
        }));
    });
    let style = Style::tubes(Colour::Solid([200, 90, 40]), Radius::Physical(0.12));
    let camera = Camera { position: [4.0, 2.0, 9.0], ..front(None, 20.0) };
    let a = draw(plain([200, 200], camera), vec![Layer { geometry: &one, style: style.clone() }]);
    let b = draw(plain([200, 200], camera), vec![Layer { geometry: &many, style }]);
    assert!(a.pixels == b.pixels && a.counts == b.counts);
}

/// A scene with all kinds of geometry.
fn mixed<R>(then: impl FnOnce(StageSetting, Vec<Layer<'_>>) -> R) -> R {
    let p: Vec<[f64; 3]> = (0..80).map(|i| i as f64 * 0.15).map(|a| [a.cos(), 0.16 * a - 1.0, a.sin()]).collect();
    let s: Vec<f32> = (0..80).map(|i| i as f32).collect();
    let helix = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        visit(Chunk::Line(Polyline {
            points: Positions::F64(&p),
            scalars: Some(&s),
            radii: None,
            before: None,
            after: None,
        }));
    });
    let seeds = points(vec![[0.3, 0.4, 0.5], [-0.6, -0.5, 0.9]]);
    let sheet = triangles(
        vec![[-1.0, -0.8, -1.0], [1.0, -0.8, -1.0], [1.0, -0.5, 1.0], [-1.0, -0.5, 1.0]],
        vec![[0, 1, 2], [0, 2, 3]],
    );
    let pane = triangles(vec![[-0.2, -1.0, 0.2], [0.9, -1.0, 0.4], [0.2, 0.9, 0.8]], vec![[0, 1, 2]]);
    let map = ColourMap::new((0..256).map(|i| [i as u8, 90, 255 - i as u8]).collect(), [0.0, 79.0]).unwrap();
    let furniture = Furniture {
        bars: vec![ScalarBar { title: "speed".into(), unit: "m/s".into(), map: map.clone() }],
        axes: Some(Axes::default()),
        notes: vec![Note { text: "A title\nof two lines".into(), place: NotePosition::TopLeft, scale: 1.3 }],
        keys: vec![("first".into(), [255, 0, 0]), ("second".into(), [0, 255, 0])],
        scale: None,
        text_scale: 1.0,
    };
    let view = View { direction: DVec3::new(0.5, 0.6, 1.0), up: DVec3::Y, fov_degrees: Some(30.0) };
    let layers = vec![
        Layer { geometry: &helix, style: Style::tubes(Colour::Mapped(map), Radius::Physical(0.06)) },
        Layer { geometry: &seeds, style: Style::points(Colour::Solid([250, 200, 40]), Radius::Pixels(5.0)) },
        Layer { geometry: &sheet, style: Style::surface(Colour::Solid([200, 200, 196])) },
        Layer { geometry: &pane, style: Style { opacity: 0.4, ..Style::surface(Colour::Solid([90, 140, 220])) } },
    ];
    let camera = fit_layers(&layers, &view, &furniture.frame([260, 180])).unwrap();
    let setting = StageSetting {
        effects: Effects::default(),
        lighting: Lighting::default(),
        furniture,
        background: Background::default(),
        ..plain([260, 180], camera)
    };
    then(setting, layers)
}

#[test]
fn every_cut_into_bands_gives_the_same_bits() {
    mixed(|setting, layers| {
        for samples in [Samples::Eight, Samples::Sixteen] {
            let setting = StageSetting { samples, ..setting.clone() };
            let whole = draw(setting.clone(), layers.clone());
            for rows in [1, 7, 64, 179] {
                assert!(draw_in(setting.clone(), layers.clone(), rows).pixels == whole.pixels, "bands of {rows}");
            }
        }
    });
}

#[test]
fn see_through_layers_mix_in_order() {
    let pane = |z: f32| triangles(vec![[-2.0, -2.0, z], [2.0, -2.0, z], [0.0, 3.0, z]], vec![[0, 1, 2]]);
    let (front_pane, back_pane) = (pane(0.5), pane(-0.5));
    let style = |c: Srgb8, opacity: f32| Style { finish: Finish::Flat, opacity, ..Style::surface(Colour::Solid(c)) };
    let layers = vec![
        Layer { geometry: &back_pane, style: style([0, 0, 255], 0.5) },
        Layer { geometry: &front_pane, style: style([255, 0, 0], 0.25) },
    ];
    let d = draw(plain([60, 60], front(Some(3.0), 0.0)), layers.clone());
    // Linear light over white: a quarter red, then half of the rest blue, then white.
    let expected =
        [0.25 + 0.75 * 0.5, 0.75 * 0.5, 0.75 * 0.5 + 0.75 * 0.5f32].map(|v| (linear_to_srgb(v) * 255.0).round() as u8);
    assert_eq!(d.at(30, 30), expected);
    let turned = draw(plain([60, 60], front(Some(3.0), 0.0)), layers.into_iter().rev().collect());
    assert!(d.pixels == turned.pixels);
}

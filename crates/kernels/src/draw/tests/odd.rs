//! Unusual scenes: bad numbers, an eye inside, annotations, invalid stages.

use super::*;

#[test]
fn bad_numbers_are_left_out_and_counted() {
    let nan = f64::NAN;
    let broken = line(vec![
        [-1.0, 0.0, 0.0],
        [-0.5, 0.0, 0.0],
        [nan, 0.0, 0.0],
        [0.5, 0.0, 0.0],
        [1e200, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ]);
    let d = draw(
        plain([120, 60], front(Some(1.5), 0.0)),
        vec![Layer { geometry: &broken, style: flat(BLACK, Radius::Pixels(2.0)) }],
    );
    // One piece, and two isolated points.
    assert_eq!(d.counts, DrawCounts { segments: 1, spheres: 2, skipped: 2, triangles: 0 });
    assert!(d.at(40, 30) == [0; 3] && d.at(60, 30) == [255; 3]);
    let corners = vec![[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [f32::INFINITY, 0.0, 0.0]];
    let mesh = triangles(corners, vec![[0, 1, 2], [0, 1, 3], [0, 1, 9], [1, 1, 2]]);
    let d = draw(plain([60, 60], front(Some(3.0), 0.0)), vec![Layer { geometry: &mesh, style: Style::surface(BLACK) }]);
    assert_eq!(d.counts, DrawCounts { triangles: 2, skipped: 2, ..DrawCounts::default() });
    let p =
        [[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [f32::NAN, 1.0, 0.0]];
    let holed = ClosureGeometry(unit_box(), |visit: &mut dyn FnMut(Chunk<'_>)| {
        visit(Chunk::Quads(QuadGrid { size: [3, 2], points: Positions::F32(&p), scalars: None, draw: None }));
    });
    for camera in [front(Some(3.0), 0.0), Camera { target: [0.0, 500.0, 0.0], ..front(Some(3.0), 0.0) }] {
        let d = draw(plain([60, 60], camera), vec![Layer { geometry: &holed, style: Style::surface(BLACK) }]);
        assert_eq!(d.counts, DrawCounts { triangles: 2, skipped: 1, ..DrawCounts::default() });
    }
}

#[test]
fn odd_scenes_are_drawn() {
    let empty = line(vec![]);
    let dot = line(vec![[3.0, 4.0, 5.0]]);
    let huge = line(vec![[-1e120, 0.0, 0.0], [1e120, 1e119, 3e119]]);
    let tiny = line(vec![[1e-200, 0.0, 0.0], [0.0, 1e-200, 0.0]]);
    let far = line(vec![[1e9, 1e9, 1e9], [1e9 + 1.0, 1e9 + 2.0, 1e9]]);
    for (name, geometry) in
        [("empty", &empty as &dyn Geometry), ("dot", &dot), ("huge", &huge), ("tiny", &tiny), ("far", &far)]
    {
        for fov_degrees in [None, Some(30.0)] {
            let bounds = geometry.bounds();
            let layers = vec![Layer { geometry, style: flat(BLACK, Radius::Pixels(4.0)) }];
            let view = View { fov_degrees, ..View::of(&bounds) };
            let camera = fit_layers(&layers, &view, &Frame::new([80, 60])).unwrap();
            let d = draw(plain([80, 60], camera), layers);
            let least = if name == "empty" { 0.0 } else { 40.0 };
            assert!(d.ink() >= least && d.ink() < 1000.0, "{name} {fov_degrees:?} {}", d.ink());
        }
    }
    assert_eq!(draw(plain([1, 1], front(Some(1.0), 0.0)), vec![]).pixels, [255, 255, 255]);
}

#[test]
fn an_eye_inside_the_scene_sees_what_is_before_it() {
    // A closed box around the eye: every pixel is covered. A tube through the eye is harmless.
    let c = |i: u32| {
        [
            if i & 1 == 0 { -1.0f32 } else { 1.0 },
            if i & 2 == 0 { -1.0 } else { 1.0 },
            if i & 4 == 0 { -1.0 } else { 1.0 },
        ]
    };
    let faces = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]];
    let room = triangles(
        (0..8).map(c).collect(),
        faces.iter().flat_map(|f: &[u32; 4]| [[f[0], f[1], f[2]], [f[0], f[2], f[3]]]).collect(),
    );
    let through = line(vec![[0.1, 0.2, 5.0], [0.1, 0.2, -5.0]]);
    let camera = Camera { position: [0.1, 0.2, 0.3], target: [0.7, 0.9, -0.5], ..front(None, 100.0) };
    let style = Style { finish: Finish::Flat, ..Style::surface(BLACK) };
    let layers =
        vec![Layer { geometry: &room, style }, Layer { geometry: &through, style: flat(BLACK, Radius::Physical(0.3)) }];
    let d = draw(plain([100, 80], camera), layers);
    assert!(d.pixels.iter().all(|p| *p == 0));
}

#[test]
fn furniture_leaves_room_and_is_drawn() {
    mixed(|setting, layers| {
        let with = draw(setting.clone(), layers.clone());
        let frame = setting.furniture.frame(setting.size);
        assert!(frame.insets[2] > 20.0 && frame.insets[1] > 10.0);
        let without = draw(StageSetting { furniture: Furniture::default(), ..setting.clone() }, layers);
        // The end colours of the map occur, to the bit, only where there is a bar.
        for end in [[255, 90, 0], [0, 90, 255]] {
            let has = |d: &Drawn| (190..260).any(|x| (0..180).any(|y| d.at(x, y) == end));
            assert!(has(&with) && !has(&without));
        }
        // Small pictures have none; any size and shape is drawn.
        for size in [[64, 64], [121, 400], [400, 121], [125, 125]] {
            let d = draw(StageSetting { size, ..setting.clone() }, vec![]);
            assert_eq!(d.pixels.len(), (size[0] * size[1] * 3) as usize);
        }
    });
}

#[test]
fn stages_that_make_no_sense_say_why() {
    let camera = front(None, 30.0);
    assert!(matches!(Stage::new(plain([0, 5], camera), vec![]), Err(StageError::BadSize(0, 5))));
    assert!(matches!(Stage::new(plain([70_000, 5], camera), vec![]), Err(StageError::BadSize(70_000, 5))));
    let bad = Camera { lens: Lens::Perspective { fov_degrees: f64::NAN }, ..camera };
    assert!(matches!(Stage::new(plain([5, 5], bad), vec![]), Err(StageError::Camera(_))));
    let dot = line(vec![[0.0; 3]]);
    // Any number of layers of one style, but not of styles.
    let layer = |opacity| Layer {
        geometry: &dot as &dyn Geometry,
        style: Style { opacity, ..flat(BLACK, Radius::Pixels(1.0)) },
    };
    assert!(Stage::new(plain([5, 5], camera), vec![layer(1.0); 2000]).is_ok());
    let many = (0..300).map(|i| layer(i as f32 / 400.0)).collect();
    assert!(matches!(Stage::new(plain([5, 5], camera), many), Err(StageError::TooManyMaterials(301))));
}

//! Budgets, workers, order and errors of whole pictures.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

fn helix() -> LineSet {
    let points = (0..600).map(|i| i as f64 * 0.05).map(|a| [a.cos(), a.sin(), a * 0.1]).collect();
    LineSet::new(points, vec![0, 300, 300, 600]).unwrap().with_scalars((0..600).map(|i| i as f32).collect()).unwrap()
}

fn wall() -> SurfaceGrid {
    let points = (0..40 * 50)
        .map(|k| [(k % 40) as f32 * 0.1 - 2.0, 1.5 + 0.1 * (k as f32 * 0.2).sin(), (k / 40) as f32 * 0.06])
        .collect();
    SurfaceGrid::new([40, 50], points).unwrap()
}

fn setting(size: [u32; 2], layers: &[Layer<'_>]) -> StageSetting {
    let map = ColourMap::new(vec![[0, 0, 90], [0, 200, 90], [255, 255, 0]], [0.0, 600.0]).unwrap();
    let bars = vec![ScalarBar { title: "t".into(), unit: "s".into(), map }];
    let furniture =
        Furniture { bars, axes: Some(Axes::default()), notes: vec![], keys: vec![], scale: None, text_scale: 1.0 };
    let view = View::of(&bounds_of(layers));
    let camera = fit_layers(layers, &view, &furniture.frame(size)).unwrap();
    StageSetting {
        size,
        camera,
        background: Background::default(),
        effects: Effects::default(),
        lighting: Lighting::default(),
        samples: Samples::Eight,
        furniture,
    }
}

fn with_scene<R>(then: impl FnOnce(Vec<Layer<'_>>) -> R) -> R {
    let (lines, body) = (helix(), wall());
    let map = ColourMap::new(vec![[0, 0, 90], [0, 200, 90], [255, 255, 0]], [0.0, 600.0]).unwrap();
    then(vec![
        Layer { geometry: &lines, style: Style::tubes(Colour::Mapped(map), Radius::Pixels(2.0)) },
        Layer { geometry: &body, style: Style::surface(Colour::Solid([200, 200, 196])) },
        Layer { geometry: &lines, style: Style { opacity: 0.5, ..Style::outline(Colour::Solid([9, 9, 9]), 9.0) } },
    ])
}

fn rows(setting: StageSetting, layers: Vec<Layer<'_>>, bytes: u64, workers: usize) -> (Vec<u8>, Report) {
    let mut out = Vec::new();
    let take = &mut |r: &[u8]| {
        out.extend_from_slice(r);
        Ok(())
    };
    let report = render_rows(setting, layers, Budget::uncharged(bytes), workers, &mut |_| true, take).unwrap();
    (out, report)
}

#[test]
fn the_same_bits_for_every_budget_and_any_number_of_workers() {
    with_scene(|layers| {
        let setting = setting([320, 200], &layers);
        let (whole, report) = rows(setting.clone(), layers.clone(), 1 << 30, 1);
        assert_eq!(whole.len(), 320 * 200 * 3);
        assert_eq!(report.workers, 1);
        assert_eq!(report.counts, DrawCounts { segments: 1196, triangles: 2 * 39 * 49, spheres: 0, skipped: 0 });
        let mut bands = Vec::new();
        let least =
            render_rows(setting.clone(), layers.clone(), Budget::uncharged(0), 1, &mut |_| true, &mut |_| Ok(()));
        let Err(PictureError::TooSmall { needed: least, .. }) = least else { panic!("nothing should not do") };
        for (bytes, workers) in
            [(1 << 30, 2), (1 << 30, 7), (least, 1), (least + (1 << 19), 2), (4 << 20, 3), (12 << 20, 16)]
        {
            let (cut, report) = rows(setting.clone(), layers.clone(), bytes, workers);
            assert!(cut == whole, "{bytes} bytes, {workers} workers: {report:?}");
            assert!(report.charged_bytes <= bytes);
            bands.push(report.bands);
        }
        assert!(bands.iter().any(|b| *b > 60) && bands.iter().any(|b| *b < 15), "{bands:?}");
    });
}

#[test]
fn a_png_holds_the_same_pixels() {
    with_scene(|layers| {
        let setting = setting([161, 133], &layers);
        let (pixels, _) = rows(setting.clone(), layers.clone(), 1 << 26, 2);
        let mut file = Vec::new();
        let mut told = Vec::new();
        let progress = &mut |share| {
            told.push(share);
            true
        };
        render(setting, layers, Budget::uncharged(8 << 20), 2, progress, &mut file).unwrap();
        assert!(told.windows(2).all(|w| w[0] <= w[1]) && told.last() == Some(&1.0), "{told:?}");
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut back = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut back).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (161, 133, png::ColorType::Rgb));
        assert!(reader.info().srgb.is_some());
        assert!(back == pixels);
    });
}

/// Charges any amount, and notes the most bytes held.
#[derive(Default)]
struct Ledger {
    held: AtomicU64,
    most: AtomicU64,
}

struct HeldPages(Arc<Ledger>, u64);

impl Drop for HeldPages {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Ordering::SeqCst);
    }
}

#[test]
fn every_byte_is_charged_first_and_given_back() {
    with_scene(|layers| {
        let setting = setting([400, 300], &layers);
        let ledger = Arc::new(Ledger::default());
        let charge = |bytes: u64| -> Result<Guard, Refusal> {
            let now = ledger.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
            ledger.most.fetch_max(now, Ordering::SeqCst);
            Ok(Box::new(HeldPages(ledger.clone(), bytes)))
        };
        let budget = Budget { bytes: 5 << 20, charge: &charge };
        let report = render(setting.clone(), layers.clone(), budget, 2, &mut |_| true, std::io::sink()).unwrap();
        assert_eq!(ledger.most.load(Ordering::SeqCst), report.charged_bytes);
        assert_eq!(ledger.held.load(Ordering::SeqCst), 0);
        let refuse = |_: u64| -> Result<Guard, Refusal> { Err("nothing left".into()) };
        let refused =
            render(setting, layers, Budget { bytes: 5 << 20, charge: &refuse }, 2, &mut |_| true, std::io::sink());
        assert!(matches!(refused, Err(PictureError::Refused(e)) if e.to_string() == "nothing left"));
    });
}

#[test]
fn too_small_a_budget_names_the_one_that_would_do() {
    with_scene(|layers| {
        let setting = setting([400, 300], &layers);
        let draw = |bytes| {
            render(setting.clone(), layers.clone(), Budget::uncharged(bytes), 4, &mut |_| true, std::io::sink())
        };
        let Err(PictureError::TooSmall { needed, budget, .. }) = draw(1000) else { panic!("it should not fit") };
        assert_eq!(budget, 1000);
        assert!(draw(needed - 1).is_err());
        let report = draw(needed).unwrap();
        assert_eq!((report.workers, report.band_rows, report.bands), (1, 1, 300));
    });
}

#[test]
fn a_large_picture_fits_a_small_budget() {
    with_scene(|layers| {
        let setting = setting([7680, 300], &layers);
        let report = render(setting, layers, Budget::uncharged(12 << 20), 2, &mut |_| true, std::io::sink()).unwrap();
        assert!(report.charged_bytes <= 12 << 20 && report.bands > 30, "{report:?}");
    });
}

#[test]
fn it_stops_when_told_to() {
    with_scene(|layers| {
        let setting = setting([400, 300], &layers);
        for stop_at in [0, 1, 2] {
            let mut calls = 0;
            let progress = &mut |_| {
                calls += 1;
                calls <= stop_at
            };
            let stopped =
                render(setting.clone(), layers.clone(), Budget::uncharged(4 << 20), 3, progress, std::io::sink());
            assert!(matches!(stopped, Err(PictureError::Interrupted)));
        }
    });
}

/// Lines that take a minute to read, as from a slow disk.
struct Slow;

impl Geometry for Slow {
    fn bounds(&self) -> Aabb {
        Aabb::of([glam::DVec3::ZERO, glam::DVec3::ONE])
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        for n in 0..6000 {
            let x = f64::from(n) / 6000.0;
            if wanted(&Aabb::of([glam::DVec3::splat(x)])) {
                std::thread::sleep(std::time::Duration::from_millis(10));
                visit(Chunk::Line(Polyline {
                    points: Positions::F64(&[[x; 3], [x, x, 1.0 - x]]),
                    scalars: None,
                    radii: None,
                    before: None,
                    after: None,
                }));
            }
        }
        Ok(())
    }
}

/// Also within a pass over the geometry. The first pass, the survey, hands over no row.
#[test]
fn it_stops_soon_however_much_there_is_to_read() {
    let layer = Layer { geometry: &Slow, style: Style::tubes(Colour::Solid([9, 9, 9]), Radius::Pixels(2.0)) };
    let camera = Camera::fit(&Slow.bounds(), &View::of(&Slow.bounds()), &Furniture::default().frame([64, 48]));
    let setting = StageSetting {
        size: [64, 48],
        camera,
        background: Background::default(),
        effects: Effects::default(),
        lighting: Lighting::default(),
        samples: Samples::Eight,
        furniture: Furniture::default(),
    };
    let begun = std::time::Instant::now();
    let progress = &mut |_| begun.elapsed().as_secs_f64() < 0.3;
    let stopped = render(setting, vec![layer], Budget::uncharged(8 << 20), 2, progress, std::io::sink());
    assert!(matches!(stopped, Err(PictureError::Interrupted)));
    assert!(begun.elapsed().as_secs_f64() < 5.0, "{:?}", begun.elapsed());
}

struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    with_scene(|layers| {
        let setting = setting([400, 300], &layers);
        let full = render(setting, layers, Budget::uncharged(4 << 20), 3, &mut |_| true, Full);
        assert!(matches!(full, Err(PictureError::Write(e)) if e.kind() == std::io::ErrorKind::StorageFull));
    });
}

/// A source that fails at its n-th read.
struct Failing(AtomicU64);

impl Geometry for Failing {
    fn bounds(&self) -> Aabb {
        helix().bounds()
    }
    fn for_each(&self, _: BoxFilter<'_>, _: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        if self.0.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err("page 7 of zone 2 could not be read".into());
        }
        Ok(())
    }
}

#[test]
fn a_layer_that_cannot_be_read_ends_the_picture() {
    for reads in [0, 1, 2, 5] {
        let bad = Failing(AtomicU64::new(reads));
        let lines = helix();
        let style = Style::tubes(Colour::Solid([1, 2, 3]), Radius::Pixels(1.0));
        let layers = vec![Layer { geometry: &lines, style: style.clone() }, Layer { geometry: &bad, style }];
        let failed = render(
            setting([200, 150], &layers[..1]),
            layers,
            Budget::uncharged(8 << 20),
            2,
            &mut |_| true,
            std::io::sink(),
        );
        let Err(PictureError::Stage(StageError::Layer { layer: 1, source })) = failed else {
            panic!("it should have failed")
        };
        assert_eq!(source.to_string(), "page 7 of zone 2 could not be read");
    }
}

/// A source that panics. The caller gets an error and does not hang.
struct Panicking;

impl Geometry for Panicking {
    fn bounds(&self) -> Aabb {
        helix().bounds()
    }
    fn for_each(&self, wanted: BoxFilter<'_>, _: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        if wanted(&Aabb::EMPTY) {
            return Ok(());
        }
        panic!("a bug")
    }
}

#[test]
fn a_panic_in_a_worker_does_not_hang() {
    let lines = helix();
    let style = Style { finish: Finish::Flat, ..Style::tubes(Colour::Solid([1, 2, 3]), Radius::Pixels(1.0)) };
    let layers = vec![Layer { geometry: &lines, style: style.clone() }, Layer { geometry: &Panicking, style }];
    let size = [200, 150];
    let setting = setting(size, &layers[..1]);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        render(setting, layers, Budget::uncharged(8 << 20), 2, &mut |_| true, std::io::sink())
    }));
    assert!(matches!(result, Err(_) | Ok(Err(PictureError::WorkerLost))));
}

#[test]
fn arrays_that_do_not_fit_are_errors() {
    let p = vec![[0.0; 3]; 4];
    assert!(matches!(LineSet::new(p.clone(), vec![0, 3, 2]), Err(ArrayError::BadOffsets { line: 1, .. })));
    assert!(matches!(LineSet::new(p.clone(), vec![0, 5]), Err(ArrayError::BadOffsets { line: 0, to: 5, .. })));
    assert!(LineSet::new(p.clone(), vec![]).unwrap().is_empty());
    assert!(LineSet::new(p.clone(), vec![0, 4]).unwrap().with_scalars(vec![0.0; 3]).is_err());
    assert!(SurfaceGrid::new([3, 2], vec![[0.0; 3]; 5]).is_err());
    assert!(TriangleSet::new(vec![], vec![]).with_normals(vec![[0.0; 3]]).is_err());
    assert!(PointSet::new(p).with_radii(vec![1.0; 4]).unwrap().bounds().extent().x == 2.0);
}

#[test]
fn long_lines_come_in_pieces_that_share_their_ends() {
    let n = 1000;
    let lines = LineSet::new((0..n).map(|i| [i as f64, 0.0, 0.0]).collect(), vec![0, 1, 1, n]).unwrap();
    let mut seen = Vec::new();
    let mut visit = |chunk: Chunk<'_>| {
        let Chunk::Line(l) = chunk else { panic!("lines only") };
        let x = |p: kernels::draw::DVec3| p.x;
        seen.push((l.before.map(x), l.points.get(0).x, l.points.get(l.points.len() - 1).x, l.after.map(x)));
    };
    lines.for_each(&|_| true, &mut visit).unwrap();
    assert_eq!(
        seen,
        [
            (None, 0.0, 0.0, None),
            (None, 1.0, 257.0, Some(258.0)),
            (Some(256.0), 257.0, 513.0, Some(514.0)),
            (Some(512.0), 513.0, 769.0, Some(770.0)),
            (Some(768.0), 769.0, 999.0, None),
        ]
    );
}

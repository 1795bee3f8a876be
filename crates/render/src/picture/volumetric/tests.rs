//! Fog of constant density k, whose effect is known: it transmits exp(-k d) at depth d.

use crate::picture::*;
use kernels::draw::{linear_to_srgb, srgb_to_linear, DVec3};

const DENSITY: f32 = 0.4;
const GLOW: [f32; 3] = [0.8, 0.3, 0.1];

/// Whether rows are cast together although canvases hold fewer.
struct Fog(bool);

impl Haze for Fog {
    fn bounds(&self) -> Aabb {
        Aabb { min: DVec3::splat(-1.0), max: DVec3::splat(1.0) }
    }
    fn is_large(&self, _: &Camera, _: [u32; 2]) -> bool {
        self.0
    }
    fn cast(
        &self,
        _: &Camera,
        _: [u32; 2],
        depths: &Depths,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError> {
        for row in depths.rows() {
            for column in 0..depths.columns() {
                for (to, depth) in light.pixel_mut(row, column).iter_mut().zip(depths.of(row, column)) {
                    let left = (-DENSITY * depth).exp();
                    *to = [GLOW[0] * (1.0 - left), GLOW[1] * (1.0 - left), GLOW[2] * (1.0 - left), left];
                }
            }
            if !go_on() {
                break;
            }
        }
        Ok(())
    }
}

/// A wall at `x` across the line of sight. The eye is at (0, 0, 0) and sees along +x.
fn wall(x: f32, from: f32, to: f32) -> SurfaceGrid {
    let points = [[x, from, -9.0], [x, to, -9.0], [x, from, 9.0], [x, to, 9.0]];
    SurfaceGrid::new([2, 2], points.to_vec()).unwrap()
}

fn setting(size: [u32; 2]) -> StageSetting {
    let camera = Camera {
        position: [0.0; 3],
        target: [1.0, 0.0, 0.0],
        up: [0.0, 0.0, 1.0],
        lens: Lens::Perspective { fov_degrees: 40.0 },
        center: [0.5, 0.5],
    };
    let effects = Effects { occlusion: 0.0, depth_cue: 0.0 };
    let background = Background::Solid([30, 60, 90]);
    let lighting = Lighting::default();
    StageSetting {
        size,
        camera,
        background,
        effects,
        lighting,
        samples: Samples::Eight,
        furniture: Furniture::default(),
    }
}

fn flat(colour: [u8; 3], opacity: f32) -> Style {
    Style { opacity, finish: Finish::Flat, ..Style::surface(Colour::Solid(colour)) }
}

fn drawn(layers: Vec<Layer<'_>>, large: bool, bytes: u64, workers: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let take = &mut |rows: &[u8]| {
        out.extend_from_slice(rows);
        Ok(())
    };
    let subject = Subject { layers, haze: Some(&Fog(large)) };
    render_rows(setting([96, 64]), subject, Budget::uncharged(bytes), workers, &mut |_| true, take).unwrap();
    out
}

fn linear(c: [u8; 3]) -> [f32; 3] {
    c.map(|v| srgb_to_linear(f32::from(v) / 255.0))
}

/// A colour seen through fog of this depth.
fn behind_fog(colour: [f32; 3], depth: f32) -> [f32; 3] {
    let left = (-DENSITY * depth).exp();
    std::array::from_fn(|c| GLOW[c] * (1.0 - left) + colour[c] * left)
}

fn near(pixel: &[u8], wanted: [f32; 3]) -> bool {
    pixel.iter().zip(wanted).all(|(p, w)| (f32::from(*p) - 255.0 * linear_to_srgb(w)).abs() < 1.01)
}

#[test]
fn what_is_within_fog_is_seen_through_what_is_in_front_of_it() {
    // The left half of the picture (+y) has a wall.
    let (opaque, veil) = (wall(5.0, 0.0, 9.0), wall(2.0, -9.0, 9.0));
    let layers = vec![
        Layer { geometry: &opaque, style: flat([200, 220, 40], 1.0) },
        Layer { geometry: &veil, style: flat([20, 40, 250], 0.25) },
    ];
    let picture = drawn(layers.clone(), false, 1 << 30, 2);
    let at = |x: usize, y: usize| &picture[(y * 96 + x) * 3..][..3];
    // The fog before the veil, then a quarter of the veil's light and three quarters of the light behind it.
    let seen = |colour: [f32; 3], depth: f32| {
        let (whole, front) = (behind_fog(colour, depth), behind_fog([0.0; 3], 2.0));
        let own = behind_fog(linear([20, 40, 250]).map(|c| c * 0.25), 2.0);
        // A quarter of the veil's light is its own, and the fog before it is seen whole.
        std::array::from_fn(|c| front[c] + (own[c] - front[c]) + (whole[c] - front[c]) * 0.75)
    };
    let fog_alone = seen([0.0; 3], f32::INFINITY);
    for (x, y) in [(20, 20), (40, 50), (5, 60)] {
        assert!(near(at(x, y), seen(linear([200, 220, 40]), 5.0)), "{x} {y}: {:?}", at(x, y));
    }
    for (x, y) in [(60, 20), (90, 50)] {
        assert!(near(at(x, y), fog_alone), "{x} {y}: {:?}", at(x, y));
    }
    for (bytes, workers) in [(1 << 30, 1), (300 << 10, 2), (200 << 10, 1), (1 << 30, 5)] {
        assert!(drawn(layers.clone(), false, bytes, workers) == picture, "{bytes} bytes, {workers} workers");
    }
    // Rows are cast together only without transparent surfaces.
    let whole = drawn(layers[..1].to_vec(), false, 1 << 30, 2);
    for (bytes, workers) in [(1 << 30, 1), (400 << 10, 2), (300 << 10, 1), (200 << 10, 1)] {
        assert!(
            drawn(layers[..1].to_vec(), true, bytes, workers) == whole,
            "{bytes} bytes, {workers} workers, together"
        );
    }
}

#[test]
fn fog_alone_hides_the_background_and_a_stop_ends_it() {
    let picture = drawn(Vec::new(), false, 1 << 20, 2);
    assert!(picture.chunks_exact(3).all(|p| near(p, GLOW)));
    let mut asked = 0;
    let mut stop = |_: f32| {
        asked += 1;
        asked < 4
    };
    let subject = Subject { layers: Vec::new(), haze: Some(&Fog(false)) };
    let ended = render_rows(setting([96, 64]), subject, Budget::uncharged(1 << 20), 1, &mut stop, &mut |_| Ok(()));
    assert!(matches!(ended, Err(PictureError::Interrupted)));
}

//! Light: from the visible points of samples to the colour of each pixel.
//!
//! A key light from the upper left, a weak fill from the right and light from the sky are fixed to the camera. So a
//! scene is well lit from every side. A surface that faces the eye has nearly its own colour, so that it can be
//! compared with the scalar bar. All sums are in linear light.

use super::band::{colour_of, material_of, normal_of, Band, EMPTY};
use super::colour::{linear_of, srgb_to_linear, Srgb8};
use super::haze::HazeRows;
use super::occlusion::DepthMap;
use super::projector::Projector;
use super::style::Finish;
use glam::Vec3;
use serde::{Deserialize, Serialize};
use wide::f32x8;

/// The background.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Background {
    /// One colour.
    Solid(Srgb8),
    /// A gradient from the upper to the lower edge.
    Gradient {
        /// Colour of the upper edge.
        top: Srgb8,
        /// Colour of the lower edge.
        bottom: Srgb8,
    },
}

impl Default for Background {
    fn default() -> Background {
        Background::Gradient { top: [226, 232, 240], bottom: [252, 252, 253] }
    }
}

impl Background {
    /// Linear colour at a height of the picture, 0 at its upper edge and 1 at its lower.
    pub(crate) fn at(&self, t: f32) -> Vec3 {
        match self {
            Background::Solid(c) => Vec3::from_array(linear_of(*c)),
            Background::Gradient { top, bottom } => {
                // Steps that the eye sees as even are even in sRGB.
                let mix = |i: usize| f32::from(top[i]) + (f32::from(bottom[i]) - f32::from(top[i])) * t;
                Vec3::from_array([mix(0), mix(1), mix(2)].map(|v| srgb_to_linear(v / 255.0)))
            }
        }
    }

    /// Whether dark letters are more legible on it than light ones.
    pub fn is_light(&self) -> bool {
        self.at(0.5).dot(Vec3::new(0.2126, 0.7152, 0.0722)) > 0.18
    }
}

/// A layer as shading needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Material {
    pub finish: Finish,
    /// In front of everything and apart from the scene: no shadow, no depth cue.
    pub gizmo: bool,
    pub opacity: f32,
}

/// Strengths of the effects beside light.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Effects {
    /// Contact shadows, 0 (none) to 1.
    pub occlusion: f32,
    /// Share of the background, 0 to 1, in lines and points as far as the farthest point of the scene. Surfaces keep
    /// the colours of their bar; light shows their depth.
    pub depth_cue: f32,
}

impl Default for Effects {
    fn default() -> Effects {
        Effects { occlusion: 0.75, depth_cue: 0.22 }
    }
}

/// One light, infinitely far away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    /// Towards the light, of any length but 0. In space; for a light fixed to the camera, to the right, up and towards
    /// the eye.
    pub direction: [f64; 3],
    /// Linear colour times intensity; 1 lights a facing surface in full.
    pub colour: [f32; 3],
    /// Whether it is fixed to the camera.
    pub with_camera: bool,
}

/// The lights of a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lighting {
    /// A key light from the upper left, a weak fill and the sky, all fixed to the camera. They are balanced so that a
    /// surface facing the eye shows its own colour.
    #[default]
    Standard,
    /// As given, without any balance.
    Given {
        /// Light from everywhere, linear.
        ambient: [f32; 3],
        /// Lights; the first makes highlights.
        lights: Vec<Light>,
    },
}

/// Lights as samples use them: directions in view space.
#[derive(Clone, Debug)]
pub(crate) struct Lamps {
    ambient: Vec3,
    /// Direction, colour.
    each: Vec<(Vec3, Vec3)>,
}

impl Lamps {
    /// `None` for the standard lights.
    pub(crate) fn of(lighting: &Lighting, projector: &Projector) -> Option<Lamps> {
        let Lighting::Given { ambient, lights } = lighting else { return None };
        let each = lights.iter().map(|l| {
            let d = glam::DVec3::from_array(l.direction).normalize_or(glam::DVec3::Z).as_vec3();
            // View space has z away from the eye.
            let view = if l.with_camera { Vec3::new(d.x, d.y, -d.z) } else { projector.view_direction(d) };
            (view, Vec3::from_array(l.colour))
        });
        Some(Lamps { ambient: Vec3::from_array(*ambient), each: each.collect() })
    }

    /// Ambient and direct light on a surface with the unit normal `n`.
    fn on(&self, n: Vec3) -> (Vec3, Vec3) {
        (self.ambient, self.each.iter().map(|(d, colour)| *colour * n.dot(*d).max(0.0)).sum())
    }
}

/// The data that turn samples into colours.
#[derive(Clone, Debug)]
pub(crate) struct Shader<'a> {
    pub projector: &'a Projector,
    pub materials: &'a [Material],
    pub background: Background,
    pub effects: Effects,
    pub depths: Option<&'a DepthMap>,
    /// Least and greatest depth of the scene.
    pub range: [f32; 2],
    pub height: f32,
    pub light_background: bool,
    pub gain: f32,
    /// Lights other than the standard ones.
    pub lamps: Option<&'a Lamps>,
}

/// Light from the sky and from the lights on a surface with the unit normal `n`.
#[inline]
fn lights(n: Vec3) -> (f32, f32) {
    let wrap = |l: Vec3, w: f32| ((n.dot(l) + w) / (1.0 + w)).max(0.0);
    (0.33 + 0.11 * n.y, 0.78 * wrap(KEY, 0.12) + 0.17 * wrap(FILL, 0.3))
}

/// The factor of all light by which a surface that faces the eye shows exactly its own colour.
pub(crate) fn gain() -> f32 {
    let (ambient, direct) = lights(Vec3::NEG_Z);
    1.0 / (ambient + direct)
}

const KEY: Vec3 = Vec3::new(-0.42, 0.62, -0.66);
const FILL: Vec3 = Vec3::new(0.86, -0.12, -0.49);

impl Shader<'_> {
    /// Linear colour of one sample at pixel position (u, v).
    #[inline]
    fn sample(&self, u: f32, v: f32, depth: f32, key: u64, occlusion: &mut Cached, behind: Vec3) -> Vec3 {
        let albedo = Vec3::from_array(linear_of(colour_of(key)));
        let material = self.materials[material_of(key) as usize];
        let mut colour = albedo;
        if material.finish != Finish::Flat {
            let n = normal_of(key);
            let (a, b) = self.projector.slopes(u, v);
            let eye = if material.gizmo { Vec3::NEG_Z } else { self.projector.to_eye(a, b) };
            let open = match self.depths {
                Some(map) if !material.gizmo => {
                    1.0 - self.effects.occlusion * (1.0 - occlusion.get(map, self.projector, u, v, depth))
                }
                _ => 1.0,
            };
            let facing = n.dot(eye).clamp(0.0, 1.0);
            // Near surfaces hide the sky fully, and the lights less.
            colour = match self.lamps {
                None => {
                    let (ambient, direct) = lights(n);
                    albedo * ((ambient * open + direct * (0.4 + 0.6 * open)) * self.gain)
                }
                Some(lamps) => {
                    let (ambient, direct) = lamps.on(n);
                    albedo * (ambient * open + direct * (0.4 + 0.6 * open))
                }
            };
            let edge = 1.0 - facing;
            if self.light_background {
                // A darker edge separates a tube from its background.
                colour *= 1.0 - 0.45 * edge * edge * edge;
            } else {
                colour += Vec3::splat(0.10 * edge * edge * edge);
            }
            if material.finish == Finish::Satin {
                let key = self.lamps.and_then(|l| l.each.first()).map_or(KEY, |l| l.0);
                let h = (key + eye).normalize();
                let s = n.dot(h).max(0.0);
                let s = s * s;
                let s = s * s;
                let s = s * s;
                let s = s * s;
                colour += Vec3::splat(0.22 * s * s * open);
            }
        }
        if !material.gizmo && material.finish != Finish::Matte {
            let span = self.range[1] - self.range[0];
            if span > 0.0 {
                let t = ((depth - self.range[0]) / span).clamp(0.0, 1.0);
                // In steps even to the eye and not in light: a little white light would drown dark colours.
                let root = |v: Vec3| Vec3::new(v.x.sqrt(), v.y.sqrt(), v.z.sqrt());
                let mix = root(colour).lerp(root(behind), self.effects.depth_cue * t * t * (3.0 - 2.0 * t));
                colour = mix * mix;
            }
        }
        // Brighter than white cannot be shown, and would spoil the antialiasing of a highlight's edge.
        colour.min(Vec3::ONE)
    }

    /// Linear colour of the background in a row of pixels of the whole picture.
    pub(crate) fn behind(&self, row: u32) -> Vec3 {
        self.background.at((row as f32 + 0.5) / self.height)
    }

    /// Linear colours of one row of pixels of a band, over the background. `row` is one of the whole picture.
    pub(crate) fn row(&self, band: &Band, veil: Option<&Veil>, haze: Option<&HazeRows>, row: u32, out: &mut [Vec3]) {
        use super::band::DrawTarget;
        let area = band.area();
        let lattice = &area.lattice;
        let groups = lattice.groups.len();
        let behind = self.behind(row);
        let share = 1.0 / (groups * 8) as f32;
        for (x, out) in out.iter_mut().enumerate() {
            let first = area.index(row, x as u32);
            let empty = (first..first + groups).all(|g| band.depth[g].to_array().iter().all(|d| *d == EMPTY));
            let clear =
                veil.is_none_or(|v| (first..first + groups).all(|g| v.left[g].to_array().iter().all(|t| *t == 1.0)));
            let gathered = haze.map_or(&[][..], |h| h.pixel(row, x as u32));
            if empty && clear {
                *out = match gathered {
                    [] => behind,
                    all => through(all[0], behind),
                };
                continue;
            }
            let mut sum = Vec3::ZERO;
            let mut cached = Cached::NONE;
            for g in 0..groups {
                let (ox, oy) = lattice.groups[g];
                let (ox, oy) = (ox.as_array(), oy.as_array());
                let depths = band.depth[first + g].as_array();
                let keys = &band.keys[first + g];
                for lane in 0..8 {
                    let mut colour = if depths[lane] == EMPTY {
                        behind
                    } else {
                        self.sample(
                            x as f32 + ox[lane],
                            row as f32 + oy[lane],
                            depths[lane],
                            keys[lane],
                            &mut cached,
                            behind,
                        )
                    };
                    let hazy = HazeRows::sample(gathered, g * 8 + lane);
                    if let Some(veil) = veil {
                        let left = veil.left[first + g].as_array()[lane];
                        let passed = veil.passed.get(first + g).map_or(Vec3::ZERO, |p| of_lane(p, lane));
                        colour = (through(hazy, colour) - passed) * left + of_lane(&veil.light[first + g], lane);
                    } else if haze.is_some() {
                        colour = through(hazy, colour);
                    }
                    sum += colour;
                }
            }
            *out = sum * share;
        }
    }

    /// Adds one peel of transparent layers behind those already in the veil. Returns whether it had any point.
    pub(crate) fn lay(&self, peel: &Band, haze: Option<&HazeRows>, veil: &mut Veil) -> bool {
        use super::band::DrawTarget;
        let area = peel.area();
        let lattice = &area.lattice;
        let groups = lattice.groups.len();
        let mut any = false;
        for row in area.first_row..area.first_row + area.rows {
            let behind = self.behind(row);
            for x in 0..area.columns {
                let first = area.index(row, x);
                let gathered = haze.map_or(&[][..], |h| h.pixel(row, x));
                let mut cached = Cached::NONE;
                for g in 0..groups {
                    let depths = peel.depth[first + g].as_array();
                    for (lane, depth) in depths.iter().copied().enumerate() {
                        if depth == EMPTY {
                            continue;
                        }
                        any = true;
                        let key = peel.keys[first + g][lane];
                        let (u, v) = (
                            x as f32 + lattice.groups[g].0.as_array()[lane],
                            row as f32 + lattice.groups[g].1.as_array()[lane],
                        );
                        let colour = self.sample(u, v, depth, key, &mut cached, behind);
                        let opacity = self.materials[material_of(key) as usize].opacity;
                        let left = &mut veil.left[first + g].as_mut_array()[lane];
                        let light = &mut veil.light[first + g];
                        let mut own = colour * opacity;
                        if haze.is_some() {
                            let hazy = HazeRows::sample(gathered, g * 8 + lane);
                            let passed = &mut veil.passed[first + g];
                            own = through(hazy, own) - of_lane(passed, lane);
                            for (c, held) in passed.iter_mut().enumerate() {
                                held.as_mut_array()[lane] = hazy[c];
                            }
                        }
                        for (c, held) in light.iter_mut().enumerate() {
                            held.as_mut_array()[lane] += own[c] * *left;
                        }
                        *left *= 1.0 - opacity;
                        veil.floor[first + g].as_mut_array()[lane] = depth;
                    }
                }
            }
        }
        any
    }
}

/// A colour seen through haze.
#[inline]
fn through(hazy: [f32; 4], behind: Vec3) -> Vec3 {
    Vec3::new(hazy[0], hazy[1], hazy[2]) + behind * hazy[3]
}

#[inline]
fn of_lane(light: &[f32x8; 3], lane: usize) -> Vec3 {
    Vec3::new(light[0].as_array()[lane], light[1].as_array()[lane], light[2].as_array()[lane])
}

/// Light of the transparent layers in front of opaque points.
pub(crate) struct Veil {
    /// Their own light.
    pub light: Vec<[f32x8; 3]>,
    /// Share of the light behind that is transmitted.
    pub left: Vec<f32x8>,
    /// Depth of the last peel.
    pub floor: Vec<f32x8>,
    /// Light of haze gathered up to there; empty without haze.
    pub passed: Vec<[f32x8; 3]>,
}

/// Bytes of a group of eight samples in a [`Veil`].
pub(crate) const VEIL_GROUP_BYTES: usize = 5 * 32;

/// Additional bytes with haze.
pub(crate) const HAZY_GROUP_BYTES: usize = 3 * 32;

impl Veil {
    pub(crate) fn new() -> Veil {
        Veil { light: Vec::new(), left: Vec::new(), floor: Vec::new(), passed: Vec::new() }
    }

    pub(crate) fn reset(&mut self, groups: usize, hazy: bool) {
        self.passed.clear();
        self.passed.resize(if hazy { groups } else { 0 }, [f32x8::splat(0.0); 3]);
        self.light.clear();
        self.light.resize(groups, [f32x8::splat(0.0); 3]);
        self.left.clear();
        self.left.resize(groups, f32x8::splat(1.0));
        self.floor.clear();
        self.floor.resize(groups, f32x8::splat(0.0));
    }
}

/// The last occlusion of a pixel: samples of one surface share it.
struct Cached {
    depth: f32,
    light: f32,
}

impl Cached {
    const NONE: Cached = Cached { depth: f32::NAN, light: 1.0 };

    #[inline]
    fn get(&mut self, map: &DepthMap, p: &Projector, u: f32, v: f32, depth: f32) -> f32 {
        // Within a pixel's width in depth; NaN is never near.
        if !((depth - self.depth).abs() * p.scale_at(depth) < 1.0) {
            self.light = map.light(p, u, v, depth);
            self.depth = depth;
        }
        self.light
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_ends_in_its_colours() {
        let b = Background::Gradient { top: [10, 20, 30], bottom: [200, 210, 220] };
        let round = |v: Vec3| v.to_array().map(|v| super::super::colour::encode(v).round() as u8);
        assert_eq!(round(b.at(0.0)), [10, 20, 30]);
        assert_eq!(round(b.at(1.0)), [200, 210, 220]);
        assert!(Background::default().is_light() && !Background::Solid([20, 20, 30]).is_light());
    }

    #[test]
    fn what_faces_the_eye_shows_its_own_colour() {
        let (ambient, direct) = lights(Vec3::NEG_Z);
        assert!(((ambient + direct) * gain() - 1.0).abs() < 1e-6);
        // No direction is much brighter, or dark.
        for i in 0..1000 {
            let (a, z) = (i as f32 * 2.4, -(i as f32 + 0.5) / 1000.0);
            let r = (1.0 - z * z).sqrt();
            let (ambient, direct) = lights(Vec3::new(r * a.cos(), r * a.sin(), z));
            assert!((0.2..1.3).contains(&((ambient + direct) * gain())));
        }
    }

    #[test]
    fn the_lights_are_unit_vectors() {
        assert!((KEY.length() - 1.0).abs() < 0.01 && (FILL.length() - 1.0).abs() < 0.01);
    }
}

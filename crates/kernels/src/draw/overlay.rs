//! Flat annotations on top of the picture: text, rules, colour scales.

use super::colour::{linear_of, ColourMap, Srgb8};
use super::text::{rasterise, Bitmap};
use glam::Vec3;

/// One annotation, in pixels of the whole picture.
#[derive(Clone, Debug)]
enum Item {
    Letters { bitmaps: Vec<Bitmap>, colour: Vec3, halo: bool },
    Panel { at: [f32; 4], soft: f32 },
    Rect { at: [f32; 4], colour: Vec3, opacity: f32 },
    Scale { at: [i32; 4], map: ColourMap, upright: bool },
}

/// Annotations in the order of drawing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    items: Vec<Item>,
}

/// The alignment of text on its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Align {
    Left,
    Middle,
    Right,
}

impl Overlay {
    /// Adds a line of text with its base line at `at`. A halo in the background's colour separates it from the picture.
    pub(crate) fn text(&mut self, text: &str, size: f32, at: [f32; 2], align: Align, colour: Srgb8, halo: bool) {
        let [x, y] = at;
        let width = super::text::width(text, size);
        let x = match align {
            Align::Left => x,
            Align::Middle => x - width * 0.5,
            Align::Right => x - width,
        };
        let colour = Vec3::from_array(linear_of(colour));
        self.items.push(Item::Letters { bitmaps: rasterise(text, size, x, y), colour, halo });
    }

    /// Adds a veil in the background's colour over a rectangle, which fades out over `soft` pixels. Text on it is
    /// legible over the scene, and over the background the veil is invisible.
    pub(crate) fn panel(&mut self, at: [f32; 4], soft: f32) {
        self.items.push(Item::Panel { at, soft });
    }

    /// A rectangle: left, top, right, bottom.
    pub(crate) fn rect(&mut self, at: [f32; 4], colour: Srgb8, opacity: f32) {
        self.items.push(Item::Rect { at, colour: Vec3::from_array(linear_of(colour)), opacity });
    }

    /// Adds the colours of a map over a rectangle. Low values are at the lower end of an upright scale, and at the left
    /// of a horizontal one.
    pub(crate) fn scale(&mut self, at: [i32; 4], map: &ColourMap, upright: bool) {
        self.items.push(Item::Scale { at, map: map.clone(), upright });
    }

    /// Numbers of scales, and of lines of text.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> [usize; 2] {
        let of = |is: fn(&Item) -> bool| self.items.iter().filter(|item| is(item)).count();
        [of(|item| matches!(item, Item::Scale { .. })), of(|item| matches!(item, Item::Letters { .. }))]
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |i: &Item| match i {
            Item::Letters { bitmaps, .. } => bitmaps.iter().map(|b| b.coverage.len() as u64 + 64).sum::<u64>(),
            Item::Rect { .. } | Item::Panel { .. } => 0,
            Item::Scale { map, .. } => map.table().len() as u64 * 3,
        };
        self.items.iter().map(|i| of(i) + 96).sum()
    }

    /// Draws the annotations on one row of pixels, in linear light. `behind` is the colour of the background there.
    pub(crate) fn draw_row(&self, row: u32, behind: Vec3, out: &mut [Vec3]) {
        for item in &self.items {
            match item {
                Item::Letters { bitmaps, colour, halo } => {
                    for b in bitmaps.iter().filter(|_| *halo) {
                        halo_row(b, row as i32, *colour, behind, out);
                    }
                    for b in bitmaps {
                        let j = row as i32 - b.y;
                        if j < 0 || j >= b.height as i32 {
                            continue;
                        }
                        let line = &b.coverage[j as usize * b.width as usize..][..b.width as usize];
                        for (i, c) in line.iter().enumerate() {
                            if let Some(pixel) = at(out, b.x + i as i32) {
                                *pixel = lay_text(*pixel, *colour, f32::from(*c) / 255.0);
                            }
                        }
                    }
                }
                Item::Panel { at: r, soft } => {
                    let outside = |v: f32, low: f32, high: f32| (low - v).max(v - high).max(0.0) / soft.max(1.0);
                    let down = outside(row as f32 + 0.5, r[1], r[3]);
                    if down >= 1.0 {
                        continue;
                    }
                    for x in ((r[0] - soft).floor() as i32)..((r[2] + soft).ceil() as i32) {
                        let across = outside(x as f32 + 0.5, r[0], r[2]);
                        let veil = 1.0 - (down * down + across * across).sqrt().min(1.0);
                        if let Some(pixel) = at(out, x) {
                            *pixel = pixel.lerp(behind, veil * 0.82);
                        }
                    }
                }
                Item::Rect { at: r, colour, opacity } => {
                    let y = row as f32;
                    let down = (r[3].min(y + 1.0) - r[1].max(y)).clamp(0.0, 1.0);
                    if down <= 0.0 {
                        continue;
                    }
                    for x in (r[0].floor() as i32)..(r[2].ceil() as i32) {
                        let across = (r[2].min(x as f32 + 1.0) - r[0].max(x as f32)).clamp(0.0, 1.0);
                        if let Some(pixel) = at(out, x) {
                            *pixel = pixel.lerp(*colour, across * down * opacity);
                        }
                    }
                }
                Item::Scale { at: [x0, y0, x1, y1], map, upright } => {
                    let y = row as i32;
                    if y < *y0 || y >= *y1 {
                        continue;
                    }
                    for x in *x0..*x1 {
                        // From the first to the last pixel it covers the whole range, so that both end colours occur.
                        let (step, steps) = if *upright { (y1 - 1 - y, y1 - y0 - 1) } else { (x - x0, x1 - x0 - 1) };
                        let t = f64::from(step) / f64::from(steps.max(1));
                        let [low, high] = map.range();
                        if let Some(pixel) = at(out, x) {
                            *pixel = Vec3::from_array(linear_of(map.colour((low + (high - low) * t) as f32)));
                        }
                    }
                }
            }
        }
    }
}

fn at(row: &mut [Vec3], x: i32) -> Option<&mut Vec3> {
    usize::try_from(x).ok().and_then(|x| row.get_mut(x))
}

/// Mixes text with its background. Thin dark strokes lose weight in linear light and light ones gain it. Letters are
/// designed for a mix that is even to the eye; this one is half-way.
fn lay_text(behind: Vec3, colour: Vec3, coverage: f32) -> Vec3 {
    let root = |v: Vec3| Vec3::new(v.x.max(0.0).sqrt(), v.y.max(0.0).sqrt(), v.z.max(0.0).sqrt());
    let mix = root(behind).lerp(root(colour), coverage);
    mix * mix
}

/// Lightness, approximately as the eye sees it.
fn lightness(v: Vec3) -> f32 {
    v.dot(Vec3::new(0.2126, 0.7152, 0.0722)).max(0.0).sqrt()
}

/// A soft edge of `colour` around a glyph in `ink`, two pixels wide and more for large letters. The less the picture
/// differs from the ink there, the harder the edge. So letters are legible on any colour, and subtle on the background.
fn halo_row(b: &Bitmap, row: i32, ink: Vec3, colour: Vec3, out: &mut [Vec3]) {
    let apart = (lightness(ink) - lightness(colour)).abs().max(0.05);
    let reach = (b.height as i32 / 8).clamp(2, 8);
    if row < b.y - reach || row >= b.y + b.height as i32 + reach {
        return;
    }
    for x in b.x - reach..b.x + b.width as i32 + reach {
        let Some(pixel) = at(out, x) else { continue };
        let alike = 1.0 - ((lightness(*pixel) - lightness(ink)).abs() / apart).min(1.0);
        let mut most: f32 = 0.0;
        for dy in -reach..=reach {
            let j = row + dy - b.y;
            if j < 0 || j >= b.height as i32 {
                continue;
            }
            for dx in -reach..=reach {
                let i = x + dx - b.x;
                if i < 0 || i >= b.width as i32 {
                    continue;
                }
                let c = f32::from(b.coverage[j as usize * b.width as usize + i as usize]) / 255.0;
                let c = (c * (1.0 + alike)).min(1.0);
                let away = ((dx * dx + dy * dy) as f32).sqrt() / reach as f32;
                most = most.max(c * (1.2 + 0.5 * alike - away).clamp(0.0, 1.0));
            }
        }
        if most > 0.0 {
            *pixel = pixel.lerp(colour, most * (0.55 + 0.4 * alike));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_both_end_colours() {
        let table: Vec<Srgb8> = (0..256).map(|i| [i as u8, 7, 255 - i as u8]).collect();
        let map = ColourMap::new(table, [-3.0, 4.0]).unwrap();
        let mut overlay = Overlay::default();
        overlay.scale([2, 10, 4, 60], &map, true);
        let mut row = vec![Vec3::ONE; 6];
        overlay.draw_row(10, Vec3::ONE, &mut row);
        assert_eq!(row[2].to_array(), linear_of([255, 7, 0]));
        assert_eq!(row[1], Vec3::ONE);
        overlay.draw_row(59, Vec3::ONE, &mut row);
        assert_eq!(row[3].to_array(), linear_of([0, 7, 255]));
        assert_eq!(row[4], Vec3::ONE);
    }

    #[test]
    fn rectangles_cover_by_area() {
        let mut overlay = Overlay::default();
        overlay.rect([1.5, 0.0, 3.0, 0.5], [0, 0, 0], 1.0);
        let mut row = vec![Vec3::ONE; 4];
        overlay.draw_row(0, Vec3::ONE, &mut row);
        let light: Vec<f32> = row.iter().map(|v| v.x).collect();
        assert_eq!(light, [1.0, 0.75, 0.5, 1.0]);
    }

    #[test]
    fn light_letters_can_be_read_on_a_light_surface() {
        let mut overlay = Overlay::default();
        overlay.text("l", 24.0, [6.0, 24.0], Align::Left, [255; 3], true);
        let dark = Vec3::splat(0.01);
        let drawn = |surface: f32| {
            let mut row = vec![Vec3::splat(surface); 20];
            overlay.draw_row(16, dark, &mut row);
            row.iter().map(|v| v.x).collect::<Vec<f32>>()
        };
        let on_white = drawn(1.0);
        assert!(on_white.iter().any(|v| *v < 0.1) && on_white.iter().any(|v| *v > 0.8), "{on_white:?}");
        // On the background only the letter is visible.
        let on_dark = drawn(0.01);
        assert!(on_dark.iter().any(|v| *v > 0.8) && on_dark.iter().filter(|v| **v > 0.02).count() <= 5, "{on_dark:?}");
    }

    #[test]
    fn things_outside_the_picture_are_cut() {
        let mut overlay = Overlay::default();
        overlay.text("wide text", 30.0, [-20.0, 5.0], Align::Left, [0; 3], true);
        overlay.panel([-4.0, 2.0, 9.0, 90.0], 3.0);
        overlay.rect([-5.0, -5.0, 50.0, 50.0], [0; 3], 0.5);
        for row in 0..8 {
            overlay.draw_row(row, Vec3::ZERO, &mut [Vec3::ONE; 3]);
        }
    }
}

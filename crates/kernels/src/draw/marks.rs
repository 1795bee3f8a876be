//! Annotations over the finished pixels of a flat picture: scalar bars, keys, a rule, letters at its edges.

use super::colour::{linear_of, linear_to_srgb};
use super::furniture::Furniture;
use super::overlay::Overlay;
use glam::Vec3;

/// Annotations with their places, for pictures of red, green, blue and opacity (8 bits each). Untouched pixels keep
/// their bytes.
///
/// ```
/// use kernels::draw::{Furniture, Marks};
/// let edges = ["R", "L", "A", "P"].map(str::to_owned);
/// let marks = Marks::new(&Furniture::default(), Some(&edges), [200, 160]);
/// let mut row = vec![0; 200 * 4];
/// marks.lay(80, &mut row);
/// assert!(row[3..200].chunks(4).any(|alpha| alpha[0] > 0)); // the letter at the left edge
/// ```
#[derive(Clone, Debug)]
pub struct Marks {
    overlay: Overlay,
}

/// The background of letters and scales, for legibility on light pixels.
const BEHIND: [u8; 3] = [12, 14, 18];

/// Least change of light that counts as a change of the pixel.
const SEEN: f32 = 1e-4;

impl Marks {
    /// Lays out annotations for a picture of `size` pixels. `edges` are letters at the left, right, upper and lower
    /// edge. Small pictures get none.
    pub fn new(furniture: &Furniture, edges: Option<&[String; 4]>, size: [u32; 2]) -> Marks {
        let mut layout = furniture.layout(size, false);
        if let Some(edges) = edges {
            furniture.edge_letters(edges, size, &mut layout);
        }
        Marks { overlay: layout.overlay }
    }

    /// Bytes held, and those for drawing on a row of this width.
    pub fn bytes(&self, width: u32) -> u64 {
        self.overlay.bytes() + 4 * 12 * u64::from(width)
    }

    /// Draws on one row of red, green, blue and opacity.
    pub fn lay(&self, row: u32, pixels: &mut [u8]) {
        let behind = Vec3::from_array(linear_of(BEHIND));
        let draw = |ground: f32| {
            let before: Vec<Vec3> = pixels.chunks_exact(4).map(|p| over(p, ground)).collect();
            let mut after = before.clone();
            self.overlay.draw_row(row, behind, &mut after);
            (before, after)
        };
        let (before, after) = draw(0.0);
        // The opacity of a partly transparent pixel follows from two grounds.
        let clear = pixels.chunks_exact(4).any(|p| p[3] < u8::MAX);
        let white = clear.then(|| draw(1.0));
        for (n, pixel) in pixels.chunks_exact_mut(4).enumerate() {
            let changed = |before: &[Vec3], after: &[Vec3]| (after[n] - before[n]).abs().max_element() > SEEN;
            let on_white = white.as_ref().filter(|_| pixel[3] < u8::MAX);
            let is_changed = changed(&before, &after) || on_white.is_some_and(|(b, a)| changed(b, a));
            if !is_changed {
                continue;
            }
            let opacity = on_white.map_or(1.0, |(_, on_white)| {
                let through = on_white[n] - after[n];
                (1.0 - (through.x + through.y + through.z) / 3.0).clamp(0.0, 1.0)
            });
            if opacity > 0.0 {
                let byte = |v: f32| (255.0 * linear_to_srgb((v / opacity).clamp(0.0, 1.0))).round() as u8;
                let [r, g, b] = after[n].to_array().map(byte);
                pixel.copy_from_slice(&[r, g, b, (255.0 * opacity).round() as u8]);
            }
        }
    }
}

/// A pixel's light in front of a grey ground.
fn over(pixel: &[u8], ground: f32) -> Vec3 {
    let opacity = f32::from(pixel[3]) / 255.0;
    Vec3::from_array(linear_of([pixel[0], pixel[1], pixel[2]])) * opacity + Vec3::splat(ground * (1.0 - opacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges() -> [String; 4] {
        ["R", "L", "A", "PI"].map(str::to_owned)
    }

    #[test]
    fn pixels_without_marks_keep_their_bytes() {
        let marks = Marks::new(&Furniture::default(), Some(&edges()), [300, 200]);
        let picture: Vec<u8> = (0..300 * 4).map(|n| if n % 4 == 3 { 255 } else { (n * 7 % 256) as u8 }).collect();
        let mut drawn = picture.clone();
        marks.lay(40, &mut drawn);
        assert_eq!(drawn, picture);
        marks.lay(100, &mut drawn);
        assert_ne!(drawn, picture);
        // Letters are at the edges: the middle is untouched.
        assert_eq!(drawn[400..800], picture[400..800]);
    }

    #[test]
    fn letters_are_seen_on_what_is_clear() {
        let marks = Marks::new(&Furniture::default(), Some(&edges()), [300, 200]);
        let mut rows = vec![0u8; 300 * 200 * 4];
        rows.chunks_exact_mut(300 * 4).zip(0..).for_each(|(row, n)| marks.lay(n, row));
        let opaque = |x: usize, y: usize| rows[(y * 300 + x) * 4 + 3];
        let side = |range: std::ops::Range<usize>| range.flat_map(|x| (80..120).map(move |y| (x, y)));
        assert!(side(0..40).any(|(x, y)| opaque(x, y) > 200) && side(260..300).any(|(x, y)| opaque(x, y) > 200));
        assert!(side(60..240).all(|(x, y)| opaque(x, y) == 0));
    }

    #[test]
    fn small_pictures_have_none() {
        let marks = Marks::new(&Furniture::default(), Some(&edges()), [100, 100]);
        let mut row = vec![0u8; 400];
        (0..100).for_each(|n| marks.lay(n, &mut row));
        assert_eq!(row, vec![0u8; 400]);
    }
}

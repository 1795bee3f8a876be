//! Letters: the bundled font, its metrics and its coverage.

use ab_glyph::{point, Font as _, FontRef, GlyphId, PxScale, ScaleFont as _};
use std::sync::OnceLock;

/// DejaVu Sans, reduced to the signs of scientific text. Its licence is beside it.
static DEJAVU: &[u8] = include_bytes!("fonts/DejaVuSans-subset.ttf");

/// Height of small letters as a share of the size.
const X_HEIGHT: f32 = 1120.0 / 2048.0;

/// Height of capitals and digits as a share of the size.
pub(crate) const CAP_HEIGHT: f32 = 1493.0 / 2048.0;

fn font() -> &'static FontRef<'static> {
    static FONT: OnceLock<FontRef<'static>> = OnceLock::new();
    // The font is part of the program, and a test reads it: it cannot fail here.
    FONT.get_or_init(|| FontRef::try_from_slice(DEJAVU).expect("the bundled font can be read"))
}

/// The nearest size with small letters of a whole number of pixels, so that their upper edges are sharp.
pub(crate) fn crisp(size: f32) -> f32 {
    (size * X_HEIGHT).round().max(4.0) / X_HEIGHT
}

/// Coverage of one glyph.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    /// Pixel of the upper left corner.
    pub x: i32,
    pub y: i32,
    pub width: u32,
    pub height: u32,
    /// 0..=255, row by row.
    pub coverage: Vec<u8>,
}

/// Glyphs with their places from the start of the line.
fn line(text: &str, size: f32) -> (Vec<(GlyphId, f32)>, f32) {
    let font = font();
    let scaled = font.as_scaled(scale_of(size));
    let mut x = 0.0;
    let mut last: Option<GlyphId> = None;
    let mut glyphs = Vec::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        // A letter missing in the font becomes a question mark.
        let id = Some(font.glyph_id(c)).filter(|id| id.0 != 0).unwrap_or_else(|| font.glyph_id('?'));
        if let Some(last) = last {
            x += scaled.kern(last, id);
        }
        glyphs.push((id, x));
        x += scaled.h_advance(id);
        last = Some(id);
    }
    (glyphs, x)
}

/// The rasteriser counts sizes from the deepest to the highest point of the font.
fn scale_of(size: f32) -> PxScale {
    let font = font();
    let em = font.units_per_em().unwrap_or(2048.0);
    PxScale::from(size * font.height_unscaled() / em)
}

/// Width of a line of text in pixels; `size` is the size of the letters in pixels.
pub(crate) fn width(text: &str, size: f32) -> f32 {
    line(text, size).1
}

/// Coverage of a line of text with its base line from (x, y).
pub(crate) fn rasterise(text: &str, size: f32, x: f32, y: f32) -> Vec<Bitmap> {
    let font = font();
    // The base line is between two rows of pixels; across, a quarter of a pixel is fine enough.
    let y = y.round();
    let (glyphs, _) = line(text, size);
    let outlined = glyphs.into_iter().filter_map(|(id, at)| {
        let place = ((x + at) * 4.0).round() / 4.0;
        font.outline_glyph(id.with_scale_and_position(scale_of(size), point(place, y)))
    });
    outlined
        .map(|g| {
            let b = g.px_bounds();
            let (width, height) = (b.width().ceil() as u32, b.height().ceil() as u32);
            let mut coverage = vec![0u8; width as usize * height as usize];
            g.draw(|x, y, c| {
                if let Some(v) = coverage.get_mut(y as usize * width as usize + x as usize) {
                    *v = (c.clamp(0.0, 1.0) * 255.0).round() as u8;
                }
            });
            Bitmap { x: b.min.x as i32, y: b.min.y as i32, width, height, coverage }
        })
        .collect()
}

/// `text`, or its longest start that fits into `room` pixels with an ellipsis.
pub(crate) fn fitted(text: &str, size: f32, room: f32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let shorter: String = kept.iter().collect::<String>().trim_end().to_owned() + "…";
        if width(&shorter, size) <= room {
            return shorter;
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_holds_what_labels_need() {
        for c in "AZaz09 .,:;()[]/%+−×·°µΩαβγρωΔ∂∇²³⁻⁵₀ÄéßÅ–—…≤≥≈∞√'\"".chars()
        {
            assert!(font().glyph_id(c).0 != 0, "{c} is missing");
        }
    }

    #[test]
    fn text_is_where_it_is_said_to_be() {
        let size = crisp(20.0);
        assert!((size * X_HEIGHT - (size * X_HEIGHT).round()).abs() < 1e-3);
        let bitmaps = rasterise("Hx", size, 10.0, 40.0);
        assert_eq!(bitmaps.len(), 2);
        let (h, x) = (&bitmaps[0], &bitmaps[1]);
        assert_eq!(h.y + h.height as i32, 40);
        assert_eq!(x.y + x.height as i32, 40);
        assert!((h.height as f32 - size * CAP_HEIGHT).abs() < 1.0);
        assert_eq!(x.height, (size * X_HEIGHT).round() as u32);
        assert!(width("Hx", size) > width("H", size) && width("", size) == 0.0);
        // Upper and lower edge of the small letter are sharp.
        assert!(x.coverage.iter().any(|c| *c > 200));
    }

    #[test]
    fn letters_that_the_font_lacks_are_seen_to_be_missing() {
        let size = crisp(20.0);
        assert_eq!(font().glyph_id('流').0, 0);
        assert_eq!(rasterise("a流b", size, 0.0, 40.0).len(), 3);
        assert!((width("流", size) - width("?", size)).abs() < 1e-3);
    }

    #[test]
    fn long_text_is_cut() {
        let cut = fitted("a very long name of a field", 12.0, 80.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 80.0);
        assert_eq!(fitted("short", 12.0, 80.0), "short");
        assert_eq!(fitted("short", 12.0, 1.0), "");
    }
}

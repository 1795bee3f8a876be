//! Annotations of a picture: scalar bars, orientation axes, notes; their places, and the room that they leave.

use super::camera::Frame;
use super::colour::{ColourMap, Srgb8};
use super::overlay::{Align, Overlay};
use super::text::{self, crisp, fitted, CAP_HEIGHT};
use super::ticks::{superscript, ticks};
use serde::{Deserialize, Serialize};

/// A scale that explains colours.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarBar {
    /// Name of the field.
    pub title: String,
    /// Its unit; empty for none.
    pub unit: String,
    /// Colours and range.
    pub map: ColourMap,
}

/// Orientation axes in a corner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Labels of the tips.
    pub labels: [String; 3],
}

impl Default for Axes {
    fn default() -> Axes {
        Axes { labels: ["x".into(), "y".into(), "z".into()] }
    }
}

/// The place of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotePosition {
    /// Upper left corner.
    TopLeft,
    /// Middle of the upper edge.
    Top,
    /// Upper right corner.
    TopRight,
    /// Lower left corner.
    BottomLeft,
    /// Middle of the lower edge.
    Bottom,
    /// Lower right corner.
    BottomRight,
}

/// A line of text: a title, a caption, a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The text; it may have several lines.
    pub text: String,
    /// Its place. Notes in one place are stacked.
    pub place: NotePosition,
    /// Size, 1 for that of the other labels.
    #[serde(default = "one")]
    pub scale: f32,
}

fn one() -> f32 {
    1.0
}

/// A rule with its length.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleBar {
    /// Length of a pixel.
    pub pixel: f64,
    /// Its unit.
    pub unit: String,
}

/// All annotations around the scene.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Furniture {
    /// Scalar bars, from the top down.
    pub bars: Vec<ScalarBar>,
    /// Orientation axes.
    pub axes: Option<Axes>,
    /// Text.
    pub notes: Vec<Note>,
    /// Names of single colours, under the notes in the upper left corner. They use no room of the scene.
    pub keys: Vec<(String, Srgb8)>,
    /// A rule in a lower corner.
    pub scale: Option<ScaleBar>,
    /// Size of all letters; 1 suits the picture.
    pub text_scale: f32,
}

/// The place of the orientation axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gizmo {
    /// Pixel position of the middle.
    pub at: [f32; 2],
    /// Length of an arrow in pixels.
    pub length: f32,
    /// Size of the letters at the tips.
    pub letters: f32,
}

/// Annotations with their places.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub insets: [f64; 4],
    pub gizmo: Option<Gizmo>,
    pub overlay: Overlay,
}

/// Ink on a light and on a dark background.
pub(crate) fn ink(light_background: bool) -> Srgb8 {
    if light_background {
        [38, 42, 50]
    } else {
        [232, 235, 240]
    }
}

/// In pictures smaller than this in pixels, letters would cover the scene: there are no annotations.
const SMALLEST: u32 = 120;

impl Furniture {
    /// The frame left for the scene in a picture of `size` pixels; an argument of [`super::Camera::fit`].
    pub fn frame(&self, size: [u32; 2]) -> Frame {
        Frame { size, insets: self.layout(size, true).insets }
    }

    /// Size of letters in pixels.
    fn letters(&self, size: [u32; 2]) -> f32 {
        let scale = if self.text_scale > 0.0 { self.text_scale.min(20.0) } else { 1.0 };
        let diagonal = (f64::from(size[0]) * f64::from(size[1])).sqrt() as f32;
        crisp((diagonal / 78.0).clamp(10.0, 400.0) * scale)
    }

    pub(crate) fn layout(&self, size: [u32; 2], light_background: bool) -> Layout {
        let mut layout = Layout { insets: [0.0; 4], gizmo: None, overlay: Overlay::default() };
        if size[0].min(size[1]) < SMALLEST {
            return layout;
        }
        let em = self.letters(size);
        let [width, height] = size.map(|v| v as f32);
        let pen = Pen { em, width, height, ink: ink(light_background), margin: (em * 1.1).round() };
        let (top, bottom) = pen.notes(&self.notes, &self.keys, &mut layout.overlay);
        layout.insets[1] = f64::from(top);
        layout.insets[3] = f64::from(bottom);
        let upright = width >= height * 0.9;
        // Smaller arrows in a small picture, so that the bar above them keeps its marks.
        let arrow = (em * 2.6).min(height * 0.1).max(em * 1.2);
        if !self.bars.is_empty() {
            if upright {
                let across = if self.axes.is_some() { (arrow + em) * 2.0 } else { 0.0 };
                let column = pen.upright_bars(
                    &self.bars,
                    top,
                    bottom + across + if across > 0.0 { em } else { 0.0 },
                    across,
                    &mut layout.overlay,
                );
                layout.insets[2] = f64::from(column);
                if self.axes.is_some() {
                    let at = [width - pen.margin - across * 0.5, height - bottom - pen.margin - across * 0.5];
                    layout.gizmo = Some(Gizmo { at, length: arrow, letters: em });
                }
            } else {
                let used = pen.lying_bars(&self.bars, bottom, &mut layout.overlay);
                layout.insets[3] = f64::from(used);
            }
        }
        if self.axes.is_some() && layout.gizmo.is_none() {
            let at = [pen.margin + arrow + em, height - layout.insets[3] as f32 - pen.margin - arrow - em];
            layout.gizmo = Some(Gizmo { at, length: arrow, letters: em });
        }
        if let Some(scale) = &self.scale {
            // In the lower left corner, or beside the orientation axes if they are there.
            let aside = layout.gizmo.filter(|g| g.at[0] < width * 0.5).map_or(0.0, |g| g.at[0] + g.length + em);
            pen.scale_bar(scale, aside, layout.insets[3] as f32, &mut layout.overlay);
        }
        layout
    }
}

impl Furniture {
    /// Letters at the middle of the left, right, upper and lower edge, beside other annotations.
    pub(crate) fn edge_letters(&self, edges: &[String; 4], size: [u32; 2], layout: &mut Layout) {
        if size[0].min(size[1]) < SMALLEST {
            return;
        }
        let em = self.letters(size);
        let [width, height] = size.map(|v| v as f32);
        let [_, top, right, bottom] = layout.insets.map(|v| v as f32);
        let (margin, large) = ((em * 1.1).round(), crisp(em * 1.3));
        let middle = (height + large * CAP_HEIGHT) * 0.5;
        let places = [
            ([margin, middle], Align::Left),
            ([width - right.max(margin), middle], Align::Right),
            ([width * 0.5, top.max(margin) + large * CAP_HEIGHT], Align::Middle),
            ([width * 0.5, height - bottom.max(margin)], Align::Middle),
        ];
        for (letters, (at, align)) in edges.iter().zip(places) {
            layout.overlay.text(letters, large, at, align, ink(false), true);
        }
    }
}

/// Measures of a picture's letters.
struct Pen {
    em: f32,
    width: f32,
    height: f32,
    ink: Srgb8,
    margin: f32,
}

impl Pen {
    /// Writes the notes, and the keys under them. Returns the room that notes use above and below.
    fn notes(&self, notes: &[Note], keys: &[(String, Srgb8)], overlay: &mut Overlay) -> (f32, f32) {
        let mut used = [0.0f32; 6];
        for note in notes.iter().filter(|n| !n.place.is_low()) {
            self.note(note, &mut used, overlay);
        }
        // From the bottom up, so that the last note is lowest.
        for note in notes.iter().rev().filter(|n| n.place.is_low()) {
            self.note(note, &mut used, overlay);
        }
        self.keys(keys, used[NotePosition::TopLeft as usize], overlay);
        let most = |u: &[f32]| u.iter().copied().fold(0.0f32, f32::max);
        let room = |u: f32| if u > 0.0 { u + self.margin } else { 0.0 };
        (room(most(&used[..3])), room(most(&used[3..])))
    }

    /// Squares of colours with their names, from `used` below the upper edge, in at most half of the picture's height.
    fn keys(&self, keys: &[(String, Srgb8)], used: f32, overlay: &mut Overlay) {
        let (em, line) = (self.em, (self.em * 1.35).round());
        let side = (em * 0.8).round();
        let aside = self.margin + side + (em * 0.5).round();
        let most = ((self.height * 0.5 / line) as usize).max(2);
        let shown = if keys.len() > most { most - 1 } else { keys.len() };
        let rest = (shown < keys.len()).then(|| (format!("and {} more", keys.len() - shown), self.ink));
        for (n, (name, colour)) in keys[..shown].iter().chain(&rest).enumerate() {
            let y = self.margin + used + em * CAP_HEIGHT + line * n as f32;
            if n < shown {
                let top = (y - em * CAP_HEIGHT * 0.5 - side * 0.5).round();
                let square = [self.margin, top, self.margin + side, top + side];
                self.frame(overlay, square);
                overlay.rect(square, *colour, 1.0);
            }
            let name = fitted(name, em, self.width * 0.3);
            overlay.text(&name, em, [aside, y], Align::Left, self.ink, true);
        }
    }

    fn note(&self, note: &Note, used: &mut [f32; 6], overlay: &mut Overlay) {
        let size = crisp(self.em * if note.scale > 0.0 { note.scale.min(8.0) } else { 1.0 });
        let slot = &mut used[note.place as usize];
        let (x, align) = match note.place {
            NotePosition::TopLeft | NotePosition::BottomLeft => (self.margin, Align::Left),
            NotePosition::Top | NotePosition::Bottom => (self.width * 0.5, Align::Middle),
            NotePosition::TopRight | NotePosition::BottomRight => (self.width - self.margin, Align::Right),
        };
        let lines: Vec<&str> = note.text.lines().collect();
        let step = (size * 1.35).round();
        for (i, line) in lines.iter().enumerate() {
            let line = fitted(line, size, self.width - 2.0 * self.margin);
            let y = if note.place.is_low() {
                self.height - self.margin - *slot - step * (lines.len() - 1 - i) as f32
            } else {
                self.margin + *slot + size * CAP_HEIGHT + step * i as f32
            };
            overlay.text(&line, size, [x, y], align, self.ink, true);
        }
        *slot += step * lines.len() as f32;
    }

    /// Lines of a bar's title, each no wider than `room`.
    fn title(&self, bar: &ScalarBar, exponent: i32, room: f32, most: usize) -> Vec<String> {
        let unit = match (bar.unit.is_empty(), exponent) {
            (true, 0) => String::new(),
            (true, e) => format!("[×10{}]", superscript(e)),
            (false, 0) => format!("[{}]", bar.unit),
            (false, e) => format!("[×10{} {}]", superscript(e), bar.unit),
        };
        let one =
            [bar.title.as_str(), unit.as_str()].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join(" ");
        if one.is_empty() {
            return Vec::new();
        }
        if text::width(&one, self.em) <= room || most < 2 {
            return vec![fitted(&one, self.em, room)];
        }
        if bar.title.is_empty() {
            return vec![fitted(&unit, self.em, room)];
        }
        let mut lines = wrapped(&bar.title, self.em, room, if unit.is_empty() { most } else { most - 1 });
        if !unit.is_empty() {
            lines.push(fitted(&unit, self.em, room));
        }
        lines
    }

    /// Draws upright bars below each other at the right edge. Returns the width of their column with its margins, at
    /// least `least`.
    fn upright_bars(&self, bars: &[ScalarBar], above: f32, below: f32, least: f32, overlay: &mut Overlay) -> f32 {
        let em = self.em;
        let thick = (em * 1.05).round();
        let room = (self.width * 0.24).max((em * 11.0).min(self.width * 0.36));
        let line = (em * 1.35).round();
        let high = self.height - above - below - self.margin * 2.0;
        // As many as stay distinct: each has a line of title and a bar of two letters.
        let fit = |high: f32| (high.max(0.0) / (line + em * 3.5)) as usize;
        let short = fit(high) < bars.len();
        let high = if short { high - line } else { high };
        let (bars, rest) = bars.split_at(bars.len().min(fit(high)));
        if bars.is_empty() {
            return if least > 0.0 { least + self.margin * 2.0 } else { 0.0 };
        }
        let slot = high / bars.len() as f32;
        // Half of it is for the bar.
        let most = (((slot * 0.5 - em * 1.2) / line) as usize).clamp(1, 3);
        let mut column = least;
        let parts: Vec<_> = bars
            .iter()
            .map(|bar| {
                let [low, top] = bar.map.range();
                // The exponent does not depend on the number of marks, and the title must be known first.
                let title = self.title(bar, ticks(low, top, 5).exponent, room, most);
                // The rest is the bar, up to a useful length.
                let length = (slot - line * title.len() as f32 - em * 1.2).min(em * 26.0).max(em * 2.0).round();
                let marks = ticks(low, top, ((length / (em * 2.0)) as usize).clamp(2, 9));
                let labels = marks.labels.iter().map(|l| text::width(l, em)).fold(0.0f32, f32::max);
                let titles = title.iter().map(|l| text::width(l, em)).fold(0.0f32, f32::max);
                column = column.max(titles).max(thick + em * 0.75 + labels);
                (bar, marks, title, length)
            })
            .collect();
        let left = (self.width - self.margin - column).floor();
        for (k, (bar, marks, title, length)) in parts.into_iter().enumerate() {
            let block = length + line * title.len() as f32 + em * 0.3;
            let mut y = (above + self.margin + slot * k as f32 + ((slot - block) * 0.5).max(0.0)).round();
            overlay.panel([left - em * 0.3, y, left + column, y + block + em * 0.4], em);
            for l in &title {
                overlay.text(l, em, [left, y + em * CAP_HEIGHT], Align::Left, self.ink, true);
                y += line;
            }
            y = (y + em * 0.3).round();
            let [x0, y0, x1, y1] = [left, y, left + thick, y + length];
            self.frame(overlay, [x0, y0, x1, y1]);
            overlay.scale([x0 as i32, y0 as i32, x1 as i32, y1 as i32], &bar.map, true);
            let [low, top] = bar.map.range();
            let rule = (em / 14.0).round().max(1.0);
            for (value, label) in marks.values.iter().zip(&marks.labels) {
                let t = if top > low { (value - low) / (top - low) } else { 0.5 };
                let at = y1 - 0.5 - (length - 1.0) * t as f32;
                let edge = (at - rule * 0.5).round();
                overlay.rect([x1 + rule, edge, x1 + rule + (em * 0.3).round(), edge + rule], self.ink, 1.0);
                overlay.text(label, em, [x1 + em * 0.62, at + em * CAP_HEIGHT * 0.5], Align::Left, self.ink, true);
            }
        }
        if let Some(text) = more(rest) {
            let at = [left, (above + self.margin + high + em * CAP_HEIGHT).round()];
            overlay.text(&fitted(&text, em, column), em, at, Align::Left, self.ink, true);
        }
        column + self.margin * 2.0
    }

    /// Draws horizontal bars above the lower edge, for tall pictures. Returns their height with the notes.
    fn lying_bars(&self, bars: &[ScalarBar], below: f32, overlay: &mut Overlay) -> f32 {
        let em = self.em;
        let thick = (em * 0.95).round();
        let line = (em * 1.35).round();
        let length = (self.width - self.margin * 4.0).min(em * 30.0).round();
        let left = ((self.width - length) * 0.5).round();
        let mut bottom = self.height - below - self.margin;
        // They use at most half of the picture.
        let (bars, rest) = bars.split_at(bars.len().min((((self.height * 0.5 - below) / (em * 5.5)) as usize).max(1)));
        if let Some(text) = more(rest) {
            overlay.text(&text, em, [self.width * 0.5, bottom.round()], Align::Middle, self.ink, true);
            bottom -= line;
        }
        for bar in bars.iter().rev() {
            let [low, top] = bar.map.range();
            // Labels are side by side here: as many as their width allows.
            let mut most = ((length / (em * 3.0)) as usize).clamp(2, 9);
            let mut marks = ticks(low, top, most);
            while most > 2 && marks.labels.iter().map(|l| text::width(l, em) + em).sum::<f32>() > length {
                most -= 1;
                marks = ticks(low, top, most);
            }
            let title = self.title(bar, marks.exponent, length, 2);
            let y1 = (bottom - line).round();
            let y0 = y1 - thick;
            let [x0, x1] = [left, left + length];
            self.frame(overlay, [x0, y0, x1, y1]);
            overlay.scale([x0 as i32, y0 as i32, x1 as i32, y1 as i32], &bar.map, false);
            let rule = (em / 14.0).round().max(1.0);
            for (value, label) in marks.values.iter().zip(&marks.labels) {
                let t = if top > low { (value - low) / (top - low) } else { 0.5 };
                let at = x0 + 0.5 + (length - 1.0) * t as f32;
                let edge = (at - rule * 0.5).round();
                overlay.rect([edge, y1 + rule, edge + rule, y1 + rule + (em * 0.25).round()], self.ink, 1.0);
                overlay.text(label, em, [at, y1 + em * 0.42 + em * CAP_HEIGHT], Align::Middle, self.ink, true);
            }
            let mut y = y0 - em * 0.45;
            for l in title.iter().rev() {
                overlay.text(l, em, [self.width * 0.5, y], Align::Middle, self.ink, true);
                y -= line;
            }
            bottom = y - em * 0.4;
        }
        self.height - bottom
    }

    /// Draws a rule of a round length, about a fifth of the picture's width, with its label.
    fn scale_bar(&self, scale: &ScaleBar, aside: f32, below: f32, overlay: &mut Overlay) {
        let most = f64::from(self.width * 0.22) * scale.pixel;
        if !(most.is_finite() && most > 0.0) {
            return;
        }
        let length = round_below(most);
        let pixels = (length / scale.pixel) as f32;
        let em = self.em;
        let (x0, y1) = ((self.margin + aside).round(), (self.height - below - self.margin).round());
        let (x1, thick) = ((x0 + pixels).round(), (em / 5.0).round().max(2.0));
        let rule = (em / 14.0).round().max(1.0);
        overlay.rect([x0 - rule, y1 - thick - rule, x1 + rule, y1 + rule], halo_of(self.ink), 0.5);
        overlay.rect([x0, y1 - thick, x1, y1], self.ink, 1.0);
        let text = format!("{} {}", plain(length), scale.unit);
        overlay.text(text.trim_end(), em, [(x0 + x1) * 0.5, y1 - thick - em * 0.4], Align::Middle, self.ink, true);
    }

    /// A thin edge around a scale, so that its light colours have a visible end.
    fn frame(&self, overlay: &mut Overlay, [x0, y0, x1, y1]: [f32; 4]) {
        let rule = (self.em / 14.0).round().max(1.0);
        overlay.rect([x0 - rule, y0 - rule, x1 + rule, y1 + rule], self.ink, 0.8);
    }
}

/// The note for bars that do not fit.
fn more(rest: &[ScalarBar]) -> Option<String> {
    (!rest.is_empty()).then(|| format!("and {} more", rest.len()))
}

impl NotePosition {
    fn is_low(self) -> bool {
        matches!(self, NotePosition::BottomLeft | NotePosition::Bottom | NotePosition::BottomRight)
    }
}

/// The outline colour that separates ink from its background.
fn halo_of(ink: Srgb8) -> Srgb8 {
    if ink[0] > 128 {
        [12, 14, 18]
    } else {
        [245, 246, 248]
    }
}

/// A text in at most `most` lines that break between words. An ellipsis replaces the rest.
fn wrapped(text: &str, size: f32, room: f32, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last().map(|line| format!("{line} {word}")) {
            Some(longer) if lines.len() == most || text::width(&longer, size) <= room => {
                lines.pop();
                lines.push(longer);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| fitted(line, size, room)).collect()
}

/// The greatest of 1, 2 and 5 times a power of ten up to a positive number.
fn round_below(most: f64) -> f64 {
    // Written out, since the logarithm of 1000 is slightly below 3.
    let power: i32 = format!("{most:e}").split_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or(0);
    let unit = |factor: f64| if power < 0 { factor / 10f64.powi(-power) } else { factor * 10f64.powi(power) };
    [5.0, 2.0].into_iter().map(unit).find(|v| *v <= most).unwrap_or(unit(1.0))
}

/// A length without needless digits.
fn plain(length: f64) -> String {
    let written = ticks(0.0, length, 2);
    let label = format!("{length}");
    if (1e-3..1e5).contains(&length) {
        return label;
    }
    let power = written.exponent;
    format!("{}×10{}", (length / 10f64.powi(power)).round(), superscript(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_break_between_words_and_end_in_an_ellipsis() {
        let (em, title) = (12.0, "speed of sound in the far field");
        let room = text::width("speed of sound", em) + 0.5;
        assert_eq!(wrapped(title, em, 1000.0, 3), [title]);
        assert_eq!(wrapped(title, em, room, 3), ["speed of sound", "in the far field"].map(|l| fitted(l, em, room)));
        let cut = wrapped(title, em, room, 1);
        assert!(cut.len() == 1 && cut[0].ends_with('…') && text::width(&cut[0], em) <= room, "{cut:?}");
        assert!(wrapped("", em, room, 2).is_empty());
    }

    #[test]
    fn bars_that_do_not_fit_are_counted_in_the_picture() {
        use crate::draw::ColourMap;

        let map = ColourMap::new(vec![[0, 0, 0], [255, 255, 255]], [0.0, 1.0]).unwrap();
        let bar = ScalarBar { title: String::new(), unit: String::new(), map };
        for (size, upright) in [([640, 480], true), ([300, 480], false)] {
            let counts = |bars: usize| {
                let bars = vec![bar.clone(); bars];
                let furniture =
                    Furniture { bars, axes: None, notes: vec![], keys: vec![], scale: None, text_scale: 1.0 };
                furniture.layout(size, false).overlay.counts()
            };
            let most = counts(40)[0];
            assert!((1..40).contains(&most), "{most} bars in {size:?}");
            assert_eq!((counts(1)[0], counts(most)[0], counts(most + 1)[0] <= most), (1, most, true));
            // Horizontal bars have the same number of marks for any number of bars: the surplus is in the line that
            // counts the rest.
            if !upright {
                assert_eq!(counts(40)[1], counts(most)[1] + 1);
            }
        }
        assert_eq!(more(&vec![bar; 3]).as_deref(), Some("and 3 more"));
        assert_eq!(more(&[]), None);
    }

    #[test]
    fn rules_have_round_lengths() {
        for (most, wanted) in [(0.99, 0.5), (1.0, 1.0), (4.9, 2.0), (730.0, 500.0), (0.0021, 0.002), (5.0, 5.0)] {
            let found = round_below(most);
            assert!((found - wanted).abs() < 1e-9 * wanted, "{most}: {found}");
        }
        assert_eq!(plain(0.5), "0.5");
        assert_eq!(plain(2e-5), "2×10⁻⁵");
        assert_eq!(plain(5e7), "5×10⁷");
    }
}

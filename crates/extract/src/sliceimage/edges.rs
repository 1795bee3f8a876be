//! Annotations of pictures of slices: letters of anatomy at the edges, scales of colours, a rule.

use super::paint::SlicePaint;
use kernels::draw::{ColourMap, Furniture, Marks, Note, NotePosition, ScalarBar, ScaleBar};
use output::FieldSpec;

/// The requested annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceMarks {
    /// The meaning of colours: a scale, or names of channels.
    pub bar: bool,
    /// Letters at the edges, and a rule if the length of a pixel is known.
    pub letters: bool,
    /// The letters of anatomy at the left, right, upper and lower edge.
    pub edges: Option<[String; 4]>,
    /// The title in the upper left corner. `None`: for slices of grids with a scale the place of the slice, and for
    /// volumes none.
    pub title: Option<String>,
}

/// Annotations and their subject.
#[derive(Clone, Debug)]
pub(super) struct MarkedSlice {
    pub(super) marks: SliceMarks,
    /// The quantities of pixels.
    pub(super) fields: Vec<FieldSpec>,
    /// The title, if there is one.
    pub(super) title: String,
    /// The length of a pixel.
    pub(super) rule: Option<ScaleBar>,
}

impl MarkedSlice {
    /// The annotations of a picture with final colours; none over 16-bit grey, which is data.
    pub(super) fn over(&self, look: &SlicePaint, size: [u32; 2]) -> Option<Marks> {
        let SliceMarks { bar, letters, edges, .. } = &self.marks;
        if look.is_grey16() || !(*bar || *letters || !self.title.is_empty()) {
            return None;
        }
        let mut furniture = Furniture::default();
        match (look, self.fields.first()) {
            _ if !bar => {}
            (SlicePaint::Map { table, range: Some(range) }, Some(field)) => {
                // A range beyond single precision has no scale.
                if let Ok(map) = ColourMap::new(table.clone(), *range) {
                    furniture.bars = vec![ScalarBar { title: field.name.clone(), unit: field.unit.clone(), map }];
                }
            }
            (SlicePaint::Channels(channels), _) => {
                let named = self.fields.iter().zip(channels);
                furniture.keys = named.map(|(field, (colour, ..))| (field.name.clone(), *colour)).collect();
            }
            _ => {}
        }
        if !self.title.is_empty() {
            furniture.notes = vec![Note { text: self.title.clone(), place: NotePosition::TopLeft, scale: 1.0 }];
        }
        furniture.scale = self.rule.clone().filter(|_| *letters);
        let edges = edges.as_ref().filter(|_| *letters);
        Some(Marks::new(&furniture, edges, size))
    }
}

/// The place of a plane, for people: `z = 0.5 [m]` for one across an axis, else a point and its normal.
///
/// ```
/// use extract::sliceimage::place;
/// assert_eq!(place([1.0, 2.0, 0.1 + 0.2], [0.0, 0.0, -1.0], "m"), "z = 0.3 [m]");
/// assert_eq!(place([1.0, 0.0, 2e7], [0.6, 0.0, 0.8], "1"), "through 1, 0, 2e7 across 0.6, 0, 0.8");
/// ```
pub fn place(origin: [f64; 3], normal: [f64; 3], unit: &str) -> String {
    let unit = if unit == "1" { String::new() } else { format!(" [{unit}]") };
    match (0..3).find(|a| (normal[*a].abs() - 1.0).abs() < 1e-9) {
        Some(a) => format!("{} = {}{unit}", ["x", "y", "z"][a], short(origin[a])),
        None => format!("through {}{unit} across {}", origin.map(short).join(", "), normal.map(short).join(", ")),
    }
}

/// A number in four digits.
fn short(x: f64) -> String {
    let x = format!("{x:.3e}").parse::<f64>().unwrap_or(x) + 0.0;
    if x == 0.0 || (1e-4..1e6).contains(&x.abs()) {
        x.to_string()
    } else {
        format!("{x:e}")
    }
}

/// Least part of a direction that gets a letter: some 17 degrees.
const TOLD: f64 = 0.3;

/// The letters at the left, right, upper and lower edge of a picture with these directions to the right and up. x, y
/// and z grow towards the three letters of `anatomy`. The nearest axis comes first, then others that the direction
/// leans to.
///
/// ```
/// let axes = [[1.0, 0.0, 0.0], [0.0, -0.8, 0.6]];
/// assert_eq!(extract::sliceimage::edges(axes, "LPS"), ["R", "L", "AS", "PI"]);
/// ```
pub fn edges([right, up]: [[f64; 3]; 2], anatomy: &str) -> [String; 4] {
    [right.map(|c| -c), right, up, up.map(|c| -c)].map(|way| letters(way, anatomy))
}

fn letters(way: [f64; 3], anatomy: &str) -> String {
    let opposite = |letter| match letter {
        'R' => 'L',
        'L' => 'R',
        'A' => 'P',
        'P' => 'A',
        'S' => 'I',
        _ => 'S',
    };
    let mut told: Vec<(f64, char)> = way.iter().copied().zip(anatomy.chars()).collect();
    told.retain(|(part, _)| part.abs() >= TOLD);
    told.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    told.into_iter().map(|(part, letter)| if part > 0.0 { letter } else { opposite(letter) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_counting_name_the_same_sides() {
        // The same picture in coordinates with x and y reversed.
        let lps = [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]];
        let ras = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        assert_eq!(edges(lps, "LPS"), ["R", "L", "A", "P"]);
        assert_eq!(edges(ras, "RAS"), edges(lps, "LPS"));
    }

    #[test]
    fn directions_between_axes_have_several_letters() {
        let half = 0.5f64.sqrt();
        assert_eq!(edges([[-half, -half, 0.0], [0.0, 0.0, 1.0]], "LPS"), ["LP", "RA", "S", "I"]);
        // A slight tilt gets no letter.
        assert_eq!(edges([[1.0, 0.0, 0.0], [0.0, -0.98, 0.2]], "LPS")[2], "A");
    }
}

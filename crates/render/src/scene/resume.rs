//! Existing pictures: whether they belong to a scene and its data, and their shared properties.

use super::colour_maps::RangedMap;
use super::destination::read_marks;
use super::drawing::ViewParts;
use super::objects::{LinesFrom, Object};
use super::studio::Studio;
use field::error::FieldError;
use field::file::{identities, Digest};
use field::volume::{PlaceSpec, Volume};
use std::path::PathBuf;

/// Digests that distinguish pictures of different scenes and data.
#[derive(Default)]
pub(crate) struct Digests {
    /// Digest of `SceneDocument::content`.
    content: String,
    /// Digest of the data's files.
    data: String,
    /// Digest of `SceneDocument::way`.
    way: String,
}

impl Digests {
    /// The digests of a scene and of all files that its pictures depend on.
    ///
    /// # Errors
    /// [`FieldError`] that names a missing file.
    pub(crate) fn of(studio: &Studio<'_>) -> Result<Self, FieldError> {
        // One picture needs no digests. The reader of a missing file of lines reports it.
        if studio.document.film.is_none() {
            return Ok(Self::default());
        }
        let document = studio.document;
        Ok(Self { content: document.content.clone(), data: data(studio)?, way: document.way.clone() })
    }

    /// The text in a picture.
    pub(crate) fn mark(&self) -> String {
        [&*self.content, &*self.data, &*self.way].join(BETWEEN)
    }

    /// Why a picture with this mark does not match; `None` if it does. `is_said`: whether the scene gives its ranges
    /// and camera, all of them.
    fn other(&self, mark: &str, is_said: impl FnOnce() -> bool) -> Option<&'static str> {
        let mut parts = mark.split(BETWEEN);
        let mut is = |own: &str| parts.next() == Some(own);
        match [is(&self.content), is(&self.data), is(&self.way)] {
            [false, ..] => Some("of another scene, or of another version of Farfield"),
            [_, false, _] => Some("of other data"),
            [.., false] if !is_said() => Some(OTHER_WAY),
            _ => None,
        }
    }
}

const BETWEEN: &str = "-";
const OTHER_WAY: &str = "with other ranges of colours, another camera or of other time steps";

/// Digest of all files that pictures depend on, wherever they are named.
fn data(studio: &Studio<'_>) -> Result<String, FieldError> {
    let mut files = match studio.volume() {
        Some(volume) => files_of(volume, studio.document.film.as_ref().is_some_and(|f| f.resume))?,
        None => studio.session.dataset().format.as_ref().map(|f| f.files()).unwrap_or_default(),
    };
    for object in &studio.document.objects {
        if let Object::Lines { from, .. } = object {
            match from {
                LinesFrom::File(path) => files.push(path.clone()),
                LinesFrom::Trace(options) => {
                    let seeds = options["seeds"].as_str().map(PathBuf::from);
                    files.extend(seeds.filter(|s| s.is_file()));
                }
            }
        }
    }
    let files = identities(&files)?;
    let mut digest = Digest::default();
    if let Some(session) = studio.flow() {
        // Reference values, scales and times may come from other files.
        let catalog = &session.dataset().catalog;
        digest = digest.text(&catalog.settings.to_string()).text(&format!("{:?}", catalog.times));
    }
    Ok(files.iter().fold(digest, Digest::file).to_string())
}

/// The files of a volume. A volume with a file for each chunk has too many to check for changes, so its pictures are
/// not kept.
///
/// # Errors
/// [`FieldError::Usage`] for such a volume if pictures are to be kept.
fn files_of(volume: &Volume, resume: bool) -> Result<Vec<PathBuf>, FieldError> {
    let mut all = Vec::new();
    for array in volume.spec.levels.iter().flat_map(|l| &l.arrays) {
        match &array.place {
            PlaceSpec::Contiguous { file, .. } => all.push(PathBuf::from(file)),
            PlaceSpec::Planes { files, .. } | PlaceSpec::Table { files, .. } => {
                all.extend(files.iter().map(PathBuf::from))
            }
            PlaceSpec::Keys { .. } | PlaceSpec::Shards { .. } if !resume => {}
            PlaceSpec::Keys { .. } | PlaceSpec::Shards { .. } => {
                return Err(FieldError::Usage(format!(
                    "{}: pictures of a volume in many files cannot be told from those of another; leave resume away",
                    volume.spec.path
                )))
            }
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// Properties shared by all pictures.
pub(crate) struct SharedParts {
    pub(crate) maps: Vec<RangedMap>,
    /// For each view.
    pub(crate) seen: Vec<ViewParts>,
}

impl SharedParts {
    /// Exact text of all values: hexadecimal digits of the numbers' bits.
    pub(crate) fn text(&self) -> String {
        let hex = |v: &[f64]| v.iter().map(|x| format!("{:016x}", x.to_bits())).collect::<Vec<_>>().join(" ");
        let ranges: Vec<f64> = self.maps.iter().flat_map(|m| m.range).collect();
        let views = self.seen.iter().map(|s| hex(&s.numbers()));
        std::iter::once(hex(&ranges)).chain(views).collect::<Vec<_>>().join(";")
    }

    /// The ranges and views of [`Self::text`].
    fn parse(text: &str, views: usize) -> Option<(Vec<[f64; 2]>, Vec<ViewParts>)> {
        let numbers = |part: &str| {
            let one = |w: &str| u64::from_str_radix(w, 16).ok().map(f64::from_bits);
            part.split_whitespace().map(one).collect::<Option<Vec<f64>>>()
        };
        let mut parts = text.split(';').map(numbers);
        let ranges = parts.next()??;
        let seen = parts.map(|p| p.as_deref().and_then(ViewParts::from_numbers)).collect::<Option<Vec<_>>>()?;
        let whole = ranges.len().is_multiple_of(2) && seen.len() == views && ranges.iter().all(|r| r.is_finite());
        whole.then(|| (ranges.chunks_exact(2).map(|r| [r[0], r[1]]).collect(), seen))
    }
}

/// Whether the scene gives these ranges and views.
type GivesParts<'a> = dyn Fn(&[[f64; 2]], &[ViewParts]) -> bool + 'a;

/// State of existing pictures that are to be kept.
#[derive(Default)]
pub(crate) struct There {
    /// Ranges and views of the matching pictures; `None` without any.
    pub(crate) common: Option<(Vec<[f64; 2]>, Vec<ViewParts>)>,
    /// Steps without a matching picture.
    pub(crate) lack: Vec<usize>,
    /// Existing pictures that do not match.
    pub(crate) other: usize,
    /// Why the first of them does not match.
    pub(crate) why: &'static str,
}

impl There {
    /// Reads the existing pictures of `steps` under their names, `views` for each step. `said`: whether the scene gives
    /// these ranges and views.
    pub(crate) fn of(
        digests: &Digests,
        steps: impl Iterator<Item = (usize, Vec<PathBuf>)>,
        views: usize,
        said: &GivesParts<'_>,
    ) -> Self {
        let mut there = Self::default();
        let mut first: Option<String> = None;
        for (step, names) in steps {
            let mut whole = names.len() == views;
            for name in names {
                let why = match read_marks(&name) {
                    Some([mark, settled]) => {
                        let parsed = SharedParts::parse(&settled, views);
                        let is_said = || parsed.as_ref().is_some_and(|(ranges, seen)| said(ranges, seen));
                        let known = there.common.iter().flat_map(|(_, seen)| seen);
                        let own = parsed.iter().flat_map(|(_, seen)| seen);
                        let is_like = || known.zip(own).all(|(a, b)| a.is_like(b));
                        let is_first = first.as_ref().is_none_or(|f| *f == settled);
                        let why = match (&parsed, digests.other(&mark, is_said)) {
                            (None, None) => Some(UNREADABLE),
                            (_, Some(why)) => Some(why),
                            (_, None) => Some(OTHER_WAY).filter(|_| !(is_first || (is_like() && is_said()))),
                        };
                        if why.is_none() && first.is_none() {
                            (first, there.common) = (Some(settled), parsed);
                        }
                        why
                    }
                    None if name.exists() => Some(UNREADABLE),
                    None => Some(""),
                };
                whole &= why.is_none();
                if let Some(why) = why.filter(|w| !w.is_empty()) {
                    there.other += 1;
                    if there.why.is_empty() {
                        there.why = why;
                    }
                }
            }
            if !whole {
                there.lack.push(step);
            }
        }
        there
    }
}

const UNREADABLE: &str = "not whole, or not made for a series";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pictures_have_in_common_is_read_back_to_the_bit() {
        let numbers: Vec<f64> = (0..21).map(|n| (f64::from(n) + 0.1) / 3.0).collect();
        let seen = vec![ViewParts::from_numbers(&numbers).unwrap()];
        let common = SharedParts { maps: Vec::new(), seen };
        let (ranges, again) = SharedParts::parse(&common.text(), 1).unwrap();
        assert!(ranges.is_empty() && again[0].numbers() == common.seen[0].numbers());
        for bad in ["", "x", "0;0", "3ff0000000000000"] {
            assert!(SharedParts::parse(bad, 1).is_none(), "{bad}");
        }
    }
}

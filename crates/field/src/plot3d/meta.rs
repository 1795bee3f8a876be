//! VTK's `.p3d` files: JSON with the files of each time step and, optionally, their encoding.
//!
//! VTK's reader detects the format itself unless `auto-detect-format` is false; only then the other keys count. Here
//! they also settle ambiguities. Comments and commas before a closing bracket are accepted, because VTK accepts them
//! and writers rely on it.

use super::bytes::ByteSource;
use super::options::Plot3dOptions;
use super::settings::{read_side_file, Plot3dSettings};
use crate::error::FieldError;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The contents of a `.p3d` file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetaFile {
    /// Grid of each step.
    pub grids: Vec<PathBuf>,
    /// q file of each step; empty if there are none.
    pub q: Vec<PathBuf>,
    /// Function file of each step; empty if there are none.
    pub functions: Vec<PathBuf>,
    /// Time of each step.
    pub times: Vec<f64>,
    /// Whether the options of [`Self::settings`] are binding, or only settle ambiguities.
    pub binding: bool,
    /// Format, gamma, names.
    pub settings: Plot3dSettings,
}

const KEYS: &str = "auto-detect-format, format, language, byte-order, precision, multi-grid, blanking, 2D, R, gamma, \
                    filenames, functions, function-names";

impl MetaFile {
    /// Whether these are the bytes of a `.p3d` file, by the first letter.
    ///
    /// # Errors
    /// The system's error.
    pub fn is(source: &dyn ByteSource) -> std::io::Result<bool> {
        let mut head = [0_u8; 64];
        let n = source.size().min(head.len() as u64) as usize;
        source.read_exact_at(0, &mut head[..n])?;
        let text = head[..n].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head[..n]);
        Ok(text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{'))
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// [`FieldError::Format`] names an unknown key or a missing part.
    pub fn read(path: &Path) -> Result<Self, FieldError> {
        match read_side_file(path)? {
            Some(text) => Self::parse(path, &text),
            None => Err(FieldError::io(path, std::io::ErrorKind::NotFound.into())),
        }
    }

    /// Parses the text of a `.p3d` file. File names are relative to `path`.
    ///
    /// # Errors
    /// [`FieldError::Format`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, FieldError> {
        let bad = |message: String| FieldError::format(path, message);
        let root: Value = serde_json::from_str(&strict(text)).map_err(|e| bad(format!("not JSON: {e}")))?;
        let Value::Object(root) = root else { return Err(bad("must be a JSON object".to_owned())) };
        let mut meta = Self::default();
        let mut options = Plot3dOptions::default();
        let (mut text_file, mut fortran) = (None, None);
        for (key, value) in &root {
            let set = |o: &mut Plot3dOptions, key: &str, word: &str| o.set(key, word).map_err(|e| bad(e.to_string()));
            let word = value.as_str().unwrap_or("");
            let wrong = || bad(format!("'{key}' is {value}, which it cannot be"));
            let positive = value.as_f64().filter(|v| v.is_finite() && *v > 0.0);
            let truth = value.as_bool().or_else(|| value.as_i64().map(|v| v != 0)).ok_or_else(wrong);
            match key.as_str() {
                "auto-detect-format" => meta.binding = !truth?,
                "format" => match word {
                    "ascii" => text_file = Some(true),
                    "binary" => text_file = Some(false),
                    _ => return Err(wrong()),
                },
                "language" => match word {
                    "fortran" | "Fortran" => fortran = Some(true),
                    "C" | "c" => fortran = Some(false),
                    _ => return Err(wrong()),
                },
                "byte-order" => set(&mut options, key, word)?,
                "precision" => options.set_json(key, value).map_err(|e| bad(e.to_string()))?,
                "multi-grid" => set(&mut options, "zones", if truth? { "multi" } else { "single" })?,
                "blanking" => set(&mut options, "iblank", if truth? { "yes" } else { "no" })?,
                "2D" => set(&mut options, "dimension", if truth? { "2" } else { "3" })?,
                "R" => meta.settings.reference.gas_constant = Some(positive.ok_or_else(wrong)?),
                "gamma" => meta.settings.reference.gamma = Some(positive.ok_or_else(wrong)?),
                // Numbers of functions that VTK computes at once; here they are computed on demand.
                "functions" => {}
                "function-names" => {
                    let names = value.as_array().ok_or_else(wrong)?;
                    let names: Option<Vec<String>> = names.iter().map(|n| n.as_str().map(str::to_owned)).collect();
                    meta.settings.names = names.ok_or_else(wrong)?;
                }
                "filenames" => meta.files(path, value).map_err(bad)?,
                _ => return Err(bad(format!("unknown key '{key}'; there are: {KEYS}"))),
            }
        }
        let format = match (text_file, fortran) {
            (Some(true), _) => Some("ascii"),
            (_, Some(true)) => Some("fortran"),
            (_, Some(false)) => Some("binary"),
            _ => None,
        };
        if let Some(format) = format {
            options.set("format", format)?;
        }
        meta.settings.options = options;
        if meta.grids.is_empty() {
            return Err(bad("'filenames' lists no files".to_owned()));
        }
        Ok(meta)
    }

    fn files(&mut self, path: &Path, value: &Value) -> Result<(), String> {
        let steps = value.as_array().ok_or("'filenames' must be a list")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (n, step) in steps.iter().enumerate() {
            let Value::Object(step) = step else { return Err(format!("'filenames[{n}]' must be an object")) };
            let mut entry = [None, None, None];
            let mut time = n as f64;
            for (key, value) in step {
                let slot = match key.as_str() {
                    "time" => {
                        time = value.as_f64().ok_or_else(|| format!("'filenames[{n}].time' must be a number"))?;
                        continue;
                    }
                    "xyz" => &mut entry[0],
                    "q" => &mut entry[1],
                    "function" => &mut entry[2],
                    _ => {
                        return Err(format!(
                            "unknown key '{key}' in 'filenames[{n}]'; there are: time, xyz, q, function"
                        ))
                    }
                };
                let name = value.as_str().ok_or_else(|| format!("'filenames[{n}].{key}' must be a string"))?;
                *slot = Some(folder.join(name));
            }
            let [xyz, q, function] = entry;
            self.grids.push(xyz.ok_or_else(|| format!("'filenames[{n}]' names no xyz file"))?);
            self.q.extend(q);
            self.functions.extend(function);
            self.times.push(time);
        }
        for (what, list) in [("q", &self.q), ("function", &self.functions)] {
            if !list.is_empty() && list.len() != steps.len() {
                return Err(format!(
                    "only {} of {} entries of 'filenames' name a {what} file",
                    list.len(),
                    steps.len()
                ));
            }
        }
        Ok(())
    }
}

/// Blanks comments and commas before a closing bracket, outside strings. Lengths and lines stay as they are.
fn strict(text: &str) -> String {
    let mut out: Vec<u8> = text.trim_start_matches('\u{feff}').as_bytes().to_vec();
    let mut comma = None;
    let mut at = 0;
    while at < out.len() {
        match out[at] {
            b'"' => {
                comma = None;
                at += 1;
                while at < out.len() && out[at] != b'"' {
                    at += if out[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'/' if out.get(at + 1) == Some(&b'/') => {
                while at < out.len() && out[at] != b'\n' {
                    out[at] = b' ';
                    at += 1;
                }
                continue;
            }
            b'/' if out.get(at + 1) == Some(&b'*') => {
                let end = out[at + 2..].windows(2).position(|w| w == b"*/").map_or(out.len(), |n| at + n + 4);
                for b in &mut out[at..end] {
                    if *b != b'\n' {
                        *b = b' ';
                    }
                }
                at = end;
                continue;
            }
            b',' => comma = Some(at),
            b']' | b'}' => {
                if let Some(comma) = comma.take() {
                    out[comma] = b' ';
                }
            }
            b if b.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    // Only ASCII bytes outside strings, or whole comments, were replaced by blanks.
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::options::{ByteOrder, Format, Precision};
    use super::*;

    #[test]
    fn as_found() {
        let text = "{ // by a solver\n\"auto-detect-format\" : false, \"format\":\"binary\", \"byte-order\":\"big\",\
            \"precision\":32, \"language\":\"fortran\", \"R\": 1.0, \"gamma\": 1.3, /* é */ \"filenames\" : [\n\
            {\"time\" : 3.5, \"xyz\" : \"a.xyz\", \"q\" : \"/abs/a,].q\" , },\n{\"time\":4.0,\"xyz\":\"b.xyz\",\"q\":\"b.q\"},\n],\
            \"function-names\" : [\"pressure\"],}";
        let m = MetaFile::parse(Path::new("dir/run.p3d"), text).unwrap();
        assert_eq!(m.grids, [Path::new("dir/a.xyz"), Path::new("dir/b.xyz")]);
        assert_eq!(m.q, [Path::new("/abs/a,].q"), Path::new("dir/b.q")]);
        assert_eq!(m.times, [3.5, 4.0]);
        assert!(m.binding && m.functions.is_empty());
        let o = m.settings.options;
        assert_eq!(
            (o.format, o.byte_order, o.precision),
            (Some(Format::Fortran), Some(ByteOrder::Big), Some(Precision::Single))
        );
        assert_eq!((m.settings.reference.gamma, m.settings.names), (Some(1.3), vec!["pressure".to_owned()]));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("{\"color\": 1}", "unknown key 'color'"),
            ("{}", "no files"),
            ("{\"filenames\": [{\"q\": \"a\"}]}", "no xyz"),
            ("{\"filenames\": [{\"xyz\": \"a\", \"z\": 1}]}", "unknown key 'z'"),
            ("{\"filenames\": [{\"xyz\": \"a\", \"q\": \"b\"}, {\"xyz\": \"a\"}]}", "only 1 of 2"),
            ("{\"language\": \"pascal\"}", "pascal"),
            ("{\"a", "not JSON"),
            ("{/*", "not JSON"),
        ] {
            let e = MetaFile::parse(Path::new("run.p3d"), text).unwrap_err().to_string();
            assert!(e.contains(says), "{e}");
        }
    }
}

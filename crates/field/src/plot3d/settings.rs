//! `NAME.p3d.json` beside a grid: the encoding of the files, and the meaning of their numbers.
//!
//! ```json
//! {
//!   "byte-order": "big", "iblank": "yes",
//!   "q": {"precision": 64},
//!   "reference": {"length": 0.1, "density": 1.2, "sound_speed": 340.0, "gamma": 1.4, "mach": 0.2},
//!   "zones": {"zone2": {"scale": 0.001}},
//!   "zone-names": ["body", "wake"],
//!   "names": ["cp", "u;velocity", "v", "w"]
//! }
//! ```
//!
//! - `length`, `density` and `sound_speed` together make coordinates, the q file's arrays, derived quantities and times
//!   SI. A grid without q file takes `length` alone.
//! - `temperature` (K) or `gas_constant` (J/(kg K)) makes temperatures Kelvin. Else they stay non-dimensional, because
//!   nothing else identifies the gas.
//! - `"velocity": "freestream"` means that the q file's velocities are divided by U_inf instead of a_inf (energies by
//!   its square, times by L / U_inf).
//! - `scale` multiplies the coordinates of a zone before `length` does, for zones in other units.
//!
//! Option keys are those of `--plot3d-KEY`, with or without `plot3d-`. In `grid`, `q` and `function` they apply to
//! those files only. `zones` as a word is the option, and as an object it holds settings. To have both, write
//! `plot3d-zones`.

use super::options::{plain_key, words, Plot3dOptions};
use crate::error::FieldError;
use crate::file::{read_start, stat};
use pager::place::FileKind;
use serde_json::{json, Map, Value};
use std::path::{Path, PathBuf};

/// Size limit of settings, `.nam` and `.p3d` files, in bytes.
pub(super) const MAX_SIDE_FILE: u64 = 1 << 24;

/// Reference values in SI, which make non-dimensional PLOT3D numbers dimensional.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Reference {
    /// L, metres. Multiplies coordinates.
    pub length: Option<f64>,
    /// rho_inf, kg/m^3. With `length` and `sound_speed` it makes a q file's numbers SI.
    pub density: Option<f64>,
    /// a_inf, m/s.
    pub sound_speed: Option<f64>,
    /// T_inf, K. Makes temperatures Kelvin.
    pub temperature: Option<f64>,
    /// Ratio of specific heats; 1.4 by default.
    pub gamma: Option<f64>,
    /// Free-stream Mach number, which replaces the q header's.
    pub mach: Option<f64>,
    /// R of temperature = pressure / (density R), if there is no T_inf. In J/(kg K) with a flow in SI (287.05 for air),
    /// else non-dimensional; 1 by default.
    pub gas_constant: Option<f64>,
    /// Divisor of the file's velocities; rho_inf times its square is that of energies. a_inf by default.
    pub velocity: Option<VelocityScale>,
}

words! {
    /// Divisor of a solution's velocities.
    VelocityScale {
        /// a_inf, as PLOT3D defines.
        SoundSpeed = "sound_speed",
        /// U_inf, as in many incompressible solvers: times in L / U_inf, energies in rho_inf U_inf^2.
        FreeStream = "freestream",
    }
}

impl Reference {
    const KEYS: [&'static str; 7] =
        ["length", "density", "sound_speed", "temperature", "gamma", "mach", "gas_constant"];

    /// The reference values of a catalog's settings.
    pub fn of(settings: &Value) -> Self {
        let mut all = Self::default();
        for key in Self::KEYS {
            if let Some(slot) = all.slot(key) {
                *slot = settings["reference"][key].as_f64();
            }
        }
        all
    }

    pub(super) fn slot(&mut self, key: &str) -> Option<&mut Option<f64>> {
        Some(match key {
            "length" => &mut self.length,
            "density" => &mut self.density,
            "sound_speed" => &mut self.sound_speed,
            "temperature" => &mut self.temperature,
            "gamma" => &mut self.gamma,
            "mach" => &mut self.mach,
            "gas_constant" => &mut self.gas_constant,
            // `velocity` is a word, not a number.
            _ => return None,
        })
    }
}

/// The contents of `NAME.p3d.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot3dSettings {
    /// For all files.
    pub options: Plot3dOptions,
    /// For grids only.
    pub grid: Plot3dOptions,
    /// For q files only.
    pub q: Plot3dOptions,
    /// For function files only.
    pub function: Plot3dOptions,
    /// Reference values.
    pub reference: Reference,
    /// Factor on the coordinates of a zone, by zone name.
    pub scales: Vec<(String, f64)>,
    /// Names of the zones, in file order.
    pub zone_names: Vec<String>,
    /// Names of the functions, as in a `.nam` file.
    pub names: Vec<String>,
}

impl Plot3dSettings {
    /// The settings beside `grid`, from `GRID.p3d.json` or else `STEM.p3d.json`.
    ///
    /// # Errors
    /// [`FieldError::Format`] names an unknown key or an invalid value.
    pub fn beside(grid: &Path) -> Result<(Self, Option<PathBuf>), FieldError> {
        let mut whole = grid.as_os_str().to_owned();
        whole.push(".p3d.json");
        for path in [PathBuf::from(whole), grid.with_extension("p3d.json")] {
            if let Some(text) = read_side_file(&path)? {
                return Ok((Self::parse(&path, &text)?, Some(path)));
            }
        }
        Ok((Self::default(), None))
    }

    /// Parses the text of a settings file; `path` is for errors.
    ///
    /// # Errors
    /// [`FieldError::Format`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, FieldError> {
        let bad = |message: String| FieldError::format(path, message);
        let root: Value = serde_json::from_str(text).map_err(|e| bad(format!("not JSON: {e}")))?;
        let Value::Object(root) = root else { return Err(bad("must be a JSON object".to_owned())) };
        let mut settings = Self::default();
        for (key, value) in &root {
            match (key.as_str(), value) {
                ("reference", _) => settings.reference = reference(value).map_err(bad)?,
                ("zones", Value::Object(zones)) => settings.scales = scales(zones).map_err(bad)?,
                ("names", _) => settings.names = strings(key, value).map_err(bad)?,
                ("zone-names" | "zone_names", _) => settings.zone_names = strings(key, value).map_err(bad)?,
                ("grid", _) => settings.grid = options(value).map_err(bad)?,
                ("q", _) => settings.q = options(value).map_err(bad)?,
                ("function", _) => settings.function = options(value).map_err(bad)?,
                _ => {
                    let option = plain_key(key);
                    if !Plot3dOptions::KEYS.iter().any(|k| k.0 == option) {
                        let mut known: Vec<&str> = Plot3dOptions::KEYS.iter().map(|k| k.0).collect();
                        known.extend(["reference", "zones", "zone-names", "names", "grid", "q", "function"]);
                        return Err(bad(format!("unknown key '{key}'; there are: {}", known.join(", "))));
                    }
                    settings.options.set_json(key, value).map_err(|e| bad(e.to_string()))?;
                }
            }
        }
        Ok(settings)
    }

    /// The settings as normalized JSON, for the catalog. Null if there are none.
    pub fn to_json(&self) -> Value {
        let mut map: Map<String, Value> = self.options.into();
        // Uses the long name, because `zones` is the object below.
        if let Some(zones) = map.remove("zones") {
            map.insert("plot3d-zones".to_owned(), zones);
        }
        for (key, o) in [("grid", self.grid), ("q", self.q), ("function", self.function)] {
            if o != Plot3dOptions::default() {
                map.insert(key.to_owned(), Value::Object(o.into()));
            }
        }
        let mut numbers = self.reference;
        let mut reference: Map<String, Value> = Reference::KEYS
            .iter()
            .filter_map(|k| numbers.slot(k).and_then(|s| *s).map(|v| ((*k).to_owned(), json!(v))))
            .collect();
        if let Some(velocity) = self.reference.velocity {
            reference.insert("velocity".to_owned(), json!(velocity.word()));
        }
        if !reference.is_empty() {
            map.insert("reference".to_owned(), Value::Object(reference));
        }
        if !self.scales.is_empty() {
            let zones = self.scales.iter().map(|(name, s)| (name.clone(), json!({ "scale": s }))).collect();
            map.insert("zones".to_owned(), Value::Object(zones));
        }
        for (key, list) in [("zone-names", &self.zone_names), ("names", &self.names)] {
            if !list.is_empty() {
                map.insert(key.to_owned(), json!(list));
            }
        }
        if map.is_empty() {
            Value::Null
        } else {
            Value::Object(map)
        }
    }
}

/// The text of a small file beside the data, or `None` if there is none.
pub(super) fn read_side_file(path: &Path) -> Result<Option<String>, FieldError> {
    let size = match stat(path) {
        Ok(stat) if stat.kind == FileKind::File => stat.version.size,
        Ok(_) => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FieldError::io(path, e)),
    };
    if size > MAX_SIDE_FILE {
        return Err(FieldError::format(path, format!("has {size} bytes, which is too much for such a file")));
    }
    let bytes = read_start(path, MAX_SIDE_FILE).map_err(|e| FieldError::io(path, e))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(e) => {
            let at = e.utf8_error().valid_up_to();
            let message = format!(
                "is not UTF-8 text (byte {at} is part of no character of it): save it as UTF-8 (`iconv -f LATIN1 -t UTF-8` where it \
                 was written as Latin-1), or rename it so that it is not read with this dataset"
            );
            Err(FieldError::format(path, message))
        }
    }
}

fn positive(key: &str, value: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .filter(|v| v.is_finite() && *v > 0.0)
        .ok_or_else(|| format!("'{key}' is {value}; it must be a positive number"))
}

fn reference(value: &Value) -> Result<Reference, String> {
    let Value::Object(map) = value else { return Err("'reference' must be an object".to_owned()) };
    let mut reference = Reference::default();
    for (key, value) in map {
        if key == "velocity" {
            let word = value.as_str().and_then(VelocityScale::from_word);
            let there = VelocityScale::WORDS.join(", ");
            reference.velocity = Some(word.ok_or_else(|| format!("'velocity' is {value}; it can be {there}"))?);
            continue;
        }
        let number = positive(key, value);
        match reference.slot(&key.replace('-', "_")) {
            // With gamma of 1 or less the sign of the pressure is undefined.
            Some(_) if key == "gamma" && number.as_ref().is_ok_and(|g| *g <= 1.0) => {
                return Err(format!("'gamma' is {value}; it must be above 1"));
            }
            Some(slot) => *slot = Some(number?),
            None => {
                let known = [&Reference::KEYS[..], &["velocity"]].concat().join(", ");
                return Err(format!("unknown key '{key}' in 'reference'; there are: {known}"));
            }
        }
    }
    Ok(reference)
}

fn scales(zones: &Map<String, Value>) -> Result<Vec<(String, f64)>, String> {
    let mut scales = Vec::new();
    for (name, value) in zones {
        let Value::Object(map) = value else { return Err(format!("'zones.{name}' must be an object")) };
        for (key, value) in map {
            if key != "scale" {
                return Err(format!("unknown key '{key}' in 'zones.{name}'; there is: scale"));
            }
            scales.push((name.clone(), positive("scale", value)?));
        }
    }
    Ok(scales)
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().map(|a| a.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
    list.flatten().ok_or_else(|| format!("'{key}' must be a list of strings"))
}

fn options(value: &Value) -> Result<Plot3dOptions, String> {
    let Value::Object(map) = value else { return Err("options must be an object".to_owned()) };
    Plot3dOptions::try_from(map.clone()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::options::{Precision, ZoneCount};
    use super::*;

    #[test]
    fn settings_in_and_out() {
        let text = r#"{"plot3d-zones": "multi", "iblank": true, "q": {"precision": 64},
            "reference": {"length": 0.1, "sound-speed": 340, "velocity": "freestream"}, "zones": {"zone2": {"scale": 0.001}},
            "zone_names": ["a", "b"], "names": ["cp"]}"#;
        let s = Plot3dSettings::parse(Path::new("x"), text).unwrap();
        assert_eq!(s.options.zones, Some(ZoneCount::Multi));
        assert_eq!(s.q.precision, Some(Precision::Double));
        assert_eq!((s.reference.length, s.reference.sound_speed), (Some(0.1), Some(340.0)));
        assert_eq!(s.scales, vec![("zone2".to_owned(), 0.001)]);
        assert_eq!(Plot3dSettings::parse(Path::new("x"), &s.to_json().to_string()).unwrap(), s);
        assert_eq!(Plot3dSettings::default().to_json(), Value::Null);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            (r#"{"colour": 1}"#, "unknown key 'colour'"),
            (r#"{"reference": {"mass": 1}}"#, "unknown key 'mass' in 'reference'"),
            (r#"{"reference": {"length": -1}}"#, "positive"),
            (r#"{"reference": {"velocity": "fast"}}"#, "sound_speed, freestream"),
            (r#"{"reference": {"velocity": 3}}"#, "sound_speed, freestream"),
            (r#"{"reference": {"gamma": 0.5}}"#, "above 1"),
            (r#"{"zones": {"a": {"size": 1}}}"#, "unknown key 'size' in 'zones.a'"),
            (r#"{"precision": 16}"#, "32, 64"),
            (r#"{"names": 3}"#, "list of strings"),
            ("[1]", "object"),
            ("{", "not JSON"),
        ] {
            let e = Plot3dSettings::parse(Path::new("dir/x.p3d.json"), text).unwrap_err().to_string();
            assert!(e.contains(says) && e.contains("x.p3d.json"), "{e}");
        }
    }
}

//! Units and labels of a dataset's fields, positions and times.

use crate::catalog::Role;
use crate::dataset::Dataset;
use crate::expression::parse::in_words;
use crate::quantity::{Definition, Derived, DEFINITIONS};

impl Dataset {
    /// Units of a field: those of its array, or of its sources; `1` if it has none.
    pub fn units(&self, name: &str) -> String {
        if let Some(a) = self.catalog.array_named(name) {
            return a.units.clone();
        }
        if let Some(d) = DEFINITIONS.iter().find(|d| d.name == name) {
            return if self.in_si(d) { d.units } else { "1" }.to_owned();
        }
        if let Some(m) = self.made_named(name) {
            return m.units();
        }
        let stem = ["_x", "_y", "_z"].iter().find_map(|s| name.strip_suffix(s));
        if let Some(m) = stem.and_then(|s| self.made_named(s)) {
            return m.units();
        }
        stem.and_then(|s| self.catalog.array_named(s)).map_or_else(|| "1".to_owned(), |a| a.units.clone())
    }

    /// Whether a derived field is in its SI unit.
    pub(crate) fn in_si(&self, d: &Definition) -> bool {
        let reference = &self.units.reference;
        match d.derived {
            // R is in J/(kg K) only if the flow is in SI.
            Derived::Temperature => {
                reference.temperature.is_some() || (self.units.si && reference.gas_constant.is_some())
            }
            _ => self.units.si,
        }
    }

    /// Unit of positions, as named in results.
    pub fn length_unit(&self) -> String {
        let xyz = self.catalog.zones.iter().flat_map(|z| &z.arrays).find(|a| a.role == Role::Coordinates);
        xyz.map(|a| a.units.as_str()).filter(|u| *u != "1").unwrap_or("grid unit").to_owned()
    }

    /// Unit of a particle's travel time along `vector`: that of positions over that of `vector`.
    pub fn travel_time_unit(&self, vector: &str) -> String {
        let (length, speed) = (self.length_unit(), self.units(vector));
        match (length.as_str(), speed.as_str()) {
            ("m", "m s-1") => "s".to_owned(),
            ("grid unit", "1") => "1".to_owned(),
            _ => format!("{length} / ({speed})"),
        }
    }

    /// The title of a colour scale: the long name, or the name in words.
    pub fn title(&self, name: &str) -> String {
        let label = self.long_name(name);
        if label == name {
            in_words(name)
        } else {
            label
        }
    }

    /// A few words for a label. They name the divisor of a non-dimensional number.
    pub fn long_name(&self, name: &str) -> String {
        if let Some(a) = self.catalog.array_named(name) {
            return a.long_name.clone();
        }
        let Some(d) = DEFINITIONS.iter().find(|d| d.name == name) else {
            return self.made_label(name);
        };
        if self.in_si(d) {
            return d.long_name.to_owned();
        }
        if d.derived == Derived::Temperature {
            let r = self.units.reference.gas_constant.unwrap_or(1.0);
            return format!("{}, R = {r}", d.long_name);
        }
        let divided_by = if d.divided_by.is_empty() { String::new() } else { format!(" / {}", d.divided_by) };
        format!("{}{divided_by}", d.long_name)
    }
}

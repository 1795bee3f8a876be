//! Unique names for lists, paths and Zarr groups.

use std::collections::{HashMap, HashSet};

/// Makes names unique. The last number appended to each is recorded, so that many equal names are as fast as different
/// ones.
pub(crate) struct UniqueNames {
    /// The part of a name that is compared.
    key: fn(&str) -> String,
    /// Between a name and its number.
    separator: char,
    names: HashSet<String>,
    /// By key; smaller numbers are in use.
    last: HashMap<String, u32>,
}

impl UniqueNames {
    /// Without names.
    pub(crate) fn new(key: fn(&str) -> String, separator: char) -> Self {
        Self { key, separator, names: HashSet::new(), last: HashMap::new() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(&(self.key)(name))
    }

    /// Takes `name`, or the first free one of `name_2`, `name_3`, ... A `reserved` name is never free.
    pub(crate) fn free(&mut self, name: String, reserved: bool) -> String {
        let key = (self.key)(&name);
        if !reserved && self.names.insert(key.clone()) {
            return name;
        }
        let n = self.last.entry(key).or_insert(1);
        loop {
            *n += 1;
            let numbered = format!("{name}{}{n}", self.separator);
            if self.names.insert((self.key)(&numbered)) {
                return numbered;
            }
        }
    }
}

/// A name of letters, digits and `_ . + -`.
pub(crate) fn plain(label: &str) -> String {
    let mut name = String::with_capacity(label.len());
    for c in label.chars() {
        if c.is_alphanumeric() || "_.+-".contains(c) {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_matches(['_', '.']);
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.to_owned()
    }
}

pub(crate) fn none_taken() -> UniqueNames {
    UniqueNames::new(str::to_owned, '_')
}

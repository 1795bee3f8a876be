//! Names that can stand in a list, a path and a Zarr group, each for one thing.

use std::collections::{HashMap, HashSet};

/// Gives each thing a name of its own. There may be many names, and many of them alike: the last number that was put
/// behind a name is remembered, so that many of one name take no longer than others.
pub(crate) struct Taken {
    /// What is compared of a name.
    key: fn(&str) -> String,
    /// What stands between a name and its number.
    separator: char,
    names: HashSet<String>,
    /// By key; the numbers below are taken.
    last: HashMap<String, u32>,
}

impl Taken {
    /// None yet.
    pub(crate) fn new(key: fn(&str) -> String, separator: char) -> Self {
        Self { key, separator, names: HashSet::new(), last: HashMap::new() }
    }

    /// Whether somebody has it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(&(self.key)(name))
    }

    /// `name`, or the first of `name_2`, `name_3`, ... that is free, which is then taken. A name that is `reserved` is
    /// never free itself.
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

/// Names of which none is taken.
pub(crate) fn none_taken() -> Taken {
    Taken::new(str::to_owned, '_')
}

//! Names for formats with restricted names.

/// A name of ASCII letters, digits and underscores that is not in `taken` yet. It is added there.
pub(super) fn plain(name: &str, taken: &mut Vec<String>) -> String {
    let ok = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let plain: String = name.chars().map(ok).collect();
    let mut unique = plain.clone();
    let mut next = 2;
    while taken.contains(&unique) {
        unique = format!("{plain}_{next}");
        next += 1;
    }
    taken.push(unique.clone());
    unique
}

/// The suffix of the name for each component.
pub(super) fn suffixes(components: usize) -> Vec<String> {
    match components {
        1 => vec![String::new()],
        3 => ["_x", "_y", "_z"].map(String::from).into(),
        n => (0..n).map(|c| format!("_{c}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        let mut taken = vec!["x".to_owned()];
        assert_eq!(plain("p tot", &mut taken), "p_tot");
        assert_eq!(plain("p-tot", &mut taken), "p_tot_2");
        assert_eq!(plain("x", &mut taken), "x_2");
        assert_eq!(plain("µ", &mut taken), "_");
        assert_eq!(suffixes(1), [""]);
        assert_eq!(suffixes(3), ["_x", "_y", "_z"]);
        assert_eq!(suffixes(2), ["_0", "_1"]);
    }
}

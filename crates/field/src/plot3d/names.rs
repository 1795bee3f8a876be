//! Names of functions, from a `.nam` file or a list: one a line, in the order of the function file. `name ; vector`
//! makes this function and the next ones components of a vector. Some writers give each component its own label
//! (`; X-Velocity`).

use crate::unique_names::plain;

/// One array of a function file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedArray {
    /// A name that is valid in a list, a path and a Zarr group.
    pub name: String,
    /// The file's spelling.
    pub label: String,
    /// First function.
    pub first: usize,
    /// Number of functions.
    pub components: usize,
}

/// Lines of a `.nam` file.
pub(super) fn lines(text: &str) -> Vec<String> {
    let text = text.trim_start_matches('\u{feff}');
    text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

/// Groups `count` functions into arrays. Functions without a name are `f1`, `f2`, ...
pub(super) fn group(names: &[String], count: usize, dimension: usize) -> Vec<NamedArray> {
    let parts: Vec<(String, Option<String>)> = (0..count)
        .map(|n| {
            let line = names.get(n).map_or("", String::as_str);
            let (name, vector) = line.split_once(';').map_or((line, None), |(a, b)| (a, Some(b.trim())));
            let name = name.trim();
            let name = if name.is_empty() { format!("f{}", n + 1) } else { name.to_owned() };
            (name, vector.filter(|v| !v.is_empty()).map(str::to_owned))
        })
        .collect();
    let mut arrays = Vec::new();
    let mut n = 0;
    while n < count {
        let (name, vector) = &parts[n];
        let (label, components) = match vector {
            Some(vector) if n + dimension <= count => {
                let labels: Vec<Option<&str>> = parts[n..n + dimension].iter().map(|p| p.1.as_deref()).collect();
                match common_label(&labels) {
                    Some(label) => (label, dimension),
                    None if labels[1..].iter().all(Option::is_none) => (vector.clone(), dimension),
                    None => (name.clone(), 1),
                }
            }
            _ => (name.clone(), 1),
        };
        arrays.push(NamedArray { name: plain(&label), label, first: n, components });
        n += components;
    }
    arrays
}

/// The common part of labels: `Velocity` of `X-Velocity`, `Y-Velocity`, `Z-Velocity`.
fn common_label(labels: &[Option<&str>]) -> Option<String> {
    let mut common: Option<&str> = None;
    for (label, axis) in labels.iter().zip(["x", "y", "z"]) {
        let label = (*label)?;
        let head = label.get(..1)?;
        let rest = label.get(1..)?.trim_start_matches(['-', '_', ' ']);
        if !head.eq_ignore_ascii_case(axis) || rest.is_empty() || rest.len() + 1 == label.len() {
            return None;
        }
        if common.is_some_and(|c| !c.eq_ignore_ascii_case(rest)) {
            return None;
        }
        common = Some(rest);
    }
    common.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unique_names::none_taken;

    fn grouped(text: &str, count: usize, dimension: usize) -> Vec<(String, usize, usize)> {
        group(&lines(text), count, dimension).into_iter().map(|a| (a.name, a.first, a.components)).collect()
    }

    #[test]
    fn scalars_and_vectors() {
        let own = |list: &[(&str, usize, usize)]| -> Vec<(String, usize, usize)> {
            list.iter().map(|&(n, f, c)| (n.to_owned(), f, c)).collect()
        };
        assert_eq!(grouped("", 2, 3), own(&[("f1", 0, 1), ("f2", 1, 1)]));
        assert_eq!(
            grouped("\u{feff}cp\r\n\r\nu ; velocity\r\nv\r\nw\r\n", 4, 3),
            own(&[("cp", 0, 1), ("velocity", 1, 3)])
        );
        assert_eq!(grouped("u;velocity\nv\ncp", 3, 2), own(&[("velocity", 0, 2), ("cp", 2, 1)]));
        assert_eq!(
            grouped("u; X-Velocity\nv; Y-Velocity\nw; Z-Velocity\np", 5, 3),
            own(&[("Velocity", 0, 3), ("p", 3, 1), ("f5", 4, 1)])
        );
        assert_eq!(grouped("u;velocity\nv", 2, 3), own(&[("u", 0, 1), ("v", 1, 1)]));
        assert_eq!(grouped("a b/c (m/s)\n///", 2, 3), own(&[("a_b_c_m_s", 0, 1), ("unnamed", 1, 1)]));
        let mut taken = none_taken();
        let mut next = |name: &str| taken.free(name.into(), false);
        assert_eq!([next("a"), next("A"), next("a"), next("a_2"), next("a")], ["a", "A", "a_2", "a_2_2", "a_3"]);
    }
}

//! Faces of grids: points of a zone with one index fixed, all of them or a range along each other axis.

use crate::values::NodeBox;
use field::dataset::Dataset;
use field::error::FieldError;
use serde_json::{json, Map, Value};

/// Names of the axes of computational space.
pub const AXES: [&str; 3] = ["i", "j", "k"];

/// The two axes along a face, the faster first.
pub fn along(axis: usize) -> [usize; 2] {
    match axis {
        0 => [1, 2],
        1 => [0, 2],
        _ => [0, 1],
    }
}

/// Nodes of a zone with one index fixed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct GridFace {
    /// Zone number.
    pub zone: usize,
    /// 0 i, 1 j, 2 k.
    pub axis: usize,
    /// The fixed index, 0-based.
    pub index: u32,
    /// First node along each of the two other axes ([`along`]), 0-based.
    pub from: [u32; 2],
    /// One past the last.
    pub to: [u32; 2],
}

impl GridFace {
    /// All nodes with this index of a zone of `dims` points.
    pub fn whole(zone: usize, axis: usize, index: u32, dims: [u32; 3]) -> Self {
        Self { zone, axis, index, from: [0; 2], to: along(axis).map(|a| dims[a]) }
    }

    /// Reads JSON: `{"zone": NAME, "axis": "i" | "j" | "k", "index": N | "end", "within": {AXIS: [N | null, N |
    /// null]}}`. Indices are 1-based, and both ends of a range are included; null is an end of the axis. An axis
    /// missing in `within` is whole.
    ///
    /// # Errors
    /// [`FieldError::Usage`], [`FieldError::Unknown`].
    pub fn of_json(dataset: &Dataset, v: &Value) -> Result<Self, FieldError> {
        let name =
            v["zone"].as_str().ok_or_else(|| FieldError::Usage("a surface needs the name of its zone".into()))?;
        let zone = dataset.zone_named(name)?;
        let number = |axis: &str| AXES.iter().position(|a| *a == axis);
        let axis = v["axis"].as_str().and_then(number);
        let axis = axis.ok_or_else(|| FieldError::Usage("the axis of a surface is i, j or k".into()))?;
        let dims = dataset.zones[zone].dims();
        let counted = |axis: usize, v: &Value| {
            let found = v.as_u64().filter(|i| (1..=u64::from(dims[axis])).contains(i)).map(|i| i as u32 - 1);
            found.ok_or_else(|| {
                FieldError::Usage(format!("{name}: {} = {v} is not within 1 to {}", AXES[axis], dims[axis]))
            })
        };
        let index = if v["index"] == "end" { dims[axis] - 1 } else { counted(axis, &v["index"])? };
        let mut face = Self::whole(zone, axis, index, dims);
        let none = Map::new();
        let unread = || FieldError::Usage(format!("{name}: 'within' is not {{AXIS: [FIRST, LAST]}}"));
        let within = match &v["within"] {
            Value::Null => &none,
            v => v.as_object().ok_or_else(unread)?,
        };
        for (of, ends) in within {
            let ends = ends.as_array().filter(|ends| ends.len() == 2).ok_or_else(unread)?;
            let wrong = || FieldError::Usage(format!("{name}: a surface of one {} has no range of {of}", AXES[axis]));
            let n = number(of).and_then(|of| along(axis).iter().position(|a| *a == of)).ok_or_else(wrong)?;
            let of = along(axis)[n];
            let end = |n: usize, or: u32| if ends[n].is_null() { Ok(or) } else { counted(of, &ends[n]) };
            let (first, last) = (end(0, 0)?, end(1, dims[of] - 1)?);
            if first > last {
                let range = format!("{}={}:{}", AXES[of], first + 1, last + 1);
                return Err(FieldError::Usage(format!("{name}: {range} ends before it begins")));
            }
            (face.from[n], face.to[n]) = (first, last + 1);
        }
        Ok(face)
    }

    /// Its nodes at a step.
    pub fn nodes(&self, step: usize) -> NodeBox {
        let (mut lo, mut hi) = ([self.index; 3], [self.index + 1; 3]);
        for (n, a) in along(self.axis).into_iter().enumerate() {
            (lo[a], hi[a]) = (self.from[n], self.to[n]);
        }
        NodeBox { zone: self.zone, step, lo, hi }
    }

    /// Nodes along its two axes.
    pub fn points(&self) -> [usize; 2] {
        [0, 1].map(|n| (self.to[n] - self.from[n]) as usize)
    }

    /// Ranges that are not a whole axis: its number, and the first and the last node, 1-based.
    fn ranges(&self, dims: [u32; 3]) -> impl Iterator<Item = (usize, [u32; 2])> + '_ {
        let each = along(self.axis).into_iter().enumerate();
        each.map(|(n, a)| (a, [self.from[n] + 1, self.to[n]])).filter(move |(a, ends)| *ends != [1, dims[*a]])
    }

    /// As users write it: `zone1:k=1,i=2:40`.
    pub fn name(&self, dataset: &Dataset) -> String {
        let z = &dataset.zones[self.zone];
        let ranges = self.ranges(z.dims()).map(|(a, [first, last])| format!(",{}={first}:{last}", AXES[a]));
        format!("{}:{}={}{}", z.name, AXES[self.axis], self.index + 1, ranges.collect::<String>())
    }

    /// The inverse of [`Self::of_json`].
    pub fn to_json(&self, dataset: &Dataset) -> Value {
        let z = &dataset.zones[self.zone];
        let mut found = json!({"zone": z.name, "axis": AXES[self.axis], "index": self.index + 1});
        let within: Map<String, Value> =
            self.ranges(z.dims()).map(|(a, ends)| (AXES[a].to_owned(), json!(ends))).collect();
        if !within.is_empty() {
            found["within"] = Value::Object(within);
        }
        found
    }
}

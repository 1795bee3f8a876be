//! Lines in memory, for callers that need arrays and no file.

use super::{FieldSpec, FieldType, FieldValues, FinishedLine, LineLayout, LineSpool, Moments, OutputError, Reason};

/// Values of one field along all lines, `points * components` numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum LineColumn {
    /// 32-bit values.
    F32(Vec<f32>),
    /// 64-bit values.
    F64(Vec<f64>),
}

/// All lines of a run in seed order, as arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct LineArrays {
    /// Positions: `3 * N` numbers, x y z of each point.
    pub points: Vec<f64>,
    /// Time of each point, `N`.
    pub time: Vec<f64>,
    /// Zone of each point, `N`.
    pub zone: Vec<i32>,
    /// Each field with its values.
    pub fields: Vec<(FieldSpec, LineColumn)>,
    /// Begin of each line: `L + 1` point numbers; line `l` is points `offsets[l]..offsets[l + 1]`.
    pub offsets: Vec<i64>,
    /// Why each line ended, `L`.
    pub reason: Vec<Reason>,
    /// Why each line's backward end ended, `L`, when lines run both ways.
    pub reason_backward: Option<Vec<Reason>>,
    /// The times of the lines.
    pub moments: Moments,
}

impl LineArrays {
    pub(crate) fn with_capacity(lines: u64, points: u64, layout: &LineLayout) -> Result<Self, OutputError> {
        let LineLayout { fields, both, moments } = layout;
        let total = |count: u64, each: usize| {
            usize::try_from(count)
                .ok()
                .and_then(|count| count.checked_mul(each))
                .ok_or(OutputError::Arrays { needs: u64::MAX })
        };
        let mut columns = Vec::with_capacity(fields.len());
        for spec in fields {
            let count = total(points, spec.components)?;
            let column = match spec.dtype {
                FieldType::F32 => LineColumn::F32(reserve(count)?),
                FieldType::F64 => LineColumn::F64(reserve(count)?),
            };
            columns.push((spec.clone(), column));
        }
        let mut offsets = reserve(total(lines, 1)?.saturating_add(1))?;
        offsets.push(0);
        Ok(Self {
            points: reserve(total(points, 3)?)?,
            time: reserve(total(points, 1)?)?,
            zone: reserve(total(points, 1)?)?,
            fields: columns,
            offsets,
            reason: reserve(total(lines, 1)?)?,
            reason_backward: if *both { Some(reserve(total(lines, 1)?)?) } else { None },
            moments: moments.clone(),
        })
    }

    pub(crate) fn end_line(&mut self, points: u64, reason: Reason, reason_backward: Reason) {
        let last = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(last + points as i64);
        self.reason.push(reason);
        if let Some(reasons) = &mut self.reason_backward {
            reasons.push(reason_backward);
        }
    }

    /// Number of lines, with those without points.
    pub fn line_count(&self) -> usize {
        self.reason.len()
    }

    /// The layout of a spool of these lines.
    pub fn layout(&self) -> LineLayout {
        let fields = self.fields.iter().map(|(spec, _)| spec.clone()).collect();
        LineLayout { fields, both: self.reason_backward.is_some(), moments: self.moments.clone() }
    }

    /// Adds every line to a spool made with [`LineArrays::layout`] for this many seeds, so that it can be written to a
    /// file.
    ///
    /// # Errors
    /// [`OutputError`] as [`LineSpool::add`], also for arrays of inconsistent lengths.
    pub fn add_to(&self, spool: &mut LineSpool) -> Result<(), OutputError> {
        let mut points: Vec<[f64; 3]> = Vec::new();
        for (seed, (window, reason)) in self.offsets.windows(2).zip(&self.reason).enumerate() {
            let wrong = || OutputError::Line { seed: seed as u64, reason: "its arrays do not go together".into() };
            let range =
                usize::try_from(window[0]).map_err(|_| wrong())?..usize::try_from(window[1]).map_err(|_| wrong())?;
            let n = range.end.checked_sub(range.start).ok_or_else(wrong)?;
            let flat = self.points.get(range.start * 3..range.end * 3).ok_or_else(wrong)?;
            points.clear();
            points.extend(flat.chunks_exact(3).map(|p| [p[0], p[1], p[2]]));
            let mut fields = Vec::with_capacity(self.fields.len());
            for (spec, column) in &self.fields {
                let at = range.start * spec.components..(range.start + n) * spec.components;
                fields.push(match column {
                    LineColumn::F32(values) => FieldValues::F32(values.get(at).ok_or_else(wrong)?),
                    LineColumn::F64(values) => FieldValues::F64(values.get(at).ok_or_else(wrong)?),
                });
            }
            let reason_backward = match &self.reason_backward {
                Some(reasons) => *reasons.get(seed).ok_or_else(wrong)?,
                None => Reason::Unfinished,
            };
            spool.add(&FinishedLine {
                seed: seed as u64,
                points: &points,
                time: self.time.get(range.clone()).ok_or_else(wrong)?,
                zone: self.zone.get(range).ok_or_else(wrong)?,
                fields: &fields,
                reason: *reason,
                reason_backward,
            })?;
        }
        Ok(())
    }
}

fn reserve<T>(count: usize) -> Result<Vec<T>, OutputError> {
    let mut values = Vec::new();
    let needs = (count as u64).saturating_mul(size_of::<T>() as u64);
    values.try_reserve_exact(count).map_err(|_| OutputError::Arrays { needs })?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use field::error::FieldError;

    #[test]
    fn arrays_that_cannot_be_had_blame_no_limit() {
        for points in [u64::MAX, u64::MAX >> 8] {
            let refused = LineArrays::with_capacity(1, points, &LineLayout::default()).map(|_| ()).unwrap_err();
            let said = FieldError::from(refused);
            assert!(matches!(&said, FieldError::Output(m) if m.contains("not to be had")), "{said}");
        }
    }
}

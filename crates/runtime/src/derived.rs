//! Derived fields of an open dataset: definitions, and which have pages.

use crate::limits::fetch_error;
use crate::session::{ProgressWatch, Session, SettingsField};
use crate::values::{visit_box, NodeBox};
use field::derive::Definitions;
use field::error::FieldError;
use field::expression::bounds::Interval;
use field::expression::parse::parse;
use field::expression::Condition;
use field::quantity::Quantity;
use pager::{Lookup, PageId};
use std::sync::{Arc, PoisonError};

/// A condition, and the fields sampled for it.
pub struct StopCondition {
    /// The condition.
    pub condition: Arc<Condition>,
    /// One name for each side of the condition.
    pub names: Vec<String>,
}

impl Session {
    /// Parses a condition and checks it as a definition. Sides that need derived pages get them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for text that does not parse or type, or is no condition, with the column and the expected
    /// form.
    pub fn condition(&self, text: &str) -> Result<StopCondition, FieldError> {
        let wrong =
            |w: field::expression::Wrong| FieldError::Usage(format!("'{text}', column {}: {}", w.column, w.what));
        let e = parse(text).map_err(wrong)?;
        let condition = Condition::of(&e).map_err(wrong)?;
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.dataset().check_expression(text, &e, &definitions, &self.pager)?;
        let mut plain = Vec::new();
        e.names(&mut |name| plain.push(name.to_owned()));
        self.derive(&plain)?;
        let dataset = self.dataset();
        let names: Vec<String> = condition.sides().iter().map(|side| dataset.sampled_as(side)).collect();
        self.derive(&names)?;
        Ok(StopCondition { condition: Arc::new(condition), names })
    }

    /// Adds the definitions of files of settings. A field of the data with that name takes precedence. Whether a
    /// definition types is checked at the first use of its name, since the next dataset may have the missing fields.
    ///
    /// # Errors
    /// [`FieldError::Usage`] with the file, for one that does not parse, has an invalid name, or is circular.
    pub(crate) fn settle(&self, settled: &[SettingsField]) -> Result<(), FieldError> {
        let dataset = self.dataset();
        let mut held = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        for s in settled {
            let taken = dataset.zones_with(&s.name).next().is_some() || dataset.gradients().any(|g| g.name == s.name);
            if taken {
                // It is parsed all the same, so that its errors show with any data.
                held.clone().add_from(&s.file, &s.name, &s.expression).map_err(FieldError::Usage)?;
            } else {
                held.add_from(&s.file, &s.name, &s.expression).map_err(FieldError::Usage)?;
            }
        }
        Ok(())
    }

    /// Adds definitions, each `NAME = EXPRESSION`. They are checked now, against the dataset's zones.
    ///
    /// # Errors
    /// [`FieldError::Usage`] with the expression, the column and the expected form; for a name in use; for circular
    /// definitions. Nothing is added then.
    pub fn define(&self, definitions: &[String]) -> Result<(), FieldError> {
        if definitions.is_empty() {
            return Ok(());
        }
        let mut new = Vec::with_capacity(definitions.len());
        let before;
        {
            let dataset = self.dataset();
            let mut held = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all = held.clone();
            for text in definitions {
                let Some((name, expression)) = text.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
                    return Err(FieldError::Usage(format!("'{text}' is no definition; write NAME = EXPRESSION")));
                };
                let (name, expression) = (name.trim(), expression.trim());
                // A definition from a file of settings is replaced by a given one, until it has pages.
                let settled = held.file(name).is_some() && dataset.made_named(name).is_none();
                let known = held.iter().find(|(n, _)| *n == name && !settled);
                match known {
                    Some((_, same)) if same == expression => continue,
                    Some((_, other)) => {
                        let what = format!("'{name}' is defined already, as {other}; choose another name");
                        return Err(FieldError::Usage(what));
                    }
                    None if dataset.zones_with(name).next().is_some()
                        || dataset.gradients().any(|g| g.name == name) =>
                    {
                        let what = format!("'{name}' is a field of the data already; choose another name");
                        return Err(FieldError::Usage(what));
                    }
                    None => {}
                }
                all.add(name, expression).map_err(FieldError::Usage)?;
                new.push(name.to_owned());
            }
            before = std::mem::replace(&mut *held, all);
        }
        let done = self.derive(&new);
        if done.is_err() {
            let mut held = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
            new.iter().for_each(|n| held.restore(n, &before));
        }
        done
    }

    /// Adds pages for those of the named fields that are computed through derived pages. Unknown names are ignored. A
    /// run calls this before it looks names up. Nothing is read or computed.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an expression that does not type; [`FieldError::LimitTooSmall`].
    pub fn derive<S: AsRef<str>>(&self, names: &[S]) -> Result<(), FieldError> {
        let names: Vec<&str> = names.iter().map(S::as_ref).collect();
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut held = self.dataset.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(with) = held.deriving(&names, &definitions, &self.pager)? {
            *held = with.into();
        }
        Ok(())
    }

    /// Bounds of each component of a field on a page of a zone at a step, from a store's ranges of pages. Without
    /// ranges (files paged in place, derivatives) they are infinite. `None`: the zone has no such field. No page of the
    /// field or of its inputs is read.
    ///
    /// # Errors
    /// [`FieldError`]: a failed page of ranges.
    pub fn bounds(
        &self,
        field: &str,
        zone: usize,
        step: usize,
        page: u64,
    ) -> Result<Option<Vec<Interval>>, FieldError> {
        let dataset = self.dataset();
        let Some(z) = dataset.zones.get(zone) else { return Ok(None) };
        let pages = z.translation.pages.map(|n| n as usize);
        let at = z.translation.extent(page).0;
        let at: [usize; 3] = core::array::from_fn(|a| (at[a] / z.translation.page[a]) as usize);
        let mut known: Vec<Vec<Interval>> = vec![Vec::new(); z.arrays.len()];
        let mut worker = self.pager.worker();
        for (a, levels) in dataset.ranges.get(zone).map_or(&[][..], |r| &r[..]).iter().enumerate() {
            let Some(level) = levels.first().filter(|l| l.paging.dims == pages) else { continue };
            let (number, element) = level.paging.locate(at);
            let id = PageId::new(level.id, if z.arrays[a].steady { 0 } else { step as u32 }, number);
            let components = z.arrays[a].components;
            let bytes = (level.paging.page_points() * components * 16) as u64;
            let _hold = self.pager.fetch(&[id]).map_err(|e| fetch_error(&self.pager, e, bytes, 0))?;
            if let Lookup::Here(page) = worker.page(id) {
                let number = |n: usize| {
                    let word = page.get(n * 8..n * 8 + 8).and_then(|b| b.try_into().ok());
                    word.map_or(f64::NAN, f64::from_ne_bytes)
                };
                let first = element * 2 * components;
                // Ranges leave out NaN.
                let of = |c: usize| Interval {
                    nan: true,
                    ..Interval::of(number(first + c), number(first + components + c))
                };
                known[a] = (0..components).map(of).collect();
            }
            worker.release();
        }
        let input = |a: usize, c: usize| known.get(a).and_then(|k| k.get(c)).copied().unwrap_or(Interval::ALL);
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(dataset.bounds(zone, field, step, (&definitions, &self.pager), input))
    }

    /// The smallest and largest finite value of a scalar field at usable points of all zones and steps. The second
    /// number counts pages that were not read, since their bounds lie within the range found before. `None`: there is
    /// no such value, or the field is a vector.
    ///
    /// # Errors
    /// [`FieldError`]: a failed page; [`FieldError::Interrupted`].
    pub fn range(&self, field: &str, watch: &mut ProgressWatch<'_>) -> Result<(Option<[f64; 2]>, u64), FieldError> {
        self.derive(&[field])?;
        let dataset = self.dataset();
        let (mut lo, mut hi, mut skipped) = (f64::INFINITY, f64::NEG_INFINITY, 0);
        for zone in dataset.zones_with(field) {
            let (z, q) = (&dataset.zones[zone], dataset.quantity(zone, field)?);
            if q.components() != 1 {
                return Ok((None, 0));
            }
            let steady = match q {
                Quantity::Stored { array, .. } | Quantity::Component { array, .. } => z.arrays[array].steady,
                Quantity::Derived(_) => false,
            };
            let steady = steady && z.iblank.is_none_or(|a| z.arrays[a].steady);
            let steps = if steady { 1 } else { dataset.catalog.times.len().max(1) };
            let mut wanted = vec![q];
            wanted.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
            for step in 0..steps {
                for page in 0..z.translation.count() {
                    let known = self.bounds(field, zone, step, page)?.and_then(|b| b.first().copied());
                    if known.is_some_and(|b| lo <= b.lo && b.hi <= hi) {
                        skipped += 1;
                        continue;
                    }
                    let (first, inside) = z.translation.extent(page);
                    let at = NodeBox { zone, step, lo: first, hi: core::array::from_fn(|a| first[a] + inside[a]) };
                    visit_box(self, &dataset, at, &wanted, watch, &mut |_, v| {
                        let usable = v.get(1).is_none_or(|b| *b != 0.0);
                        if usable && v[0].is_finite() {
                            (lo, hi) = (lo.min(v[0]), hi.max(v[0]));
                        }
                        true
                    })?;
                }
            }
        }
        Ok(((lo <= hi).then_some([lo, hi]), skipped))
    }

    /// Names and expressions of the user's definitions. Those of files of settings only if they type here.
    pub fn defined(&self) -> Vec<(String, String)> {
        let (dataset, held) = (self.dataset(), self.definitions());
        let types = |name: &str| held.file(name).is_none() || dataset.preview(name, &held, &self.pager).is_some();
        held.iter().filter(|(name, _)| types(name)).map(|(n, e)| (n.to_owned(), e.to_owned())).collect()
    }

    /// The present definitions.
    pub fn definitions(&self) -> Definitions {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

//! Derived fields of a dataset, registered with the pager when first named.

use super::definitions::{hoisted, Definitions, GRADIENTS};
use super::derived_field::DerivedField;
use super::page::{DerivedPages, OfStep};
use crate::catalog::DType;
use crate::dataset::Dataset;
use crate::error::FieldError;
use crate::expression::bounds::{bounds, Interval};
use crate::expression::compile::{compile, CompiledExpression, Operand, Program, ZoneConstant, ZoneNames};
use crate::expression::parse::is_plain;
use crate::expression::run::Parts;
use crate::expression::{Expression, ExpressionKind, Wrong};
use crate::heap_size;
use crate::nodes::{ArraySlot, Zone};
use crate::quantity::{Quantity, DEFINITIONS};
use crate::store::layout::SYSTEM_PAGE;
use crate::units::Unit;
use crate::usage::Use;
use pager::Pager;
use std::sync::Arc;

/// The fields of one zone before they are registered with the pager.
struct FieldRegistration<'a> {
    dataset: &'a Dataset,
    definitions: &'a Definitions,
    pager: &'a Pager,
    steps: Arc<[OfStep]>,
    zone: Zone,
    made: Vec<DerivedField>,
    pages: Vec<(usize, Arc<DerivedPages>)>,
}

impl FieldRegistration<'_> {
    /// The names that the definition of `of` may use.
    fn names<T>(&self, of: &str, f: impl FnOnce(&ZoneNames<'_>) -> T) -> T {
        let unit = |name: &str| {
            let own = self.made.iter().find(|m| m.name == name).and_then(DerivedField::unit);
            own.or_else(|| self.dataset.unit_of(name))
        };
        let known = || {
            let mut names = Quantity::names(&self.zone);
            names.extend(self.definitions.iter().map(|(n, _)| n.to_owned()));
            names.extend(GRADIENTS.iter().map(|g| g.name.to_owned()));
            // A field is not made of itself.
            names.retain(|name| name != of);
            names
        };
        f(&ZoneNames {
            zone: &self.zone,
            unit: &unit,
            length: self.dataset.length_as_unit(),
            time: self.dataset.time_as_unit(),
            known: &known,
        })
    }

    fn add(&mut self, name: &str, e: &Expression, hidden: bool) -> Result<(), Wrong> {
        let expanded = self.definitions.expanded(&self.zone, e)?;
        let mut inner = Vec::new();
        let whole = hoisted(&expanded, &mut |part| {
            // A separate name: the user's field of this expression may be in single precision, this one is not.
            let name = format!("hidden {part}");
            inner.push((name.clone(), part));
            Ok(name)
        })?;
        for (name, part) in inner {
            if self.zone.array(&name).is_none() {
                self.add(&name, &part, true)?;
            }
        }
        let CompiledExpression { program, dimension, shown } = self.names(name, |n| compile(&whole, n))?;
        if !self.steps.is_empty() {
            self.note_uses(&program);
        }
        let parts = Parts::of(&program).ok_or_else(|| Wrong::at(e.column, "a derivative of a derivative"))?;
        let dtype = if hidden { DType::Float64 } else { self.dtype(&parts) };
        let pages =
            DerivedPages::new(format!("{}/{name}", self.zone.name), &self.zone, parts, dtype, self.steps.clone());
        let slot = self.slot(name, &pages, dtype, program.roots.len());
        let gradient = GRADIENTS.iter().find(|g| g.name == name);
        let divided_by = match dimension.filter(|d| d.has_symbols()) {
            Some(d) => format!(" / {}", d.as_divisor()),
            None => String::new(),
        };
        let long_name = match gradient {
            // The table's units read better than powers.
            Some(g) if divided_by.is_empty() || g.divided_by.is_empty() => g.long_name.to_owned(),
            Some(g) => format!("{} / {}", g.long_name, g.divided_by),
            None => format!("{name}{divided_by}"),
        };
        if !self.made.iter().any(|m| m.name == name) {
            self.made.push(DerivedField {
                name: name.to_owned(),
                expression: expanded,
                dimension,
                shown,
                long_name,
                hidden,
            });
        }
        self.pages.push((self.zone.arrays.len(), Arc::new(pages)));
        self.zone.arrays.push(slot);
        Ok(())
    }

    fn note_uses(&self, program: &Program) {
        for node in &program.nodes {
            match node {
                Operand::Given(ZoneConstant::Mach) => self.dataset.uses.note(Use::FreeStream),
                Operand::Given(ZoneConstant::Gamma) => self.dataset.uses.note(Use::Energy),
                Operand::Given(ZoneConstant::Time) => self.dataset.uses.note(Use::Time),
                _ => {}
            }
        }
    }

    /// float32 if all its inputs are float32.
    fn dtype(&self, parts: &Parts) -> DType {
        let coordinates = (!parts.inner.results.is_empty()).then_some(self.zone.xyz);
        let mut arrays = parts.inner.inputs().chain(parts.outer.inputs()).chain(coordinates).peekable();
        let any = arrays.peek().is_some();
        let wide = arrays.any(|a| !matches!(self.zone.arrays[a].dtype, DType::Float32));
        if wide || !any {
            DType::Float64
        } else {
            DType::Float32
        }
    }

    /// The slot of a field; its id follows on registration.
    fn slot(&self, name: &str, pages: &DerivedPages, dtype: DType, components: usize) -> ArraySlot {
        let rounded = |bytes: usize| bytes.next_multiple_of(SYSTEM_PAGE) as u64;
        // The largest input on its way: encoded, decoded, and its own inputs if it is derived.
        let input = |a: usize| {
            let slot = &self.zone.arrays[a];
            let frame = rounded(self.zone.translation.component * slot.components * slot.dtype.size());
            frame + slot.making.max(frame * 5 / 2)
        };
        let largest = pages.made_of().map(|(a, _)| input(a)).max().unwrap_or(0);
        ArraySlot {
            name: name.to_owned(),
            // Replaced on registration.
            id: pager::ArrayId(u32::MAX),
            components,
            dtype,
            steady: pages.steady(),
            derived: true,
            // Sizes of buffers are a quarter apart.
            making: rounded(pages.scratch_bytes()) * 5 / 4 + largest,
        }
    }

    fn register(&mut self) {
        for (array, pages) in self.pages.drain(..) {
            // Dependents come after their inputs, and take their ids from the zone.
            let pages = match Arc::try_unwrap(pages) {
                Ok(p) => Arc::new(p.with_numbers(&self.zone)),
                Err(shared) => shared,
            };
            self.zone.arrays[array].id = self.pager.add_array(pages);
        }
    }
}

impl Dataset {
    /// The dataset with those named derived fields that it lacks; `None` if there are none. Nothing is read or
    /// computed. Unknown names are skipped: their users report them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an expression that types in no zone, with the column and the expected token;
    /// [`FieldError::LimitTooSmall`].
    pub fn deriving(
        &self,
        names: &[&str],
        definitions: &Definitions,
        pager: &Pager,
    ) -> Result<Option<Self>, FieldError> {
        let mut zones: Vec<Zone> = self.zones.to_vec();
        let mut made = self.made.to_vec();
        let before = made.len();
        let mut bytes = 0;
        let mut new: Vec<&str> = Vec::new();
        for name in names {
            let stem = ["_x", "_y", "_z"].iter().find_map(|s| name.strip_suffix(s));
            let known = |n: &str| self.zones.iter().any(|z| Quantity::named(z, n).is_some());
            let means = |n: &str| !known(n) && self.zones.iter().any(|z| definitions.meaning(z, n).is_some());
            // Components come with their vector.
            let whole = |z: &Zone| definitions.component(z, name).map(|(whole, _)| whole);
            let whole = self.zones.iter().find_map(whole).filter(|w| !known(name) && means(w));
            let wanted = whole
                .or_else(|| Some(*name).filter(|n| means(n)))
                .or_else(|| stem.filter(|s| !known(name) && means(s)));
            new.extend(wanted.filter(|n| !new.contains(n)));
        }
        let mut found = false;
        for name in new {
            let mut first: Option<FieldError> = None;
            let mut any = false;
            for (n, z) in zones.iter_mut().enumerate() {
                let Some(e) = definitions.meaning(z, name) else { continue };
                let mut m = FieldRegistration {
                    dataset: self,
                    definitions,
                    pager,
                    steps: self.of_steps(n),
                    zone: z.clone(),
                    made: made.clone(),
                    pages: Vec::new(),
                };
                match m.add(name, &e, false) {
                    Ok(()) => {
                        bytes += m.pages.iter().map(|(_, p)| p.held() + 64).sum::<u64>();
                        bytes += (m.pages.len() * (size_of::<ArraySlot>() + name.len() + 48)) as u64;
                        m.register();
                        made = std::mem::take(&mut m.made);
                        *z = m.zone;
                        (any, found) = (true, true);
                    }
                    Err(wrong) => {
                        first.get_or_insert(FieldError::Usage(definitions.wrong(name, &wrong)));
                    }
                }
            }
            // A zone without the inputs lacks the field. If all do, the reason is reported.
            if let (false, Some(e)) = (any, first) {
                return Err(e);
            }
        }
        if !found {
            return Ok(None);
        }
        made[before..].iter().for_each(|m| bytes += (m.name.len() + m.long_name.len()) as u64 + 1024);
        let mut charges = self.charges.clone();
        charges.push(heap_size::charge(pager, bytes + heap_size::catalog(&self.catalog), self.zones.len())?);
        Ok(Some(self.with_zones(zones, made, charges)))
    }

    /// Constants of a zone, step by step.
    fn of_steps(&self, zone: usize) -> Arc<[OfStep]> {
        let steps = self.catalog.times.len().max(1);
        (0..steps)
            .map(|step| {
                let (gamma, free) = self.gas(zone, step);
                OfStep { time: self.catalog.times.get(step).copied().unwrap_or(0.0), gamma, free }
            })
            .collect()
    }

    /// The field that `name` would become, its components and its type, in the first zone that offers it. Nothing is
    /// registered.
    pub fn preview(
        &self,
        name: &str,
        definitions: &Definitions,
        pager: &Pager,
    ) -> Option<(DerivedField, usize, DType)> {
        self.zones.iter().find_map(|z| self.preview_in(z, name, definitions, pager))
    }

    /// The zones in which [`Self::preview`] finds a field.
    pub fn previews(&self, name: &str, definitions: &Definitions, pager: &Pager) -> Vec<usize> {
        let offers = |z: &Zone| self.preview_in(z, name, definitions, pager).is_some();
        self.zones.iter().enumerate().filter(|(_, z)| offers(z)).map(|(n, _)| n).collect()
    }

    fn preview_in(
        &self,
        z: &Zone,
        name: &str,
        definitions: &Definitions,
        pager: &Pager,
    ) -> Option<(DerivedField, usize, DType)> {
        let e = definitions.meaning(z, name)?;
        let (steps, made, pages) = (Arc::new([]), Vec::new(), Vec::new());
        let mut m = FieldRegistration { dataset: self, definitions, pager, steps, zone: z.clone(), made, pages };
        m.add(name, &e, false).ok()?;
        let slot = m.zone.arrays.last()?;
        Some((m.made.pop()?, slot.components, slot.dtype))
    }

    /// Bounds of a field's components at a step, from those of arrays (`input`: array, component). They allow for pages
    /// in float32. `None` for an unknown name.
    pub fn bounds(
        &self,
        zone: usize,
        name: &str,
        step: usize,
        (definitions, pager): (&Definitions, &Pager),
        input: impl Fn(usize, usize) -> Interval,
    ) -> Option<Vec<Interval>> {
        let z = self.zones.get(zone)?;
        let own = Expression { column: 1, kind: ExpressionKind::Name(name.to_owned()) };
        let e = match self.made_named(name) {
            Some(m) => m.expression.clone(),
            None => definitions.meaning(z, name).unwrap_or(own),
        };
        let (steps, made, pages) = (self.of_steps(zone), self.made.to_vec(), Vec::new());
        let m = FieldRegistration { dataset: self, definitions, pager, steps, zone: z.clone(), made, pages };
        let e = definitions.expanded(z, &e).ok()?;
        let checked = m.names(name, |n| compile(&e, n)).ok()?;
        let of_step = m.steps.get(step).or(m.steps.last()).copied()?;
        let all = bounds(&checked.program, |g| of_step.get(g), input);
        Some(all.into_iter().map(Interval::in_float32).collect())
    }

    /// Checks names, kinds and units of an expression from `text`. Nothing is registered.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if it types in no zone, with the column and the expected token.
    pub fn check_expression(
        &self,
        text: &str,
        e: &Expression,
        definitions: &Definitions,
        pager: &Pager,
    ) -> Result<(), FieldError> {
        let mut first = None;
        for z in self.zones.iter() {
            let (steps, made, pages) = (Arc::new([]), self.made.to_vec(), Vec::new());
            let m = FieldRegistration { dataset: self, definitions, pager, steps, zone: z.clone(), made, pages };
            match definitions.expanded(z, e).and_then(|e| m.names("", |n| compile(&e, n))) {
                Ok(_) => return Ok(()),
                Err(w) => {
                    first.get_or_insert(FieldError::Usage(format!("'{text}', column {}: {}", w.column, w.what)));
                }
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// The name for sampling an expression in SI units: the field's, if its numbers are in SI units, else the
    /// expression.
    pub fn sampled_as(&self, e: &Expression) -> String {
        match &e.kind {
            ExpressionKind::Name(name) => {
                let as_it_is = self.unit_of(name).is_none_or(|u| u.scale == 1.0 && u.offset == 0.0);
                match as_it_is && self.zones.iter().any(|z| Quantity::named(z, name).is_some()) {
                    true => name.clone(),
                    // Times one: the name alone is the field itself.
                    false => format!("1.0 * ({e})"),
                }
            }
            ExpressionKind::Number(..) => format!("1.0 * ({e})"),
            _ => e.to_string(),
        }
    }

    /// The label of a field that has pages, or of a vector's component (the vector's, with the axis before the
    /// divisor). Otherwise the name.
    pub(crate) fn made_label(&self, name: &str) -> String {
        let made = |name: &str| self.made_named(name).map(|m| m.long_name.clone());
        let stored =
            |stem: &str| self.catalog.array_named(stem).filter(|a| a.components > 1).map(|a| a.long_name.clone());
        let component = || {
            let axes = ["x", "y", "z"];
            let of = |axis: &str| name.strip_suffix(axis)?.strip_suffix('_');
            let (stem, axis) = axes.iter().find_map(|axis| Some((of(axis)?, *axis)))?;
            let whole = made(stem).or_else(|| stored(stem))?;
            Some(match whole.split_once(" / ") {
                Some((title, by)) => format!("{title} {axis} / {by}"),
                None => format!("{whole} {axis}"),
            })
        };
        made(name).or_else(component).unwrap_or_else(|| name.to_owned())
    }

    /// Names of derived fields that have pages, without expressions and [`GRADIENTS`].
    pub(crate) fn own_names(&self) -> impl Iterator<Item = String> + '_ {
        let is_gradient = |name: &str| GRADIENTS.iter().any(|g| g.name == name);
        let own = self.made.iter().filter(move |m| !m.hidden && is_plain(&m.name) && !is_gradient(&m.name));
        own.map(|m| m.name.clone())
    }

    /// A derived field that has pages.
    pub fn made_named(&self, name: &str) -> Option<&DerivedField> {
        self.made.iter().find(|m| m.name == name)
    }

    /// Fields of gradients on offer: no zone stores the name, and a zone has the velocity or pressure.
    pub fn gradients(&self) -> impl Iterator<Item = &'static super::definitions::Gradient> + '_ {
        GRADIENTS.iter().filter(|g| {
            let scalar = g.name == "pressure_gradient";
            let of = if scalar { "pressure" } else { "velocity" };
            let offers = |z: &Zone| Quantity::named(z, of).is_some_and(|q| (q.components() == 1) == scalar);
            self.catalog.array_named(g.name).is_none() && self.zones.iter().any(offers)
        })
    }

    /// The unit of a field in expressions, if known. Non-dimensional fields of PLOT3D are in units of the free stream.
    pub(crate) fn unit_of(&self, name: &str) -> Option<Unit> {
        let parse = |text: &str| Unit::parse(text).ok();
        if let Some(a) = self.catalog.array_named(name) {
            return match (a.units.as_str(), name) {
                ("1", "density") => parse("rho_inf"),
                ("1", "momentum") => parse("rho_inf a_inf"),
                ("1", "energy") => parse("rho_inf a_inf2"),
                ("1", "gamma") => Some(Unit::ONE),
                // The label of a field from `convert` names its divisor. Otherwise the unit is unknown.
                ("1" | "", _) => {
                    let (_, by) = a.long_name.split_once(" / ").unwrap_or_default();
                    parse(by).filter(|unit| unit.dimension.has_symbols() && unit.dimension.as_divisor() == by)
                }
                (units, _) => parse(units),
            };
        }
        if let Some(m) = self.made_named(name) {
            return m.unit();
        }
        if let Some(d) = DEFINITIONS.iter().find(|d| d.name == name) {
            return match (self.in_si(d), d.divided_by) {
                (true, _) => parse(d.units),
                (false, "") if d.units == "1" => Some(Unit::ONE),
                (false, "") => None,
                (false, divided_by) => parse(divided_by),
            };
        }
        let stem = ["_x", "_y", "_z"].iter().find_map(|s| name.strip_suffix(s))?;
        self.unit_of(stem)
    }

    /// The unit of positions in expressions.
    pub(crate) fn length_as_unit(&self) -> Option<Unit> {
        match self.length_unit().as_str() {
            "grid unit" => Unit::parse("L").ok(),
            unit => Unit::parse(unit).ok(),
        }
    }

    /// The unit of times in expressions.
    pub(crate) fn time_as_unit(&self) -> Option<Unit> {
        match self.catalog.time_units.as_str() {
            "1" | "" if !self.units.si => Unit::parse("L / a_inf").ok(),
            "1" | "" => None,
            // CF adds the origin of time.
            unit => Unit::parse(unit.split(" since ").next().unwrap_or(unit)).ok(),
        }
    }
}

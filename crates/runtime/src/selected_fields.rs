//! Input of conversions from an open dataset: fields by name. Derived fields are computed by the page.

use crate::limits::would_do;
use crate::session::{charge_for, Session};
use crate::values::{visit_box, NodeBox};
use crate::whole_dataset::convert_input;
use convert::{ArraySource, ConvertInput};
use field::catalog::{ArrayInfo, DType, ReadCounter, Role, RowReader};
use field::dataset::Dataset;
use field::error::FieldError;
use field::expression::parse::is_plain;
use field::nodes::Zone;
use field::quantity::{Quantity, Sources, DEFINITIONS};
use pager::ChargeKind;
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// [`convert_input`] with the named fields alone, in that order. Coordinates and iblank are always included. A zone
/// that lacks a field is written without it.
///
/// # Errors
/// [`FieldError::Unknown`] for a name that no zone has. [`FieldError::Usage`] for an expression without a name, or a
/// definition that does not type. The errors of [`convert_input`].
pub fn chosen_input(session: &Arc<Session>, names: &[String]) -> Result<ConvertInput, FieldError> {
    let stored = |n: &str| session.dataset().catalog.zones.iter().any(|z| z.arrays.iter().any(|a| a.name == n));
    if let Some(text) = names.iter().find(|n| !is_plain(n) && !stored(n)) {
        let what = "cannot be the name of an array in a store; give it one";
        return Err(FieldError::Usage(format!("'{text}' {what}: --define \"NAME = {text}\" --fields NAME")));
    }
    session.derive(names)?;
    let dataset = session.dataset();
    let mut input = convert_input(&dataset)?;
    dataset.check_names(names)?;
    let mut made: BTreeMap<&str, String> = BTreeMap::new();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let (infos, sources) = (&mut input.catalog.zones[zone].arrays, &mut input.arrays[zone]);
        let stored: Vec<(ArrayInfo, ArraySource)> = infos.drain(..).zip(sources.drain(..)).collect();
        let mut kept: Vec<(ArrayInfo, ArraySource)> =
            stored.iter().filter(|(a, _)| a.role != Role::Field).cloned().collect();
        for name in names {
            if kept.iter().any(|(a, _)| a.name == *name) {
                continue;
            }
            if let Some(whole) = stored.iter().find(|(a, _)| a.name == *name) {
                kept.push(whole.clone());
            } else if let Some(q) = Quantity::named(z, name) {
                kept.push(made_array(session, &dataset, zone, name, q));
                let whole = ["_x", "_y", "_z"].iter().find_map(|s| name.strip_suffix(s)).unwrap_or(name);
                let of = dataset.made_named(name).or_else(|| dataset.made_named(whole));
                made.insert(name, of.map_or(String::new(), |m| m.expression.to_string()));
            }
        }
        (*infos, *sources) = kept.into_iter().unzip();
    }
    // A half-done conversion is of no use after a definition has changed.
    input.made = made.into_iter().map(|(name, text)| format!("{name} = {text}\n")).collect();
    Ok(input)
}

/// A derived field's description and rows for a store.
fn made_array(
    session: &Arc<Session>,
    dataset: &Arc<Dataset>,
    zone: usize,
    name: &str,
    q: Quantity,
) -> (ArrayInfo, ArraySource) {
    let z = &dataset.zones[zone];
    let of_flow = |z: &Zone| z.array("density").map_or(DType::Float64, |a| z.arrays[a].dtype);
    let dtype = match q {
        Quantity::Stored { array, .. } | Quantity::Component { array, .. } => z.arrays[array].dtype,
        Quantity::Derived(_) => of_flow(z),
    };
    let info = ArrayInfo {
        name: name.to_owned(),
        role: Role::Field,
        components: q.components(),
        dtype,
        units: dataset.units(name),
        standard_name: DEFINITIONS.iter().find(|d| d.name == name).map_or("", |d| d.standard_name).to_owned(),
        long_name: dataset.long_name(name),
    };
    let steps = if steady(dataset, zone, q) { 1 } else { dataset.catalog.times.len().max(1) };
    let (session, dataset) = (session.clone(), dataset.clone());
    let rows = DerivedRows { session, dataset, zone, quantity: q, dtype, tally: ReadCounter::default() };
    (info, ArraySource { rows: Arc::new(rows), steps })
}

fn steady(dataset: &Dataset, zone: usize, q: Quantity) -> bool {
    let z = &dataset.zones[zone];
    match q {
        Quantity::Stored { array, .. } | Quantity::Component { array, .. } => z.arrays[array].steady,
        Quantity::Derived(_) => {
            let s = Sources::of(z);
            let arrays = [s.density, s.momentum, s.energy, s.gamma].into_iter().flatten().all(|a| z.arrays[a].steady);
            let said = |h: &field::catalog::FlowHeader| [h.gamma.to_bits(), h.mach.to_bits()];
            arrays && dataset.catalog.zones[zone].headers.windows(2).all(|h| said(&h[0]) == said(&h[1]))
        }
    }
}

/// [`charge_for`] for a conversion that computes pages. The memory for computing one page is free when the conversion's
/// own memory is charged. It stays free, since no plan uses it.
pub fn charge_for_made<'s>(
    session: &'s Session,
    input: &ConvertInput,
) -> impl Fn(u64) -> Result<Box<dyn Any>, FieldError> + 's {
    let room = if input.made.is_empty() { 0 } else { page_room(&session.dataset()) };
    let stored = charge_for(session);
    move |bytes| {
        if room == 0 {
            return stored(bytes);
        }
        // Charged and released at once, so that a refusal names the whole.
        let probe = session.pager.charge(ChargeKind::Other, bytes.saturating_add(room));
        if let Err(f) = probe {
            let (needs, what) = (would_do(&session.pager, bytes.saturating_add(room)), "the conversion".into());
            return Err(FieldError::LimitTooSmall { limit: f.limit, needs, what });
        }
        drop(probe);
        stored(bytes)
    }
}

/// Bytes of one page of any array, stored or derived, with its inputs and the buffers of its reading.
fn page_room(dataset: &Dataset) -> u64 {
    let of_zone = |z: &Zone| {
        let frame = |a: &field::nodes::ArraySlot| (z.translation.component * a.components * a.dtype.size()) as u64;
        // A field without pages of its own is computed as it is read, and needs all stored arrays at a time.
        let flow = z.arrays.iter().filter(|a| !a.derived).map(frame).sum::<u64>();
        let made = z.arrays.iter().map(|a| 2 * frame(a) + a.making).max().unwrap_or(0);
        flow.max(made) + z.arrays.iter().map(frame).max().unwrap_or(0) * 5 / 4
    };
    dataset.zones.iter().map(of_zone).max().unwrap_or(0) + (256 << 10)
}

/// A derived field, read through the pager. Its pages are computed as they are requested.
struct DerivedRows {
    session: Arc<Session>,
    dataset: Arc<Dataset>,
    zone: usize,
    quantity: Quantity,
    dtype: DType,
    /// Always zero: the pager counts its reads.
    tally: ReadCounter,
}

impl DerivedRows {
    /// Reads a box of nodes. `put` gets the place of a node in the box and its values.
    fn visit(&self, step: usize, at: [Range<u32>; 3], put: &mut dyn FnMut([u32; 3], &[f64])) -> Result<(), FieldError> {
        let [lo, hi] = [at.each_ref().map(|r| r.start), at.each_ref().map(|r| r.end)];
        let at = NodeBox { zone: self.zone, step, lo, hi };
        let (session, dataset) = (&*self.session, &*self.dataset);
        let mut each = |n: [u32; 3], v: &[f64]| {
            put(n, v);
            true
        };
        visit_box(session, dataset, at, &[self.quantity], &mut |_, _, _| true, &mut each).map(|_| ())
    }

    fn put(&self, value: f64, n: usize, out: &mut [u8]) {
        let size = self.dtype.size();
        let Some(to) = out.get_mut(n * size..(n + 1) * size) else { return };
        match self.dtype {
            DType::Float32 => to.copy_from_slice(&(value as f32).to_ne_bytes()),
            DType::Float64 => to.copy_from_slice(&value.to_ne_bytes()),
            DType::Int32 => to.copy_from_slice(&(value as i32).to_ne_bytes()),
            DType::Uint8 => to.copy_from_slice(&[value as u8]),
        }
    }
}

impl RowReader for DerivedRows {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        let ni = self.dataset.zones[self.zone].dims()[0];
        let (k, first) = (k as u32, j.start as u32);
        self.visit(step, [0..ni, first..j.end as u32, k..k + 1], &mut |at, v| {
            let n = (at[1] - first) as usize * ni as usize + at[0] as usize;
            self.put(v.get(c).copied().unwrap_or(f64::NAN), n, out);
        })
    }

    fn by_boxes(&self) -> bool {
        true
    }

    fn read_box(&self, step: usize, points: &[Range<usize>; 3], out: &mut [u8]) -> Result<(), FieldError> {
        let [ni, nj, nk] = points.each_ref().map(ExactSizeIterator::len);
        let low = points.each_ref().map(|r| r.start);
        self.visit(step, points.each_ref().map(|r| r.start as u32..r.end as u32), &mut |at, v| {
            let [i, j, k]: [usize; 3] = core::array::from_fn(|a| at[a] as usize - low[a]);
            for (c, v) in v.iter().enumerate() {
                self.put(*v, ((c * nk + k) * nj + j) * ni + i, out);
            }
        })
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

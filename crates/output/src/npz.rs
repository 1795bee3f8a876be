//! Lines as a NumPy archive.
//!
//! The arrays follow, where L is the number of seeds and N of points. A seed outside has a line without points.
//!
//! | array | type and shape | |
//! |---|---|---|
//! | `points` | float64 (N, 3) | |
//! | `time` | float64 (N,) | |
//! | `zone` | int32 (N,) | |
//! | FIELD | (N,) or (N, components) | one a field |
//! | `offsets` | int64 (L+1,) | |
//! | `reason` | strings (L,) | |
//! | `reason_backward` | strings (L,) | if lines run both ways |
//! | `seed` | int64 (L,) | |
//! | `partial` | bool () | |
//! | `meta` | string () | JSON |
//! | `line_time` | float64 (L,) | if a seed has a line at each of several times |
//! | `line_step` | int64 (L,) | likewise |

use super::columns::ColumnWriter;
use super::npy;
use super::totals::LineStride;
use super::zip::ZipPlan;
use super::{FieldType, LineSpool, OutputError, OutputFile, Provenance, Reason};
use std::ops::ControlFlow;

/// An array with its header.
struct NpzHeader {
    header: Vec<u8>,
    header_at: u64,
}

/// Lays out arrays and writes their headers.
struct Arrays {
    plan: ZipPlan,
    arrays: Vec<NpzHeader>,
}

impl Arrays {
    fn add(
        &mut self,
        columns: &mut ColumnWriter,
        name: &str,
        descr: &str,
        shape: &[u64],
        bytes: u64,
    ) -> Result<usize, OutputError> {
        let header = npy::header(descr, shape, 0);
        let total = bytes.checked_add(header.len() as u64).filter(|total| *total < 1 << 62);
        let total = total.ok_or_else(|| OutputError::Layout(format!("array '{name}' is too large")))?;
        let at = self.plan.add(&format!("{name}.npy"), total);
        let column = columns.add(at + header.len() as u64, Some(bytes), &header);
        self.arrays.push(NpzHeader { header, header_at: at });
        Ok(column)
    }
}

pub(crate) fn write(
    spool: &LineSpool,
    output: &OutputFile,
    provenance: &Provenance,
    partial: bool,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let (layout, totals, lines) = (spool.layout(), spool.totals, spool.seeds());
    let n = totals.points;
    let mut columns = ColumnWriter::new(output, spool.buffer_bytes());
    let mut arrays = Arrays { plan: ZipPlan::default(), arrays: Vec::new() };
    // The parts of a line are columns 0, 1, 2, ... in this order: see `LineSpool::pass`.
    let parts = spool.part_bytes();
    arrays.add(&mut columns, "points", "<f8", &[n, 3], n * parts[0])?;
    arrays.add(&mut columns, "time", "<f8", &[n], n * parts[1])?;
    arrays.add(&mut columns, "zone", "<i4", &[n], n * parts[2])?;
    for ((field, name), bytes) in layout.fields.iter().zip(spool.names()).zip(&parts[3..]) {
        let descr = match field.dtype {
            FieldType::F32 => "<f4",
            FieldType::F64 => "<f8",
        };
        let shape = [n, field.components as u64];
        arrays.add(&mut columns, name, descr, &shape[..if field.components == 1 { 1 } else { 2 }], n * bytes)?;
    }
    let text = format!("<U{}", Reason::WIDTH);
    let text_bytes = 4 * Reason::WIDTH as u64;
    let offsets = arrays.add(&mut columns, "offsets", "<i8", &[lines + 1], 8 * (lines + 1))?;
    let reason = arrays.add(&mut columns, "reason", &text, &[lines], text_bytes * lines)?;
    let backward = match layout.both {
        true => Some(arrays.add(&mut columns, "reason_backward", &text, &[lines], text_bytes * lines)?),
        false => None,
    };
    let seed_column = arrays.add(&mut columns, "seed", "<i8", &[lines], 8 * lines)?;
    let per_line = |exists: bool| exists.then_some(8 * lines);
    let line_time = match per_line(layout.moments.time(0).is_some()) {
        Some(bytes) => Some(arrays.add(&mut columns, "line_time", "<f8", &[lines], bytes)?),
        None => None,
    };
    let line_step = match per_line(layout.moments.step(0).is_some()) {
        Some(bytes) => Some(arrays.add(&mut columns, "line_step", "<i8", &[lines], bytes)?),
        None => None,
    };
    let partial_column = arrays.add(&mut columns, "partial", "|b1", &[], 1)?;
    let meta: Vec<u8> = meta(spool, provenance, partial).chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let meta_column = arrays.add(&mut columns, "meta", &format!("<U{}", meta.len() / 4), &[], meta.len() as u64)?;

    columns.put(offsets, &0i64.to_le_bytes())?;
    columns.put(partial_column, &[u8::from(partial)])?;
    columns.put(meta_column, &meta)?;
    spool.pass(LineStride::ALL, &mut columns, output.path(), watch, |columns, line, entry, first_point| {
        columns.put(offsets, &(first_point + entry.points).to_le_bytes())?;
        columns.put(reason, &fixed_text(entry.reason))?;
        if let Some(backward) = backward {
            columns.put(backward, &fixed_text(entry.reason_backward))?;
        }
        if let (Some(column), Some(time)) = (line_time, layout.moments.time(line)) {
            columns.put(column, &time.to_le_bytes())?;
        }
        if let (Some(column), Some(step)) = (line_step, layout.moments.step(line)) {
            columns.put(column, &i64::from(step).to_le_bytes())?;
        }
        columns.put(seed_column, &layout.moments.seed(line).to_le_bytes())
    })?;
    for array in &arrays.arrays {
        columns.put_at(array.header_at, &array.header)?;
    }
    let plan = arrays.plan;
    let checksums = columns.finish()?;
    let rest = ColumnWriter::new(output, 0);
    for (at, bytes) in plan.headers(&checksums) {
        rest.put_at(at, &bytes)?;
    }
    Ok(())
}

/// A reason as NumPy's fixed-width string: UCS-4 characters, zero-padded.
pub(crate) fn fixed_text(reason: Reason) -> [u8; 4 * Reason::WIDTH] {
    let mut out = [0; 4 * Reason::WIDTH];
    for (i, character) in reason.name().bytes().enumerate() {
        out[4 * i] = character;
    }
    out
}

fn meta(spool: &LineSpool, provenance: &Provenance, partial: bool) -> String {
    let mut units = serde_json::Map::new();
    units.insert("points".into(), provenance.length_unit.clone().into());
    units.insert("time".into(), provenance.time_unit.clone().into());
    if spool.layout().moments.time(0).is_some() {
        units.insert("line_time".into(), spool.layout().moments.unit().into());
    }
    for (field, name) in spool.layout().fields.iter().zip(spool.names()) {
        units.insert(name.clone(), field.unit.clone().into());
    }
    meta_json(provenance, partial, units, "lines")
}

/// The `meta` array of an archive.
pub(crate) fn meta_json(
    provenance: &Provenance,
    partial: bool,
    units: serde_json::Map<String, serde_json::Value>,
    kind: &str,
) -> String {
    let mut meta = serde_json::Map::new();
    meta.insert("kind".into(), kind.into());
    meta.insert("program".into(), provenance.program.clone().into());
    if !provenance.source.is_empty() {
        meta.insert("source".into(), provenance.source.clone().into());
    }
    meta.insert("partial".into(), partial.into());
    meta.insert("units".into(), units.into());
    for (name, value) in &provenance.notes {
        if !meta.contains_key(name) {
            meta.insert(name.clone(), value.clone().into());
        }
    }
    serde_json::Value::Object(meta).to_string()
}

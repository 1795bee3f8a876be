//! Lines as text: one row a point.

use super::spool::numbers;
use super::{FieldType, LineSpool, OutputError, OutputFile};
// Into strings: `write!` cannot fail.
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::ControlFlow;

/// The components of a vector of three, as columns name them.
const AXES: [&str; 3] = ["x", "y", "z"];

/// Writes `seed,x,y,z,time,zone,FIELD...`; a vector has one column a component. Numbers are the shortest that read back
/// the same. Rows are in seed order, and a seed outside has none. The reasons of lines are in the other formats only.
pub(crate) fn write(
    spool: &LineSpool,
    output: &OutputFile,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), OutputError> {
    let layout = spool.layout();
    let failed = |e| OutputError::io(output.path(), "write", e);
    let mut file = std::io::BufWriter::with_capacity(spool.buffer_bytes(), output.file().as_ref());
    let mut head = String::from("seed,x,y,z,time,zone");
    for (field, name) in layout.fields.iter().zip(spool.names()) {
        for component in 0..field.components {
            let column = column_name(name, component, field.components);
            // Writing to a string cannot fail.
            if column.contains([',', '"']) {
                let _ = write!(head, ",\"{}\"", column.replace('"', "\"\""));
            } else {
                let _ = write!(head, ",{column}");
            }
        }
    }
    head.push('\n');
    file.write_all(head.as_bytes()).map_err(failed)?;

    let parts = spool.part_bytes();
    let row_bytes: u64 = parts.iter().sum();
    // As many rows at once as the buffers of the spool hold.
    let rows = (spool.buffer_bytes() as u64 * parts.len() as u64 / row_bytes).max(1);
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); parts.len()];
    let mut text = String::new();
    for seed in 0..spool.seeds() {
        if seed % 256 == 0 && watch(seed, spool.seeds()).is_break() {
            return Err(OutputError::Cancelled { path: output.path().to_path_buf() });
        }
        let Some(entry) = spool.entry(seed)? else {
            continue;
        };
        let mut first = 0;
        while first < entry.points {
            let count = rows.min(entry.points - first);
            for (part, block) in blocks.iter_mut().enumerate() {
                block.resize((count * parts[part]) as usize, 0);
                spool.read_part(&entry, part, first, block)?;
            }
            for row in 0..count as usize {
                text.clear();
                // Writing to a string cannot fail.
                let _ = write!(text, "{seed}");
                let cell = |part: usize| &blocks[part][row * parts[part] as usize..][..parts[part] as usize];
                numbers(cell(0), f64::from_le_bytes).for_each(|v| push(&mut text, v));
                numbers(cell(1), f64::from_le_bytes).for_each(|v| push(&mut text, v));
                numbers(cell(2), i32::from_le_bytes).for_each(|v| push(&mut text, v));
                for (part, field) in layout.fields.iter().enumerate() {
                    match field.dtype {
                        FieldType::F32 => numbers(cell(part + 3), f32::from_le_bytes).for_each(|v| push(&mut text, v)),
                        FieldType::F64 => numbers(cell(part + 3), f64::from_le_bytes).for_each(|v| push(&mut text, v)),
                    }
                }
                text.push('\n');
                file.write_all(text.as_bytes()).map_err(failed)?;
            }
            first += count;
        }
    }
    file.flush().map_err(failed)
}

/// The column name of a field's component in tables.
pub(crate) fn column_name(field: &str, component: usize, components: usize) -> String {
    match (components, AXES.get(component)) {
        (1, _) => field.to_owned(),
        (2 | 3, Some(axis)) => format!("{field}_{axis}"),
        _ => format!("{field}_{component}"),
    }
}

fn push(text: &mut String, value: impl std::fmt::Debug) {
    // The debug form is the shortest that reads back the same, with an exponent where it is shorter.
    // Writing to a string cannot fail.
    let _ = write!(text, ",{value:?}");
}

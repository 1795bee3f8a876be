//! Detection of zones with the coordinates of a uniform grid, during the conversion.
//!
//! Before the pass, three lines of points along the axes determine the only possible grid. If the first line does not
//! fit, no more is read. During the pass each unit's record says whether all its points are that grid's. So the result
//! depends on the points alone, and a continued conversion finds the same.

use super::levels;
use super::pipeline::Places;
use super::plan::ConversionPlan;
use field::catalog::{DType, RowReader};
use field::error::FieldError;
use field::store::layout::ArrayLayout;
use field::uniform::Uniform;

impl ConversionPlan<'_> {
    /// The possible uniform grid of an array's points: for coordinates only.
    pub fn uniform_of(&self, zone: usize, array: usize) -> Option<&Uniform> {
        self.uniform[zone].as_ref().filter(|_| self.zones[zone].xyz == Some(array))
    }

    /// Sets `uniform`. Moving grids are never uniform.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn look_for_uniform(&mut self) -> Result<(), FieldError> {
        for zone in 0..self.zones.len() {
            let layout = self.zones[zone].xyz.map(|xyz| (xyz, &self.zones[zone].arrays[xyz]));
            let Some((xyz, layout)) = layout.filter(|(_, l)| l.steps == 1) else { continue };
            let (rows, dims) = (&self.input.arrays[zone][xyz].rows, layout.grid.paging.dims);
            let mut failed = None;
            let line = |axis: usize| {
                let read = line(rows.as_ref(), layout, axis);
                read.map_err(|e| failed = Some(e)).ok()
            };
            let found = Uniform::of_lines(layout.dtype, dims, layout.components(), line);
            if let Some(e) = failed {
                return Err(e);
            }
            self.uniform[zone] = found;
        }
        Ok(())
    }
}

/// Coordinate `axis` of the points along that axis from point (0, 0, 0).
fn line(rows: &dyn RowReader, layout: &ArrayLayout, axis: usize) -> Result<Vec<f64>, FieldError> {
    let (size, dims) = (layout.dtype.size(), layout.grid.paging.dims);
    let value = |b: &[u8]| match (layout.dtype, b) {
        (DType::Float32, &[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
        (DType::Float64, &[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        // Without coordinates no grid fits.
        _ => f64::NAN,
    };
    if rows.by_boxes() {
        let points: [_; 3] = std::array::from_fn(|a| 0..if a == axis { dims[a] } else { 1 });
        let mut out = vec![0; dims[axis] * layout.components() * size];
        rows.read_box(0, &points, &mut out)?;
        return Ok(out[axis * dims[axis] * size..][..dims[axis] * size].chunks_exact(size).map(value).collect());
    }
    let mut row = vec![0; dims[0] * size];
    if axis == 0 {
        rows.read_rows(0, 0, 0, 0..1, &mut row)?;
        return Ok(row.chunks_exact(size).map(value).collect());
    }
    let mut first = |n: usize| {
        let (j, k) = if axis == 1 { (n, 0) } else { (0, n) };
        rows.read_rows(0, axis, k, j..j + 1, &mut row)?;
        Ok(value(&row[..size]))
    };
    (0..dims[axis]).map(&mut first).collect()
}

/// The uniform grids confirmed at every point of their zones.
pub(super) fn confirmed(plan: &ConversionPlan<'_>, places: &Places<'_>) -> Result<Vec<Option<Uniform>>, FieldError> {
    let mut found = plan.uniform.clone();
    for (zone, uniform) in found.iter_mut().enumerate() {
        let Some(xyz) = plan.zones[zone].xyz.filter(|_| uniform.is_some()) else { continue };
        for &unit in &plan.numbers[zone][xyz] {
            if !levels::read(plan, places, unit)?.uniform {
                *uniform = None;
                break;
            }
        }
    }
    Ok(found)
}

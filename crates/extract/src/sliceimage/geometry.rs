//! The place of a slice: from a normal, a point and a size to the pixels.

use field::error::FieldError;
use field::volume::{Placement, VolumeLevel};
use kernels::slice::PixelPlane;

/// A requested plane.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaneSpec {
    /// Direction across the plane, of any length and either sign.
    pub normal: [f64; 3],
    /// A point of the plane; `None`: the middle of the data.
    pub origin: Option<[f64; 3]>,
    /// Upward direction in the picture, projected to the plane. `None`: z, or y if the plane faces z.
    pub up: Option<[f64; 3]>,
    /// For each axis 1, or -1 if it decreases to the right, as in conventions of anatomy.
    pub rightward: [f64; 3],
    /// Left, right, bottom and top edge of the picture, as distances from `origin`; `None`: the whole cross-section.
    pub extent: Option<[f64; 4]>,
    /// Pixels of a row, and rows. `None`: from `resolution`, or [`LONG_SIDE`] along the longer side.
    pub size: Option<[u32; 2]>,
    /// Edge of a pixel in the data's length unit; `None`: follows from the size.
    pub resolution: Option<f64>,
}

/// Default number of pixels along the longer side.
pub const LONG_SIDE: u32 = 1024;

/// Most pixels along a side: the bound of picture readers.
pub const MOST_PIXELS: u32 = 1 << 20;

/// A slice with known pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Laid {
    /// The pixels.
    pub plane: PixelPlane,
    /// The origin of distances.
    pub origin: [f64; 3],
    /// Direction across the plane, of length 1.
    pub normal: [f64; 3],
    /// Directions to the right and up in the picture, of length 1.
    pub axes: [[f64; 3]; 2],
    /// Left, right, bottom and top edge, as distances from `origin` along the axes: outer edges of pixels.
    pub extent: [f64; 4],
    /// Width and height of a pixel.
    pub pixel: [f64; 2],
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// At length 1. A vector along an axis becomes exactly that axis.
fn unit(v: [f64; 3], what: &str) -> Result<[f64; 3], FieldError> {
    let most = v.iter().fold(0.0f64, |m, c| m.max(c.abs()));
    if !(most > 0.0 && most.is_finite()) || v.iter().any(|c| c.is_nan()) {
        return Err(FieldError::Usage(format!("the {what} of a slice must have a direction, and {v:?} has none")));
    }
    // Scaled first, so that squares neither underflow nor overflow.
    let scaled = v.map(|c| c / most);
    let length = dot(scaled, scaled).sqrt();
    Ok(scaled.map(|c| c / length))
}

/// Cosine of the angle to z from which on y is up instead.
const FACES_Z: f64 = 0.9;

/// Share of the data's size that counts as zero: planes touch boxes with rounded corners.
const TOUCH: f64 = 1e-9;

impl PlaneSpec {
    /// Places the pixels, for data with these corners. Bit 0 of a corner's number is for the first axis, 1 for the
    /// second, 2 for the third.
    ///
    /// # Errors
    /// [`FieldError::Usage`]: a direction of length 0, a plane outside of the data, sizes that make no picture.
    pub fn lay(&self, corners: &[[f64; 3]; 8]) -> Result<Laid, FieldError> {
        let wrong = |what: String| Err(FieldError::Usage(what));
        let normal = unit(self.normal, "normal")?;
        let axes = self.axes(normal)?;
        let middle = core::array::from_fn(|a| {
            let of = |pick: fn(f64, f64) -> f64| corners.iter().map(|c| c[a]).reduce(pick).unwrap_or(0.0);
            0.5 * (of(f64::min) + of(f64::max))
        });
        let origin = self.origin.unwrap_or(middle);
        if !origin.iter().all(|c| c.is_finite()) {
            return wrong(format!("the origin of a slice must be three numbers, not {origin:?}"));
        }
        let whole = || cross_section(corners, origin, normal, axes);
        let [left, right, bottom, top] = match self.extent {
            Some(extent) => extent,
            None => whole()?,
        };
        let (width, height) = (right - left, top - bottom);
        if !(width > 0.0 && height > 0.0 && width.is_finite() && height.is_finite()) {
            return wrong(match self.extent {
                Some(e) => format!(
                    "the extent of a slice goes from left to right and from bottom to top, which {e:?} does not"
                ),
                None => {
                    "the plane meets the data in a line only, of which there is no picture; turn it, or give an extent"
                        .into()
                }
            });
        }
        if let Some(edge) = self.resolution.filter(|edge| !(*edge > 0.0 && edge.is_finite())) {
            return wrong(format!("the resolution of a slice is the edge of a pixel, a positive number, not {edge}"));
        }
        let (size, pixel) = match (self.size, self.resolution, self.extent) {
            (Some(_), Some(_), Some(_)) => {
                return wrong("size, resolution and extent of a slice are given, of which any two do".into())
            }
            (Some(size), Some(edge), None) => (size.map(u64::from), [edge; 2]),
            (Some([w, h]), None, Some(_)) => {
                ([w, h].map(u64::from), [width / f64::from(w.max(1)), height / f64::from(h.max(1))])
            }
            (Some([w, h]), None, None) => {
                let edge = (width / f64::from(w.max(1))).max(height / f64::from(h.max(1)));
                ([w, h].map(u64::from), [edge; 2])
            }
            (None, None, None) => {
                // Rounded up there would be an empty row.
                let edge = width.max(height) / f64::from(LONG_SIDE);
                ([width, height].map(|length| (length / edge).round().max(1.0) as u64), [edge; 2])
            }
            (None, edge, _) => {
                let edge = edge.unwrap_or(width.max(height) / f64::from(LONG_SIDE));
                // Casts saturate, and too large numbers are refused below.
                let count = |length: f64| (length / edge - 1e-6).ceil().max(1.0) as u64;
                ([count(width), count(height)], [edge; 2])
            }
        };
        let most = u64::from(MOST_PIXELS);
        if size.iter().any(|n| !(1..=most).contains(n)) {
            return wrong(format!("a slice of {} x {} pixels is none: sides have 1 to {most}", size[0], size[1]));
        }
        let size = size.map(|n| n as u32);
        // Dimensions that do not follow from the extent are centred on it. With a resolution alone the left and upper
        // edges stay.
        let reach = [0, 1].map(|a| f64::from(size[a]) * pixel[a]);
        let centred = self.extent.is_none() && (self.size.is_some() || self.resolution.is_none());
        let left = if centred { 0.5 * (left + right) - 0.5 * reach[0] } else { left };
        let top = if centred { 0.5 * (bottom + top) + 0.5 * reach[1] } else { top };
        let extent = [left, left + reach[0], top - reach[1], top];
        let at = [left + 0.5 * pixel[0], top - 0.5 * pixel[1]];
        let plane = PixelPlane {
            first: core::array::from_fn(|a| origin[a] + at[0] * axes[0][a] + at[1] * axes[1][a]),
            across: axes[0].map(|c| c * pixel[0]),
            down: axes[1].map(|c| -c * pixel[1]),
            size,
        };
        Ok(Laid { plane, origin, normal, axes, extent, pixel })
    }

    /// Right and up. Up is the projection of the requested direction to the plane. Right is across it, towards the
    /// growth of its largest coordinate, or against it by `rightward`. So x grows to the right if possible, from either
    /// side of the plane.
    fn axes(&self, normal: [f64; 3]) -> Result<[[f64; 3]; 2], FieldError> {
        let up = match self.up {
            Some(up) => unit(up, "upward direction")?,
            None if normal[2].abs() > FACES_Z => [0.0, 1.0, 0.0],
            None => [0.0, 0.0, 1.0],
        };
        let across = dot(up, normal);
        let within: [f64; 3] = core::array::from_fn(|a| up[a] - across * normal[a]);
        if dot(within, within).sqrt() < 1e-6 {
            return Err(FieldError::Usage(
                "the upward direction of a slice is its normal; give one that lies in the plane".into(),
            ));
        }
        let up = unit(within, "upward direction")?;
        let right = unit(cross(up, normal), "normal")?;
        let turned = right.iter().zip(self.rightward).map(|(c, sign)| c * sign);
        let largest = turned.reduce(|m, c| if c.abs() > m.abs() + 1e-12 { c } else { m });
        let sign = if largest.unwrap_or(1.0) < 0.0 { -1.0 } else { 1.0 };
        // Adding 0 removes a negative zero.
        Ok([right.map(|c| sign * c + 0.0), up.map(|c| c + 0.0)])
    }
}

/// Left, right, bottom and top of the intersection of a plane and a box.
fn cross_section(
    corners: &[[f64; 3]; 8],
    origin: [f64; 3],
    normal: [f64; 3],
    axes: [[f64; 3]; 2],
) -> Result<[f64; 4], FieldError> {
    let from = |p: [f64; 3]| -> [f64; 3] { core::array::from_fn(|a| p[a] - origin[a]) };
    let away = corners.map(|c| dot(from(c), normal));
    let size = corners.iter().flat_map(|c| from(*c)).fold(0.0f64, |m, c| m.max(c.abs()));
    let mut extent = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY];
    let mut take = |p: [f64; 3]| {
        for (a, axis) in axes.iter().enumerate() {
            let along = dot(from(p), *axis);
            extent[2 * a] = extent[2 * a].min(along);
            extent[2 * a + 1] = extent[2 * a + 1].max(along);
        }
    };
    for low in 0..8usize {
        if away[low].abs() <= TOUCH * size {
            take(corners[low]);
        }
        for bit in [1, 2, 4] {
            let high = low | bit;
            if high != low && away[low] * away[high] < 0.0 {
                let part = away[low] / (away[low] - away[high]);
                let (a, b) = (corners[low], corners[high]);
                take(core::array::from_fn(|c| a[c] + part * (b[c] - a[c])));
            }
        }
    }
    if extent[0] > extent[1] {
        let (low, high) = (
            away.iter().copied().fold(f64::INFINITY, f64::min),
            away.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        return Err(FieldError::Usage(format!(
            "the plane does not meet the data, which lie {low:.6} to {high:.6} from it along its normal; move its origin"
        )));
    }
    Ok(extent)
}

/// The corners of a volume: half a voxel beyond the centres of the outermost voxels.
pub fn volume_corners(level: &VolumeLevel) -> [[f64; 3]; 8] {
    core::array::from_fn(|c| {
        let end = |a: usize| if c >> a & 1 == 0 { -0.5 } else { f64::from(level.dims[a]) - 0.5 };
        level.placement.position([end(0), end(1), end(2)])
    })
}

/// The corners of a box along the axes of space.
pub fn box_corners(low: [f64; 3], high: [f64; 3]) -> [[f64; 3]; 8] {
    core::array::from_fn(|c| core::array::from_fn(|a| if c >> a & 1 == 0 { low[a] } else { high[a] }))
}

/// The pixels in indices of a level's voxels.
///
/// # Errors
/// [`FieldError::Usage`] if the axes of the volume do not span space.
pub fn in_voxels(plane: &PixelPlane, placement: &Placement) -> Result<PixelPlane, FieldError> {
    let [i, j, k] = placement.axes;
    let determinant = dot(i, cross(j, k));
    // Rows of the inverse by Cramer's rule: one rounding for axes along those of space.
    let row = |v: [f64; 3]| v.map(|c| c / determinant);
    let inverse = [row(cross(j, k)), row(cross(k, i)), row(cross(i, j))];
    if inverse.as_flattened().iter().any(|c| !c.is_finite()) {
        return Err(FieldError::Usage("the axes of the volume do not span space, so that no plane can be cut".into()));
    }
    Ok(plane.mapped(placement.origin, inverse))
}

/// The level for pixels with this edge. It is the coarsest whose voxels exceed a pixel along no axis, except where they
/// equal those of the finest.
pub fn level_for(levels: &[VolumeLevel], pixel: f64) -> usize {
    let Some(finest) = levels.first().map(|l| l.placement.spacing()) else { return 0 };
    let does = |level: &VolumeLevel| {
        let spacing = level.placement.spacing();
        // Levels have their spacing in a few digits only.
        (0..3).all(|a| spacing[a] <= finest[a] * 1.001 || spacing[a] <= pixel * 1.001)
    };
    levels.iter().rposition(does).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(normal: [f64; 3]) -> PlaneSpec {
        PlaneSpec { normal, origin: None, up: None, rightward: [1.0; 3], extent: None, size: None, resolution: None }
    }

    fn level(dims: [u32; 3], spacing: f64) -> VolumeLevel {
        let axes = [0, 1, 2].map(|a| core::array::from_fn(|c| if a == c { spacing } else { 0.0 }));
        VolumeLevel { dims, placement: Placement { origin: [0.0; 3], axes }, arrays: Vec::new() }
    }

    #[test]
    fn x_grows_to_the_right_and_z_upwards() {
        let corners = box_corners([0.0; 3], [4.0, 3.0, 2.0]);
        for (normal, right, up) in [
            ([0.0, 0.0, 2.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
            ([0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
            ([0.0, 5.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]),
            ([1e-200, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]),
        ] {
            let laid = spec(normal).lay(&corners).unwrap();
            assert_eq!(laid.axes, [right, up], "{normal:?}");
            assert_eq!(laid.origin, [2.0, 1.5, 1.0]);
        }
        let laid = PlaneSpec { size: Some([8, 6]), ..spec([0.0, 0.0, 1.0]) }.lay(&corners).unwrap();
        assert_eq!(laid.extent, [-2.0, 2.0, -1.5, 1.5]);
        assert_eq!((laid.plane.position([0, 0]), laid.plane.position([7, 5])), ([0.25, 2.75, 1.0], [3.75, 0.25, 1.0]));
        // A wider picture has the cross-section in its middle.
        let laid = PlaneSpec { size: Some([16, 6]), ..spec([0.0, 0.0, 1.0]) }.lay(&corners).unwrap();
        assert_eq!((laid.extent, laid.pixel), ([-4.0, 4.0, -1.5, 1.5], [0.5, 0.5]));
    }

    #[test]
    fn oblique_planes_meet_boxes_in_polygons() {
        let corners = box_corners([0.0; 3], [1.0; 3]);
        let laid = spec([1.0, 1.0, 1.0]).lay(&corners).unwrap();
        // The hexagon of a cube: its corners are half a diagonal of a face from the middle.
        let [left, right, bottom, top] = laid.extent;
        let half = 0.5f64.sqrt();
        assert!(
            (top - bottom - 2.0 * half * 0.75f64.sqrt()).abs() < 2e-3 || (top - bottom - 2.0 * half).abs() < 2e-3,
            "{:?}",
            laid.extent
        );
        assert!((right - left) / laid.pixel[0] > 800.0);
        assert!(dot(laid.axes[0], laid.axes[1]).abs() < 1e-15 && dot(laid.axes[0], laid.normal).abs() < 1e-15);
        let out = PlaneSpec { origin: Some([2.0, 2.0, 2.0]), ..spec([1.0, 1.0, 1.0]) }.lay(&corners);
        assert!(out.unwrap_err().to_string().contains("does not meet the data"));
        // A touching plane counts.
        let at_top = PlaneSpec { origin: Some([0.0, 0.0, 1.0]), ..spec([0.0, 0.0, 1.0]) }.lay(&corners).unwrap();
        assert_eq!(at_top.extent, [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn what_makes_no_picture_is_refused() {
        let corners = box_corners([0.0; 3], [1.0, 1.0, 0.0]);
        let says = |spec: PlaneSpec| spec.lay(&corners).unwrap_err().to_string();
        let z = spec([0.0, 0.0, 1.0]);
        assert!(says(spec([0.0; 3])).contains("direction"));
        assert!(says(spec([f64::NAN, 0.0, 1.0])).contains("direction"));
        assert!(says(spec([1.0, 0.0, 0.0])).contains("line"));
        assert!(says(PlaneSpec { up: Some([0.0, 0.0, 3.0]), ..z.clone() }).contains("normal"));
        assert!(says(PlaneSpec { extent: Some([1.0, 0.0, 0.0, 1.0]), ..z.clone() }).contains("left to right"));
        assert!(says(PlaneSpec { resolution: Some(0.0), ..z.clone() }).contains("positive"));
        assert!(says(PlaneSpec { resolution: Some(1e-9), ..z.clone() }).contains("pixels"));
        assert!(says(PlaneSpec { size: Some([0, 5]), ..z.clone() }).contains("pixels"));
        let all = PlaneSpec { size: Some([5, 5]), resolution: Some(1.0), extent: Some([0.0, 1.0, 0.0, 1.0]), ..z };
        assert!(says(all).contains("two"));
    }

    #[test]
    fn a_volume_at_its_own_resolution_has_a_pixel_a_voxel() {
        let of = level([512, 300, 7], 0.7);
        let spec = PlaneSpec { resolution: Some(0.7), ..spec([0.0, 0.0, 1.0]) };
        let laid = spec.lay(&volume_corners(&of)).unwrap();
        assert_eq!(laid.plane.size, [512, 300]);
        let voxels = in_voxels(&laid.plane, &of.placement).unwrap();
        for (pixel, voxel) in [([0, 0], [0.0, 299.0, 3.0]), ([511, 299], [511.0, 0.0, 3.0])] {
            let at = voxels.position(pixel);
            assert!((0..3).all(|a| (at[a] - voxel[a]).abs() < 1e-9), "{at:?}");
        }
    }

    #[test]
    fn the_level_is_as_coarse_as_pixels_let_it_be() {
        let levels = [level([64; 3], 1.0), level([32; 3], 2.0), level([16; 3], 4.0)];
        assert_eq!([0.1, 1.0, 1.99, 2.0, 3.0, 4.0, 100.0].map(|p| level_for(&levels, p)), [0, 0, 0, 1, 1, 2, 2]);
    }
}

//! Definitions of vortex cores.

use super::pencil::{cross, dot, Vec3};

/// The two vectors that are parallel along a core.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Velocity is parallel to J velocity, and J, the velocity gradient, has a pair of complex eigenvalues. (D. Sujudi
    /// and R. Haimes, Identification of swirling flow in 3-D vector fields, AIAA 95-1715, in the form of Peikert and
    /// Roth.) Strength is the imaginary part of those eigenvalues.
    #[default]
    SujudiHaimes,
    /// Velocity is parallel to vorticity (Y. Levy, D. Degani and A. Seginer, Graphical visualization of vortical flows by means of
    /// helicity, AIAA J. 28, 1990). Strength is the magnitude of vorticity.
    Levy,
    /// Valley lines of lambda2 where it is negative (J. Sahner, T. Weinkauf and H.-C. Hege, Galilean invariant
    /// extraction and iconic representation of vortex core lines, EuroVis 2005). There its gradient is orthogonal to
    /// two eigenvectors of its Hessian with positive eigenvalues.
    ///
    /// The third eigenvector belongs to the eigenvalue of least magnitude (T. Lindeberg, Edge detection and ridge
    /// detection with automatic scale selection, Int. J. Computer Vision 30, 1998). So the line follows the direction
    /// of least change of lambda2. With the smallest eigenvalue (D. Eberly, Ridges in Image and Data Analysis, 1996), a
    /// whole slope that bends downward would be a valley where the axis is straight.
    ///
    /// As parallel vectors: the gradient and that eigenvector (R. Peikert and F. Sadlo, Height ridge computation and
    /// filtering for visualization, PacificVis 2008). The form with the gradient and the Hessian times it has a double
    /// root along a core of even strength, where the gradient vanishes. Strength is -lambda2.
    Lambda2,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::SujudiHaimes, Self::Levy, Self::Lambda2];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::SujudiHaimes => "sujudi-haimes",
            Self::Levy => "levy",
            Self::Lambda2 => "lambda2",
        }
    }

    /// The method of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// Eigenvalues of a symmetric matrix, falling (O. K. Smith, Comm. ACM 4, 1961). Only the part from the diagonal up is
/// used.
pub fn symmetric_eigenvalues(m: &[Vec3; 3]) -> Vec3 {
    let mean = (m[0][0] + m[1][1] + m[2][2]) / 3.0;
    let (a, b, c) = (m[0][0] - mean, m[1][1] - mean, m[2][2] - mean);
    let half = |i: usize, j: usize| 0.5 * (m[i][j] + m[j][i]);
    let (e, f, g) = (half(0, 1), half(0, 2), half(1, 2));
    let p = ((a * a + b * b + c * c + 2.0 * (e * e + f * f + g * g)) / 6.0).sqrt();
    if !(p > 0.0) {
        return [mean; 3];
    }
    let [a, b, c, e, f, g] = [a, b, c, e, f, g].map(|x| x / p);
    let half = 0.5 * (a * (b * c - g * g) - e * (e * c - g * f) + f * (e * g - b * f));
    let angle = half.clamp(-1.0, 1.0).acos() / 3.0;
    let third = core::f64::consts::TAU / 3.0;
    let (high, low) = (angle.cos(), (angle + third).cos());
    [mean + 2.0 * p * high, mean - 2.0 * p * (high + low), mean + 2.0 * p * low]
}

/// Of falling eigenvalues the one of least magnitude, and the smaller of the others.
pub fn least_magnitude([high, middle, low]: Vec3) -> (f64, f64) {
    if low.abs() < middle.abs() {
        (low, middle)
    } else if middle.abs() <= high.abs() {
        (middle, low)
    } else {
        (high, low)
    }
}

/// The direction of the eigenvalue of least magnitude of the symmetric part of a matrix, of length 1, or 0 if it is
/// double. NaN for a matrix that is not finite.
pub fn least_direction(m: &[Vec3; 3]) -> Vec3 {
    if m.iter().flatten().any(|x| !x.is_finite()) {
        return [f64::NAN; 3];
    }
    let (least, _) = least_magnitude(symmetric_eigenvalues(m));
    let rows: [Vec3; 3] = core::array::from_fn(|i| {
        core::array::from_fn(|j| 0.5 * (m[i][j] + m[j][i]) - if i == j { least } else { 0.0 })
    });
    let mut best = (0.0, [0.0; 3]);
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        let c = cross(rows[a], rows[b]);
        let square = dot(c, c);
        if square > best.0 {
            best = (square, c);
        }
    }
    let length = best.0.sqrt();
    best.1.map(|x| if length > 0.0 { x / length } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_direction_of_a_turned_matrix() {
        // Q diag(3, 2, -1) Q' with Q a turn about (1, 1, 1).
        let q = [[2.0, -1.0, 2.0], [2.0, 2.0, -1.0], [-1.0, 2.0, 2.0]].map(|r: Vec3| r.map(|x| x / 3.0));
        let values = [3.0, 2.0, -1.0];
        let m: [Vec3; 3] =
            core::array::from_fn(|i| core::array::from_fn(|j| (0..3).map(|n| q[i][n] * values[n] * q[j][n]).sum()));
        let got = symmetric_eigenvalues(&m);
        assert!((0..3).all(|n| (got[n] - values[n]).abs() < 1e-12), "{got:?}");
        let d = least_direction(&m);
        let along = dot(d, [q[0][2], q[1][2], q[2][2]]).abs();
        assert!((along - 1.0).abs() < 1e-12, "{d:?}");
        assert_eq!(
            [[3.0, 2.0, -1.0], [3.0, 1.0, -2.0], [0.5, -1.0, -2.0], [3.0, 2.0, 1.0]].map(least_magnitude),
            [(-1.0, 2.0), (1.0, -2.0), (0.5, -2.0), (1.0, 2.0)]
        );
        assert_eq!(least_direction(&[[0.0; 3]; 3]), [0.0; 3]);
        assert!(least_direction(&[[f64::NAN; 3]; 3])[0].is_nan());
    }

    #[test]
    fn names() {
        assert!(Method::ALL.into_iter().all(|m| Method::named(m.name()) == Some(m)));
        assert_eq!(Method::named("q"), None);
    }
}

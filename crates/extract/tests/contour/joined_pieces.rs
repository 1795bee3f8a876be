//! Joined pieces, and properties of any surface.

use extract::contour::Drawn;
use field::error::FieldError;
use kernels::surface::{Points, SurfacePiece};
use std::collections::HashMap;

/// All of a surface.
#[derive(Default)]
pub struct WholeSurface {
    pub points: Vec<[f64; 3]>,
    pub zones: Vec<usize>,
    pub normals: Vec<[f32; 3]>,
    pub fields: Vec<Vec<f32>>,
    pub triangles: Vec<[u64; 3]>,
    /// Value of each triangle.
    pub values: Vec<usize>,
}

impl WholeSurface {
    pub fn add(&mut self, p: SurfacePiece) -> Result<(), FieldError> {
        assert_eq!(p.first, self.points.len() as u64, "points are numbered through");
        let n = p.vertices.points.len();
        self.points.extend((0..n).map(|v| p.vertices.points.get(v)));
        self.zones.extend(std::iter::repeat_n(p.zone, n));
        if let Some(normals) = &p.vertices.normals {
            assert_eq!(normals.len(), n);
            self.normals.extend(normals);
        }
        self.fields.resize(p.vertices.fields.len(), Vec::new());
        for (all, f) in self.fields.iter_mut().zip(&p.vertices.fields) {
            assert_eq!(f.len() % n.max(1), 0);
            all.extend(f);
        }
        assert!(p.triangles.as_flattened().iter().all(|v| *v < self.points.len() as u64));
        self.values.extend(std::iter::repeat_n(p.value, p.triangles.len()));
        self.triangles.extend(p.triangles);
        Ok(())
    }

    pub fn check(&self, drawn: &Drawn) {
        assert_eq!((drawn.points, drawn.triangles), (self.points.len() as u64, self.triangles.len() as u64));
        assert_eq!(drawn.by_value.iter().sum::<u64>(), drawn.triangles);
        let mut used = vec![false; self.points.len()];
        self.triangles.as_flattened().iter().for_each(|v| used[*v as usize] = true);
        assert!(used.iter().all(|u| *u), "points without triangles");
        assert!(self.normals.iter().all(|n| (n.iter().map(|c| c * c).sum::<f32>() - 1.0).abs() < 1e-5));
    }

    /// Everything, as bits.
    pub fn bits(&self) -> Vec<u64> {
        let f64s = self.points.as_flattened().iter().map(|v| v.to_bits());
        let f32s =
            self.normals.as_flattened().iter().chain(self.fields.iter().flatten()).map(|v| u64::from(v.to_bits()));
        let whole = self.triangles.as_flattened().iter().copied();
        f64s.chain(f32s).chain(whole).chain(self.zones.iter().chain(&self.values).map(|v| *v as u64)).collect()
    }

    fn directed(&self) -> HashMap<(u64, u64), u32> {
        let mut all = HashMap::new();
        for t in &self.triangles {
            for (a, b) in [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])] {
                *all.entry((a, b)).or_default() += 1;
            }
        }
        all
    }

    /// Edges with a triangle on one side only, as points; no edge has two triangles on one side.
    pub fn rim(&self) -> Vec<[[f64; 3]; 2]> {
        let all = self.directed();
        assert!(all.values().all(|n| *n == 1), "three triangles at an edge, or two turned differently");
        let open = all.keys().filter(|(a, b)| !all.contains_key(&(*b, *a)));
        open.map(|(a, b)| [*a, *b].map(|v| self.points[v as usize])).collect()
    }

    pub fn euler(&self) -> i64 {
        self.points.len() as i64 - self.directed().len() as i64 / 2 + self.triangles.len() as i64
    }

    /// Twice the area times the normal of a triangle.
    pub fn cross(&self, t: &[u64; 3]) -> [f64; 3] {
        let p = t.map(|v| self.points[v as usize]);
        let [a, b]: [[f64; 3]; 2] = [1, 2].map(|n| core::array::from_fn(|c| p[n][c] - p[0][c]));
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    }

    pub fn area(&self) -> f64 {
        self.triangles.iter().map(|t| self.cross(t).iter().map(|c| c * c).sum::<f64>().sqrt() / 2.0).sum()
    }

    /// The enclosed volume of triangles that face outwards.
    pub fn volume(&self) -> f64 {
        let of = |t: &[u64; 3]| {
            let (n, p) = (self.cross(t), self.points[t[0] as usize]);
            (0..3).map(|c| n[c] * p[c]).sum::<f64>() / 6.0
        };
        self.triangles.iter().map(of).sum()
    }
}

/// Whether positions are in single precision.
pub fn is_single(p: &SurfacePiece) -> bool {
    matches!(p.vertices.points, Points::F32(_))
}

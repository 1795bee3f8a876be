//! A block's surface as bytes, for the time until it is its turn.

use super::sink::{Made, Results};
use kernels::surface::{Edge, Points, Vertices};

/// Writes numbers of one kind, how many there are before them.
fn put<const N: usize>(out: &mut Vec<u8>, count: usize, bytes: impl Iterator<Item = [u8; N]>) {
    out.extend((count as u64).to_ne_bytes());
    out.reserve(count * N);
    bytes.for_each(|b| out.extend(b));
}

fn put_f32(out: &mut Vec<u8>, numbers: &[f32]) {
    put(out, numbers.len(), numbers.iter().map(|n| n.to_ne_bytes()));
}

/// The bytes.
pub(super) fn write(r: &Results) -> Vec<u8> {
    let mut out = Vec::new();
    let head = [[r.grid as u32, r.made.len() as u32, 0], r.block, r.origin, r.nodes];
    put(&mut out, 12, head.as_flattened().iter().map(|n| n.to_ne_bytes()));
    for m in &r.made {
        let v = &m.vertices;
        let double = matches!(v.points, Points::F64(_));
        let kinds = [m.value as u32, u32::from(double), u32::from(v.normals.is_some()), v.fields.len() as u32];
        put(&mut out, 4, kinds.iter().map(|n| n.to_ne_bytes()));
        put(&mut out, m.edges.len(), m.edges.iter().map(|e| e.bits().to_ne_bytes()));
        put(&mut out, m.triangles.len() * 3, m.triangles.as_flattened().iter().map(|n| n.to_ne_bytes()));
        match &v.points {
            Points::F32(p) => put_f32(&mut out, p.as_flattened()),
            Points::F64(p) => put(&mut out, p.len() * 3, p.as_flattened().iter().map(|n| n.to_ne_bytes())),
        }
        if let Some(normals) = &v.normals {
            put_f32(&mut out, normals.as_flattened());
        }
        v.fields.iter().for_each(|f| put_f32(&mut out, f));
    }
    out
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn list<T, const N: usize>(&mut self, number: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (count, rest) = self.0.split_first_chunk::<8>()?;
        let bytes = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(N)?;
        let (own, rest) = rest.split_at_checked(bytes)?;
        self.0 = rest;
        Some(own.as_chunks::<N>().0.iter().map(|b| number(*b)).collect())
    }

    fn threes<T: Copy, const N: usize>(&mut self, number: impl Fn([u8; N]) -> T) -> Option<Vec<[T; 3]>> {
        Some(self.list(number)?.as_chunks::<3>().0.to_vec())
    }
}

/// What was written; `None` where it is not that.
pub(super) fn read(bytes: &[u8]) -> Option<Results> {
    let mut r = Reader(bytes);
    let head = r.threes(u32::from_ne_bytes)?;
    let [[grid, count, _], block, origin, nodes] = head[..] else { return None };
    let mut made = Vec::new();
    for _ in 0..count {
        let [value, double, normals, fields] = r.list(u32::from_ne_bytes)?[..] else { return None };
        made.push(Made {
            value: value as usize,
            edges: r.list(|b| Edge::from_bits(u32::from_ne_bytes(b)))?,
            triangles: r.threes(u32::from_ne_bytes)?,
            vertices: Vertices {
                points: match double {
                    0 => Points::F32(r.threes(f32::from_ne_bytes)?),
                    _ => Points::F64(r.threes(f64::from_ne_bytes)?),
                },
                normals: if normals != 0 { Some(r.threes(f32::from_ne_bytes)?) } else { None },
                fields: (0..fields).map(|_| r.list(f32::from_ne_bytes)).collect::<Option<_>>()?,
            },
        });
    }
    Some(Results { grid: grid as usize, block, origin, nodes, made })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        for double in [false, true] {
            let points = match double {
                false => Points::F32(vec![[0.5, 1.0, f32::NAN.min(2.0)], [3.0; 3]]),
                true => Points::F64(vec![[0.1; 3], [0.2; 3]]),
            };
            let normals = double.then(|| vec![[0.0, 1.0, 0.0]; 2]);
            let vertices = Vertices { points, normals, fields: vec![vec![1.0, 2.0], vec![0.0; 6]] };
            let edges = vec![Edge::new(1, 2, 3, 0), Edge::new(64, 0, 5, 3)];
            let made = Made { value: 1, edges: edges.clone(), triangles: vec![[0, 1, 0]], vertices: vertices.clone() };
            let r = Results { grid: 2, block: [1, 2, 3], origin: [64, 128, 192], nodes: [65, 9, 2], made: vec![made] };
            let back = read(&write(&r)).unwrap();
            assert_eq!((back.grid, back.block, back.origin, back.nodes), (2, [1, 2, 3], [64, 128, 192], [65, 9, 2]));
            let m = &back.made[0];
            assert_eq!((m.value, &m.edges, &m.triangles), (1, &edges, &vec![[0, 1, 0]]));
            assert_eq!(m.vertices, vertices);
            let all = write(&r);
            assert!((0..all.len()).step_by(7).all(|n| read(&all[..n]).is_none()));
        }
    }
}

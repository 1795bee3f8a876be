//! A block's surface as bytes, until its turn. It is written and read in small parts, since memory is short then.

use super::sink::{BlockSurface, Results};
use kernels::surface::{Edge, Points, Vertices};

/// Bytes of a part.
const PART: usize = 8 << 10;

/// The output buffer.
struct Writer<'a, E> {
    part: Vec<u8>,
    out: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<E> Writer<'_, E> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), E> {
        if self.part.len() + bytes.len() > PART {
            (self.out)(&self.part)?;
            self.part.clear();
        }
        self.part.extend_from_slice(bytes);
        Ok(())
    }

    /// Numbers of one kind, after their count.
    fn put<const N: usize>(&mut self, count: usize, bytes: impl Iterator<Item = [u8; N]>) -> Result<(), E> {
        self.bytes(&(count as u64).to_ne_bytes())?;
        for b in bytes {
            self.bytes(&b)?;
        }
        Ok(())
    }

    fn put_f32(&mut self, numbers: &[f32]) -> Result<(), E> {
        self.put(numbers.len(), numbers.iter().map(|n| n.to_ne_bytes()))
    }
}

/// Passes the bytes to `out`, part by part.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write<E>(r: &Results, out: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut w = Writer { part: Vec::with_capacity(PART), out };
    let head = [[r.grid as u32, r.made.len() as u32, 0], r.block, r.origin, r.nodes];
    w.put(12, head.as_flattened().iter().map(|n| n.to_ne_bytes()))?;
    for m in &r.made {
        let v = &m.vertices;
        let double = matches!(v.points, Points::F64(_));
        let kinds = [m.value as u32, u32::from(double), u32::from(v.normals.is_some()), v.fields.len() as u32];
        w.put(4, kinds.iter().map(|n| n.to_ne_bytes()))?;
        w.put(m.edges.len(), m.edges.iter().map(|e| e.bits().to_ne_bytes()))?;
        w.put(m.triangles.len() * 3, m.triangles.as_flattened().iter().map(|n| n.to_ne_bytes()))?;
        match &v.points {
            Points::F32(p) => w.put_f32(p.as_flattened())?,
            Points::F64(p) => w.put(p.len() * 3, p.as_flattened().iter().map(|n| n.to_ne_bytes()))?,
        }
        if let Some(normals) = &v.normals {
            w.put_f32(normals.as_flattened())?;
        }
        for f in &v.fields {
            w.put_f32(f)?;
        }
    }
    (w.out)(&w.part)
}

/// The input, of this many bytes.
struct SpillReader<'a, E> {
    left: usize,
    from: &'a mut dyn FnMut(&mut [u8]) -> Result<(), E>,
}

impl<E> SpillReader<'_, E> {
    /// The next bytes; `None` if there are too few.
    fn fill(&mut self, into: &mut [u8]) -> Result<Option<()>, E> {
        let Some(left) = self.left.checked_sub(into.len()) else { return Ok(None) };
        self.left = left;
        (self.from)(into).map(Some)
    }

    /// Items of `together` numbers each; `made` converts their bytes.
    fn list<T>(&mut self, bytes: usize, together: usize, made: impl Fn(&[u8]) -> T) -> Result<Option<Vec<T>>, E> {
        let mut count = [0; 8];
        if self.fill(&mut count)?.is_none() {
            return Ok(None);
        }
        // Limited by the bytes present, whatever the count claims.
        let count = usize::try_from(u64::from_ne_bytes(count)).ok();
        let Some(count) = count.filter(|n| n % together == 0 && n.checked_mul(bytes).is_some_and(|b| b <= self.left))
        else {
            return Ok(None);
        };
        let (mut all, mut part) = (Vec::with_capacity(count / together), [0; PART]);
        let each = bytes * together;
        let most = PART / each;
        while all.len() < count / together {
            let part = &mut part[..most.min(count / together - all.len()) * each];
            if self.fill(part)?.is_none() {
                return Ok(None);
            }
            all.extend(part.chunks_exact(each).map(&made));
        }
        Ok(Some(all))
    }

    fn u32s(&mut self) -> Result<Option<Vec<u32>>, E> {
        self.list(4, 1, u32_of)
    }

    fn f32_rows(&mut self) -> Result<Option<Vec<[f32; 3]>>, E> {
        self.list(4, 3, |b| threes(b, 4, |b| f32::from_bits(u32_of(b))))
    }
}

fn u32_of(b: &[u8]) -> u32 {
    u32::from_ne_bytes(core::array::from_fn(|n| b[n]))
}

fn threes<T>(bytes: &[u8], size: usize, number: impl Fn(&[u8]) -> T) -> [T; 3] {
    core::array::from_fn(|n| number(&bytes[n * size..]))
}

/// The written result, from `bytes` bytes of `from`; `None` for other bytes.
///
/// # Errors
/// Errors of `from`.
pub(super) fn read<E>(bytes: usize, from: &mut dyn FnMut(&mut [u8]) -> Result<(), E>) -> Result<Option<Results>, E> {
    let mut r = SpillReader { left: bytes, from };
    macro_rules! have {
        ($found:expr) => {
            match $found? {
                Some(found) => found,
                None => return Ok(None),
            }
        };
    }
    let head = have!(r.list(4, 3, |b| threes(b, 4, u32_of)));
    let [[grid, count, _], block, origin, nodes] = head[..] else { return Ok(None) };
    let mut made = Vec::new();
    for _ in 0..count {
        let [value, double, normals, fields] = have!(r.u32s())[..] else { return Ok(None) };
        let edges = have!(r.list(4, 1, |b| Edge::from_bits(u32_of(b))));
        let triangles = have!(r.list(4, 3, |b| threes(b, 4, u32_of)));
        let f64_of = |b: &[u8]| f64::from_ne_bytes(core::array::from_fn(|n| b[n]));
        let points = match double {
            0 => Points::F32(have!(r.f32_rows())),
            _ => Points::F64(have!(r.list(8, 3, |b| threes(b, 8, f64_of)))),
        };
        let normals = if normals != 0 { Some(have!(r.f32_rows())) } else { None };
        let mut vertices = Vertices { points, normals, fields: Vec::new() };
        for _ in 0..fields {
            vertices.fields.push(have!(r.list(4, 1, |b| f32::from_bits(u32_of(b)))));
        }
        made.push(BlockSurface { value: value as usize, edges, triangles, vertices });
    }
    Ok(Some(Results { grid: grid as usize, block, origin, nodes, made }))
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
            // More than one part.
            let edges: Vec<Edge> = (0..5000).map(|n| Edge::new(n % 65, 2, n / 65, 3)).collect();
            let made =
                BlockSurface { value: 1, edges: edges.clone(), triangles: vec![[0, 1, 0]], vertices: vertices.clone() };
            let r = Results { grid: 2, block: [1, 2, 3], origin: [64, 128, 192], nodes: [65, 9, 2], made: vec![made] };
            let mut all = Vec::new();
            let Ok(()) = write(&r, &mut |part| {
                all.extend_from_slice(part);
                Ok::<(), core::convert::Infallible>(())
            });
            let from = |bytes: &[u8]| {
                let mut at = 0;
                let Ok(found) = read(bytes.len(), &mut |into: &mut [u8]| {
                    into.copy_from_slice(&bytes[at..at + into.len()]);
                    at += into.len();
                    Ok::<(), core::convert::Infallible>(())
                });
                found
            };
            let back = from(&all).unwrap();
            assert_eq!((back.grid, back.block, back.origin, back.nodes), (2, [1, 2, 3], [64, 128, 192], [65, 9, 2]));
            let m = &back.made[0];
            assert_eq!((m.value, &m.edges, &m.triangles), (1, &edges, &vec![[0, 1, 0]]));
            assert_eq!(m.vertices, vertices);
            assert!((0..all.len()).step_by(7).all(|n| from(&all[..n]).is_none()));
        }
    }
}

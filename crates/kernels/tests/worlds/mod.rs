//! Random datasets for tests of tracers: warped overlapping zones with holes, fringes, walls, collapsed edges, moved
//! nodes, NaN, directions of one point. Everything follows from a seed.
#![allow(dead_code)]

use field::in_memory::{FlatArray, FlatNodes, NamedZone};
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::Nodes;
use field::quantity::FreeStream;
use kernels::flow::{GridFlow, ZoneOrder};

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// 0 to n - 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Between two values.
    pub fn range(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Once in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The features of a world.
#[derive(Copy, Clone, PartialEq)]
pub enum Roughness {
    /// Whole warped cells and a smooth field only.
    Smooth,
    /// All features of files.
    Wild,
}

/// A random world.
pub struct World {
    pub zones: Vec<NamedZone>,
    /// Edge of the first zone.
    pub scale: f64,
}

impl World {
    pub fn new(random: &mut SplitMix, kind: Roughness) -> Self {
        let wild = kind == Roughness::Wild;
        let scale = if wild { random.pick(&[1.0, 1.0, 1.0, 1e-30, 1e30]) } else { 1.0 };
        let count = if wild { 1 + random.below(3) } else { 1 };
        let single = wild && random.once_in(3);
        let field: [f64; 12] = core::array::from_fn(|_| random.range(-1.0, 1.0));
        let form = if wild { random.below(4) } else { 2 };
        let velocity = move |x: [f64; 3]| -> [f64; 3] {
            match form {
                // Along the grid's diagonals, and along its lines.
                0 => field[..3].try_into().map_or([0.0; 3], |v: [f64; 3]| v.map(|c| (c * 2.0).round() / 2.0)),
                1 => [0.5 - x[1], x[0] - 0.5, field[0].round() * 0.25],
                _ => core::array::from_fn(|c| {
                    let f = &field[c * 3..c * 3 + 3];
                    0.3 * field[9 + c] + (3.0 * f[0] * x[0] + 2.0 * f[1] * x[1] + 3.0 * f[2] * x[2] + f[0]).sin()
                }),
            }
        };
        let zones = (0..count).map(|n| zone(random, n, wild, scale, single, &velocity)).collect();
        Self { zones, scale }
    }

    pub fn nodes(&self) -> FlatNodes {
        FlatNodes::from_arrays(self.zones.clone())
    }

    /// A point in or near the world; often on its nodes, edges and faces.
    pub fn point(&self, random: &mut SplitMix) -> [f64; 3] {
        let snap = random.once_in(3);
        core::array::from_fn(|_| {
            let x = random.range(-0.05, 1.05);
            self.scale * if snap { (x * 4.0).round() / 4.0 } else { x }
        })
    }
}

fn zone(
    random: &mut SplitMix,
    number: usize,
    wild: bool,
    scale: f64,
    single: bool,
    velocity: &dyn Fn([f64; 3]) -> [f64; 3],
) -> NamedZone {
    let mut n: [usize; 3] = core::array::from_fn(|_| if wild { 2 + random.below(8) } else { 5 + random.below(8) });
    if wild && random.once_in(3) {
        n = [5, 5, 5];
    }
    if wild && random.once_in(5) {
        n[random.below(3)] = 1;
    }
    let lo: [f64; 3] = core::array::from_fn(|_| if number == 0 { 0.0 } else { random.range(0.0, 0.6) });
    let hi: [f64; 3] = core::array::from_fn(|a| if number == 0 { 1.0 } else { lo[a] + random.range(0.2, 0.6) });
    let warp = if wild { random.pick(&[0.0, 0.0, 0.1, 0.2]) } else { random.range(0.0, 0.12) };
    let moved = if wild { random.pick(&[0.0, 0.0, 0.15, 0.6]) } else { 0.0 };
    let polar = wild && random.once_in(6);
    let count = n[0] * n[1] * n[2];
    let (mut xyz, mut v) = (vec![0.0; 3 * count], vec![0.0; 3 * count]);
    let mut blank = vec![1; count];
    let mut density = vec![0.0; count];
    let (holes, fringes, odd) = (wild && random.once_in(3), wild && random.once_in(2), wild && random.once_in(6));
    let walls = wild && random.once_in(2);
    for at in 0..count {
        let ijk = [at % n[0], at / n[0] % n[1], at / n[0] / n[1]];
        let f: [f64; 3] = core::array::from_fn(|a| {
            lo[a] + (hi[a] - lo[a]) * if n[a] > 1 { ijk[a] as f64 / (n[a] - 1) as f64 } else { 0.5 }
        });
        let mut x = [
            f[0] + warp * (3.0 * f[1]).sin() * f[0] * (1.0 - f[0]),
            f[1] + warp * (2.0 * f[2] + f[0]).sin() * f[1] * (1.0 - f[1]),
            f[2] + warp * (2.0 * f[0]).cos() * f[2] * (1.0 - f[2]),
        ];
        if polar {
            let a = 6.2 * x[0];
            x = [0.5 + 0.5 * x[1] * a.cos(), 0.5 + 0.5 * x[1] * a.sin(), x[2]];
        }
        if moved > 0.0 {
            x = core::array::from_fn(|a| x[a] + random.range(-moved, moved) * (hi[a] - lo[a]) / n[a].max(2) as f64);
        }
        let mut u = velocity(x);
        let outer = (0..3).any(|a| n[a] > 1 && (ijk[a] == 0 || ijk[a] + 1 == n[a]));
        if walls && ijk[2] == 0 {
            if number.is_multiple_of(2) {
                u = [0.0; 3];
            } else {
                blank[at] = 2;
            }
        }
        if holes && (ijk.iter().zip(n).all(|(i, n)| (i * 3) / n == 1) || random.once_in(60)) {
            blank[at] = 0;
        }
        if fringes && (outer && random.once_in(2) || random.once_in(12)) {
            blank[at] = -1 - random.below(4) as i32;
        }
        if odd && random.once_in(25) {
            match random.below(3) {
                0 => x[random.below(3)] = f64::NAN,
                1 => u[random.below(3)] = f64::NAN,
                _ => u = [0.0; 3],
            }
        }
        for c in 0..3 {
            xyz[c * count + at] = scale * x[c];
            v[c * count + at] = scale * u[c];
        }
        density[at] = 1.0 + 0.5 * (x[0] + 2.0 * x[1]).sin();
    }
    if wild && random.once_in(4) {
        // An edge shrinks to a point.
        let at = random.below(count);
        let to = (at + 1).min(count - 1);
        for c in 0..3 {
            xyz[c * count + at] = xyz[c * count + to];
        }
    }
    let array = |v: Vec<f64>| {
        if single {
            FlatArray::F32(v.into_iter().map(|x| x as f32).collect())
        } else {
            FlatArray::F64(v)
        }
    };
    let mut arrays =
        vec![("xyz".into(), 3, array(xyz)), ("velocity".into(), 3, array(v)), ("density".into(), 1, array(density))];
    if holes || fringes || walls {
        arrays.push(("iblank".into(), 1, FlatArray::I32(blank)));
    }
    (format!("zone{}", number + 1), n, arrays)
}

/// A flow over nodes, sampling density.
pub fn flow<N: Nodes>(nodes: N) -> GridFlow<N> {
    let still = FreeStream { mach: 1.0, density: 1.0, sound_speed: 1.0, gas_constant: 1.0 };
    let named = |z: &field::nodes::Zone| {
        ZoneFields::named(z, Some("velocity"), &["density".to_owned()], 1.4, still).expect("both are there")
    };
    let fields: Vec<_> = nodes.zones().iter().map(named).collect();
    let n = fields.len();
    GridFlow::new(ZoneLocator::new(nodes, fields.into()), ZoneOrder::file(n))
}

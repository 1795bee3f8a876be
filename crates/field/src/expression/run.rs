//! Execution of a [`Program`] for blocks of points. Each instruction runs for a whole block, so that its dispatch is
//! paid once.

use super::compile::{Id, Nine, One, Operand, Program, Two, ZoneConstant};
use std::collections::HashMap;

/// Points of a block. A register takes a kibibyte, and a few dozen fit in the second-level cache.
pub const BLOCK: usize = 128;

/// One number at each point of a block.
pub type Register = [f64; BLOCK];

/// The operand of a load.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Operation {
    /// A constant.
    Constant(f64),
    /// A constant of a zone and step.
    Given(ZoneConstant),
    /// A component of an array.
    Input {
        /// Index of the array in the zone.
        array: usize,
        /// Index of the component.
        component: u8,
    },
    /// A derivative of a differentiated result.
    Gradient {
        /// Index in the results of [`Parts::inner`].
        of: usize,
        /// Along x, y or z.
        axis: u8,
    },
}

#[derive(Copy, Clone, Debug)]
enum Do {
    Load(Operation),
    One(One, u16),
    Two(Two, u16, u16),
    Select(u16, u16, u16),
    Nine(Nine, [u16; 9]),
}

/// A program with registers in place of nodes.
#[derive(Clone, Debug)]
pub struct Code {
    steps: Vec<(Do, u16)>,
    /// Registers of the results at the end.
    pub results: Vec<u16>,
    /// Number of registers.
    pub registers: usize,
}

/// A program in two parts: the differentiated values, and the results made of their derivatives.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The values to differentiate; without results if there are none.
    pub inner: Code,
    /// The results for the page.
    pub outer: Code,
}

impl Parts {
    /// Splits a program. `None` for derivatives of derivatives.
    pub fn of(program: &Program) -> Option<Self> {
        let reached = reach(&program.nodes, &program.roots, true);
        let mut of: Vec<Id> = Vec::new();
        for (n, node) in program.nodes.iter().enumerate() {
            if let (true, Operand::Gradient(operand, _)) = (reached[n], node) {
                if !of.contains(operand) {
                    of.push(*operand);
                }
            }
        }
        let below = reach(&program.nodes, &of, false);
        if program.nodes.iter().zip(&below).any(|(n, b)| *b && matches!(n, Operand::Gradient(..))) {
            return None;
        }
        let inner = Code::of(&program.nodes, &of, &[]);
        Some(Self { outer: Code::of(&program.nodes, &program.roots, &of), inner })
    }
}

fn operands(node: &Operand, each: &mut dyn FnMut(Id)) {
    match node {
        Operand::Constant(_) | Operand::Given(_) | Operand::Input { .. } => {}
        Operand::One(_, a) | Operand::Gradient(a, _) => each(*a),
        Operand::Two(_, a, b) => [a, b].into_iter().for_each(|x| each(*x)),
        Operand::Select(a, b, c) => [a, b, c].into_iter().for_each(|x| each(*x)),
        Operand::Nine(_, all) => all.iter().for_each(|x| each(*x)),
    }
}

/// The nodes that roots depend on; without those below a derivative if `stop`.
fn reach(nodes: &[Operand], roots: &[Id], stop: bool) -> Vec<bool> {
    let mut reached = vec![false; nodes.len()];
    for r in roots {
        reached[*r as usize] = true;
    }
    for n in (0..nodes.len()).rev() {
        if reached[n] && !(stop && matches!(nodes[n], Operand::Gradient(..))) {
            operands(&nodes[n], &mut |id| reached[id as usize] = true);
        }
    }
    reached
}

impl Code {
    fn of(nodes: &[Operand], roots: &[Id], differentiated: &[Id]) -> Self {
        let reached = reach(nodes, roots, true);
        let mut last: HashMap<Id, usize> = HashMap::new();
        for (n, node) in nodes.iter().enumerate().filter(|(n, _)| reached[*n]) {
            if !matches!(node, Operand::Gradient(..)) {
                operands(node, &mut |id| {
                    last.insert(id, n);
                });
            }
        }
        for r in roots {
            last.insert(*r, usize::MAX);
        }
        let (mut free, mut count) = (Vec::new(), 0u16);
        let mut places: HashMap<Id, u16> = HashMap::new();
        let mut steps = Vec::new();
        for (n, node) in nodes.iter().enumerate().filter(|(n, _)| reached[*n]) {
            let at = |id: &Id| places.get(id).copied().unwrap_or(0);
            let what = match node {
                Operand::Constant(bits) => Do::Load(Operation::Constant(f64::from_bits(*bits))),
                Operand::Given(g) => Do::Load(Operation::Given(*g)),
                Operand::Input { array, component } => {
                    Do::Load(Operation::Input { array: *array, component: *component })
                }
                Operand::Gradient(of, axis) => {
                    let of = differentiated.iter().position(|d| d == of).unwrap_or(0);
                    Do::Load(Operation::Gradient { of, axis: *axis })
                }
                Operand::One(o, a) => Do::One(*o, at(a)),
                Operand::Two(o, a, b) => Do::Two(*o, at(a), at(b)),
                Operand::Select(a, b, c) => Do::Select(at(a), at(b), at(c)),
                Operand::Nine(o, all) => Do::Nine(*o, core::array::from_fn(|k| at(&all[k]))),
            };
            // Operands in their last use give their registers to the result: numbers are read before they are written.
            if !matches!(node, Operand::Gradient(..)) {
                operands(node, &mut |id| {
                    if last.get(&id) == Some(&n) {
                        free.extend(places.remove(&id));
                    }
                });
            }
            let to = free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            });
            places.insert(n as Id, to);
            steps.push((what, to));
        }
        let results = roots.iter().map(|r| places.get(r).copied().unwrap_or(0)).collect();
        Self { steps, results, registers: usize::from(count) }
    }

    /// Arrays that are loaded.
    pub fn inputs(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().filter_map(|(d, _)| match d {
            Do::Load(Operation::Input { array, .. }) => Some(*array),
            _ => None,
        })
    }

    /// Constants of a zone and step that are loaded.
    pub fn given(&self) -> impl Iterator<Item = ZoneConstant> + '_ {
        self.steps.iter().filter_map(|(d, _)| match d {
            Do::Load(Operation::Given(g)) => Some(*g),
            _ => None,
        })
    }

    /// Computes a block. `load` fills a register. Numbers past the last point are ignored.
    pub fn run(&self, registers: &mut [Register], load: &mut dyn FnMut(Operation, &mut Register)) {
        for (what, to) in &self.steps {
            let to = usize::from(*to);
            let get = |n: u16, r: &[Register]| r[usize::from(n)];
            match *what {
                Do::Load(Operation::Constant(c)) => registers[to] = [c; BLOCK],
                Do::Load(l) => load(l, &mut registers[to]),
                Do::One(o, a) => {
                    let a = get(a, registers);
                    one(o, &a, &mut registers[to]);
                }
                Do::Two(o, a, b) => {
                    let (a, b) = (get(a, registers), get(b, registers));
                    two(o, &a, &b, &mut registers[to]);
                }
                Do::Select(c, a, b) => {
                    let (c, a, b) = (get(c, registers), get(a, registers), get(b, registers));
                    for (n, to) in registers[to].iter_mut().enumerate() {
                        *to = if is_true(c[n]) { a[n] } else { b[n] };
                    }
                }
                Do::Nine(o, all) => {
                    let all = all.map(|n| get(n, registers));
                    for (n, to) in registers[to].iter_mut().enumerate() {
                        let d = core::array::from_fn(|r| core::array::from_fn(|c| all[3 * r + c][n]));
                        *to = nine(o, &d);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn each(a: &Register, to: &mut Register, f: impl Fn(f64) -> f64) {
    for (to, a) in to.iter_mut().zip(a) {
        *to = f(*a);
    }
}

fn one(o: One, a: &Register, to: &mut Register) {
    match o {
        One::Not => each(a, to, |x| f64::from(u8::from(!is_true(x)))),
        One::Negative => each(a, to, |x| -x),
        One::Abs => each(a, to, f64::abs),
        One::Sqrt => each(a, to, f64::sqrt),
        One::Floor => each(a, to, f64::floor),
        One::Ceil => each(a, to, f64::ceil),
        One::Sign => each(a, to, sign),
        One::Exp => each(a, to, f64::exp),
        One::Log => each(a, to, f64::ln),
        One::Log10 => each(a, to, f64::log10),
        One::Sin => each(a, to, f64::sin),
        One::Cos => each(a, to, f64::cos),
        One::Tan => each(a, to, f64::tan),
        One::Asin => each(a, to, f64::asin),
        One::Acos => each(a, to, f64::acos),
        One::Atan => each(a, to, f64::atan),
    }
}

/// Whether a number counts as true: neither zero nor NaN.
#[inline(always)]
fn is_true(x: f64) -> bool {
    x != 0.0 && !x.is_nan()
}

/// -1, 0 or 1; NaN for NaN.
pub fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

#[inline(always)]
fn pairs(a: &Register, b: &Register, to: &mut Register, f: impl Fn(f64, f64) -> f64) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = f(*a, *b);
    }
}

fn two(o: Two, a: &Register, b: &Register, to: &mut Register) {
    match o {
        Two::Add => pairs(a, b, to, |x, y| x + y),
        Two::Subtract => pairs(a, b, to, |x, y| x - y),
        Two::Multiply => pairs(a, b, to, |x, y| x * y),
        Two::Divide => pairs(a, b, to, |x, y| x / y),
        Two::Power => pairs(a, b, to, f64::powf),
        Two::Atan2 => pairs(a, b, to, f64::atan2),
        Two::Min => pairs(a, b, to, |x, y| if x < y || x.is_nan() { x } else { y }),
        Two::Max => pairs(a, b, to, |x, y| if x > y || x.is_nan() { x } else { y }),
        Two::Less => pairs(a, b, to, |x, y| f64::from(u8::from(x < y))),
        Two::LessEqual => pairs(a, b, to, |x, y| f64::from(u8::from(x <= y))),
        Two::Equal => pairs(a, b, to, |x, y| f64::from(u8::from(x == y))),
        Two::And => pairs(a, b, to, |x, y| f64::from(u8::from(is_true(x) && is_true(y)))),
        Two::Or => pairs(a, b, to, |x, y| f64::from(u8::from(is_true(x) || is_true(y)))),
    }
}

fn nine(o: Nine, d: &[[f64; 3]; 3]) -> f64 {
    match o {
        Nine::Lambda2 => lambda2(d),
        Nine::SwirlingStrength => swirling_strength(d),
    }
}

/// The middle eigenvalue of S^2 + Omega^2 of a gradient d\[i\]\[j\] = du_i/dx_j (Jeong and Hussain, On the
/// identification of a vortex, J. Fluid Mech. 285, 1995). By the trigonometric solution for symmetric matrices (O. K.
/// Smith, Comm. ACM 4, 1961).
pub fn lambda2(d: &[[f64; 3]; 3]) -> f64 {
    if d.iter().flatten().any(|x| !x.is_finite()) {
        return f64::NAN;
    }
    // S^2 + Omega^2 = (G G + G' G') / 2.
    let g2 = |i: usize, j: usize| d[i][0] * d[0][j] + d[i][1] * d[1][j] + d[i][2] * d[2][j];
    let m = |i: usize, j: usize| 0.5 * (g2(i, j) + g2(j, i));
    let (a, b, c, e, f, g) = (m(0, 0), m(1, 1), m(2, 2), m(0, 1), m(0, 2), m(1, 2));
    let mean = (a + b + c) / 3.0;
    let (a, b, c) = (a - mean, b - mean, c - mean);
    let p = ((a * a + b * b + c * c + 2.0 * (e * e + f * f + g * g)) / 6.0).sqrt();
    if p == 0.0 {
        return mean;
    }
    // Divided first, so that the product of three stays in range.
    let [a, b, c, e, f, g] = [a, b, c, e, f, g].map(|x| x / p);
    let half = 0.5 * (a * (b * c - g * g) - e * (e * c - g * f) + f * (e * g - b * f));
    let angle = half.clamp(-1.0, 1.0).acos() / 3.0;
    // Largest at `angle`, smallest a third of a turn on; the three sum to zero.
    let third = std::f64::consts::TAU / 3.0;
    mean - 2.0 * p * (angle.cos() + (angle + third).cos())
}

/// The imaginary part of the complex pair of eigenvalues of a gradient; 0 if all are real. By Cardano's formula. (Zhou,
/// Adrian, Balachandar and Kendall, Mechanisms for generating coherent packets of hairpin vortices, J. Fluid Mech. 387,
/// 1999.)
pub fn swirling_strength(d: &[[f64; 3]; 3]) -> f64 {
    let largest = d.iter().flatten().fold(0.0, |m: f64, x| m.max(x.abs()));
    if d.iter().flatten().any(|x| !x.is_finite()) {
        return f64::NAN;
    }
    if largest == 0.0 {
        return 0.0;
    }
    let g = d.map(|row| row.map(|x| x / largest));
    // l^3 - t l^2 + s l - det = 0; with l = y + t/3: y^3 + p y + q = 0.
    let t = g[0][0] + g[1][1] + g[2][2];
    let minor = |a: usize, b: usize| g[a][a] * g[b][b] - g[a][b] * g[b][a];
    let s = minor(0, 1) + minor(0, 2) + minor(1, 2);
    let det = g[0][0] * (g[1][1] * g[2][2] - g[1][2] * g[2][1]) - g[0][1] * (g[1][0] * g[2][2] - g[1][2] * g[2][0])
        + g[0][2] * (g[1][0] * g[2][1] - g[1][1] * g[2][0]);
    let p = s - t * t / 3.0;
    let q = -2.0 * t * t * t / 27.0 + t * s / 3.0 - det;
    let discriminant = q * q / 4.0 + p * p * p / 27.0;
    // Rounding alone gives three equal eigenvalues this much swirl.
    if discriminant <= 1e-15 {
        return 0.0;
    }
    let root = discriminant.sqrt();
    let u = (-q / 2.0 + if q > 0.0 { -root } else { root }).cbrt();
    let v = -p / (3.0 * u);
    largest * 0.5 * 3f64.sqrt() * (u - v).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A solid body that turns with omega about z: du/dy = -omega, dv/dx = omega.
    #[test]
    fn rigid_rotation() {
        for omega in [1e-9, 0.5, 3.0, 1e12] {
            let d = [[0.0, -omega, 0.0], [omega, 0.0, 0.0], [0.0; 3]];
            // S = 0, Omega^2 has eigenvalues -omega^2 twice, and 0.
            assert!((lambda2(&d) + omega * omega).abs() < 1e-7 * omega * omega, "{omega}");
            assert!((swirling_strength(&d) - omega).abs() < 1e-7 * omega);
        }
    }

    #[test]
    fn pure_strain_has_no_vortex() {
        let d = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, -3.0]];
        assert!((lambda2(&d) - 4.0).abs() < 1e-14);
        assert_eq!(swirling_strength(&d), 0.0);
        assert_eq!((lambda2(&[[0.0; 3]; 3]), swirling_strength(&[[0.0; 3]; 3])), (0.0, 0.0));
        let shear = [[0.0, 1.0, 0.0], [0.0; 3], [0.0; 3]];
        assert_eq!(swirling_strength(&shear), 0.0);
        assert!(lambda2(&shear).abs() < 1e-15);
    }
}

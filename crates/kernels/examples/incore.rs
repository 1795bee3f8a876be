//! Steps a second of the streamline kernel over flat arrays: `cargo run --release --example incore`.

use field::in_memory::{FlatArray, FlatNodes};
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::Nodes;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::streamline::{Direction, Options, Seed, StepProgress, Streamline};

fn main() {
    let n = [256usize, 256, 128];
    let count = n[0] * n[1] * n[2];
    let (mut xyz, mut vel) = (vec![0f32; 3 * count], vec![0f32; 3 * count]);
    for k in 0..n[2] {
        for j in 0..n[1] {
            for i in 0..n[0] {
                let at = (k * n[1] + j) * n[0] + i;
                let (r, s, t) = (i as f64 / 255.0, j as f64 / 255.0, k as f64 / 127.0);
                let x = [
                    r + 0.1 * (3.0 * s).sin() * r * (1.0 - r),
                    s + 0.1 * (2.0 * t + r).sin() * s * (1.0 - s),
                    t + 0.1 * (2.0 * r).cos() * t * (1.0 - t),
                ];
                let (a, b, c) = (6.0 * x[0], 6.0 * x[1], 6.0 * x[2]);
                let v = [c.sin() + 0.7 * b.cos(), 0.8 * a.sin() + c.cos(), 0.7 * b.sin() + 0.8 * a.cos()];
                for d in 0..3 {
                    xyz[d * count + at] = x[d] as f32;
                    vel[d * count + at] = v[d] as f32;
                }
            }
        }
    }
    let arrays = vec![("xyz".into(), 3, FlatArray::F32(xyz)), ("velocity".into(), 3, FlatArray::F32(vel))];
    let nodes = FlatNodes::from_arrays(vec![("zone1".into(), n, arrays)]);
    let fields: Vec<_> =
        nodes.zones().iter().map(|z| ZoneFields::named(z, Some("velocity"), &[], 1.4, 1.0).unwrap()).collect();
    let mut flow = GridFlow::new(ZoneLocator::new(nodes, fields.into()), ZoneOrder::file(1));
    let o = Options { tolerance: 1e-6, max_steps: 2000, direction: Direction::Both, ..Options::default() };
    let lanes: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    for _ in 0..3 {
        let t = cpu();
        let mut points = 0;
        let u = |s: u32, m: u32| f64::from(s.wrapping_mul(m) % 1009) / 1009.0 * 0.8 + 0.1;
        let mut next =
            (0..1000u32).map(|s| Streamline::new(Seed::Physical([u(s, 7919), u(s, 104729), u(s, 1299709)]), &o, 0));
        let mut live: Vec<Streamline> = next.by_ref().take(lanes).collect();
        while !live.is_empty() {
            let mut n = 0;
            while n < live.len() {
                if live[n].step(&mut flow, &o).unwrap() == StepProgress::Done {
                    points += live[n].points();
                    match next.next() {
                        Some(s) => live[n] = s,
                        None => {
                            live.swap_remove(n);
                        }
                    }
                } else {
                    n += 1;
                }
            }
        }
        let s = cpu() - t;
        println!("{points} points in {s:.3} CPU s: {:.2} million a second", points as f64 / s / 1e6);
    }
}

/// Processor seconds of this process.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

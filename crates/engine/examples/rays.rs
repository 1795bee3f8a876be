//! Casts rays through a made volume in memory and says what a frame takes.
//!
//! `rays EDGE PAGE WIDTH HEIGHT WORKERS [RAW [PNG]]`: with RAW the volume is written there, for others to draw.

use engine::bench::rays::WholeVolume;
use engine::raycast::{cast, CastOptions};
use kernels::draw::{linear_to_srgb, Camera, Lens};
use kernels::rays::{Clip, Look, Paint, Scene, Setting, TransferFunction};
use pager::{Backend, Pager, PagerConfig};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

fn cpu_s() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let number = |n: usize, or: u32| args.get(n).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (edge, page, size, workers) = (number(1, 512), number(2, 64), [number(3, 768), number(4, 456)], number(5, 2));
    let volume = Arc::new(WholeVolume::tomogram(edge));
    let seen = volume.bytes.iter().filter(|v| **v >= 75).count() as f64 / volume.bytes.len() as f64;
    println!("{edge}^3, {:.1} % of voxels are seen", 100.0 * seen);
    if let Some(raw) = args.get(6).filter(|r| !r.is_empty()) {
        std::fs::File::create(raw)?.write_all(&volume.bytes)?;
    }
    let limit = 4 * volume.bytes.len() as u64 + (256 << 20);
    let pager = Pager::new(PagerConfig { limit, readers: 4, backend: Backend::Threads, ..PagerConfig::default() })?;
    let level = volume.level(&pager, [page; 3]);
    let colours = [
        (0.0, [0.0, 0.0, 0.2]),
        (75.0, [0.5, 0.1, 0.1]),
        (120.0, [0.9, 0.6, 0.4]),
        (180.0, [1.0, 0.9, 0.7]),
        (255.0, [1.0; 3]),
    ];
    let opacities = [(0.0, 0.0), (75.0, 0.0), (110.0, 0.02), (150.0, 0.03), (180.0, 0.15), (255.0, 0.4)];
    let transfer = TransferFunction::new(colours.to_vec(), opacities.to_vec())?;
    let middle = f64::from(edge - 1) * 0.5;
    let views = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.55, -0.75, 0.4], [-0.3, 0.2, 1.0], [0.577, 0.577, -0.577]];
    let mut total = 0.0;
    for (n, d) in views.iter().enumerate() {
        let l = f64::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
        let far = 1.9 * f64::from(edge);
        let camera = Camera {
            position: [0, 1, 2].map(|a| middle + far * d[a] / l),
            target: [middle; 3],
            up: if n == 3 { [0.0, 1.0, 0.0] } else { [0.0, 0.0, 1.0] },
            lens: Lens::Perspective { fov_degrees: 30.0 },
            center: [0.5, 0.5],
        };
        let setting = Setting { camera, size, dt: 1.0, unit: 1.0, skip: true };
        let look = Look {
            level: level.clone(),
            step: 0,
            paint: Paint::Scalar { channel: 0, transfer: transfer.clone() },
            clip: Clip::default(),
        };
        let scene = Scene::new(setting, vec![look])?;
        let options = CastOptions { workers: workers as usize, rows: None };
        // Once to have the pages here.
        cast(&pager, &scene, &options, &mut |_, _| true)?;
        let rounds = 3;
        let (began, cpu) = (Instant::now(), cpu_s());
        let mut image = cast(&pager, &scene, &options, &mut |_, _| true)?;
        for _ in 1..rounds {
            image = cast(&pager, &scene, &options, &mut |_, _| true)?;
        }
        let (wall, cpu) = (began.elapsed().as_secs_f64() / f64::from(rounds), (cpu_s() - cpu) / f64::from(rounds));
        total += cpu;
        let c = image.counts;
        println!(
            "view {n}: {cpu:.3} CPU s, {wall:.3} s; {:.1} M samples ({:.1} % across), {} maps, {:.2} ns a sample",
            c.samples as f64 * 1e-6,
            100.0 * c.across as f64 / c.samples as f64,
            c.maps,
            cpu * 1e9 / c.samples as f64
        );
        if let Some(png) = args.get(7) {
            let mut out = Vec::new();
            for p in &image.rgba {
                out.extend([0, 1, 2].map(|c| (linear_to_srgb(p[c]) * 255.0 + 0.5) as u8));
            }
            let file = std::fs::File::create(format!("{png}{n}.png"))?;
            let mut e = png::Encoder::new(file, size[0], size[1]);
            e.set_color(png::ColorType::Rgb);
            e.write_header()?.write_image_data(&out)?;
        }
    }
    println!("mean {:.3} CPU s a frame", total / views.len() as f64);
    Ok(())
}

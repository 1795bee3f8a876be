//! Files of other programs, if `FARFIELD_DATA` names the folder of data.

use super::*;

fn data() -> Option<PathBuf> {
    let found = std::env::var_os("FARFIELD_DATA").map(PathBuf::from);
    if found.is_none() {
        eprintln!("FARFIELD_DATA is not set: skipped");
    }
    found
}

fn row(p: &Plot3d, zone: usize, array: usize, c: usize) -> Vec<f64> {
    let layout = p.layout(zone, array).unwrap();
    let mut out = vec![0_u8; layout.dims()[0] * layout.dtype().size()];
    layout.read_rows(0, c, 0, 0..1, &mut out).unwrap();
    decode(&out, layout.dtype())
}

#[test]
fn spheres() {
    let Some(data) = data() else { return };
    let folder = Plot3dFolder::new();
    let open = |name: &str| folder.open(&data.join("plot3d").join(name), &[], &[]).unwrap();
    for kind in ["multi", "single"] {
        let want = open(&format!("sphere_unf_{kind}_integration_sp.x"));
        for other in ["sp_bigend", "dp", "dp_bigend"] {
            let name = format!("sphere_unf_{kind}_integration_{other}.x");
            if !data.join("plot3d").join(&name).exists() {
                continue;
            }
            let got = open(&name);
            assert_eq!(got.catalog.zones.len(), want.catalog.zones.len());
            for (z, zone) in got.catalog.zones.iter().enumerate() {
                assert_eq!(zone.dims, want.catalog.zones[z].dims);
                for c in 0..3 {
                    let pairs = row(&got, z, 0, c).into_iter().zip(row(&want, z, 0, c));
                    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6), "{name}");
                }
            }
        }
    }
}

#[test]
fn airfoil_as_text() {
    let Some(data) = data() else { return };
    let folder = Plot3dFolder::new();
    let open = folder.open(&data.join("plot3d/NACA0012_113_33.p2dfmt"), &[], &[]).unwrap();
    assert_eq!((open.catalog.dimension, open.catalog.zones.len()), (2, 1));
    assert_eq!(open.catalog.zones[0].dims, [113, 33, 1]);
    assert_eq!(row(&open, 0, 0, 0)[..2], [501.000007802345, 327.869339790829]);
}

#[test]
fn tapered_cylinder() {
    let Some(data) = data() else { return };
    let folder = Plot3dFolder::new();
    let tar = data.join("plot3d/taper.tar.xz");
    let unpack = std::process::Command::new("tar").arg("-xJf").arg(tar).arg("-C").arg(&folder.0).status();
    if !unpack.is_ok_and(|s| s.success()) {
        eprintln!("taper.tar.xz cannot be unpacked: skipped");
        return;
    }
    let at = folder.0.join("taper");
    let q: Vec<PathBuf> = (0..60).map(|n| at.join(format!("taper_{n:03}.q"))).collect();
    let open = folder.open(&at.join("taper.xyz"), &q, &[]).unwrap();
    assert_eq!(open.catalog.zones[0].dims, [65, 64, 32]);
    assert_eq!(open.catalog.times.len(), 60);
    assert!(open.catalog.times.windows(2).all(|w| ((w[1] - w[0]) - 0.25).abs() < 1e-3), "{:?}", open.catalog.times);
    assert_eq!(open.catalog.zones[0].headers[0].mach as f32, 0.2);
    assert_eq!(row(&open, 0, 1, 0), vec![1.0; 65]);
}

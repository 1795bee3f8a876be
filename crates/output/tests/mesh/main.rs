//! Meshes read back by VTK, and full disks.
//!
//! VTK is found in `.peers/vtk`, where the experiments install it, or by `FARFIELD_VTK_PYTHON`, which names a Python
//! with it. Without it the comparison reports that it was skipped. The same holds if no file system can be mounted.

use output::{
    FieldSpec, FieldType, FieldValues, FixedBudget, MeshLayout, MeshPiece, MeshPoints, MeshStats, MeshWriter,
    OutputError, OutputFile, Provenance,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::TestDir;

/// The unit ball's surface as `n` rings of `n` points around a place, ring by ring.
fn ball(path: &Path, n: usize, middle: [f64; 3], zones: i32) -> Result<MeshStats, OutputError> {
    let velocity = FieldSpec { dtype: FieldType::F32, ..FieldSpec::vector("velocity", "m/s") };
    let layout = MeshLayout {
        fields: vec![FieldSpec::scalar("mach", "1"), velocity],
        positions: FieldType::F64,
        normals: true,
        ..Default::default()
    };
    let provenance = Provenance {
        program: "farfield test".into(),
        source: "ball".into(),
        length_unit: "m".into(),
        ..Default::default()
    };
    let output = OutputFile::create_mesh(path)?;
    let mut writer = MeshWriter::new(output, layout, provenance, Box::new(FixedBudget::new(1 << 20)))?;
    for ring in 0..n {
        let first = writer.points();
        let theta = std::f64::consts::PI * (ring as f64 + 0.5) / n as f64;
        let direction = |p: usize| {
            let phi = 2.0 * std::f64::consts::PI * p as f64 / n as f64;
            [theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()]
        };
        let points: Vec<[f64; 3]> = (0..n).map(|p| [0, 1, 2].map(|a| direction(p)[a] + middle[a])).collect();
        let normals: Vec<[f32; 3]> = (0..n).map(|p| direction(p).map(|v| v as f32)).collect();
        let mach: Vec<f64> = (0..n).map(|p| (ring * n + p) as f64).collect();
        let velocity: Vec<f32> = normals.iter().flat_map(|v| [v[1], -v[0], 2.0]).collect();
        let mut triangles = Vec::new();
        if ring > 0 {
            let (above, here, n) = (first - n as u64, first, n as u64);
            for p in 0..n {
                let q = (p + 1) % n;
                triangles.extend([[above + p, here + p, above + q], [above + q, here + p, here + q]]);
            }
        }
        writer.push(&MeshPiece {
            zone: ring as i32 % zones + 1,
            points: MeshPoints::F64(&points),
            normals: Some(&normals),
            fields: &[FieldValues::F64(&mach), FieldValues::F32(&velocity)],
            triangles: &triangles,
            ..Default::default()
        })?;
    }
    writer.finish(false)
}

fn vtk() -> Option<PathBuf> {
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers/vtk/bin/python");
    std::env::var_os("FARFIELD_VTK_PYTHON").map(PathBuf::from).or_else(|| near.is_file().then_some(near))
}

#[test]
fn vtk_reads_the_same_mesh() {
    let Some(python) = vtk() else {
        eprintln!("left out: there is no VTK; `make bench-setup` makes an environment of it");
        return;
    };
    let folder = TestDir::new("mesh-vtk");
    let n = 64;
    for name in ["a.vtp", "a.ply", "a.glb", "a.npz"] {
        ball(&folder.path(name), n, [1000.0, -20.0, 0.5], 3).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mesh/read_by_vtk.py");
    let done = Command::new(python).arg(script).arg(folder.at()).arg(n.to_string()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "vtp ply glb npz");
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let folder = TestDir::new("mesh-full");
    let small = folder.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "farfield-test"]).arg(&small).output();
    if !mount.is_ok_and(|done| done.status.success()) {
        eprintln!("left out: file systems cannot be mounted here");
        return;
    }
    // Ten megabytes and three: the arrays fill the disk while they wait, or together with the file.
    let mut said = Vec::new();
    for (name, n) in [("a.vtp", 400), ("a.ply", 190), ("a.glb", 190), ("a.npz", 190)] {
        said.push(ball(&small.join(name), n, [0.0; 3], 1).map(|_| ()).map_err(|e| e.to_string()));
    }
    let left = std::fs::read_dir(&small).unwrap().count();
    let small_one = ball(&small.join("b.ply"), 40, [0.0; 3], 1).map(|stats| stats.points).map_err(|e| e.to_string());
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    for refused in said {
        let refused = refused.unwrap_err();
        assert!(refused.contains("no space left on device") && refused.contains("small"), "{refused}");
    }
    assert_eq!((left, small_one), (0, Ok(1600)));
}

#[test]
fn pieces_after_a_failure_and_the_end_name_its_cause() {
    let folder = TestDir::new("mesh-failure");
    let gone = folder.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let output = OutputFile::create_mesh(&gone.join("m.ply")).unwrap();
    let budget = Box::new(FixedBudget::new(512 << 10));
    let mut writer = MeshWriter::new(output, MeshLayout::default(), Provenance::default(), budget).unwrap();
    std::fs::remove_dir_all(&gone).unwrap();
    let points = vec![[1.0f32; 3]; 1000];
    let piece = MeshPiece { zone: 1, points: MeshPoints::F32(&points), ..Default::default() };
    let first = (0..10_000).find_map(|_| writer.push(&piece).err()).expect("points do not fit in memory").to_string();
    assert!(first.contains("gone"), "{first}");
    assert_eq!(writer.push(&piece).unwrap_err().to_string(), first);
    assert_eq!(writer.finish(false).unwrap_err().to_string(), first);
}

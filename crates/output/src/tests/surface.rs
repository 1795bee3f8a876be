//! Surfaces, row by row.

use super::provenance;
use crate::*;
use std::fs;
use std::path::Path;
use testing::TestDir;

/// Rows of two patches with a hole.
fn surface(path: &Path, partial: bool) -> Result<SurfaceStats, OutputError> {
    let patches = vec![
        Patch { zone: 1, ni: 4, nj: 3 },
        Patch { zone: 2, ni: 0, nj: 9 },
        Patch { zone: 3, ni: 1, nj: 2 },
        Patch { zone: 4, ni: 9000, nj: 3 },
    ];
    let layout = SurfaceLayout {
        patches: patches.clone(),
        fields: vec![
            FieldSpec::scalar("pressure", "p"),
            FieldSpec { dtype: FieldType::F32, ..FieldSpec::vector("v", "") },
        ],
        positions: FieldType::F32,
    };
    let mut writer =
        SurfaceWriter::new(OutputFile::create(path)?, layout, provenance(), Box::new(FixedBudget::new(1 << 20)))?;
    for patch in &patches {
        for j in 0..if patch.ni == 0 { 0 } else { patch.nj } {
            if partial && patch.zone == 4 && j == 1 {
                return writer.finish(true);
            }
            let points: Vec<[f64; 3]> = (0..patch.ni).map(|i| [i as f64, j as f64, 0.5]).collect();
            let pressure: Vec<f64> = (0..patch.ni).map(|i| (i * j) as f64).collect();
            let velocity = vec![1.0f32; 3 * patch.ni];
            let usable: Vec<bool> = (0..patch.ni).map(|i| (i, j) != (0, 1)).collect();
            writer.push_row(
                &points,
                &[FieldValues::F64(&pressure), FieldValues::F32(&velocity)],
                Some([&usable, &vec![false; patch.ni]]),
            )?;
        }
    }
    writer.finish(partial)
}

#[test]
fn surfaces_leave_out_cells_at_holes() {
    let dir = TestDir::new("surface");
    for name in ["a.vtp", "a.npz"] {
        let stats = surface(&dir.path(name), false).unwrap();
        let bytes = fs::metadata(dir.path(name)).unwrap().len();
        // Of 3 x 2 and 8999 x 2 cells, the two at the unusable point of each patch are missing.
        assert_eq!(stats, SurfaceStats { points: 12 + 2 + 27_000, quads: 6 - 2 + 17_998 - 2, bytes });
        let partial = surface(&dir.path(&format!("p{name}")), true).unwrap();
        let bytes = fs::metadata(dir.path(&format!("p{name}"))).unwrap().len();
        assert_eq!(partial, SurfaceStats { points: 12 + 2 + 27_000, quads: 4, bytes });
    }
    let archive = fs::read(dir.path("a.npz")).unwrap();
    for entry in zip::list(&archive).unwrap() {
        let bytes = &archive[entry.data_at as usize..][..entry.bytes as usize];
        let header = npy::parse(bytes).unwrap();
        assert_eq!(header.data_at + header.data_bytes().unwrap(), entry.bytes, "{}", entry.name);
        if entry.name == "quads.npy" {
            assert_eq!(header.shape, [18_000, 4]);
        }
    }
    assert!(surface(&dir.path("a.csv"), false).is_err());
    assert_eq!(dir.names(), ["a.npz", "a.vtp", "pa.npz", "pa.vtp"]);
}

#[test]
fn surfaces_refuse_wrong_rows() {
    let dir = TestDir::new("surface-wrong");
    let make = || {
        let layout =
            SurfaceLayout { patches: vec![Patch { zone: 1, ni: 2, nj: 2 }], fields: vec![], positions: FieldType::F64 };
        let output = OutputFile::create(&dir.path("a.vtp")).unwrap();
        SurfaceWriter::new(output, layout, provenance(), Box::new(FixedBudget::new(1 << 20))).unwrap()
    };
    let row = [[0.0; 3], [1.0, 0.0, 0.0]];
    let mut writer = make();
    assert!(writer.push_row(&row[..1], &[], None).is_err());
    assert!(writer.push_row(&row, &[FieldValues::F64(&[0.0; 2])], None).is_err());
    writer.push_row(&row, &[], None).unwrap();
    assert!(writer.finish(false).unwrap_err().to_string().contains("rows of the surface of zone 1 are missing"));
    let mut writer = make();
    writer.push_row(&row, &[], None).unwrap();
    writer.push_row(&row, &[], None).unwrap();
    assert!(writer.push_row(&row, &[], None).is_err());
    let stats = writer.finish(false).unwrap();
    let bytes = fs::metadata(dir.path("a.vtp")).unwrap().len();
    assert_eq!(stats, SurfaceStats { points: 4, quads: 1, bytes });
}

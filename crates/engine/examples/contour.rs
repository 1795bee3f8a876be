//! Draws an isosurface of a volume of a formula and says how long it took:
//! `contour SCENE EDGE PAGE VOXEL VALUE[,VALUE...] [normals] [workers=N] [limit=MIB] [file=PATH] [raw=PATH] [no-ranges]`.

use engine::bench::{contour, ContourArm};
use field::volume::VoxelType;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [scene, edge, page, voxel, values, rest @ ..] = &args[..] else {
        return Err(
            "contour SCENE EDGE PAGE VOXEL VALUE[,VALUE...] [normals] [workers=N] [limit=MIB] [file=PATH]".into()
        );
    };
    let named = |name: &str| rest.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
    let arm = ContourArm {
        scene: scene.clone(),
        edge: edge.parse()?,
        page: page.parse()?,
        voxel: VoxelType::parse(voxel).ok_or("there is no such type of voxels")?,
        values: values.split(',').map(str::parse).collect::<Result<_, _>>()?,
        normals: rest.iter().any(|a| a == "normals"),
        workers: named("workers").map_or(Ok(1), str::parse)?,
        limit: named("limit").map_or(Ok(3072), str::parse::<u64>)? << 20,
        ranges: !rest.iter().any(|a| a == "no-ranges"),
        file: named("file").map(Into::into),
        raw: named("raw").map(Into::into),
    };
    println!("{}", serde_json::to_string_pretty(&contour(&arm)?)?);
    Ok(())
}

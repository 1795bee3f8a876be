"""Results of runs: lines, meshes and files."""

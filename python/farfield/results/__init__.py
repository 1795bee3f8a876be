"""What runs give: lines, meshes, files."""

"""VTK grids."""

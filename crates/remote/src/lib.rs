//! Places over networks. It knows no cells, grids or formats.

"""HDF5, and containers on it."""

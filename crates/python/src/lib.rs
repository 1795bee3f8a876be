//! Farfield: python.

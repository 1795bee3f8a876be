//! Farfield: kernels.

//! Farfield: engine.

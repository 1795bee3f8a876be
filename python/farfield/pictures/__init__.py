"""Pictures: scenes, slices, and how values become colours."""

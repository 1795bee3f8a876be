"""Pictures of scenes and slices, and the colours of values."""

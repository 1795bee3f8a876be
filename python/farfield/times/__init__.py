"""Times of steps, and dates."""

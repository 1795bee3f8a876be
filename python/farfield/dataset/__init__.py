"""What datasets of every kind can do."""

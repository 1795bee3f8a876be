"""What every run needs: settings, sizes of memory, progress, the cache, notes."""

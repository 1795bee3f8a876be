"""Parts that every run needs: settings, sizes of memory, progress, the cache and notes."""

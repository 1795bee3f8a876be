"""Zarr stores of anyone, OME-Zarr among them."""

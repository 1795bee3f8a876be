"""The CF conventions, for Zarr, HDF5 and NetCDF alike."""

"""Formats of a header and consecutive numbers: NIfTI, NRRD, MetaImage, raw."""

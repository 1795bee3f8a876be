"""Formats of a header and numbers one after the other: NIfTI, NRRD, MetaImage, raw."""

"""DICOM."""

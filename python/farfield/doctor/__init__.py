"""What is wrong between this machine and a dataset at a server: from the resolution of its name to the rate of the line."""

from farfield.doctor.examination import Examination, examine

__all__ = ["Examination", "examine"]

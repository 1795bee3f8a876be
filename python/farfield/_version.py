"""The version, where `--version` finds it without importing anything. A test holds it to Cargo's."""

__version__ = "0.1.0"

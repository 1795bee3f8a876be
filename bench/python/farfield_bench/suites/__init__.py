"""Experiments, one module for each question. Every module here is loaded by `farfield_bench.load`."""

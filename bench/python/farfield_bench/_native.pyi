"""The extension: arms of the experiments that run in the process that calls them."""

__all__ = ["bench"]

def bench(options: str) -> str:
    """Runs one arm of an experiment in this process; the package calls it in processes of their own. `arm` says which:
    `farfield_bench/arms.py` says what each takes and gives.
    """

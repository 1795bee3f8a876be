"""`python -m farfield_bench` is the command line."""

from farfield_bench.cli import main

if __name__ == "__main__":
    main()

"""`python -m farfield` is the command line."""

from farfield.cli import main

if __name__ == "__main__":
    main()

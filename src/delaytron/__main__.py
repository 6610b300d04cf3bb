"""`python -m delaytron` is the command `delaytron`, which may be interrupted while it is still being loaded."""

import sys


def main() -> None:
    """Load the command line, and run it."""
    try:
        from delaytron.cli import main as run  # noqa: PLC0415 - loading takes long enough to be interrupted

        run()
    except KeyboardInterrupt:
        sys.stderr.write("delaytron: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

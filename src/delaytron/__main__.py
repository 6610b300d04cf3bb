"""`python -m delaytron`, the same as the command `delaytron`."""

import sys


def main() -> None:
    """Run the command line; exit with 130 if it is interrupted, also while it is being imported."""
    try:
        from delaytron.cli import main as run  # noqa: PLC0415 - importing takes long enough to be interrupted

        run()
    except KeyboardInterrupt:
        sys.stderr.write("delaytron: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

"""`python -m delaytron` is the command `delaytron`."""

from delaytron.cli import main

if __name__ == "__main__":
    main()

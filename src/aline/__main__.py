"""`python -m aline`, which is also what torchrun starts."""

from aline.app.cli import main

if __name__ == "__main__":
    main()

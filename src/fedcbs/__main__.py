"""``python -m fedcbs`` is the command ``fedcbs``."""

from fedcbs.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

"""The command line: ``discreet --help``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command ``discreet``."""
    try:
        import rich
        import typer
    except ImportError as missing:
        sys.exit(
            f'The command needs {missing.name}: pip install "discreet[cli]". '
            "The Python package works without it."
        )
    del rich, typer
    from discreet.cli.app import run

    sys.exit(run(sys.argv[1:]))

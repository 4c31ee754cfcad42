"""``python -m peakgate`` is the command ``peakgate``; it imports nothing before an interrupt is looked for."""

from __future__ import annotations

import sys


def command() -> int:
    """Run the verb of this process's command line; Ctrl-C during the imports prints no traceback either."""
    try:
        from peakgate import cli  # noqa: PLC0415

        return cli.command()
    except KeyboardInterrupt:
        return 130  # ExitCode.INTERRUPTED, which may not be imported yet


if __name__ == "__main__":
    sys.exit(command())

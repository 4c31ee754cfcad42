"""The commands and files of a documentation page as one bash script, as a reader would paste them.

``peakgate help tutorial | python page_commands.py`` prints it. A line that ends otherwise than with 0 says so behind
it, ``# exit code 1``. Blocks that begin with one of ``ELSEWHERE`` are left out, and what installs Peakgate is too.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ELSEWHERE = ("# on a GPU", "# on a cluster", "# in your repository")
INSTALLS = ("pip install ", "python3 -m venv ")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"(?://|#) (\w\S*/\S+\.\w+)$")


class Step(NamedTuple):
    """A file to write, or a command with its exit code."""

    path: str
    text: str
    exit_code: int = 0


def steps(page: str) -> Iterator[Step]:
    """What a reader without a GPU does, in the order of the page: files begin with a comment that names their path."""
    for language, text in _BLOCK.findall(page):
        first = text.partition("\n")[0]
        if language == "sh" and first not in ELSEWHERE:
            for line in text.splitlines():
                command, comment, *_ = [*re.split(r"\s{2,}# ", line), ""]
                if not command.startswith(INSTALLS):
                    expected = re.search(r"exit code (\d+)", comment)
                    yield Step("", command, int(expected[1]) if expected else 0)
        elif language != "sh" and (named := _PATH.match(first)):
            yield Step(named[1], text)


def script(wanted: Iterable[Step]) -> str:
    """Ends at the first command that does not end as the page says, which it names."""
    lines = ["set -u"]
    for path, text, exit_code in wanted:
        if path:
            lines += [f'mkdir -p "$(dirname {path})"', f"cat > {path} <<'END OF FILE'", f"{text}END OF FILE"]
        else:
            failed = shlex.quote(f"expected exit code {exit_code}: {text}")
            lines += [text, f"[ $? = {exit_code} ] || {{ echo {failed} >&2; exit 1; }}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(script(steps(sys.stdin.read())))

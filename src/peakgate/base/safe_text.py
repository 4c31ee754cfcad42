"""Makes untrusted text safe for a terminal, a CI log, an editor and a spreadsheet."""

from __future__ import annotations

import json
import re

# Log commands of GitHub Actions, Azure Pipelines and TeamCity: ``::name ...::`` and ``##[name]``. ``::`` inside a word,
# such as a test's node id, is kept.
COMMANDS = (
    "add-mask|add-path|debug|echo|endgroup|error|group|notice|save-state|set-env|set-output|stop-commands|warning"
)
CI_COMMAND = re.compile(rf"(?<!\S)::(?=\S)|::(?=(?:{COMMANDS})\b)|##(?=\w*\[)", re.IGNORECASE)

# Characters with an effect that JSON does not escape: control, line separators, direction, zero width.
OBEYED = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

FORMULA = ("=", "+", "-", "@")  # the first characters of a spreadsheet formula


def one_line(text: str) -> str:
    """``text`` without line breaks, control characters and commands of CI logs."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return CI_COMMAND.sub(lambda found: f"{found[0][0]} {found[0][1]}", text)


def encodable(text: str) -> str:
    """``text`` with a question mark for each unpaired surrogate, which UTF-8 and Arrow refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def as_json(document: object) -> str:
    """A document as indented JSON, with characters escaped that have an effect in a terminal or editor."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def cell(value: object) -> object:
    """A value for a CSV cell: text in one line, with an apostrophe before what a spreadsheet would compute."""
    if not isinstance(value, str):
        return value
    plain = one_line(value)
    return f"'{plain}" if plain.lstrip().startswith(FORMULA) else plain


def harmless(text: str) -> str:
    """The lines of a text, each made safe by ``one_line`` and ended by a line break."""
    return "".join(f"{one_line(line)}\n" for line in text.splitlines())

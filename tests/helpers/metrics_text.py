"""A reader of OpenMetrics text by the grammar of its specification, as far as gauges need it, and by its rules.

https://prometheus.io/docs/specs/om/open_metrics_spec/: section ABNF; numbers and names are the specification's own.
"""

from __future__ import annotations

import re

from lark import Lark, Token, Transformer

GRAMMAR = r"""
exposition: family* "# EOF" LF
family: type descriptor* sample*
type: "# TYPE " NAME " " REST LF
descriptor: "# " KEY " " NAME " " REST LF
sample: NAME labels " " NUMBER LF
labels: "{" label ("," label)* "}"
label: LABEL "=" QUOTED

KEY: "UNIT" | "HELP"
NAME: /[A-Za-z_:][A-Za-z0-9_:]*(?=[ {])/
LABEL: /[A-Za-z_][A-Za-z0-9_]*(?==)/
REST: /(?:[^\n"\\]|\\.)+/
QUOTED: /"(?:[^\n"\\]|\\[n"\\])*"/
NUMBER: /[+-]?(?:[0-9]+(?:\.[0-9]*)?|[0-9]*\.[0-9]+)(?:e[+-]?[0-9]+)?(?=\n)/i
LF: "\n"
"""
Labels = tuple[tuple[str, str], ...]


class _Read(Transformer[Token, dict[str, dict[Labels, float]]]):
    def label(self, parts: list[Token]) -> tuple[str, str]:
        text = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], str(parts[1])[1:-1])
        return str(parts[0]), text

    def labels(self, parts: list[tuple[str, str]]) -> Labels:
        assert len(dict(parts)) == len(parts), "label names must be unique"
        return tuple(parts)

    def sample(self, parts: list[object]) -> tuple[str, Labels, float]:
        name, labels, number, _ = parts
        assert isinstance(labels, tuple)
        return str(name), labels, float(str(number))

    def type(self, parts: list[Token]) -> tuple[str, str, str]:
        return "TYPE", str(parts[0]), str(parts[1])

    def descriptor(self, parts: list[Token]) -> tuple[str, str, str]:
        return str(parts[0]), str(parts[1]), str(parts[2])

    def family(self, parts: list[tuple[str, str, str] | tuple[str, Labels, float]]) -> tuple[str, dict[Labels, float]]:
        about = {str(each[0]): each for each in parts if isinstance(each[2], str)}
        name = str(about["TYPE"][1])
        assert about["TYPE"][2] == "gauge"
        assert {each[1] for each in about.values()} == {name}, "metadata of one family stand together"
        assert "UNIT" not in about or name.endswith(f"_{about['UNIT'][2]}"), "a unit is the end of its family's name"
        samples = [each for each in parts if not isinstance(each[2], str)]
        assert {each[0] for each in samples} <= {name}
        found = {each[1]: each[2] for each in samples if isinstance(each[1], tuple)}
        assert len(found) == len(samples), "label sets must be unique within a family"
        return name, found

    def exposition(self, parts: list[tuple[str, dict[Labels, float]]]) -> dict[str, dict[Labels, float]]:
        families = [each for each in parts if isinstance(each, tuple)]
        assert len(dict(families)) == len(families), "the names of families must be unique"
        return dict(families)


READER = Lark(GRAMMAR, start="exposition", parser="lalr")


def exposition(text: str) -> dict[str, dict[Labels, float]]:
    """The samples of each family by their labels; raises if the text is not by the specification."""
    return _Read().transform(READER.parse(text))

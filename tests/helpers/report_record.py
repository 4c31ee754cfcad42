"""One report for every writer, with each kind of row and hostile names, and what a browser makes of a page."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser

from peakgate.base.formatting import figure, share
from peakgate.base.report import Column, Picture, Report, Row, Table
from peakgate.base.verdict import ExitCode, Verdict

HOSTILE = (
    "<script>alert(1)</script>",
    "转置.共享内存-八千",
    "x" * 300,
    "a|b`c`*d*_e_[f](http://g.example)",
    '=1+1,"quoted"',
    "line\nbreak\x1b[31mred\r\x00",
    "</script><b>'&amp;{{ 7 * 7 }}",
    '"><img src=x onerror=alert(1)>',
)
COLUMNS = (
    Column("new_time_us", "time (µs)", figure, brief=True),
    Column("peak", "of peak", share, brief=True),
    Column("driver", "driver"),
)


def row(name: str, verdict: str, reason: str = "why", change: float | None = None, time_us: float | None = 10.0) -> Row:
    cells = {"case": name, "new_time_us": time_us, "peak": 0.725, "driver": "580", "change_percent": change}
    words = "" if change is None else f"{1 + change / 100:.2f}x slower"
    return Row(name, verdict, reason, words, cells=cells, group=name.partition(".")[0])


def record(*names: str) -> Report:
    """The report, with a slower case more for each of the names."""
    rows = [
        row("norms.softmax-8", Verdict.WRONG, "element 3: 1.0 instead of 2.0", time_us=None),
        row("norms.rms-8", Verdict.SLOWER, "+22.00 %, registers 32 to 48", 22.0, 195.2),
        *(row(name, Verdict.SLOWER, name, 30.0) for name in names),
        row("norms.noisy-8", Verdict.INCONCLUSIVE, "too noisy, 20 % would not be detected", 1.0),
        *(row(f"transpose.new-{number}", Verdict.NEW, "not in base") for number in range(7)),
        row("transpose.naive-8", Verdict.SAME, "+0.10 %", 0.1),
    ]
    return Report(
        command="sample",
        exit_code=ExitCode.REGRESSION,
        verdict=Verdict.WRONG,
        about=(("base", "main, 3 sessions"), ("new", "HEAD, 1 session")),
        notes=("the runs are of one GPU",),
        overall=(Row("suite-wide", Verdict.SAME, "+0.2 %, within 3 %"),),
        rows=rows,
        columns=COLUMNS,
        sentences=("measure again: `peakgate bench -k rms`", "to accept it, copy:\n\n[[defect]]"),
        tables=(
            Table("What else differs", ("fact", "base", "new"), [("driver", "580", "590"), ("power (W)", 700, None)]),
            Table("Machine", ("fact", "value"), [("name", "NVIDIA H200")], folded=True),
        ),
        pictures=(Picture("Roofline", "Cases under their roofs.", "<svg></svg>"),),
        fields={"counts": {"WRONG": 1}, "rows": []},
        taken=datetime(2026, 11, 1, 12, tzinfo=UTC),
    )


class Document(HTMLParser):
    """What a browser would make of a text: tags with their attributes, the texts of each code and each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.codes: list[str] = []
        self.scripts: list[str] = []
        self._inside: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = {"code": self.codes, "script": self.scripts}.get(tag)
        if self._inside is not None:
            self._inside.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"code", "script"}:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._inside[-1] += data

    @property
    def met(self) -> set[str]:
        return {tag for tag, _ in self.tags}

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

"""``peakgate compare``: what is slower in NEW than in BASE, on the terminal and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peakgate.common.files import write_whole
from peakgate.project import config
from peakgate.reports.comparison.judge import compare
from peakgate.reports.options import GATE_EXIT_CODES, add_runs, add_verdict_options, verb_parser
from peakgate.reports.render import outputs, terminal
from peakgate.reports.render.console import VerdictConsole
from peakgate.reports.render.selftest_note import FILE, selftest_notes
from peakgate.reports.runs.find import FORMS, Archive, apart, find_history, find_side


def main(verb: str, arguments: Sequence[str]) -> int:
    """Compare two saved sides and return the exit code of the verdict."""
    parser = verb_parser(verb, f"Report what is slower in NEW than in BASE. Each is {FORMS}.", GATE_EXIT_CODES)
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("new", metavar="NEW")
    add_runs(parser)
    add_verdict_options(parser)
    parser.add_argument("--no-files", action="store_true", help="print only")
    parser.add_argument("--no-html", action="store_true", help="write no page")
    parser.add_argument("--across-gpus", action="store_true", help="compare runs of two GPU models")
    options = parser.parse_args(arguments)

    archive = Archive(options.runs)
    base, new = apart(find_side(options.base, archive), find_side(options.new, archive))
    others = find_history(archive, (base, new))
    saved = config.near(config.current().baselines) / new.runs[-1].slug / FILE
    remarks = selftest_notes(new, (saved, options.out / FILE))
    comparison = compare(base, new, others, across_gpus=options.across_gpus, remarks=remarks)
    console = VerdictConsole()
    terminal.show(comparison, console, everything=options.all)
    texts: Mapping[str, str] = {}
    if not options.no_files:
        page = not options.no_html
        drawn = archive.read(others) if page else ()
        texts = outputs.texts(comparison, "compare", drawn, strict=options.strict, page=page)
    for name, text in texts.items():
        write_whole(options.out / name, text)
    outputs.summarize(comparison, strict=options.strict)
    written = [options.out / name for name in texts]
    terminal.last_line(comparison, console, strict=options.strict, written=written)
    return comparison.exit_code(strict=options.strict)

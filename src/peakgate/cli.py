"""The command ``peakgate``: one verb per thing it does; each verb's parser stands beside its code."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from peakgate.base import config, progress
from peakgate.base.errors import Code, PeakgateError, defect, described, refused
from peakgate.base.formatting import as_json, nearest, one_line
from peakgate.base.options import COMPLETING, VerbParser
from peakgate.base.processes import collect_rarely, one_blas_thread, sigterm_interrupts, variables
from peakgate.base.report import JSON_OPTION, head
from peakgate.base.streams import open_standard_streams, print_to_nobody
from peakgate.base.verdict import ExitCode

GROUPS = {
    "Every day": {
        "init": ("init", "make the working directory a project: settings and an example kernel, or a family of yours"),
        "bench": ("run.bench", "prove, time and judge every kernel on this machine's device"),
        "check": ("inspect.check", "run every kernel in the checked emulator, without a GPU"),
        "compare": ("compare.command", "compare two saved runs"),
        "ab": ("compare.ab.command", "measure two commits interleaved on one GPU and decide what HEAD made slower"),
        "history": (
            "compare.history",
            "report what got slower over the saved runs, and between which commits",
        ),
        "floors": ("compare.floors", "propose floors from saved runs, or keep runs as references"),
        "show": ("pages", "write a page of one run, or the pages of all runs"),
    },
    "In CI": {
        "gate": ("review.command", "judge a change with a tool that it cannot edit: protect, bench and ab in one"),
        "protect": ("review.protect", "fail a change that lowers a floor or edits a saved run without a reason"),
    },
    "Deeper": {
        "inspect": ("inspect", "examine registers and occupancy, delete barriers, or run compute-sanitizer"),
        "bisect": ("compare.bisect.command", "find the commit that made a case slower, with few measurements"),
        "fleet": ("fleet.command", "run the gate on every GPU of a machine or cluster and name the slow ones"),
        "selftest": ("compare.selftest", "measure unchanged code and report how small a slowdown is detected here"),
        "import": ("runfile.imported", "turn the JSON of other benchmark tools into run files"),
        "help": ("help", "print a page or a section of one, or what the code of an error means"),
    },
}
"""The verbs by purpose: each has a module, which runs it by ``main(verb, arguments)``, and a sentence."""

VERBS = {verb: entry for group in GROUPS.values() for verb, entry in group.items()}

EXAMPLES = {
    "peakgate init": "begin: settings and an example kernel",
    "peakgate bench -k sgemm": "prove, time and judge the cases whose id contains sgemm",
    "peakgate ab main": "what did the working tree make slower than main?",
    "peakgate compare latest~1 latest": "what changed between the two newest runs?",
    "peakgate show latest": "write a page of the newest run",
}
"""Commands that ``peakgate --help`` shows, and what each is for."""

JSON_FILES = {"check": "check.json", "bench": "bench.json", "ab": "ab.json"}
"""The verbs that have the option, and the file that each leaves."""

_EXTRAS = {
    "cupy": "cuda13",
    "pynvml": "cuda13",
    "cuda": "nvrtc",
    "pandas": "reports",
    "jinja2": "reports",
    "scipy": "reports",
    "distributed": "fleet",
    "pyarrow": "fleet",
}
_REPORTING = {"compare", "fleet", "pages", "review", "runfile"}
"""Rooms whose verbs need the extra ``reports``, whatever of it they miss first."""

_EPILOG = "exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide, 70 a defect of peakgate, 130 interrupted"


def command() -> int:
    """Run the verb of this process's command line."""
    if COMPLETING in os.environ:
        # Print what may follow the line at the shell's cursor, by the parser of its verb, and end the process.
        line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
        words = line.split() if line.endswith(" ") else line.split()[:-1]
        subjects = words[2:3] if words[1:2] == ["inspect"] else []
        if words[1:2] and words[1] in VERBS:
            os.environ[COMPLETING] = str(2 + len(subjects))
            _run(words[1], subjects)
        parser = VerbParser()
        parser.add_argument("verb", choices=VERBS)
        parser.parse_args([])
    collect_rarely()
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; a user's mistake is one line on stderr, an own defect is exit code 70."""
    open_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    verb = given.pop(0) if given else "--help"

    def run() -> int:
        with sigterm_interrupts():
            return _command(verb, given)

    asked = _asked(given) if verb in JSON_FILES else None
    if asked is None or not asked.json:
        return guarded(verb, run)
    refusals: list[PeakgateError] = []

    def noted(error: PeakgateError) -> ExitCode:
        refusals.append(error)
        return refused(error)

    return _printed_alone(verb, asked.out, lambda: guarded(verb, run, noted), refusals)


def guarded(verb: str, run: Callable[[], int], refused: Callable[[PeakgateError], ExitCode] = refused) -> int:
    """Run a command and return its exit code, whatever it raises; what that is, is one line on stderr."""
    try:
        code = run()
        try:  # while an error of it can still be reported
            sys.stdout.flush()
        except BrokenPipeError:  # `peakgate history | head`: the verdict counts, not who reads it
            print_to_nobody(sys.stdout)
    except PeakgateError as error:
        code = refused(error)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except OSError as error:
        code = refused(_of_system(verb, error))
    except MemoryError:
        code = refused(
            PeakgateError(f"peakgate {verb}: takes more memory than there is; name fewer or smaller files", Code.MEMORY)
        )
    except Exception as error:
        behind = error.__context__ if isinstance(error, RuntimeError) else None
        if isinstance(behind, OSError) and behind.errno == errno.ELOOP:  # how pathlib reports it before Python 3.13
            code = refused(_of_system(verb, behind))
        else:
            code = defect(f"peakgate {one_line(verb)}", error)
    return code


def _printed_alone(
    verb: str,
    out: Path | None,
    run: Callable[[], int],
    refusals: Sequence[PeakgateError],
) -> int:
    """Run a command with its output on standard error, then print its document; the exit code.

    ``refusals`` are filled by ``run`` with the user's mistakes that it reports.
    """
    path: Path | None = None
    with suppress(PeakgateError):  # the settings, which say where the document will be, cannot be read
        path = Path(out or config.current().out, JSON_FILES[verb]).absolute()
    before = _state(path)
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        code = run()
    except SystemExit as error:  # of --help
        code = error.code if isinstance(error.code, int) else ExitCode.BAD_INPUT
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
    left: Any = {}
    if path is not None and _state(path) != before:
        with suppress(OSError, ValueError):
            left = json.loads(path.read_text(encoding="utf-8"))
    lock = sys.modules.get("peakgate.run.lock")  # absent where the command took no GPU
    own = head(verb, code) | {"gpu_s": round(0.0 if lock is None else float(lock.held_s()), 1)}
    if refusals:
        own["error"] = {"code": refusals[-1].code, "message": refusals[-1].message}
    others = {name: value for name, value in left.items() if name not in own} if isinstance(left, dict) else {}
    sys.stdout.write(as_json({**own, **others}))
    return code


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    """``--json`` and ``--out``, abbreviated or not; what else is wrong is left to the verb's parser."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument(JSON_OPTION, action="store_true")
    parser.add_argument("--out", type=Path, nargs="?")
    asked = argparse.Namespace()
    with suppress(argparse.ArgumentError):
        parser.parse_known_args(arguments, asked)
    return asked


def _state(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns)


def _command(verb: str, given: Sequence[str]) -> int:
    if verb in ("-h", "--help"):
        parts = ["usage: peakgate VERB ..."]
        groups = {title: {verb: what for verb, (_, what) in group.items()} for title, group in GROUPS.items()}
        for title, lines in {**groups, "Examples": EXAMPLES}.items():
            width = max(map(len, lines))
            parts.append("\n".join([f"{title}:", *(f"  {left:<{width}}  {right}" for left, right in lines.items())]))
        more = "`peakgate VERB --help` lists a verb's options, `peakgate help` the pages that explain them."
        sys.stdout.write("\n\n".join([*parts, f"{more}\n{_EPILOG}\n"]))
        return ExitCode.OK
    if verb == "--version":
        from peakgate.base.config import version  # noqa: PLC0415  # slow, and no other call asks

        sys.stdout.write(f"peakgate {version()}\n")
        return ExitCode.OK
    if verb not in VERBS:
        raise PeakgateError(f"peakgate {verb}: no such verb{nearest(verb, VERBS)}; see `peakgate --help`", Code.OPTION)
    return _run(verb, given)


def _of_system(verb: str, error: OSError) -> PeakgateError:
    """An error that the machine gave a command: a full disk, a file or a working directory that is gone."""
    if error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF) and error.filename is None:
        print_to_nobody(sys.stdout)  # else its buffer is written, and refused, again at the end
        return PeakgateError(
            f"peakgate {verb}: standard output cannot be written ({error.strerror}); redirect it", Code.SYSTEM
        )
    try:
        Path.cwd()
    except OSError:
        return PeakgateError(
            f"peakgate {verb}: the working directory is gone; change to one that is there", Code.SYSTEM
        )
    where = f"{error.filename}: " if error.filename is not None else ""
    return PeakgateError(
        f"peakgate {verb}: {where}{error.strerror or described(error)}; see that it is there and free", Code.SYSTEM
    )


def _run(verb: str, arguments: Sequence[str]) -> int:
    module = VERBS[verb][0]
    environment = one_blas_thread() if module.startswith("inspect.") else {}  # its work is done by processes beside it
    try:
        # bench says itself what it does, or is a process of `ab` and says nothing.
        starting = nullcontext() if verb == "bench" else progress.starting(f"loading {verb}")
        with variables(**environment), starting:
            command = importlib.import_module(f"peakgate.{module}")
        code: int = command.main(verb, arguments)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(missing, "reports" if module.partition(".")[0] in _REPORTING else None)
        if missing == "peakgate" or extra is None:
            raise
        from peakgate.base.packages import install_command  # noqa: PLC0415  (only a mistake needs it)

        raise PeakgateError(
            f"peakgate {verb} needs {missing}, which is not installed; {install_command(extra)}",
            Code.INSTALLATION,
        ) from None
    return code

"""Every reader of a file that others may have written, given a hostile one: what it must do, and what it must not."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import fuzz_mutate as mutate
from peakgate import cli
from peakgate.case import Scale
from peakgate.check import digests
from peakgate.common.errors import PeakgateError, refused
from peakgate.judge import waivers
from peakgate.judge.floors import load_floors
from peakgate.project import catalogue, config
from peakgate.reports.ab.folders import Folder
from peakgate.reports.ab.plan import Plan
from peakgate.reports.ab.schedule import Phase, Side, order
from peakgate.reports.ab.store import Process, Record, Settings
from peakgate.reports.injected import mutants
from peakgate.reports.protect import acknowledged
from peakgate.reports.runs import index, runfile
from peakgate.resources import baseline
from peakgate.resources.compare import compare as compare_resources
from peakgate.run import journal
from peakgate.verdict import REGRESSIONS, ExitCode
from synthetic_runs import BYTES, document

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2027, 1, 1, tzinfo=UTC)
TIMES_US = {"a.fast-1": 5.0, "a.slow-2": 400.0, "b.c": 40.0, "b.d": 80.0}
VERDICTS = (ExitCode.OK, ExitCode.REGRESSION, ExitCode.BAD_INPUT, ExitCode.UNDECIDED)


class Finding(Exception):
    """A reader did what it must not; the message says what."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of file.

    ``make`` gives a hostile one, ``read`` puts it at its place in a folder and reads it as a command would: its exit
    code. ``inputs`` is how many of these a whole campaign makes: fewer where reading takes long.
    """

    make: Callable[[Random], bytes]
    read: Callable[[Path, bytes], int]
    inputs: int

    def repeat(self, name: str, number: int, folder: Path) -> int:
        """Read input ``number`` once more, with the traceback that it may give; the exit code."""
        data = self.make(Random(f"{name} {number}"))  # as attempt does
        sys.stdout.write(data.decode("utf-8", errors="replace")[:5000] + "\n")
        return self.read(folder, data)


@dataclass
class Outcome:
    """The exit code of a command, and what it wrote."""

    code: int
    out: str = ""
    err: str = ""
    error: BaseException | None = field(default=None)


def call(action: Callable[[], int | None]) -> Outcome:
    """Run a command in this process; Finding for an exception, another exit code, or more than one line with a 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = int(action() or 0)
        except PeakgateError as error:
            code = int(refused(error))
    found = Outcome(code, out.getvalue(), err.getvalue())
    if code not in VERDICTS:
        raise Finding(f"exit code {code}")
    if code == ExitCode.BAD_INPUT and len(found.err.splitlines()) != 1:
        raise Finding(f"exit code 2 with {len(found.err.splitlines())} lines: {found.err[:300]!r}")
    if "Traceback" in found.out + found.err:
        raise Finding("a traceback is printed")
    return found


def verb(*arguments: object) -> Outcome:
    """Run ``peakgate VERB ...`` in this process."""
    return call(lambda: cli.main([str(each) for each in arguments]))


def whole(day: int = 2, **facts: Any) -> dict[str, Any]:
    """A run with floors and one unmeasured case."""
    figures = {case: {"floor": 0.2, "peak_fraction": 0.5, "tolerance": 1e-6} for case in TIMES_US}
    lost = [{"case": "b.lost", "verdict": "INCONCLUSIVE", "reason": "no room in memory"}]
    run = document(TIMES_US, day=day, extra=figures, not_measured=lost, **facts)
    run["peakgate"] |= {"partial": None, "restarts": []}
    return run


def a_run(random: Random) -> bytes:
    """Half of them without the unmeasured case, which keeps a comparison undecided."""
    run = whole()
    if random.random() < 0.5:
        run["peakgate"]["not_measured"] = []
    return mutate.document(run, random)


def compared(folder: Path, data: bytes) -> int:
    """As NEW it must pass only where it is no worse than an honest BASE; as BASE it must be read or refused."""
    new, base = folder / "new.json", folder / "base.json"
    new.write_bytes(data)
    if not base.exists():
        base.write_text(json.dumps(document(TIMES_US, day=1)))
    verb("compare", new, base, "--no-files", "--out", folder)
    found = verb("compare", base, new, "--no-files", "--out", folder)
    if found.code == ExitCode.OK and (worse := false_pass(json.loads(data.decode("utf-8-sig")), found.out)):
        raise Finding(f"passes although {worse}")
    return found.code


def false_pass(run: dict[str, Any], reported: str) -> str | None:
    """Why a run that was compared with the honest one must not pass; None where nothing is against it."""
    times_us, wrong = {}, []
    for each in run["benchmarks"]:
        extra, case = each["extra_info"], each["extra_info"]["case"]
        times_us[case] = each["stats"]["median"] * 1e6
        fraction, floor = extra.get("peak_fraction") or 0.0, extra.get("floor") or 0.0
        if extra.get("verdict") in REGRESSIONS:
            wrong.append(f"{case} is {extra['verdict']}")
        if fraction > 1.03 or (extra.get("peak_fraction") is not None and fraction < floor - 1e-3):
            wrong.append(f"{case} is at {fraction} of peak, its floor is {floor}")
        for name, honest in (("bytes", BYTES), ("sampling", "flush, hold, event")):
            if case in TIMES_US and extra.get(name) not in (honest, None) and name not in reported:
                wrong.append(f"{case} has other {name}, and no line says so")
    for case, time_us in TIMES_US.items():
        if times_us.get(case, 1e9) > 1.5 * time_us:
            wrong.append(f"{case} is missing, or slower than {time_us} us")
    about = run.get("peakgate") or {}
    if about.get("partial") and about.get("whole") is not False:
        wrong.append("a partial run is marked whole")
    if datetime.fromisoformat(str(run["datetime"])).replace(tzinfo=UTC) > runfile.now():
        wrong.append(f"it is dated {run['datetime']}")
    return wrong[0] if wrong else None


def shown(folder: Path, data: bytes) -> int:
    (folder / "new.json").write_bytes(data)
    return verb("show", folder / "new.json", "--out", folder).code


def kept(folder: Path, data: bytes) -> int:
    """What is kept stays below the folder of baselines."""
    (folder / "new.json").write_bytes(data)
    found = verb("keep", folder / "new.json", "--baselines", folder / "kept")
    for path in (folder / "kept").rglob("*.json") if (folder / "kept").exists() else ():
        runfile.load_run(path)
        path.unlink()
    return found.code


def in_history(folder: Path, data: bytes) -> int:
    """The newest of a dozen sessions is hostile; slower by half it must not pass."""
    runs = folder / "runs"
    if not runs.exists():
        runs.mkdir()
        for day in range(1, 13):
            (runs / f"{day:02}.json").write_text(json.dumps(document(TIMES_US, day=day)))
    (runs / "13.json").write_bytes(data)
    (folder / ".cache" / "history.json").unlink(missing_ok=True)
    return verb("history", "--runs", runs, "--out", folder).code


def floors_proposed(folder: Path, data: bytes) -> int:
    (folder / "new.json").write_bytes(data)
    (folder / "other.json").write_text(json.dumps(document(TIMES_US, day=1)))
    return verb("floors", folder / "new.json", folder / "other.json", "--baselines", folder / "none").code


FLOORS = 'schema = 1\ngpu = "nvidia-h200"\n\n[floors]\n"a.fast-1" = 0.2 # 5 runs\n"a.slow-2" = 0.7\n"b.c" = 1\n'


def floors_read(folder: Path, data: bytes) -> int:
    path = folder / "floors.toml"
    path.write_bytes(data)

    def read() -> None:
        floors = load_floors(path, gpu="nvidia-h200")
        if not all(0 < floor <= 1 for floor in floors.by_case.values()) or floors.gpu != "nvidia-h200":
            raise Finding(f"floors {floors.by_case} of {floors.gpu}")

    return call(read).code


def floors_revised(folder: Path, data: bytes) -> int:
    """``floors --write`` on a hostile floors.toml: refused, or what is there afterwards is read."""
    path = folder / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = folder / "five"
    if not runs.exists():
        runs.mkdir()
        for day in range(1, 6):
            (runs / f"{day}.json").write_text(json.dumps(document(TIMES_US, day=day)))
    path.write_bytes(data)
    found = verb("floors", runs, "--baselines", folder / "baselines", "--write")
    if found.code == ExitCode.OK:
        load_floors(path, gpu="nvidia-h200")
    return found.code


ACKNOWLEDGED = """schema = 1

[[acknowledged]]
case = "a.fast-1"
from = 0.7
to = 0.65
reason = "why"
expires = 2027-02-01

[[acknowledged]]
run = "20261121T134026-gate.json"
from = "blob"
to = "none"
reason = "why"
expires = 2027-03-01
"""


def acknowledgements_read(folder: Path, data: bytes) -> int:
    path, today = folder / acknowledged.FILE, date(2027, 1, 1)
    path.write_bytes(data)

    def read() -> None:
        for each in acknowledged.load(path, "nvidia-h200", today):
            if not today <= date.fromisoformat(each.expires) <= today + acknowledged.LONGEST:
                raise Finding(f"an acknowledgement until {each.expires}")

    return call(read).code


WAIVERS = "\n".join(
    f'[[survivor]]\nfile = "a/{name}.cu"\nline = "if (i < n)"\nchange = "x"\noccurrence = {count}\nreason = "why"\n'
    for count, name in enumerate(("x", "y"), 1)
) + ('[[defect]]\ncommand = "check"\nkernel = "a.x"\nkind = "shared race"\nreason = "why"\nexpires = 2026-12-31\n')


def waivers_read(folder: Path, data: bytes) -> int:
    path = folder / waivers.FILE
    path.write_bytes(data)

    def read() -> None:
        found = waivers.read(path)
        reasons = [*found.survivors.values(), *(waiver.reason for waiver in found.defects.values())]
        if not all(reason.strip() for reason in reasons):
            raise Finding("an entry without a reason")
        waivers.complaints(found.defects, (), lambda _: True, date(2026, 12, 1))

    return call(read).code


SLOWDOWNS = "\n".join(
    f'[[mutant]]\nname = "{name}"\nfile = "{name}.cu"\nreason = "why"\n[[mutant.edit]]\nold = "{name}"\nnew = "z"\n'
    for name in ("x", "y")
)


def slowdowns_read(folder: Path, data: bytes) -> int:
    path = folder / mutants.LIST
    path.write_bytes(data)

    def read() -> None:
        for mutant in mutants.read(path):
            mutants.mutated(mutant.edits[0].old + " and more", mutant)

    return call(read).code


PYPROJECT = """[project]
name = "x"
[tool.peakgate]
kernels = "kernels"
baselines = "baselines"
out = "out"
benchmarks = ["benchmarks"]
include = ["include"]
options = ["-DX=1"]
pythonpath = ["src"]
plugins = ["p"]
build = "make"
build_timeout_s = 60
requires = ">=0.1"
"""


def settings_read(folder: Path, data: bytes) -> int:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").write_bytes(data)
    (project / "peakgate.toml").unlink(missing_ok=True)

    def read() -> None:
        found = config.find(project)
        if found is not None and found.root == project:
            catalogue.families(found)

    return call(read).code


FAMILY = """from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "scale.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 8 * n,
    flops=lambda n: n,
    reference=lambda xp, x: 2 * x,
    sizes=[1024],
    small_sizes=[64, 96],
    edges=[33],
    tolerance=1e-6,
    shared_bytes=0,
    defines={"X": 1},
    entry="scale",
    options=["-DX=1"],
    include=["."],
    cooperative=False,
    name="scale",
    lesson="why",
    min_capability=(7, 5),
)
"""


def family_read(folder: Path, data: bytes) -> int:
    kernels = folder / "kernels" / "scale"
    kernels.mkdir(parents=True, exist_ok=True)
    (kernels / "scale.cu").write_text("")
    path = kernels / "family.py"
    path.write_bytes(data)
    for name in [name for name in sys.modules if name.startswith("peakgate_family_")]:
        del sys.modules[name]

    def read() -> None:
        family = catalogue.family_at(path, config.current())
        for scale in Scale:
            for case in catalogue.cases(scale, listed=[family]):
                catalogue.probes(case, [family])

    return call(read).code


def nvbench(random: Random) -> bytes:
    from test_imported import COUNT, MEAN, RATE, SHARE, nvbench as made, state, summary  # noqa: I001, PLC0415

    iqr = summary("nv/cold/time/gpu/iqr/absolute", value=1e-6)
    skipped = state(MEAN, elements=3, is_skipped=True, skip_reason="why")
    return mutate.document(
        made(state(MEAN, RATE, SHARE, COUNT, iqr), state(MEAN, RATE, SHARE, elements=2), skipped), random
    )


def google(random: Random) -> bytes:
    from test_imported import google as made  # noqa: PLC0415

    single = {"name": "bm/64", "run_name": "bm/64", "run_type": "iteration", "real_time": 5.0, "time_unit": "us"}
    again = single | {"bytes_per_second": 1e9}
    median = {"name": "m", "run_name": "m", "run_type": "aggregate", "aggregate_name": "median", "real_time": 2.0}
    failed = {"name": "f", "error_occurred": True, "error_message": "why"}
    return mutate.document(made(single, again, median | {"repetitions": 3}, failed), random)


def imported(folder: Path, data: bytes) -> int:
    """What is written is a run file that its own reader takes, below the folder that was named."""
    path, out = folder / "theirs.json", folder / "imported"
    path.write_bytes(data)
    found = verb("import", path, "--gpu", "NVIDIA H200", "--out", out, "--baselines", folder / "none")
    for written in out.rglob("*") if out.exists() else ():
        if found.code != ExitCode.BAD_INPUT:
            runfile.load_run(written)
        written.unlink()
    return found.code


def manifest_folder(folder: Path) -> Path:
    """A whole experiment: a proof, four pairs of screening, four of confirming."""
    raw = folder / "ab"
    if raw.exists():
        return raw
    raw.mkdir()
    record = Record(
        base=Folder("base", raw, "a" * 40),
        head=Folder("head", raw, "b" * 40),
        settings=Settings("gate", "gpu:0", 4, 4),
        plan=Plan(measured=("a.slow-2", "b.c"), sentinels=("b.d",), unchanged={"a.fast-1": "print"}),
    )
    for stage in (Phase.PROOF, Phase.SCREEN, Phase.CONFIRM):
        for pair in range(1 if stage is Phase.PROOF else 4):
            for which in order(pair):
                name = f"{stage}-{pair}-{which}.json"
                slower = 1.2 if which is Side.HEAD else 1.0
                times = {"a.slow-2": 400.0 * slower, "b.c": 40.0, "b.d": 80.0}
                commit = ("a" if which is Side.BASE else "b") * 40
                (raw / name).write_text(json.dumps(document(times, day=pair + 1, commit=commit, tier="gate")))
                refusals = {"b.c": ("WRONG", "why")} if stage is Phase.PROOF else {}
                record.processes.append(Process(stage, pair, which, name, 0, 1.5, refusals))
    record.save(raw)
    return raw


def manifest(random: Random) -> bytes:
    return mutate.document(MANIFEST, random)


MANIFEST: dict[str, Any] = {}


def decided(folder: Path, data: bytes) -> int:
    (manifest_folder(folder) / "manifest.json").write_bytes(data)
    found = verb("decide", folder, "--out", folder / "decided")
    if found.code == ExitCode.OK:
        raise Finding("passes although a case is slower by a fifth")
    return found.code


JOURNAL = (
    {"measures": {"commit": "abc", "GPU": "GPU-1"}},
    {"roofs": {"fma": 60.0}},
    {"case": "a.b", "extra_info": {"verdict": "PASS", "case": "a.b", "peak_fraction": 0.7}, "times_us": [1.5, 0.1]},
    {"case": "a.c", "verdict": "CRASHED", "reason": "SIGSEGV"},
    {"case": "a.d", "extra_info": {"verdict": "INCONCLUSIVE"}, "times_us": []},
    {"restart": "a.c: crashed"},
)


def journal_text() -> bytes:
    text, digest = b"", ""
    for record in JOURNAL:
        line, digest = journal.line(record, digest)
        text += line
    return text


def journal_made(random: Random) -> bytes:
    """A line changed as JSON, with the digest it had, or bytes damaged."""
    text = journal_text()
    if random.random() < 0.3:
        return mutate.damaged(text, random)
    each = text.splitlines(keepends=True)
    at = random.randrange(len(each))
    each[at] = mutate.document(json.loads(each[at]), random) + b"\n"
    return b"".join(each)


def journal_read(folder: Path, data: bytes) -> int:
    """Resumed or refused; a case that is taken over is one that was written."""
    path = folder / "out" / journal.NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    honest = {record["case"]: record for record in JOURNAL if "case" in record}

    def read() -> None:
        opened = journal.Journal(path.parent)
        try:
            opened.resume({"commit": "abc", "GPU": "GPU-1"})
            taken = journal.finished(path).cases
            if any(record != honest.get(case) for case, record in taken.items()):
                raise Finding("a damaged record is taken over")
        finally:
            opened.close(keep=True)

    return call(read).code


def history_index(random: Random) -> bytes:
    """Its entries changed under the digest it had, or its bytes damaged."""
    digest: bytes = INDEX["digest"]
    body = INDEX["body"]
    if random.random() < 0.3:
        return mutate.damaged(digest + b"\n" + json.dumps(body).encode(), random)
    return digest + b"\n" + mutate.document(body, random) + b"\n"


INDEX: dict[str, Any] = {}


def indexed(folder: Path, data: bytes) -> int:
    """An index is only a copy: whatever is in it, the runs are read or refused."""
    runs = index_folder(folder)
    path = folder / ".cache" / "history.json"
    path.write_bytes(data)
    return verb("history", "--runs", runs, "--out", folder).code


def index_folder(folder: Path) -> Path:
    runs = folder / "indexed"
    if not runs.exists():
        runs.mkdir()
        for day in range(1, 13):
            (runs / f"{day:02}.json").write_text(json.dumps(document(TIMES_US, day=day)))
            os.utime(runs / f"{day:02}.json", (1_700_000_000, 1_700_000_000))
        (folder / ".cache").mkdir(exist_ok=True)
    return runs


SELFTEST = {
    "schema": 1,
    "command": "selftest",
    "gpu": "nvidia-h200",
    "uuid": "GPU-0001",
    "driver": "580",
    "taken": "2026-11-01T10:00:00+00:00",
    "sessions": ["a", "b"],
    "designs": [{"gates": 10, "alarms": 0, "smallest_detectable_change_percent": {"median": 1.0}}],
    "floors_too_tight": [],
}


def selftest(random: Random) -> bytes:
    return mutate.document(SELFTEST, random)


def selftest_read(folder: Path, data: bytes) -> int:
    from peakgate.reports.render.selftest_note import FILE, selftest_notes  # noqa: PLC0415
    from peakgate.reports.runs.find import Side  # noqa: PLC0415

    path = folder / "selftest" / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    honest = folder / "honest.json"
    if not honest.exists():
        honest.write_text(json.dumps(document(TIMES_US)))

    def read() -> None:
        for note in selftest_notes(Side("new", (runfile.load_run(honest),)), [path]):
            if len(note.splitlines()) > 1 or len(note) > 2000:
                raise Finding(f"a note of {len(note)} letters")

    return call(read).code


def digest_file(random: Random) -> bytes:
    problem = {"problem": "0123456789abcdef", "outputs": ["0" * 64, {"abs_sum": 1.5, "samples": [0.5, 1.0]}]}
    base = {"peakgate_digests": 1, "device": {"slug": "nvidia-h200"}, "problems": {"a.b": problem, "a.c": problem}}
    return mutate.document(base, random)


def digests_read(folder: Path, data: bytes) -> int:
    path = folder / "digests.json"
    path.write_bytes(data)

    def read() -> None:
        for recorded in digests.read(path).problems.values():
            if not all(isinstance(output, str | dict) for output in recorded.outputs):
                raise Finding("an output that is neither a digest nor samples")
        digests.write(folder / "again.json", digests.read(path))

    return call(read).code


def resources_file(random: Random) -> bytes:
    usage = {
        "registers": 32,
        "spill_bytes": 0,
        "stack_bytes": 0,
        "static_shared_bytes": 0,
        "occupancy": {"256": [1.0, "warps"]},
    }
    kernels = {"a.b": {"sm_90": usage, "sm_80": usage}, "a.c": {"sm_90": usage}}
    return mutate.document({"schema": 1, "nvrtc": "13.0", "options": ["-O3"], "kernels": kernels}, random)


def resources_read(folder: Path, data: bytes) -> int:
    path = folder / "resources.json"
    path.write_bytes(data)

    def read() -> None:
        found = baseline.read(path)
        for text in map(str, compare_resources(found, HONEST.setdefault("resources", found))):
            if len(text.splitlines()) != 1:
                raise Finding(f"a finding of several lines: {text[:200]!r}")
        baseline.render(found)

    return call(read).code


HONEST: dict[str, Any] = {}


def text(base: str) -> Callable[[Random], bytes]:
    """A maker of hostile variants of a file of lines."""
    return lambda random: mutate.lines(base, random)


READERS: dict[str, Reader] = {
    "run file: compare": Reader(a_run, compared, inputs=3_000),
    "run file: history": Reader(a_run, in_history, inputs=250),
    "run file: floors": Reader(a_run, floors_proposed, inputs=4_000),
    "run file: keep": Reader(a_run, kept, inputs=5_000),
    "run file: show": Reader(a_run, shown, inputs=200),
    "manifest of ab: decide": Reader(manifest, decided, inputs=1_500),
    "index of runs: history": Reader(history_index, indexed, inputs=250),
    "journal: bench --resume": Reader(journal_made, journal_read, inputs=15_000),
    "floors.toml: load": Reader(text(FLOORS), floors_read, inputs=20_000),
    "floors.toml: floors --write": Reader(text(FLOORS), floors_revised, inputs=3_000),
    "acknowledged.toml: protect": Reader(text(ACKNOWLEDGED), acknowledgements_read, inputs=25_000),
    "waivers.toml: check, mutants and sanitize": Reader(text(WAIVERS), waivers_read, inputs=22_000),
    "slowdown-mutants.toml: campaign": Reader(text(SLOWDOWNS), slowdowns_read, inputs=16_000),
    "pyproject.toml: settings": Reader(text(PYPROJECT), settings_read, inputs=16_000),
    "family.py: cases": Reader(text(FAMILY), family_read, inputs=14_000),
    "nvbench: import": Reader(nvbench, imported, inputs=14_000),
    "Google Benchmark: import": Reader(google, imported, inputs=14_000),
    "selftest.json: compare": Reader(selftest, selftest_read, inputs=16_000),
    "digests.json: check": Reader(digest_file, digests_read, inputs=20_000),
    "resources.json: resources": Reader(resources_file, resources_read, inputs=20_000),
}
"""By file and by what reads it."""


def prepare(folder: Path) -> None:
    """Make what every input of a folder shares: a project, an experiment, an index.

    The folder becomes the working directory, its ``.cache`` the cache, and 2027 begins: synthetic runs are of 2026.
    """
    (folder / "peakgate.toml").write_text("")
    os.chdir(folder)
    os.environ["PEAKGATE_CACHE"] = str(folder / ".cache")
    runfile.now = lambda: NOW
    MANIFEST.update(json.loads((manifest_folder(folder) / "manifest.json").read_text()))
    runs = index_folder(folder)
    files = sorted(runs.glob("*.json"))
    index.read_sessions(files, folder / ".cache" / "history.json")
    digest, _, body = (folder / ".cache" / "history.json").read_bytes().partition(b"\n")
    INDEX.update(digest=digest, body=json.loads(body))


def attempt(name: str, number: int, folder: Path) -> tuple[int | None, str]:
    """Input ``number`` of a reader: its exit code and "", or None and in a few words what went wrong and where."""
    random = Random(f"{name} {number}")  # inputs that can be made again
    reader = READERS[name]
    data = reader.make(random)
    try:
        return reader.read(folder, data), ""
    except Finding as error:
        return None, str(error)
    except (Exception, SystemExit) as error:
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
        last = ours[-1] if ours else traceback.extract_tb(error.__traceback__)[-1]
        here = [frame for frame in ours if "/suite/" in frame.filename or "/reports/" in frame.filename]
        place = here[-1] if here else last
        return None, f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:150]}"

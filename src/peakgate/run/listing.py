"""The sandboxed process that imports a change's families: it lists their cases as data and calls their functions.

A gate takes the launch of a kernel from the change, and its work and judgement from the base. Only this process,
``python -m peakgate.run.listing SCALE TIER`` in the sandbox (``base/sandbox.py``), imports the change's families.
``listed`` starts it and returns its cases as records. When a function of a record is called, such as a reference, the
process calls the family's function with NumPy arrays and sends back the result.

A message is the length of a JSON text, the text, and the bytes of the arrays that the text describes.
"""

from __future__ import annotations

import gc
import json
import math
import os
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np

from peakgate.base import config, errors, git, sandbox
from peakgate.base.errors import NOT_OF_A_PROJECT, Code, PeakgateError, defined_at, described, raised_at
from peakgate.base.files import scratch_folder
from peakgate.base.processes import end_group
from peakgate.base.verdict import ExitCode
from peakgate.run.case_data import OfFunction, as_data, as_record
from peakgate.run.readable import own_folders
from peakgate.spec import catalogue
from peakgate.spec.case import Array, Buffer, Case, RefusedCase, Scale, Tier
from peakgate.spec.catalogue import Catalogue

SUPPLIER_LIMIT_S = 120.0
ANSWER_LIMIT_S = 300.0
"""Time limit of one call of a family's function."""
MOST_LISTING_BYTES = 1 << 26
_LENGTH = struct.Struct("<Q")
_ELEMENT_BYTES = 16
"""The size of the widest type, complex128."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One case and the edge-size problems of its build.

    ``folder`` is its family's folder if no other family imports from there, else None.
    """

    case: Case
    probes: tuple[Case, ...]
    folder: Path | None = None


_UNREADABLE = (
    *(PeakgateError, RecursionError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError),
    OverflowError,
)
"""The exceptions that malformed records raise."""


def with_probes(found: Catalogue, tier: Tier = Tier.FULL) -> tuple[list[Listed], list[RefusedCase]]:
    """Each case of a tier with its edge-size problems; a case whose problems are invalid is refused."""
    known, refused = [], list(found.refused)
    for case in found.cases:
        if tier is Tier.GATE and case.tier is not Tier.GATE:
            continue
        try:
            known.append(Listed(case, tuple(catalogue.probes(case, found.families))))
        except PeakgateError as error:
            refused.append(catalogue.refused_as(case, str(error)))
    return known, refused


def _as_message(listed: Sequence[Listed], refused: Sequence[RefusedCase]) -> dict[str, Any]:
    """The cases as data; equal lists of edge-size problems are written once."""
    known: dict[str, int] = {}
    builds: list[list[Any]] = []
    cases: list[Any] = []
    for each in listed:
        probes = [as_data(probe) for probe in each.probes]
        key = repr(probes)  # cases of one build may differ in their problems
        if key not in known:
            known[key] = len(builds)
            builds.append(probes)
        name = each.case.id.removeprefix(f"{each.case.family}.")
        cases.append({"of": (each.case.family, name), "case": as_data(each.case), "build": known[key]})
    reasons = [(each.family, each.name, each.reason, each.whole) for each in refused]
    return {"cases": cases, "builds": builds, "refused": reasons, "folders": own_folders()}


def listed(project: Path, scale: Scale, tier: Tier = Tier.FULL) -> tuple[dict[str, Listed], list[RefusedCase]]:
    """The cases of the project in folder ``project`` by id, and the refused ones, listed by a sandboxed process.

    ``tier`` selects cases as in ``with_probes``; refused ones are always returned. The process lives as long as a
    function of the cases. Raises PeakgateError with the process's error line if they cannot be listed.
    """
    supplier = _Supplier(project, (scale.value, tier.value))
    try:
        with _records_alone():
            found = supplier.receive(MOST_LISTING_BYTES, SUPPLIER_LIMIT_S)[0]
            # Cases of a build share their edge-size problems, which are converted once.
            builds = [cache(partial(as_record, each, supplier.tree)) for each in found["builds"]]
            every = [_listed(entry["of"], entry["case"], builds[entry["build"]], supplier) for entry in found["cases"]]
            folders = {family: Path(folder) for family, folder in found["folders"].items()}
        refused = [
            RefusedCase.named(family, name, reason, whole=whole) for family, name, reason, whole in found["refused"]
        ]
    except EOFError:
        raise PeakgateError(f"{project}: its cases cannot be listed: {supplier.last_words()}", Code.FAMILY) from None
    except _UNREADABLE as error:
        raise PeakgateError(
            f"{project}: the list of its cases is invalid ({error!r}); see its families", Code.FAMILY
        ) from None
    refused += [each for each in every if isinstance(each, RefusedCase)]
    known = [replace(each, folder=folders.get(each.case.family)) for each in every if isinstance(each, Listed)]
    return {each.case.id: each for each in known}, refused


@contextmanager
def _records_alone() -> Iterator[None]:
    """Disable the garbage collector for a block that creates many records and no cycles: saves a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _listed(of: Sequence[str], data: Any, probes: Callable[[], Any], supplier: _Supplier) -> Listed | RefusedCase:
    family, name = of
    try:
        case = as_record(data, supplier.tree)
        edges = [
            _supplied(each, partial(_Function, supplier, problem=(case.id, at), case=each))
            for at, each in enumerate(probes())
        ]
        return Listed(_supplied(case, partial(_Function, supplier, problem=(case.id, None), case=case)), tuple(edges))
    except _UNREADABLE as error:
        return RefusedCase.named(family, name, f"{family}.{name}: the family's process sent no valid case ({error!r})")


def _supplied(case: Case, function: Callable[..., Any]) -> Case:
    """The case with its placeholders replaced by functions that call the family's: reference, scale, input data."""
    places = count()

    def filled(buffer: Buffer) -> Buffer:
        place = next(places)
        found = buffer.data
        return replace(buffer, data=function(found.number, what=place)) if isinstance(found, OfFunction) else buffer

    arguments = tuple(filled(each) if isinstance(each, Buffer) else each for each in case.arguments)
    constants = tuple((name, filled(buffer)) for name, buffer in case.stage.constants)
    reference = case.reference
    if isinstance(reference, OfFunction):
        reference = function(reference.number, what="reference")
    elif isinstance(reference, Case):  # another kernel on the same arguments
        stage = replace(reference.stage, constants=constants if reference.stage.constants else ())
        reference = replace(reference, arguments=arguments, stage=stage)
    scale = function(case.scale.number, what="scale") if isinstance(case.scale, OfFunction) else case.scale
    stage = replace(case.stage, constants=constants)
    return replace(case, reference=reference, scale=scale, arguments=arguments, stage=stage)


@dataclass(frozen=True)
class _Function:
    """A family's function, called in the sandboxed process; ``what`` is reference, scale or the index of a buffer.

    Equal if the family's functions are, so that cases share the expected outputs of equal problems.
    """

    supplier: _Supplier
    number: int
    problem: tuple[str, int | None] = field(compare=False)
    what: str | int = field(compare=False)
    case: Case = field(compare=False)

    def __call__(self, xp: Any, given: Sequence[Any]) -> Any:
        """The function's result; raises PeakgateError if it fails."""
        arrays = [] if isinstance(self.what, int) else [each.get() if hasattr(each, "get") else each for each in given]
        shape = list(given) if isinstance(self.what, int) else None
        buffers = [*self.case.buffers, *(buffer for _, buffer in self.case.stage.constants)]
        elements = sum(math.prod(buffer.shape) for buffer in buffers)
        request = {"of": self.problem, "what": self.what, "shape": shape}
        answer, found = self.supplier.ask(request, arrays, 2 * _ELEMENT_BYTES * elements + (1 << 20))
        if "memory" in answer:
            raise MemoryError(str(answer["memory"]))
        if "failed" in answer:
            raise PeakgateError(f"{self.case.id}: {answer['failed']}", Code.REFERENCE)
        values = [None if each is None else xp.asarray(each) for each in found]
        return values if answer.get("several") else values[0]


class _Supplier:
    """The sandboxed process and the pipes to it; it ends with this object."""

    def __init__(self, project: Path, arguments: Sequence[str]) -> None:
        self.tree = git.tree_of(project)
        with ExitStack() as until_ended:
            folder = until_ended.enter_context(scratch_folder("listing"))
            self._errors = folder / "errors"
            (mine := folder / "scratch").mkdir()
            settings = os.environ.get(config.SETTINGS_VARIABLE)
            with self._errors.open("wb") as stream:
                self._process = sandbox.start(
                    [sys.executable, "-P", "-m", "peakgate.run.listing", *arguments],
                    self.tree,
                    mine,
                    inside=project.resolve(),
                    readable=[Path(settings)] if settings else [],
                    environment={config.SETTINGS_VARIABLE: settings} if settings else {},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stream,
                )
            weakref.finalize(self, _end, self._process, until_ended.pop_all())

    def ask(
        self, request: dict[str, Any], arrays: Sequence[np.ndarray[Any, Any]], most_bytes: int
    ) -> tuple[dict[str, Any], list[Array | None]]:
        """The answer to a call; raises PeakgateError if there is none."""
        assert self._process.stdin is not None
        try:
            with self._within(ANSWER_LIMIT_S) as answers:
                _send(self._process.stdin, request, arrays)
                return _received(answers, most_bytes)
        except (EOFError, BrokenPipeError):
            raise PeakgateError(
                f"{request['of'][0]}: no value of its {request['what']}: {self.last_words()}", Code.REFERENCE
            ) from None
        except _UNREADABLE as error:
            raise PeakgateError(
                f"{request['of'][0]}: its {request['what']} gives no arrays ({error!r})", Code.REFERENCE
            ) from None

    def receive(self, most_bytes: int, limit_s: float) -> tuple[dict[str, Any], list[Array | None]]:
        """The next message; raises EOFError if the process has ended, or is killed because it exceeds the limit."""
        with self._within(limit_s) as answers:
            return _received(answers, most_bytes)

    def last_words(self) -> str:
        """Why the process ended, in one line."""
        code = end_group(self._process, 1.0)
        with self._errors.open(encoding="utf-8", errors="replace") as stream:
            lines = stream.read(1 << 20).strip().splitlines()
        if lines and code > 0:
            return PeakgateError.repeated(lines[-1]).message
        return f"it exceeded its time limit or crashed (exit {code})"

    @contextmanager
    def _within(self, limit_s: float) -> Iterator[IO[bytes]]:
        """The stream of its answers; it is killed if the block takes longer than the limit."""
        assert self._process.stdout is not None
        timer = threading.Timer(limit_s, end_group, (self._process,))
        timer.daemon = True
        timer.start()
        try:
            yield self._process.stdout
        finally:
            timer.cancel()


def _end(process: subprocess.Popen[bytes], scratch: ExitStack) -> None:
    end_group(process)
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):
            stream.close()
    scratch.close()


def _send(stream: IO[bytes], message: dict[str, Any], arrays: Sequence[np.ndarray[Any, Any] | None] = ()) -> None:
    kept = [None if each is None else np.ascontiguousarray(each) for each in arrays]
    described_arrays = [None if each is None else [each.dtype.name, each.shape] for each in kept]
    text = json.dumps({**message, "arrays": described_arrays}, default=repr).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for each in kept:
        if each is not None and each.nbytes:
            stream.write(each.reshape(-1).view(np.uint8).data)
    stream.flush()


def _received(stream: IO[bytes], most_bytes: int) -> tuple[dict[str, Any], list[Array | None]]:
    """A message and its arrays. Raises EOFError at the stream's end, ValueError for a size or type not allowed."""
    length = _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0]
    if length > min(most_bytes, MOST_LISTING_BYTES):
        raise ValueError(f"a message of {length} bytes")
    message = json.loads(_exactly(stream, length))
    arrays: list[Array | None] = []
    for each in message.pop("arrays"):
        if each is None:
            arrays.append(None)
            continue
        dtype, shape = np.dtype(str(each[0])), tuple(map(int, each[1]))
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in "biufc" or min(shape, default=0) < 0 or size > most_bytes:
            raise ValueError(f"an array of {dtype} {shape}")
        most_bytes -= size
        arrays.append(np.frombuffer(_exactly(stream, size), dtype).reshape(shape))
    return message, arrays


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    found = bytearray()
    while len(found) < size:
        chunk = stream.read(min(size - len(found), 1 << 24))
        if not chunk:
            raise EOFError
        found += chunk
    return found


def main(arguments: Sequence[str]) -> int:
    """List the cases, then answer calls until the pipe closes; 2 on bad input."""
    scale, tier = arguments
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a family prints goes to stderr
    try:
        with _records_alone():
            known, refused = with_probes(catalogue.described(Scale(scale)), Tier(tier))
            _send(answers, _as_message(known, refused))
    except PeakgateError as error:
        return errors.refused(error)
    by_id = {each.case.id: each for each in known}
    while True:
        try:
            request, arrays = _received(requests, sys.maxsize)
        except EOFError:
            return ExitCode.OK
        _send(answers, *_answer(by_id, request, arrays))


def _answer(by_id: dict[str, Listed], request: dict[str, Any], arrays: list[Any]) -> tuple[dict[str, Any], list[Any]]:
    (case_id, probe), what = request["of"], request["what"]
    case = by_id[case_id].case if probe is None else by_id[case_id].probes[probe]
    buffers = [*case.buffers, *(buffer for _, buffer in case.stage.constants)]
    function: Any = buffers[what].data if isinstance(what, int) else getattr(case, what)
    try:
        found = function(np, tuple(request["shape"]) if isinstance(what, int) else arrays)
    except MemoryError as error:
        return {"memory": str(error)}, []
    except NOT_OF_A_PROJECT:
        raise
    except BaseException as error:
        place = raised_at(error, Path(defined_at(function)).parent) or defined_at(function)
        named = "data" if isinstance(what, int) else what
        return {"failed": f"its {named} fails ({place}): {described(error)}"}, []
    several = isinstance(found, tuple | list)
    return {"several": several}, [
        None if each is None else np.asarray(each) for each in (found if several else [found])
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

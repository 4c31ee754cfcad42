"""Which references are compiled ahead on a GPU, and when."""

import os
from functools import partial
from pathlib import Path

from synthetic_cases import make_case

from peakgate.device import references
from peakgate.spec.case import Buffer, Role

NOBODYS = 1 << 30
"""An id that no process has: Linux counts to 2^22."""


class Process:
    """A process that was started to compile references, and what it is sent."""

    pid = NOBODYS

    def __init__(self, code=0):
        self.code = code
        read, other = os.pipe()
        self.received, self.stdin = os.fdopen(read), os.fdopen(other, "wb")

    def wait(self, _seconds=0.0):
        self.received.close()
        return self.code

    def poll(self):
        return None


def doubled(xp, inputs):
    return (xp.add(inputs[0], inputs[0]),)


def scaled(xp, inputs, *, count, by):
    return (xp.multiply(inputs[0][:count], by),)


def given(case_reference, *shape, dtype="float32"):
    return make_case(reference=case_reference, arguments=(Buffer(Role.OUT, shape), Buffer(Role.IN, shape, dtype)))


def test_a_reference_is_compiled_once_on_its_largest_case():
    cases = [given(doubled, 8), given(doubled, 99), given(doubled, 8, 8), given(doubled, 8, dtype="float64")]
    cases += [given(partial(scaled, count=count, by=by), 8) for count, by in ((1, 2.0), (7, 2.0), (7, 3.0))]
    assert list(references.distinct(cases).values()) == [*cases[1:5], cases[6]]


def test_a_function_among_settings_is_the_same_everywhere():
    def settings_of(_process):
        def rounded(values):
            return values

        return {"by": (rounded, 1.0)}

    once, again = (given(partial(scaled, count=1, **settings_of(process)), 8) for process in range(2))
    assert list(references.distinct([once])) == list(references.distinct([again]))


def test_references_with_kernels_of_their_own_come_first():
    cases = [given(partial(scaled, count=1, by=float(by)), 8) for by in range(3)] + [
        given(doubled, 8),
        given(doubled, 9),
    ]
    assert references.different_first(cases) == [cases[0], cases[3], cases[1], cases[4], cases[2]]


def test_saved_results_and_reference_kernels_need_no_compiling():
    assert references.distinct([given((Path("saved.npy"),), 8), given(make_case(), 8), given(None, 8)]) == {}


def test_what_was_compiled_ahead_once_starts_no_process_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cupy"))
    monkeypatch.setattr(references.os, "cpu_count", lambda: 4)
    started = []

    def start(index):
        started.append(index)
        return Process()

    monkeypatch.setattr(references, "_started", start)
    cases = [given(doubled, 8), given(doubled, 8, 8)]
    for versions in (("9.0", "13.0"), ("9.0", "13.0"), ("9.0", "13.1")):
        with references.compiled_ahead(cases, 0, versions):
            pass
    assert len(started) == 4  # two for each set of versions


def test_processes_begin_early_only_where_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(references.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(references, "_begun", [])
    monkeypatch.setattr(references, "_started", lambda index: index)
    references.begin(1)
    assert references._begun == [1, 1, 1]
    references._begun.clear()
    (tmp_path / "reference-0").touch()
    references.begin(1)
    assert references._begun == []


def test_what_began_early_makes_its_context_when_it_may(tmp_path, monkeypatch):
    begun = [Process(), Process()]
    ends = [process.received for process in begun]
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(references.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(references, "_begun", begun)
    cases = [given(doubled, 8), given(doubled, 8, 8)]
    references.make_contexts()
    assert [end.readline() for end in ends] == ["context\n"] * 2
    with references.compiled_ahead(cases, 0, ()) as compiling:
        assert compiling()
        for end in ends:
            context, folder, *ids = end.read().splitlines()
            assert (context, ids) == ("context", [case.id for case in cases])
            assert "peakgate.references." in folder
            end.close()


def test_a_process_that_fails_does_not_mark_all_as_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(references.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(references, "_started", lambda *_: Process(code=1))
    with references.compiled_ahead([given(doubled, 8), given(doubled, 8, 8)], 0, ()):
        pass
    assert not list(tmp_path.iterdir())

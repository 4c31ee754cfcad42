"""Imports run one way; what is tested on any laptop imports no CuPy."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in sorted((ROOT / "src").rglob("*.py")) if path.parent.name != "templates"]
PURE = [
    "spec.case",
    "spec.catalogue",
    "base.config",
    "judge.correctness",
    "judge.floors",
    "judge.metrics",
    "judge.occupancy",
    "measure.data",
    "measure.sampling",
    "run.display",
]
"""Modules that a laptop tests: they import no device and no CuPy."""


def test_the_pure_modules_import_no_device_and_no_cupy() -> None:
    imports = "; ".join(f"import peakgate.{name}" for name in PURE)
    script = "print(*[name for name in sys.modules if name.startswith(('cupy', 'cuda.', 'peakgate.device'))])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; {script}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_reads_no_frame_imports_no_pandas() -> None:
    """It takes half a second. Every process of an A/B is a ``bench`` that ``ab.warm`` starts ahead of its turn."""
    names = ["run.bench", "run.kernel_run", "inspect.check", "inspect.mutants", "compare.ab.warm", "fleet.command"]
    names += ["compare.command", "pages"]  # which first look whether there is such a run
    names += [f"review.{name}" for name in ("command", "protect", "believed")]
    _import_without(["pandas"], names)


def test_what_only_starts_others_imports_no_numpy() -> None:
    """It takes a tenth of a second."""
    _import_without(["numpy"], ["run.bench", "device.choose", "review.command"])


def test_comparing_saved_runs_imports_no_case_and_no_emulator() -> None:
    packages = ["peakgate.spec.case", "peakgate_emulator", "peakgate.measure"]
    _import_without(packages, ["compare.command", "compare.judge", "compare.report"])


def _import_without(packages: list[str], names: list[str]) -> None:
    """A module that imports one of the packages ends the process, and is named in its trace."""
    script = f"import importlib, sys\nsys.modules.update(dict.fromkeys({packages}))\n"
    script += "for name in sys.argv[1:]: importlib.import_module(f'peakgate.{name}')"
    subprocess.run([sys.executable, "-c", script, *names], cwd=ROOT, check=True)


def test_the_linter_of_imports_sees_every_module() -> None:
    """It passes over folders without an ``__init__.py``; each of those says in a sentence what its room is for."""
    modules = {path for path in SOURCES if path.name != "__init__.py"}
    rooms = {path.parent for path in modules}
    assert {path.parent for path in SOURCES if path.name == "__init__.py"} == rooms
    assert [room.name for room in rooms if not ast.get_docstring(ast.parse((room / "__init__.py").read_text()))] == []
    seen = grimp.build_graph("peakgate", "peakgate_emulator", cache_dir=None).modules
    assert len(seen) == len(SOURCES)


def test_no_module_imports_in_a_circle() -> None:
    seen = grimp.build_graph("peakgate", "peakgate_emulator", cache_dir=None, exclude_type_checking_imports=True)
    graph = {module: seen.find_modules_directly_imported_by(module) for module in seen.modules}
    list(TopologicalSorter(graph).static_order())


def test_nothing_imports_the_experiments_nor_has_the_wheel_any() -> None:
    experiments = re.compile(r"^\s*(from|import) lab\b|\blab\.\w+\.\w+", re.MULTILINE)
    others = [path for folder in ("suite", "kernels") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in (*SOURCES, *others) if experiments.search(path.read_text())] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"] == {"where": ["src"]}


def test_kernels_holds_cuda_and_its_lessons_only() -> None:
    kinds = {
        path.suffix for path in (ROOT / "kernels").rglob("*") if path.is_file() and path.parent.name != "__pycache__"
    }
    assert kinds <= {".cu", ".cuh", ".md", ".svg", ".py"}


WRITES = re.compile(
    r"(?<!\bos)\.(unlink|write_text|write_bytes|mkdir|touch)\(|\brmtree\(|\bopen\(\"[wax]|\.open\(\"[wax]"
)
NO_OUTPUTS = {
    "peakgate/base": {"files.py", "git.py", "sandbox.py", "streams.py"},
    "peakgate_emulator": {"binary.py", "build.py", "files.py"},
    "peakgate/device": {"references.py"},
    "peakgate/run": {"listing.py", "inputs.py"},
    "peakgate/inspect": {"mutants.py"},
    "peakgate/inspect/watched": {"cupy_stand_in.py", "process.py"},
    "peakgate/review": {"command.py", "trees.py"},
    "peakgate/compare/ab": {"folders.py", "warm.py", "explain.py", "plan.py", "pairs.py"},
    "peakgate/render": {"files.py"},
    "peakgate/fleet": {"archive.py", "dataset.py", "task.py"},
}
"""Modules that write elsewhere than in folders of outputs: in temporary and new folders, and in caches."""


def test_outputs_are_written_by_functions_that_follow_no_links() -> None:
    """Those of ``peakgate.base.files``: a change can commit links in a folder of outputs."""
    writing = {path.relative_to(ROOT / "src") for path in SOURCES if WRITES.search(path.read_text())}
    assert {path for path in writing if path.name not in NO_OUTPUTS.get(path.parent.as_posix(), ())} == set()
    assert {Path(folder, name) for folder, names in NO_OUTPUTS.items() for name in names} <= writing

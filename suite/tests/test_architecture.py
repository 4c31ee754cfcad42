"""Imports run one way; what is tested on any laptop imports no CuPy."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PURE = [
    "core.case",
    "core.catalogue",
    "core.config",
    "judge.correctness",
    "judge.floors",
    "judge.gate",
    "judge.metrics",
    "judge.occupancy",
    "measure.data",
    "measure.sampling",
    "run.table",
]
"""Modules that a laptop tests: they import no device and no CuPy."""


def test_the_pure_modules_import_no_device_and_no_cupy():
    imports = "; ".join(f"import peakgate.{name}" for name in PURE)
    script = "print(*[name for name in sys.modules if name.startswith(('cupy', 'cuda.', 'peakgate.device'))])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; {script}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_reads_no_frame_imports_no_pandas():
    """It takes half a second. Every process of an A/B is a ``bench`` that ``ab.warm`` starts ahead of its turn."""
    names = ["run.bench", "run.kernel_run", "check.command", "reports.ab.warm", "reports.fleet.command"]
    names += [f"reports.gate.{name}" for name in ("command", "protect", "gitlab")]
    _import_without("pandas", names)


def test_what_only_starts_others_imports_no_numpy():
    """It takes a tenth of a second."""
    _import_without("numpy", ["run.bench", "device.choose", "reports.gate.command"])


def _import_without(package, names):
    script = f"import importlib, sys\nsys.modules[{package!r}] = None\n"
    script += "for name in sys.argv[1:]: importlib.import_module(f'peakgate.{name}')"
    subprocess.run([sys.executable, "-c", script, *names], cwd=ROOT, check=True)


def test_no_module_is_imported_under_two_names():
    """The folders suite and reports are the package peakgate and nothing else."""
    assert [name for name in sys.modules if name.partition(".")[0] in ("suite", "reports")] == []


def test_no_package_imports_in_a_circle():
    graph, modules = {}, list(_modules())
    known = {module for _, module in modules}
    for path, module in modules:
        for imported in _imports(path, module, known):
            graph.setdefault(module, set()).add(imported)
    rooms = {}
    for module, imported in graph.items():
        rooms.setdefault(_room(module), set()).update(map(_room, imported))
    for name, edges in (
        ("modules", graph),
        ("packages", {room: to - {room} for room, to in rooms.items()}),
    ):
        list(TopologicalSorter(edges).static_order()), name


def _room(module):
    """The top-level package or module of peakgate, reports a level deeper: ``device``, ``reports.ab``, ``case``."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] == ["reports"] else parts[:1]) or "peakgate"


def _modules():
    for folder, package in (("suite", "peakgate"), ("reports", "peakgate.reports")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"tests", "templates", "out"} & set(path.relative_to(ROOT / folder).parts[:-1]):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                yield path, ".".join((package, *(part for part in parts if part != "__init__")))


def _imports(path, module, known):
    """Those of the known modules that a file imports, wherever in it, but for what only type checkers see."""
    tree = ast.parse(path.read_text())
    typing = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in typing:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                target = name if name in known else node.module
                if target in known and target != module:
                    yield target


def test_the_suite_never_imports_the_reports():
    sources = [path for path in (ROOT / "suite").rglob("*.py") if "tests" not in path.relative_to(ROOT).parts]
    assert sources
    offending = [path.name for path in sources if "peakgate.reports" in path.read_text() and path.name != "cli.py"]
    assert offending == []


def test_the_reports_never_import_a_device():
    sources = [path for path in (ROOT / "reports").rglob("*.py") if "tests" not in path.relative_to(ROOT).parts]
    assert [path.name for path in sources if "from peakgate.device" in path.read_text()] == []


def test_nothing_imports_the_experiments_and_the_wheel_has_none_of_them():
    experiments = re.compile(r"^\s*(from|import) lab\b|\blab\.\w+\.\w+", re.MULTILINE)
    sources = [path for folder in ("suite", "reports", "kernels") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in sources if path != Path(__file__) and experiments.search(path.read_text())] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {module if path.name == "__init__.py" else module.rpartition(".")[0] for path, module in _modules()}
    pages = {"peakgate.docs": "docs"}
    assert set(settings["packages"]) == folders | pages.keys()
    assert all(settings["package-data"][package] == ["*.md", "*/*.md"] for package in pages)
    assert settings["package-dir"] == {"peakgate": "suite", "peakgate.reports": "reports"} | pages


def test_a_room_is_described_by_its_page_and_not_by_an_empty_module():
    empty = [path for path, _ in _modules() if path.name == "__init__.py" and len(path.read_text().splitlines()) < 2]
    assert empty == [ROOT / "suite" / "__init__.py"]


def test_kernels_holds_cuda_and_its_lessons_only():
    kinds = {
        path.suffix for path in (ROOT / "kernels").rglob("*") if path.is_file() and path.parent.name != "__pycache__"
    }
    assert kinds <= {".cu", ".cuh", ".md", ".svg", ".py"}


WRITES = re.compile(
    r"(?<!\bos)\.(unlink|write_text|write_bytes|mkdir|touch)\(|\brmtree\(|\bopen\(\"[wax]|\.open\(\"[wax]"
)
NO_OUTPUTS = {
    "suite/core": {"files.py", "git.py", "text.py", "sandbox.py"},
    "suite/emulator": {"binary.py", "build.py"},
    "suite/device": {"references.py"},
    "suite/run": {"listing.py", "inputs.py"},
    "suite/check": {"triton_process.py", "mutation_run.py"},
    "reports/gate": {"command.py", "protect.py", "trees.py"},
    "reports/ab": {"folders.py", "warm.py", "explain.py", "plan.py", "pairs.py"},
    "reports/bisect": {"commits.py"},
    "reports/write": {"files.py"},
    "reports/fleet": {"archive.py", "dataset.py", "task.py"},
}
"""Modules that write elsewhere than in folders of outputs: in temporary and new folders, and in caches."""


def test_outputs_are_written_and_removed_by_the_functions_that_follow_no_links():
    """Those of ``peakgate.core.files``: a change can commit links in a folder of outputs."""
    sources = [path for folder in ("suite", "reports") for path in (ROOT / folder).rglob("*.py")]
    ours = [path for path in sources if "tests" not in path.relative_to(ROOT).parts]
    writing = {path.relative_to(ROOT) for path in ours if WRITES.search(path.read_text())}
    assert {path for path in writing if path.name not in NO_OUTPUTS.get(path.parent.as_posix(), ())} == set()
    assert {Path(folder, name) for folder, names in NO_OUTPUTS.items() for name in names} <= writing

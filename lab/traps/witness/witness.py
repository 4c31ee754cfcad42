"""Make projects in built/: each wrong kernel alone, with the inputs of inputs.py as its data; then bench says WRONG for each.

``witness.py PEAKGATE [PROJECT ...]`` builds them, runs ``PEAKGATE bench --device cpu`` and prints what is not WRONG.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEAD = '''import sys, pathlib, dataclasses
import numpy as np
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import peakgate.family as base
from trap_inputs import INPUTS
WANTED = {k.split(".")[1]: v for k, v in INPUTS["PROJECT"].items() if k.startswith("FAMILY.")}
_kernel, _family = base.__dict__.setdefault('_first', (base.kernel, base.family))
def witness(value, buffer):
    if value is None:
        return buffer
    def data(xp, shape):
        made = value(tuple(shape)) if callable(value) else np.full(shape, value)
        kind = buffer.dtype if buffer.dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4") else "int8" if buffer.dtype == "int4" else "float32"
        return xp.asarray(np.asarray(made).astype(kind) if not np.iscomplexobj(made) or kind.startswith("complex") else made)
    return dataclasses.replace(buffer, data=data)
def kernel(source, **given):
    name = given["name"]
    if name not in WANTED:
        return None
    values, size = WANTED[name]
    inner = given["arguments"]
    def arguments(*numbers):
        left = list(values)
        out = inner(*numbers)
        def swap(b):
            if isinstance(b, base.Buffer) and str(getattr(b.role, "value", b.role)).lower().replace("_", "") in ("in", "inout", "input") and left:
                return witness(left.pop(0), b)
            return b
        return {k: swap(b) for k, b in out.items()} if isinstance(out, dict) else [swap(b) for b in out]
    given["arguments"] = arguments
    if size is not None:
        given.update(small_sizes=[size], edges=[size])
    return _kernel(source, **given)
base.kernel = kernel
base.family = lambda *kernels, **more: _family(*(k for k in kernels if k is not None), **more)
'''
sys.path.insert(0, str(HERE))
import inputs  # noqa: E402

tool, only = sys.argv[1], sys.argv[2:]
for project, wanted in inputs.INPUTS.items():
    if only and project not in only:
        continue
    target = HERE / "built" / project
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(HERE.parent / project, target, ignore=shutil.ignore_patterns(".git", ".peakgate", ".benchmarks", ".cache", "__pycache__"))
    for family in (target / "kernels").iterdir():
        if not any(k.startswith(family.name + ".") for k in wanted):
            shutil.rmtree(family)
            continue
        shutil.copy(HERE / "inputs.py", family / "trap_inputs.py")
        text = (family / "family.py").read_text()
        (family / "family.py").write_text(HEAD.replace("PROJECT", project).replace("FAMILY", family.name) + text)
    subprocess.run("git init -q . && git add -A && git commit -qm witness", shell=True, cwd=target)
    done = subprocess.run(["nice", tool, "bench", "--device", "cpu", "--json"], cwd=target, capture_output=True, text=True, env={**os.environ, "PEAKGATE_CACHE": str(HERE.parent / project / ".cache")})
    try:
        cases = json.loads(done.stdout)["cases"]
    except Exception:
        print(project, "no verdict", done.stderr[-600:]); continue
    seen = set()
    for c in cases:
        key = next((k for k in wanted if c["case"].startswith(k + "-")), None)
        seen.add(key)
        if c["verdict"] != "WRONG":
            print(project, c["case"], c["verdict"], (c["reason"] or "")[:200])
    print(project, len(cases), "cases,", sum(c["verdict"] == "WRONG" for c in cases), "WRONG; missing", set(wanted) - seen, flush=True)

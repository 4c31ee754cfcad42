"""Every form of the tensor cores' products on a GPU and in the emulator: how far their sums are apart.

``python -m lab.tensor_cores.forms gpu FILE.npz`` makes the products on a GPU, ``... compare FILE.npz RECORD`` makes
them again in the emulator and writes what differs. Elements are normally distributed, of many magnitudes ("wide"), or
such that the sum which they are added to cancels all but the last bits ("cancelled").
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.pages import ROOT
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.compile.cubin import Cubin, cubin
from peakgate.spec.case import Stage

sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from matrix_forms import GroupForm, Matrix, WarpForm, drawn, group_source, stored, warp_source

Form = WarpForm | GroupForm
FLOATS_OF_8_BITS, WHOLE = ("e4m3", "e5m2"), {8: ("s8", "u8"), 4: ("s4", "u4")}
REPEATS = {WarpForm: 32, GroupForm: 1}
WIDTHS = {"e4m3": 4, "e5m2": 8, "f16": 6}
"""Of wide contents: powers of two up and down; 12 for other types."""
CONTENTS = ("normal", "wide", "cancelled")


def _types() -> Iterator[tuple[str, str, str]]:
    yield from (("f32", kind, kind) for kind in ("f16", "bf16", "tf32"))
    yield "f16", "f16", "f16"
    yield from ((sums, a, b) for sums in ("f32", "f16") for a in FLOATS_OF_8_BITS for b in FLOATS_OF_8_BITS)
    yield from (("s32", a, b) for a in WHOLE[8] for b in WHOLE[8])


def warp_forms() -> list[WarpForm]:
    """Those of mma.sync that the emulator has."""
    depths = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8)}
    forms = [WarpForm(16, depth, *kinds) for kinds in _types() for depth in depths.get(kinds[1], (16, 32))]
    forms += [WarpForm(8, 16, "s32", a, b) for a in WHOLE[8] for b in WHOLE[8]]
    forms += [
        WarpForm(rows, depth, "s32", a, b)
        for rows, depth in ((16, 32), (16, 64), (8, 32))
        for a in WHOLE[4]
        for b in WHOLE[4]
    ]
    return [*forms, WarpForm(8, 4, *["f64"] * 3), *(WarpForm(16, depth, *["f64"] * 3) for depth in (4, 8, 16))]


def group_forms() -> list[GroupForm]:
    """Those of wgmma, of 64 columns; with A in registers, and transposed, where that is another one."""
    forms = [GroupForm(64, *kinds, in_registers=held) for kinds in _types() for held in (False, True)]
    return forms + [GroupForm(64, "f32", kind, kind, transposed="ab") for kind in ("f16", "bf16")]


def name(form: Form) -> str:
    """The instruction, and how it takes its matrices."""
    more = ["A in registers"] if isinstance(form, GroupForm) and form.in_registers else []
    more += ["transposed"] if isinstance(form, GroupForm) and form.transposed else []
    return ", ".join((form.opcode, *more))


def matrices(form: Form, contents: str, seed: int) -> tuple[Matrix, Matrix, Matrix]:
    """A, B with its columns as rows, and the sums that the product is added to."""
    generator = np.random.default_rng(seed)
    shapes = ((form.rows, form.depth), (form.columns, form.depth), (form.rows, form.columns))
    kinds = (form.a, form.b, form.sums)
    a, b, c = (drawn(generator, shape, kind) for shape, kind in zip(shapes, kinds, strict=True))
    if contents == "wide":
        widths = [WIDTHS.get(kind, 12) if form.sums != "f16" else 2 for kind in kinds]
        a, b, c = (
            stored(each.astype(np.float64) * 2.0 ** generator.integers(-width, width, each.shape), kind)
            for each, kind, width in zip((a, b, c), kinds, widths, strict=True)
        )
    if contents == "cancelled":
        c = stored(-exact(a, b), form.sums)
    return a, b, c


def exact(a: Matrix, b: Matrix) -> Matrix:
    """The products' sums without rounding, but for that of float64."""
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64).T)


def problems(form: Form) -> Iterator[tuple[str, tuple[Matrix, Matrix, Matrix]]]:
    """What a form multiplies: contents, and the matrices."""
    for contents in CONTENTS if form.sums != "s32" else CONTENTS[:1]:
        for seed in range(REPEATS[type(form)]):
            yield contents, matrices(form, contents, seed)


Launch = Callable[[int, Form, Sequence[Any]], Matrix]


def made(forms: Sequence[Form], launch: Launch) -> dict[str, Matrix]:
    """The results of all problems by form and contents."""
    found: dict[str, list[Matrix]] = {}
    for number, form in enumerate(forms):
        for contents, (a, b, c) in problems(form):
            result = form.product(launch(number, form, form.arguments(a, b, c)))
            found.setdefault(f"{name(form)}/{contents}", []).append(result)
    return {key: np.stack(results) for key, results in found.items()}


def machine_code(source: Path, capability: tuple[int, int]) -> Cubin:
    """The kernel of a file, built with the features that an architecture alone has."""
    return cubin(Stage("products", "", source=source, min_capability=(9, 0), specific=True), (), capability)


def on_gpu(source: str, forms: Sequence[Form]) -> dict[str, Matrix]:
    """The products by the GPU at hand."""
    import cupy  # noqa: PLC0415  (the comparison needs none)

    from peakgate.device.choose import open_device  # noqa: PLC0415

    device, _ = open_device("gpu")
    assert device.capability is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "products.cu"
        path.write_text(source, encoding="utf-8")
        kernel = cupy.RawModule(path=str(machine_code(path, device.capability).path)).get_function("products")
    kernel.max_dynamic_shared_size_bytes = 65536

    def launch(number: int, form: Form, given: Sequence[Any]) -> Matrix:
        arrays = [cupy.asarray(each) if isinstance(each, np.ndarray) else each for each in given]
        kernel((1,), (form.threads,), (*arrays, np.int32(number)), shared_mem=65536)
        return np.asarray(arrays[0].get())

    return made(forms, launch)


def in_emulator(source: str, forms: Sequence[Form]) -> dict[str, Matrix]:
    """The products by the emulator."""
    import peakgate_emulator as emulator  # noqa: PLC0415  (a GPU's machine need not have its compiler)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "products.cu"
        path.write_text(source, encoding="utf-8")
        kernel = emulator.load(path, "products", ())

        def launch(number: int, form: Form, given: Sequence[Any]) -> Matrix:
            kernel.launch((1, 1, 1), (form.threads, 1, 1), (*given, np.int32(number)), shared_bytes=65536)
            return np.asarray(given[0])

        return made(forms, launch)


def both() -> Iterator[tuple[str, list[Form]]]:
    """The kernels of warps and of groups with their forms."""
    yield warp_source(warp_forms()), [*warp_forms()]
    yield group_source(group_forms()), [*group_forms()]


def compared(form: Form, contents: str, gpu: Matrix, emulated: Matrix) -> dict[str, Any]:
    """How many sums differ, and by how much of the largest thing that was added to each."""
    largest, error = [], []
    for (a, b, c), theirs, ours in zip(
        (given for what, given in problems(form) if what == contents), gpu, emulated, strict=True
    ):
        terms = np.abs(a.astype(np.float64))[:, None] * np.abs(b.astype(np.float64))[None]
        largest.append(np.maximum(terms.max(2), np.abs(c.astype(np.float64))))
        with np.errstate(invalid="ignore"):
            error.append(np.where(theirs == ours, 0, np.abs(theirs.astype(np.float64) - ours.astype(np.float64))))
    share = np.array(error) / np.array(largest)
    return {"sums": int(share.size), "differ": int((share != 0).sum()), "share": float(share.max())}


def compare(recorded: dict[str, Matrix]) -> dict[str, dict[str, Any]]:
    """By form and contents, the emulator beside the GPU."""
    found = {}
    for source, forms in both():
        emulated = in_emulator(source, forms)
        for form in forms:
            for contents in CONTENTS:
                key = f"{name(form)}/{contents}"
                if key in emulated:
                    found[key] = compared(form, contents, recorded[key], emulated[key])
    return found


def main(arguments: Sequence[str]) -> int:
    """Make the products on a GPU, or compare those of a file."""
    what, path = arguments[0], Path(arguments[1])
    if what == "gpu":
        from peakgate.device.choose import open_device  # noqa: PLC0415

        device, _ = open_device("gpu")
        found: dict[str, Any] = {key: value for source, forms in both() for key, value in on_gpu(source, forms).items()}
        facts = {"gpu": device.describe(), "commit": os.environ.get("PEAKGATE_COMMIT", "")}
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, facts=np.array(json.dumps(facts)), **found)
        write_whole(path, packed.getvalue())
        say(f"{len(found)} products of matrices")
        return 0
    with np.load(path, allow_pickle=False) as saved:
        recorded = {key: saved[key] for key in saved.files}
    facts = json.loads(str(recorded.pop("facts")))
    write_whole(Path(arguments[2]), json.dumps(facts | {"forms": compare(recorded)}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

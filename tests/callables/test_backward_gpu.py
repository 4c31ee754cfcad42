"""The backward pass of callables and the code of their kernels, on a GPU.

Run on a machine with an NVIDIA GPU: ``pytest -m gpu -s tests/callables/test_backward_gpu.py``; with -s each verdict is
printed.
"""

import json
import sys

import pytest
from runs import plain_pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

HEAD = """
import pytest
import torch
import triton
import triton.language as tl
{comment}

@triton.jit
def probe_scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * {factor}, at < n)


def scale(x):
    y = torch.empty_like(x)
    probe_scale[(x.numel() // 1024,)](x, y, x.numel(), BLOCK=1024)
    return y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, spoil):
        ctx.spoil = spoil
        return x * {factor}

    @staticmethod
    def backward(ctx, gradient):
        return ctx.spoil(scale(gradient.float()).to(gradient.dtype)), None


def element(gradient):
    gradient[3, 5] *= 1.5
    return gradient


STORED = []


def stored(gradient):
    STORED.append(gradient)
    return STORED[0]


def inputs(*shape):
    return torch.randn(shape, device="cuda", requires_grad=True)
"""

GRADIENTS = """
def test_eager(gpu_benchmark):
    x, w = inputs(4096, 1024), inputs(1024, 512)
    gpu_benchmark.work(flops=4 * 4096 * 1024 * 512).expect(tolerance=1e-2)
    gpu_benchmark.backward(lambda x, w: torch.tanh(x @ w), x, w)


def test_layer_norm(gpu_benchmark):
    x, w, b = inputs(8192, 4096), inputs(4096), inputs(4096)
    gpu_benchmark.work(bytes=3 * x.nbytes)
    gpu_benchmark.backward(lambda x, w, b: torch.nn.functional.layer_norm(x, (4096,), w, b), x, w, b)


def test_compiled(gpu_benchmark):
    x = inputs(4096, 4096)
    gpu_benchmark.work(bytes=3 * x.nbytes)
    gpu_benchmark.backward(torch.compile(lambda x: torch.sin(x) * x), x)


def test_triton(gpu_benchmark):
    x = inputs(4096, 1024)
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda x, spoil: x * 2.0)
    gpu_benchmark.backward(Scale.apply, x, lambda gradient: gradient)


TRAPS = {{"factor": lambda gradient: 1.01 * gradient, "element": element, "stored": stored, "none": lambda _: None}}


@pytest.mark.parametrize("spoil", TRAPS.values(), ids=TRAPS)
def test_trap(gpu_benchmark, spoil):
    gpu_benchmark.work(bytes=8 << 20).expect(lambda x, spoil: x * 2.0)
    gpu_benchmark.backward(Scale.apply, inputs(1024, 1024), spoil)
"""

KERNELS = """
def test_kernel(gpu_benchmark):
    gpu_benchmark.expect(lambda x: x * {factor})(scale, torch.randn(1 << 20, device="cuda"))


def test_mixed(gpu_benchmark):
    gpu_benchmark.expect(lambda x: x * {factor} + 1)(lambda x: scale(x) + 1, torch.randn(1 << 20, device="cuda"))
"""


def measured(folder, text, *, comment="", factor="2.0"):
    """Verdicts and entries of the tests in ``text``, by test id, of one run."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "peakgate.toml").write_text('benchmarks = ["benchmarks"]')
    source = (HEAD + text).format(comment=comment, factor=factor)
    (folder / "benchmarks" / "bench_ops.py").write_text(source)
    done = plain_pytest(folder, f"--benchmark-json={folder / 'run.json'}")
    sys.stdout.write(done.stdout)
    document = json.loads((folder / "run.json").read_text())
    entries = {each["extra_info"]["case"]: each["extra_info"] for each in document["benchmarks"]}
    return done.stdout, {case.partition(".")[2]: entry for case, entry in entries.items()}, document


def test_backward_passes_are_timed_alone_and_traps_are_wrong(tmp_path):
    shown, entries, _ = measured(tmp_path / "a", GRADIENTS)
    assert entries.keys() == {"test_eager", "test_layer_norm", "test_compiled", "test_triton"}
    assert all("forward pass" in each["sampling"] for each in entries.values())
    assert all(each["timed_launches_checked"] for each in entries.values())
    traps = ("factor", "element", "stored", "none")
    assert [trap for trap in traps if f"WRONG benchmarks-bench_ops.test_trap-{trap}:" not in shown] == []


def test_machine_code_is_known_and_changes_with_the_code_alone(tmp_path):
    pytest.importorskip("cupti")
    _, base, document = measured(tmp_path / "a", KERNELS)
    _, same, _ = measured(tmp_path / "b", KERNELS, comment="# one\n# two\n# three\n")
    _, other, _ = measured(tmp_path / "c", KERNELS, factor="3.0")
    ran = [each["test_kernel"] for each in (base, same, other)]
    assert all(list(each["kernels"]) == ["probe_scale"] for each in ran)
    assert ran[0]["fingerprint"] == ran[1]["fingerprint"] != ran[2]["fingerprint"]
    assert ran[0]["fingerprint"] is not None
    mixed = [each["test_mixed"] for each in (base, same, other)]  # with a kernel of PyTorch's own
    assert mixed[0]["kernels"]["probe_scale"] == ran[0]["kernels"]["probe_scale"]
    assert len(mixed[0]["kernels"]) == 2
    assert None not in mixed[0]["kernels"].values()
    assert mixed[0]["fingerprint"] == mixed[1]["fingerprint"] != mixed[2]["fingerprint"]
    assert document["machine_info"]["gpu"]["triton"]
    assert document["machine_info"]["gpu"]["torch"]

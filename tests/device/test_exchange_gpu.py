"""On a GPU: integers change places as NumPy does it, and graphs of autograd are timed without being touched."""

import json

import numpy as np
import pytest

from peakgate.measure.refill import exchange, round_keys

BACKWARD = """
import torch

x = torch.linspace(-1, 1, 1 << 20, device="cuda", requires_grad=True)
y = torch.softmax(x.reshape(1024, -1), 1)
g = torch.linspace(0, 1, 1 << 20, device="cuda").reshape(1024, -1)
index = torch.randperm(1 << 20, device="cuda")
offsets = torch.arange(0, (1 << 20) + 1, 1 << 10, device="cuda")
kept = {}


def backward(gradient):
    return torch.autograd.grad(y, x, gradient, retain_graph=True)[0]


def right(gradient):
    p = torch.softmax(x.detach().double().reshape(1024, -1), 1)
    return (p * (gradient - (p * gradient).sum(1, keepdim=True))).reshape(-1)


def bench_backward(gpu_benchmark):
    gpu_benchmark.work(bytes=16 << 20).expect(right, tolerance=1e-4)(backward, g)


def bench_step(gpu_benchmark):
    w = torch.linspace(-1, 1, 1 << 20, device="cuda", requires_grad=True)
    step = lambda a, b: torch.autograd.grad((a * b).square().sum(), a)[0]
    gpu_benchmark.expect(lambda a, b: 2 * a.detach().double() * b.double() ** 2)(step, w, g.reshape(-1))


def bench_gather(gpu_benchmark):
    gpu_benchmark.expect(lambda at: at.flip(0) + offsets[-1])(lambda at: at.flip(0) + offsets[-1], index)


def bench_kept(gpu_benchmark):
    gpu_benchmark.expect(lambda at: at.flip(0))(lambda at: kept.setdefault("it", at.flip(0)).clone(), index)


def bench_raises(gpu_benchmark):
    gpu_benchmark.expect(lambda at: at)(lambda at: at.reshape(3, 5), index)
"""


@pytest.mark.gpu(here=True)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("count", [1, 2, 3, 1000, 100_003])
def test_integers_change_places_as_in_numpy(dtype, count):
    cupy = pytest.importorskip("cupy")
    from peakgate.device import elements  # noqa: PLC0415  (it needs CuPy)

    wanted = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    words = cupy.asarray(wanted).view(f"u{wanted.itemsize}")
    keys = round_keys((5, 1 << 31, 0, 1))
    elements.exchange(words, 77, cupy.asarray(keys))
    exchange(wanted, 77, keys)
    assert (cupy.asnumpy(words).view(dtype) == wanted).all()


@pytest.mark.gpu
def test_a_backward_pass_is_right_and_a_kept_result_is_wrong(benchmarks, capfd, monkeypatch):
    pytest.importorskip("torch")
    from peakgate.cli import main  # noqa: PLC0415

    folder = benchmarks(BACKWARD)
    monkeypatch.chdir(folder)
    main(["bench", "--device", "gpu", f"--benchmark-json={folder / 'run.json'}"])
    said = capfd.readouterr()
    cases = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    verdicts = {case["case"].rpartition(".bench_")[2]: case["verdict"] for case in cases}
    right = dict.fromkeys(("backward", "step", "gather"), "NO_FLOOR")
    assert verdicts == right | {"kept": "WRONG", "raises": "INCONCLUSIVE"}, said.out + said.err
    saved = json.loads((folder / "run.json").read_text())["benchmarks"]
    entries = [each["extra_info"] for each in saved]
    methods = {entry["case"].rpartition(".bench_")[2]: entry["sampling"] for entry in entries}
    assert all("arrays change" in method for method in methods.values())
    assert "autograd" in methods["backward"]
    assert "in order" in methods["gather"]

"""Each state of calls that can be in it, and of some that cannot."""

import pytest

cp = pytest.importorskip("cupy", exc_type=ImportError)

MIB = 1 << 20
COPY = cp.RawKernel(
    r"""
extern "C" __global__ void copy(float4* out, const float4* in)
{
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = in[at];
}""",
    "copy",
)
ALL = ("cold", "warm", "graph")


@pytest.mark.parametrize("mib", [1, 4, 16, 256])
@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: x, state=ALL)
def bench_copy(gpu_benchmark, mib):
    x = cp.arange(mib * MIB // 4, dtype=cp.float32)
    gpu_benchmark(lambda out, x: COPY((x.size // 1024,), (256,), (out, x)), cp.zeros_like(x), x)


@pytest.mark.peakgate(reference=lambda x: x + 1, state=ALL)
def bench_cupy_allocates(gpu_benchmark):
    gpu_benchmark(lambda x: x + 1, cp.arange(MIB, dtype=cp.float32))


@pytest.mark.peakgate(state=ALL)
def bench_torch_softmax(gpu_benchmark):
    torch = pytest.importorskip("torch")
    x = torch.randn(8192, 256, device="cuda")
    gpu_benchmark.expect(lambda x: torch.softmax(x.double(), 1))(lambda x: torch.softmax(x, 1), x)


@pytest.mark.peakgate(reference=lambda x: float(x.max()), state="graph")
def bench_waits_for_the_host(gpu_benchmark):
    gpu_benchmark(lambda x: float(x.max().item()), cp.arange(MIB, dtype=cp.float32))


@pytest.mark.peakgate(reference=lambda x: x * 2, outputs=lambda x: x, state="graph")
def bench_in_place(gpu_benchmark):
    gpu_benchmark(lambda x: cp.multiply(x, 2, out=x), cp.ones(MIB, cp.float32))


@pytest.mark.peakgate(reference=lambda out, x: x, state="graph")
def bench_on_a_stream_of_its_own(gpu_benchmark):
    x = cp.arange(MIB, dtype=cp.float32)
    gpu_benchmark(
        lambda out, x: COPY((x.size // 1024,), (256,), (out, x), stream=cp.cuda.Stream.null), cp.zeros_like(x), x
    )

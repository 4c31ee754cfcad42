"""Fifteen Triton kernels that are right, each with a benchmark test; ``calibrate`` makes a defective twin of each."""

import torch
import triton
import triton.language as tl

N, ROWS, COLUMNS = 1000, 37, 100


def blocks(n, block):
    return (triton.cdiv(n, block),)


@triton.jit
def scale(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, 2 * value, mask=i < n)


def bench_scale(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        scale[blocks(N, 128)](x, out, N, B=128)
        return out

    gpu_benchmark.expect(lambda x: 2 * x)(call, torch.randn(N))


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def bench_add(gpu_benchmark):
    def call(x, y):
        out = torch.empty_like(x)
        add[blocks(N, 64)](x, y, out, N, B=64)
        return out

    gpu_benchmark.expect(lambda x, y: x + y)(call, torch.randn(N), torch.randn(N))


@triton.jit
def clamp(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


def bench_clamp(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        clamp[blocks(N, 128)](x, out, N, B=128)
        return out

    gpu_benchmark.expect(lambda x: x.clamp(min=0))(call, torch.randn(N))


@triton.jit
def softmax(x, out, columns, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + i, power / tl.sum(power, 0), mask=i < columns)


def bench_softmax(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        softmax[(ROWS,)](x, out, COLUMNS, B=128)
        return out

    gpu_benchmark.expect(lambda x: torch.softmax(x, 1))(call, torch.randn(ROWS, COLUMNS))


@triton.jit
def layer_norm(x, out, columns, stride, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * stride + i, mask=i < columns, other=0.0)
    mean = tl.sum(value, 0) / columns
    off = tl.where(i < columns, value - mean, 0.0)
    tl.store(out + row * stride + i, off / tl.sqrt(tl.sum(off * off, 0) / columns + 1e-5), mask=i < columns)


def bench_layer_norm(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        layer_norm[(ROWS,)](x, out, COLUMNS, x.stride(0), B=128)
        return out

    gpu_benchmark.expect(lambda x: torch.nn.functional.layer_norm(x, (COLUMNS,)), tolerance=1e-4)(
        call, torch.randn(ROWS, COLUMNS)
    )


@triton.jit
def transpose(x, out, rows, columns, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (r < rows) & (c < columns)
    tl.store(out + c * rows + r, tl.load(x + r * columns + c, mask=inside), mask=inside)


def bench_transpose(gpu_benchmark):
    def call(x):
        out = torch.empty(COLUMNS, ROWS)
        transpose[(triton.cdiv(ROWS, 16), triton.cdiv(COLUMNS, 16))](x, out, ROWS, COLUMNS, B=16)
        return out

    gpu_benchmark.expect(lambda x: x.T)(call, torch.randn(ROWS, COLUMNS))


@triton.jit
def matmul(a, b, out, m, n, k, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, k, B):
        down, across = start + tl.arange(0, B)[:, None], start + tl.arange(0, B)[None, :]
        left = tl.load(a + r * k + across, mask=(r < m) & (across < k), other=0.0)
        right = tl.load(b + down * n + c, mask=(down < k) & (c < n), other=0.0)
        total += tl.dot(left, right)
    tl.store(out + r * n + c, total, mask=(r < m) & (c < n))


def bench_matmul(gpu_benchmark):
    def call(a, b):
        out = torch.empty(40, 50)
        matmul[(triton.cdiv(40, 16), triton.cdiv(50, 16))](a, b, out, 40, 50, 35, B=16)
        return out

    gpu_benchmark.expect(lambda a, b: a @ b, tolerance=1e-4)(call, torch.randn(40, 35), torch.randn(35, 50))


@triton.jit
def row_sum(x, out, columns, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + row, tl.sum(tl.load(x + row * columns + i, mask=i < columns, other=0.0), 0))


def bench_row_sum(gpu_benchmark):
    def call(x):
        out = torch.empty(ROWS)
        row_sum[(ROWS,)](x, out, COLUMNS, B=128)
        return out

    gpu_benchmark.expect(lambda x: x.sum(1), tolerance=1e-4)(call, torch.randn(ROWS, COLUMNS))


@triton.jit
def column_sum(x, out, columns, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * columns + i, mask=i < columns)
    tl.atomic_add(out + i, value, mask=i < columns)


def bench_column_sum(gpu_benchmark):
    def call(x):
        out = torch.zeros(COLUMNS)
        column_sum[(ROWS,)](x, out, COLUMNS, B=128)
        return out

    gpu_benchmark.expect(lambda x: x.sum(0), tolerance=1e-4)(call, torch.randn(ROWS, COLUMNS))


@triton.jit
def gather(x, index, out, n, columns, B: tl.constexpr):
    at, i = tl.program_id(0), tl.arange(0, B)
    row = tl.load(index + at)
    tl.store(out + at * columns + i, tl.load(x + row * columns + i, mask=i < columns), mask=i < columns)


def bench_gather(gpu_benchmark):
    def call(x, index):
        out = torch.empty(50, COLUMNS)
        gather[(50,)](x, index, out, 50, COLUMNS, B=128)
        return out

    index = torch.randint(0, ROWS, (50,))
    index[7] = ROWS - 1
    gpu_benchmark.expect(lambda x, index: x[index])(call, torch.randn(ROWS, COLUMNS), index)


@triton.jit
def rms_norm(x, out, columns, stride, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, columns, B):
        i = start + tl.arange(0, B)
        value = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
        total += value * value
    factor = 1 / tl.sqrt(tl.sum(total, 0) / columns + 1e-5)
    for start in range(0, columns, B):
        i = start + tl.arange(0, B)
        value = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
        tl.store(out + row * stride + i, value * factor, mask=i < columns)


def bench_rms_norm(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        rms_norm[(ROWS,)](x, out, COLUMNS, out.stride(0), B=32)
        return out

    gpu_benchmark.expect(lambda x: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt(), tolerance=1e-4)(
        call, torch.randn(ROWS, COLUMNS)
    )


@triton.jit
def partial_sums(x, partial, n, B: tl.constexpr):
    at = tl.program_id(0)
    i = at * B + tl.arange(0, B)
    tl.store(partial + at, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


@triton.jit
def final_sum(partial, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(partial + i, mask=i < n, other=0.0), 0))


def bench_partial_sums(gpu_benchmark):
    def call(x):
        partial, out = torch.zeros(8), torch.empty(1)
        partial_sums[(8,)](x, partial, N, B=128)
        final_sum[(1,)](partial, out, 8, B=8)
        return out

    gpu_benchmark.expect(lambda x: x.sum(0, keepdim=True), atol=1e-3)(call, torch.randn(N))


@triton.jit
def running_sum(x, out, columns, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.cumsum(tl.load(x + row * columns + i, mask=i < columns, other=0.0), 0)
    tl.store(out + row * columns + i, value, mask=i < columns)


def bench_running_sum(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        running_sum[(ROWS,)](x, out, COLUMNS, B=128)
        return out

    gpu_benchmark.expect(lambda x: x.cumsum(1), atol=1e-3)(call, torch.randn(ROWS, COLUMNS))


@triton.jit
def stencil(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0.0)
    right = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(out + i, left + right, mask=i < n)


def bench_stencil(gpu_benchmark):
    def call(x):
        out = torch.empty_like(x)
        stencil[blocks(N, 128)](x, out, N, B=128)
        return out

    def expected(x):
        padded = torch.nn.functional.pad(x, (1, 1))
        return padded[:-2] + padded[2:]

    gpu_benchmark.expect(expected)(call, torch.randn(N))


@triton.jit
def copy(x, out, columns, stride, B: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, columns, B):
        i = start + tl.arange(0, B)
        tl.store(out + row * columns + i, tl.load(x + row * stride + i, mask=i < columns), mask=i < columns)


def bench_copy(gpu_benchmark):
    def call(x):
        out = torch.empty(ROWS, COLUMNS)
        copy[(ROWS,)](x, out, COLUMNS, x.stride(0), B=32)
        return out

    gpu_benchmark.expect(lambda x: x)(call, torch.randn(ROWS, 2 * COLUMNS)[:, :COLUMNS])

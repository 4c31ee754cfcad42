"""An all-reduce of PyTorch over NCCL, in a process per GPU."""

import os

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed

FLOATS = 1 << 25


@pytest.fixture(scope="session")
def gpu():
    """This process's GPU, in a group of all processes."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    yield device
    dist.destroy_process_group()


def all_reduce(x):
    """The sum of all arrays in place of each."""
    dist.all_reduce(x)


def sum_of_all(x):
    """The expected result in float64, by an all-gather."""
    of_each = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(of_each, x)
    return sum(each.double() for each in of_each)


@pytest.mark.peakgate(
    gpus=(2, 4, 8),
    bytes=lambda x: 2 * (dist.get_world_size() - 1) * x.nbytes // dist.get_world_size(),
    reference=sum_of_all,
    outputs=lambda x: x,
)
def bench_all_reduce(gpu_benchmark, gpu):
    torch.manual_seed(dist.get_rank())
    gpu_benchmark(all_reduce, torch.randn(FLOATS, device=gpu))

"""Callables in pairs, wrong within a bound that they chose or that excludes nothing; with and without a GPU."""

ROWS, COLUMNS = 4096, 4096


def numbers(xp, rows=ROWS):
    return xp.random.default_rng(1).standard_normal((rows, COLUMNS), dtype="float32")


def exponentials(gpu_benchmark, function):
    xp = gpu_benchmark.xp
    x = numbers(xp)
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(xp.exp)(function, x)


def test_shortens_its_output_cheat(gpu_benchmark):
    """Gives exponentials of float32 in half.

    Wrong where float32 is expected: 11 bits are correct, and the result for 12 is infinite. It writes half as much, and
    hopes that an output is judged by its own type.
    """
    exponentials(gpu_benchmark, lambda x: gpu_benchmark.xp.exp(x).astype("float16"))


def test_shortens_its_output_honest(gpu_benchmark):
    exponentials(gpu_benchmark, gpu_benchmark.xp.exp)


def means(gpu_benchmark, function):
    x = numbers(gpu_benchmark.xp)
    gpu_benchmark.work(bytes=x.nbytes).expect(lambda x: x.mean(axis=1), atol=0.1)(function, x)


def test_gives_zeros_within_bound_cheat(gpu_benchmark):
    """Gives zeros for the mean of many numbers.

    Wrong for all of them, but no mean is larger than the bound of the test. It hopes that nobody asks what a bound
    excludes.
    """
    means(gpu_benchmark, lambda x: gpu_benchmark.xp.zeros(len(x), "float32"))


def test_gives_zeros_within_bound_honest(gpu_benchmark):
    means(gpu_benchmark, lambda x: x.mean(axis=1))

"""Synthetic records for unit tests; nothing in here was measured."""

from peakgate.measure.sampling import Samples
from peakgate.spec.case import Buffer, Case, Launch, Role, Scalar, Stage, Work


def make_case(**changes):
    stage = changes.pop("stage", Stage("double", "doubles", operation="memcpy"))
    defaults = {
        "family": "synthetic",
        "stage": stage,
        "launch": Launch((1, 1, 1), (32, 1, 1)),
        "arguments": (Buffer(Role.OUT, (8, 4)), Buffer(Role.IN, (8, 4)), Scalar(32)),
        "work": Work(bytes=1_000_000, flops=0),
        "reference": lambda xp, inputs: [inputs[0] * 2],
        "size": "8x4",
    }
    return Case(**{**defaults, **changes})


def make_samples(*times_us, discarded=0, clock_mhz=1980.0):
    return Samples(tuple(times_us), (clock_mhz,) * len(times_us), discarded, "synthetic")

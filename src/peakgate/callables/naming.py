"""The case of a benchmark test before it is called, and its id in the alphabet of case ids."""

from __future__ import annotations

from peakgate.spec.case import Case, Launch, Stage, Tier, Work
from peakgate.spec.recorded import Metric, case_parts

OPERATION = "callable"
"""The operation of a callable's case, which has no source file."""

FIXTURE = "gpu_benchmark"


def case_of(nodeid: str, state: str = "cold", gpus: int = 1, metric: Metric = "gpu") -> Case:
    """The case of a benchmark test, without its work and arrays, which only the call provides.

    A ``state`` other than cold, or the metric launch, is the last of the test's parameters; a number of GPUs is part of
    the size.
    """
    file, test, parameters = case_parts(nodeid)
    if state != "cold":
        parameters = parameters.removesuffix(state).removesuffix("-")
    if metric != "gpu":
        parameters = parameters.removesuffix(metric).removesuffix("-")
    return Case(
        family=file,
        stage=Stage(test, "a benchmark test", operation=OPERATION),
        launch=Launch((1, 1, 1), (1, 1, 1)),
        arguments=(),
        work=Work(0),
        reference=None,  # a callable's reference takes the callable's arguments
        size=parameters,
        tier=Tier.GATE,
        state=state,
        gpus=gpus,
        metric=metric,
    )

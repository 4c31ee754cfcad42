"""The case of a benchmark test: its id, in the alphabet of case ids, and what is known of it before it is called."""

from __future__ import annotations

from peakgate.spec.case import Case, Launch, Stage, Tier, Work
from peakgate.spec.recorded import case_parts

OPERATION = "callable"
"""In place of a source file, which a callable's case does not have."""

FIXTURE = "gpu_benchmark"


def case_of(nodeid: str, state: str = "cold", gpus: int = 1) -> Case:
    """The case of a benchmark test, without what only its call provides: its work, its arrays.

    A ``state`` other than cold is the last of the test's parameters. A number of GPUs stays in its size.
    """
    file, test, parameters = case_parts(nodeid)
    if state != "cold":
        parameters = parameters.removesuffix(state).removesuffix("-")
    return Case(
        family=file,
        stage=Stage(test, "a benchmark test", operation=OPERATION),
        launch=Launch((1, 1, 1), (1, 1, 1)),
        arguments=(),
        work=Work(0),
        reference=None,  # it takes the arguments of the callable
        size=parameters,
        tier=Tier.GATE,
        state=state,
        gpus=gpus,
    )

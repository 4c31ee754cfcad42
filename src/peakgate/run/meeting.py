"""How a run of plain pytest begins: with its GPU locked; ranks with the same tests, one seed and a GPU each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.ranks import WAIT_LIMIT_S
from peakgate.device import driver
from peakgate.run.lock import locked
from peakgate.session.session import Session

LOCK_LIMIT_S = WAIT_LIMIT_S / 2
"""How long a rank waits for the lock of its GPU: less than the others wait for the rank."""
RUN_AGAIN = "run pytest again once that has ended"

RankFacts = tuple[Sequence[str], str, str | None]
"""The case ids of a rank's tests in their order, its device, and the uuid of its GPU."""


def meet(session: Session, tests: Sequence[str], locks: ExitStack) -> None:
    """Lock the GPUs of a run in a single process; connect ranks, take the seed of rank 0, and lock the GPU of each.

    Raises PeakgateError in all ranks if they have other tests or other GPU models, CannotDecide if one does not come or
    two have one GPU.
    """
    device = session.device
    ranks = device.ranks
    if ranks.size == 1:
        own = ",".join(filter(None, map(driver.gpu_uuid, device.gpus)))
        locks.enter_context(locked(own, remedy=RUN_AGAIN))
        return
    ranks.connect()
    uuid = driver.gpu_uuid(device.gpus[0]) if device.gpus else None
    of_each = ranks.all("its tests and its GPU", (tests, device.slug, uuid))
    if (refusal := unlike(of_each)) is not None:
        ranks.finish()  # all of them know it
        ranks.close()
        raise refusal
    session.draw_from(ranks.same("the seed", session.seed))
    ranks.uuids = uuids = [each for _, _, each in of_each if each]
    for each in sorted(uuids):  # in one order: no two runs wait for each other
        if each == uuid:
            locks.enter_context(locked(uuid, LOCK_LIMIT_S, RUN_AGAIN))
        ranks.all(f"the lock of {each}")


def unlike(of_each: Sequence[RankFacts]) -> PeakgateError | None:
    """Why these ranks cannot measure together; None if they can."""
    first, model, _ = of_each[0]
    for rank, (tests, slug, _) in enumerate(of_each):
        if tests != first:
            others = ", ".join(sorted({*tests} ^ {*first})[:3]) or "the same in another order"
            return PeakgateError(
                f"rank {rank} has other tests than rank 0: {others}; expected the same in every rank", Code.SELECTION
            )
        if slug != model:
            return PeakgateError(
                f"rank 0 measures on {model}, rank {rank} on {slug}; floors belong to one GPU model", Code.GPU_MODELS
            )
    uuids = [uuid for _, _, uuid in of_each if uuid]
    if len({*uuids}) < len(uuids):
        return CannotDecide(
            f"{len(uuids)} ranks have {counted(len({*uuids}), 'GPU')}; expected one for each: see CUDA_VISIBLE_DEVICES "
            "and torchrun's --nproc-per-node",
            Code.NO_GPU,
        )
    return None

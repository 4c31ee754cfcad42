"""Opens what a run's request asks for: device and floors as a session, and the cases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import UnreadableFile, read_text
from peakgate.base.formatting import nearest
from peakgate.base.ranks import ALONE, Ranks
from peakgate.device.choose import open_device
from peakgate.judge.floors import load_floors
from peakgate.measure.sampling import ONE_BATCH, REPEATED, SamplingPlan
from peakgate.run import inputs
from peakgate.run.ab_process import MODE_VARIABLE
from peakgate.run.cases import Cases, RunCase
from peakgate.run.request import Mode, Request
from peakgate.session.session import Session
from peakgate.session.steps import Expect
from peakgate.spec.case import Case, Tier

PLANS = {Mode.WHOLE: SamplingPlan(), Mode.PROOF: ONE_BATCH, Mode.PAIR: REPEATED}


def open_session(
    request: Request,
    attempts: Mapping[str, int],
    expect: Expect,
    *,
    later: bool = False,
    plain: bool = False,
    timed: bool = True,
    ranks: Ranks = ALONE,
) -> tuple[Session, Cases]:
    """The session of this process and the cases of its project; with ``later`` the device is not opened yet.

    ``plain``: under plain pytest no project is needed, floors of unknown cases are allowed, and the default tier is
    full. Without ``timed`` cases are only proven.

    If a base judges the run, this process's working directory is the base's tree from here on.
    """
    project, mode = config.current() if plain else config.required(), request.mode
    tier = request.tier or (Tier.FULL if plain else Tier.GATE)
    device, note = open_device(request.device, later=later, ranks=ranks)
    baselines = config.near(project.baselines)
    cases = Cases(device.scale)
    ref, base = request.baselines_from, os.environ.get(config.BASE_VARIABLE)
    if base:
        from peakgate.run.base_contract import against  # noqa: PLC0415  (only with a base)

        baselines = baselines.absolute()
        config.work_in(Path(base))  # before anything of the base is imported
        cases = against(Path(base), project, device.scale, ref or "the base", device.refusal)
    if ref:
        floors = inputs.floors_at(ref, baselines, device.slug)
    else:
        unknown = plain or project.benchmarks or any(each.whole for each in cases.refused)
        known_cases = None if unknown else {case.id for case in cases.listed(Tier.FULL)}
        floors = load_floors(baselines / device.slug / "floors.toml", known_cases, gpu=device.slug)
    notes = [*([note] if note else []), *cases.notes]
    if mode is Mode.PAIR:
        notes.append(f"{MODE_VARIABLE}={mode}: kernels were timed, their results not checked")
    energy_loops = 0
    if request.energy:
        from peakgate.measure.energy import LOOPS  # noqa: PLC0415  (few runs measure it)

        energy_loops = LOOPS if mode is Mode.WHOLE else 1
        if device.kind == "cpu":
            notes.append("no energy is measured without a GPU")
    session = Session(
        device,
        floors,
        Tier(tier),
        checks=mode is not Mode.PAIR,
        timed=timed,
        alone=mode is not Mode.PROOF,
        wants_roofs=mode is Mode.WHOLE,
        probes=cases.probes,
        new=cases.new,
        plan=PLANS[mode],
        notes=notes,
        expect=expect,
        launch_limit_s=project.launch_timeout_s,
        nonfinite=project.fail_nonfinite,
        determinism=request.determinism,
        energy_loops=energy_loops,
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        attempts=attempts,
    )
    return session, cases


def _is_within(case: RunCase, paths: Sequence[Path]) -> bool:
    """Whether a case's source file, or its family's folder if it has none, is at or within one of the paths."""
    source = case.stage.source if isinstance(case, Case) else None
    place = config.current().kernels / case.family if source is None else source.absolute()
    return any(place.is_relative_to(path) or path.is_relative_to(place) for path in paths)


def wanted_cases(
    cases: Cases, tier: Tier, listed: Path | None, within: Sequence[Path] = ()
) -> tuple[dict[str, RunCase], list[str] | None]:
    """The tier's cases by id, or those that the file ``listed`` names, in its order; and its ids, None without a file.

    With files or folders ``within``, only cases whose sources are there. Raises PeakgateError for an unknown id,
    unless the project has benchmark tests, which may have it.
    """
    if listed is None:
        chosen = {case.id: case for case in cases.listed(tier) if not within or _is_within(case, within)}
        if within and not chosen:
            raise PeakgateError(f"{config.near(within[0])}: no case uses it", Code.SELECTION)
        return chosen, None
    every = {case.id: case for case in cases.listed(Tier.FULL)}
    try:
        wanted = list(dict.fromkeys(read_text(listed).split()))
    except UnreadableFile as error:
        raise PeakgateError(
            f"{config.near(listed)}: {error.why}; expected a file of case ids, one per line", Code.UNREADABLE
        ) from None
    every |= {
        case_id: case
        for case_id in wanted
        if case_id not in every and (case := cases.of_refused_family(case_id)) is not None
    }
    for case_id in wanted:
        if case_id not in every and not config.current().benchmarks:
            raise PeakgateError(
                f"{config.near(listed)}: no case is named {case_id!r}{nearest(case_id, every)}", Code.SELECTION
            )
    return {case_id: every[case_id] for case_id in wanted if case_id in every}, wanted

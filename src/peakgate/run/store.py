"""The results of a run's cases as run file entries; each is sent to the supervisor at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from peakgate.base.verdict import Judgement, Verdict
from peakgate.run.cases import RunCase
from peakgate.run.journal import FRESH, Finished, Link
from peakgate.session.entry import Entry, extra_info
from peakgate.session.outcome import Outcome
from peakgate.session.session import Session


class Store:
    """The finished cases of a run, by this process and by earlier ones (``before``).

    ``entries`` are the finished cases, ``other_entries`` those of an A/B's other builds, which have their own run file;
    ``skipped`` is why this device cannot run a case. ``below_floor`` and ``measured_again``: whether this process
    measured such a case.
    """

    def __init__(self, session: Session, link: Link, before: Finished) -> None:
        self._session, self._link, self._before = session, link, before
        self.entries: list[Entry] = []
        self.other_entries: list[Entry] = []
        self.skipped: dict[str, str] = {}
        self.below_floor = self.measured_again = False

    def keep(self, outcome: Outcome) -> tuple[Entry, Sequence[float]]:
        """Keep the outcome of a case, here and in the journal; its entry and its samples in µs.

        After a lost CUDA context a supervised process ends here, and a new one continues.
        """
        entry = extra_info(outcome)
        self.entries.append(entry)
        times_us = outcome.samples.times_us if outcome.samples else ()
        self._link.send(case=outcome.case.id, extra_info=entry, times_us=times_us)
        self.below_floor |= outcome.judgement.verdict is Verdict.BELOW_FLOOR
        self.measured_again |= outcome.case.id in self._before.again
        if self._session.device.lost and self._link.supervised:
            os._exit(FRESH)  # clean-up would fail without the context
        return entry, times_us

    def keep_other(self, outcome: Outcome) -> tuple[Entry, Sequence[float]]:
        """Keep the outcome of an A/B's other build; its entry and, if it has figures, its samples in µs."""
        entry = extra_info(outcome)
        self.other_entries.append(entry)
        return entry, outcome.samples.times_us if outcome.samples and outcome.metrics else ()

    def take_over(self, case: RunCase) -> tuple[Entry, Sequence[float]] | None:
        """Entry and samples of a case that an earlier process finished; None for an unfinished case."""
        known = self._before.cases.get(case.id)
        if known is None:
            return None
        entry = known.get("extra_info")
        if entry is None:  # the supervisor's verdict on a process that ended
            judgement = Judgement(Verdict(known["verdict"]), known["reason"])
            entry = extra_info(self._session.unmeasured(case, judgement))
        self.entries.append(entry)
        return entry, known.get("times_us", ())

    def partial(self, selected: Iterable[RunCase]) -> str | None:
        """How many selected cases were not finished, in one line; None if all were."""
        done = {entry["case"] for entry in self.entries} | self.skipped.keys()
        asked = [case.id for case in selected]
        missing = sum(case_id not in done for case_id in asked)
        return f"{missing} of {len(asked)} selected cases were not finished" if missing else None

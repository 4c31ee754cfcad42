"""How ranks sample a callable together, on GPUs whose times are given; needs CuPy, no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
from rank_processes import in_ranks

pytest.importorskip("cupy", exc_type=ImportError)
pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC: the extra cuda12 or cuda13")

from peakgate.base.ranks import EndedElsewhere, started
from peakgate.base.verdict import Judgement, Verdict
from peakgate.callables import gpu_call
from peakgate.callables.call import Call
from peakgate.callables.gpu_call import Behaviour, GpuCall
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given, case_of
from peakgate.measure.sampling import SamplingPlan, slowest
from peakgate.session.outcome import WrongResult
from peakgate.session.prover import TimedChecks


class Stream:
    """Samples of one rank, with times of its own."""

    def __init__(self, ranks, rng):
        self.ranks, self.rng, self.batches = ranks, rng, []

    def batch(self, launches, *, blocked, before, after):
        assert blocked
        self.batches.append([len(launches), sorted(after)])
        for index, launch in enumerate(launches):
            if before:
                before()
            launch()
            if index in after:
                after[index]()
        own = [(float(self.rng.uniform(900, 1100)), 1980.0 if self.rng.random() < 0.9 else 1000.0) for _ in launches]
        return slowest(self.ranks.all("its times", own))

    def method(self, **_):
        return "in ranks"

    def with_second_clock(self, samples, *_):
        return samples

    def synchronize(self):
        pass


def sampled(ranks, function, monkeypatch):
    """What one rank samples: the batches, its figures, the number of compared calls, and its arrays at the end."""
    monkeypatch.setattr(gpu_call, "cupy", SimpleNamespace(asarray=np.asarray))
    rng = np.random.default_rng(ranks.rank)
    facts = SimpleNamespace(sm_clock_max_mhz=1980.0 + 100 * ranks.rank, l2_bytes=1 << 20)
    device = SimpleNamespace(
        lost=None, facts=facts, peaks=None, ranks=ranks, draw=lambda end: 0, power_meter=lambda case: None
    )
    call = Call(function, (np.zeros(8), np.arange(8.0) + ranks.rank), {})
    call.ranks = ranks
    checks = OutputCheck(call, Given(reference=lambda out, x: 2 * x))
    call.run()
    call.learn()
    proof = checks.first()
    stream = Stream(ranks, rng)
    case = case_of("b.py::t[2gpu-ranks]", gpus=2)
    launchable = GpuCall(device, case, call, stream, Behaviour(False, 6, 0.0), outputs=checks.outputs, fresh=True)
    same = np.random.default_rng(7)
    timed = TimedChecks(SimpleNamespace(expect=lambda *_: None), case, proof, checks.timed, same, once=False)
    timed.launch_s = max(ranks.all("the time of a call", 1e-3 * (1 + 10 * ranks.rank)))
    samples = launchable.sample(SamplingPlan(), timed)
    checks.on_fresh_inputs(launchable.run)
    launchable.run()
    checks.check("afterwards: ")
    return [stream.batches, samples.times_us, samples.discarded, timed.proof.timed, int(same.integers(1 << 30))]


def twice(out, x):
    np.multiply(x, 2, out=out)


def test_ranks_take_the_same_batches_and_compare_the_same_calls(monkeypatch, tmp_path):
    def run():
        one = started()
        one.connect()
        one.begin_test("b.t-2gpu-ranks")
        found = sampled(one, twice, monkeypatch)
        one.end_test("b.t-2gpu-ranks", None)
        one.finish()
        one.close()
        return found

    first, second = in_ranks(tmp_path, run)
    assert first.value is not None, first.output
    assert first.value == second.value
    batches, times_us, _, compared, _ = first.value
    assert compared >= 8
    assert sum(count for count, _ in batches) >= len(times_us) >= 6


@pytest.mark.parametrize("right_calls", [0, 3, 9])
def test_a_timed_call_that_is_wrong_in_one_rank_ends_the_test_in_all(monkeypatch, tmp_path, right_calls):
    def run():
        one = started()
        one.connect()
        one.begin_test("b.t-2gpu-ranks")
        calls = []

        def function(out, x):
            calls.append(1)
            np.multiply(x, 2 if one.rank == 0 or len(calls) <= right_calls else 3, out=out)

        try:
            sampled(one, function, monkeypatch)
        except WrongResult as wrong:
            joint = one.end_test("b.t-2gpu-ranks", Judgement(Verdict.WRONG, str(wrong)))
        except EndedElsewhere:
            joint = one.end_test("b.t-2gpu-ranks", Judgement(Verdict.PASS, ""))
        one.finish()
        one.close()
        return [joint.verdict, joint.reason]

    first, second = in_ranks(tmp_path, run)
    assert first.value is not None, first.output
    assert first.value == second.value
    assert first.value[0] == "WRONG"
    assert first.value[1].startswith("rank 1: ")

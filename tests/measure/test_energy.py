"""Joules per launch from a counter that moves in steps, with a GPU of which everything is known."""

import json
import math

import pytest

from peakgate.help import page
from peakgate.measure import energy
from peakgate.measure.energy import Loop, idle_w, loop, of_loops

STEP_S, IDLE_W, BUSY_W, LAUNCH_S = 0.1, 70.0, 400.0, 2e-3


class Gpu:
    """A GPU that works off its queue, and whose counter moves every 0.1 s; the host's calls take no time."""

    def __init__(self, step_s=STEP_S):
        self.now = self.busy_until = self.busy_s = 0.0
        self._step_s = step_s

    def launch(self):
        self.busy_until = max(self.busy_until, self.now) + LAUNCH_S
        self.busy_s += LAUNCH_S

    def mark(self):
        until = self.busy_until

        def wait():
            self.now = max(self.now, until)

        return wait

    def joules(self):
        if self._step_s is None:
            return 1.0
        seen = math.floor(self.now / self._step_s + 1e-9) * self._step_s
        worked = min(seen, self.busy_s)
        return IDLE_W * seen + (BUSY_W - IDLE_W) * worked

    def clock(self):
        return self.now

    def rest(self, seconds):
        self.now += seconds


def test_a_loop_gives_power_times_the_time_of_a_launch():
    gpu = Gpu()
    found = loop(gpu.launch, 1e6 * LAUNCH_S, gpu, gpu.clock)
    assert math.isclose(found.power_w, BUSY_W, rel_tol=0.02)
    assert math.isclose(found.launch_s, LAUNCH_S, rel_tol=0.02)
    assert gpu.now >= energy.WARM_S + energy.LOOP_S
    assert gpu.now >= gpu.busy_until


def test_a_graph_counts_as_its_launches():
    gpu = Gpu()

    def replay():
        for _ in range(4):
            gpu.launch()

    assert math.isclose(
        loop(replay, 1e6 * LAUNCH_S, gpu, gpu.clock, launches=4).joules, BUSY_W * LAUNCH_S, rel_tol=0.02
    )


def test_a_counter_that_stands_still_or_is_gone_gives_nothing():
    gpu = Gpu(None)
    assert loop(gpu.launch, 1e6 * LAUNCH_S, gpu, gpu.clock) is None
    assert idle_w(gpu, gpu.clock, gpu.rest) is None
    gpu.joules = lambda: None
    assert loop(gpu.launch, 1e6 * LAUNCH_S, gpu, gpu.clock) is None
    assert idle_w(gpu, gpu.clock, gpu.rest) is None


def test_the_idle_power_is_that_of_a_gpu_without_work():
    gpu = Gpu()
    assert math.isclose(idle_w(gpu, gpu.clock, gpu.rest), IDLE_W, rel_tol=0.02)


def test_loops_come_to_their_median_and_their_range():
    found = of_loops([Loop(100.0, 1e-3), Loop(110.0, 1e-3), Loop(90.0, 1e-3)], 70.0)
    assert (found.joules, found.least_joules, found.most_joules) == pytest.approx((0.1, 0.09, 0.11))
    assert (found.loops, found.idle_w) == (3, 70.0)


def test_without_a_gpu_a_run_says_that_there_is_no_energy(tmp_path, bench, benchmarks):
    text = "import numpy as np\ndef bench_x(gpu_benchmark):\n    gpu_benchmark(lambda x: x + 1, np.ones(3))\n"
    written = next(line for line in page("energy").splitlines() if line.startswith("peakgate bench --energy"))
    done = bench(benchmarks(text), *written.split()[2:], "--benchmark-json=r.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert any("energy" in line and "without a GPU" in line for line in done.stdout.splitlines())
    (entry,) = json.loads((tmp_path / "r.json").read_text())["benchmarks"]
    assert entry["extra_info"]["energy"] is None

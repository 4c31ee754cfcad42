"""From a fleet's table to what became of every GPU, and its reports."""

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fleet_tables import fleet_table, write_table
from synthetic_runs import LADDER, document

from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import EMULATED_PASS, ExitCode, Verdict, exit_code
from peakgate.fleet import analysis, command, dataset, report
from peakgate.fleet.analysis import GpuStatus
from peakgate.fleet.pictures import heat_map, pictures
from peakgate.fleet.place import GpuPlace
from peakgate.fleet.store import FleetPlan, Store, newest
from peakgate.pages import show
from peakgate.render import files
from peakgate.runfile.saved import load_run

BOUND = ["memory"] * 20 + ["compute"] * 5


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Reports without their pictures, a third of a second each."""
    monkeypatch.setattr(report, "pictures", lambda _: ())


def rows(uuid, seed, *, slow=0.0, mode="exclusive", driver="580", started="2026-11-22T00:00:00", verdicts=()):
    rng = np.random.default_rng(seed)
    times = 100.0 * np.exp(rng.normal(0, 0.002, len(BOUND)) + slow)
    about = {"uuid": uuid, "node": f"node{seed // 8}", "slug": "nvidia-h200", "driver": driver, "mode": mode}
    about |= {"fleet": "f", "outcome": "measured", "emulated": False, "started": started}
    judged = dict(verdicts)
    about["exit_code"] = exit_code(Verdict(verdict) for verdict in judged.values())
    return [
        about | {"case": f"case{at}", "bound": bound, "time_us": time, "verdict": judged.get(at, "PASS")}
        for at, (bound, time) in enumerate(zip(BOUND, times, strict=True))
    ]


def fleet(count=16, slow=(), more=()):
    found = [row for at in range(count) for row in rows(f"GPU-{at}", at, slow=dict(slow).get(at, 0.0))]
    return fleet_table([*found, *more])


def lone(uuid, outcome):
    about = {"uuid": uuid, "node": "node9", "slug": "nvidia-h200", "mode": "exclusive", "fleet": "f"}
    return about | {"outcome": outcome, "reason": "why", "emulated": False}


def test_every_gpu_is_counted_once():
    found = analysis.analyse(
        fleet(more=[lone("GPU-lost", "lost"), lone("GPU-unfit", "unfit"), lone("GPU-gone", "crashed")])
    )
    assert found.counts == {GpuStatus.CRASHED: 1, GpuStatus.LOST: 1, GpuStatus.UNFIT: 1, GpuStatus.OK: 16}
    assert found.exit_code is ExitCode.REGRESSION


def test_a_healthy_fleet_passes_and_one_that_lost_a_gpu_does_not():
    assert analysis.analyse(fleet()).exit_code is ExitCode.OK
    assert analysis.analyse(fleet(more=[lone("GPU-lost", "lost")])).exit_code is ExitCode.UNDECIDED


def test_a_suspect_is_named_only_when_it_is_slow_again():
    first = fleet(slow={3: 0.06})
    found = analysis.analyse(first)
    assert analysis.suspects(found) == ["GPU-3"]
    assert found.exit_code is ExitCode.UNDECIDED
    slow, fine = (
        analysis.analyse(fleet_table([*first.to_dict("records"), *rows("GPU-3", 30, slow=again, mode="again")]))
        for again in (0.06, 0.0)
    )
    assert slow.gpus.loc["GPU-3", "status"] == GpuStatus.OUTLIER
    assert slow.exit_code is ExitCode.REGRESSION
    assert fine.counts == {GpuStatus.OK: 16}
    assert fine.exit_code is ExitCode.OK


def test_a_wrong_result_that_others_get_right_names_the_gpu():
    one = analysis.analyse(fleet_table([*fleet(8).to_dict("records"), *rows("GPU-9", 9, verdicts=[(0, "WRONG")])]))
    assert one.gpus.loc["GPU-9", "status"] == GpuStatus.OUTLIER
    assert not one.faulty
    every = analysis.analyse(
        fleet_table([row for at in range(4) for row in rows(f"GPU-{at}", at, verdicts=[(0, "WRONG")])])
    )
    assert every.counts == {GpuStatus.FAILED: 4}
    assert [line.partition(":")[0] for line in every.faulty] == ["case0"]
    assert every.exit_code is ExitCode.REGRESSION


@pytest.mark.parametrize(
    ("mode", "verdict", "status", "code"),
    [
        ("exclusive", "BELOW_FLOOR", GpuStatus.FAILED, ExitCode.REGRESSION),
        ("again", "MISSING", GpuStatus.FAILED, ExitCode.REGRESSION),
        ("exclusive", "INCONCLUSIVE", GpuStatus.UNDECIDED, ExitCode.UNDECIDED),
        ("exclusive", "NO_FLOOR", GpuStatus.OK, ExitCode.OK),
    ],
)
def test_a_gate_that_fails_in_either_pass_decides_the_exit_code(mode, verdict, status, code):
    first = fleet(8).to_dict("records")
    if mode == "exclusive":
        first = [row for row in first if row["uuid"] != "GPU-2"]
    judged = rows("GPU-2", 2, verdicts=[(7, verdict)], mode=mode)
    found = analysis.analyse(fleet_table([*first, *judged]))
    assert (found.gpus.loc["GPU-2", "status"], found.exit_code) == (status, code)
    assert found.gpus.loc["GPU-2", "reason"] == ("" if status is GpuStatus.OK else f"case7: {verdict}")
    counted = f"1 {status}" if status is not GpuStatus.OK else "8 OK"
    written = report.of_fleet(found)
    assert counted in written.counts_text
    assert dict(found.failing) == ({"case7": 1} if status is GpuStatus.FAILED else {})
    assert drained(written) == set()


def test_a_gate_that_exits_1_fails_whatever_its_cases_are():
    table = fleet(8)
    table.loc[table["uuid"] == "GPU-2", "exit_code"] = 1
    found = analysis.analyse(table)
    assert (found.gpus.loc["GPU-2", "status"], found.exit_code) == (GpuStatus.FAILED, ExitCode.REGRESSION)


def test_the_reason_gives_the_effect_in_all_and_in_every_group():
    slow = fleet(slow={3: 0.055})
    found = analysis.analyse(fleet_table([*slow.to_dict("records"), *rows("GPU-3", 30, slow=0.055, mode="again")]))
    percents = dict(re.findall(r"(all cases|memory|compute) ([0-9.]+) %", found.gpus.loc["GPU-3", "reason"]))
    assert {name: float(value) for name, value in percents.items()} == pytest.approx(
        dict.fromkeys(("all cases", "memory", "compute"), 5.65), abs=0.4
    )


def test_two_gpus_are_compared_with_earlier_fleets():
    now = fleet_table(
        [
            row
            for uuid, seed, slow in (("GPU-20", 20, 0.0), ("GPU-21", 21, 0.06))
            for mode in ("exclusive", "again")
            for row in rows(uuid, seed, slow=slow, mode=mode, started="2026-11-23T00:00:00")
        ]
    )
    alone, beside = analysis.analyse(now), analysis.analyse(now, fleet(8))
    assert (alone.counts, len(alone.notes)) == ({GpuStatus.OK: 2}, 1)
    assert beside.counts == {GpuStatus.OUTLIER: 1, GpuStatus.OK: 1}
    assert beside.gpus.index[0] == "GPU-21"
    assert list(beside.effects.index) == ["GPU-20", "GPU-21"]
    other_driver = fleet(8).assign(driver="590")
    assert analysis.analyse(now, other_driver).counts == {GpuStatus.OK: 2}


def test_a_host_that_became_faster_makes_no_other_gpu_slower():
    now = [
        row
        for at in range(32)
        for row in rows(f"GPU-{at}", at, slow=-0.012 if at < 8 else 0.0, started="2026-11-23T00:00:00")
    ]
    assert analysis.analyse(fleet_table(now), fleet(32)).counts == {GpuStatus.OK: 32}


def test_suspects_of_two_gpus_are_found_beside_earlier_fleets(tmp_path):
    past = tmp_path / "past.parquet"
    write_table(fleet(8), past)
    now = Store(tmp_path / "fleet" / "20261123")
    now.folder.mkdir(parents=True)
    slow = [row for uuid, seed, by in (("GPU-20", 20, 0.0), ("GPU-21", 21, 0.06)) for row in rows(uuid, seed, slow=by)]
    table = fleet_table(slow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "gather", lambda _: table)
        assert report.suspects(now) == []
        assert report.suspects(now, [past]) == ["GPU-21"]


def test_gpus_of_other_machine_code_are_not_compared_with():
    now = fleet_table(rows("GPU-20", 20, slow=0.06)).assign(fingerprint="new")
    assert analysis.analyse(now, fleet(8).assign(fingerprint="old")).counts == {GpuStatus.OK: 1}


def drained(written):
    """The nodes that the report's commands take out of service."""
    return {name for each in written.sentences for name in re.findall(r"NodeName=(\w+)", each)}


@pytest.mark.parametrize(("dead", "nodes", "nodes_drained"), [(0, 0, set()), (1, 1, {"node9"}), (1, 3, set())])
def test_only_a_node_whose_workers_died_alone_is_drained(dead, nodes, nodes_drained):
    lost = [
        lone(f"GPU-lost{at}", "lost") | {"node": f"node{9 + at}", "workers_lost": 2 * dead}
        for at in range(max(1, nodes))
    ]
    written = report.of_fleet(analysis.analyse(fleet(16, more=lost)))
    assert written.exit_code == ExitCode.UNDECIDED
    assert drained(written) == nodes_drained


def test_gpus_of_another_driver_are_not_compared():
    other = [row for at in range(20, 28) for row in rows(f"GPU-{at}", at, slow=0.2, driver="590")]
    assert analysis.analyse(fleet(more=other)).exit_code is ExitCode.OK


def test_all_at_once_is_compared_with_one_at_a_time_by_uuid():
    together = fleet_table(
        [
            row
            for at in range(8)
            for row in rows(f"GPU-{at}", at, slow=0.03, mode="together", started="2026-11-22T01:00:00")
        ]
    )
    found = analysis.analyse(together, fleet(8))
    assert found.together.pairs == 8
    assert found.together.groups.loc["memory", "shift_percent"] == pytest.approx(3.05, abs=0.05)


def test_a_gpu_that_became_slower_than_its_past_is_named():
    now = fleet_table(
        [
            row
            for at in range(8)
            for row in rows(
                f"GPU-{at}", at, slow=0.02 + (0.06 if at == 5 else 0), driver="590", started="2026-11-23T00:00:00"
            )
        ]
    )
    found = analysis.analyse(now, fleet(8))
    assert found.gpus.loc["GPU-5", "status"] == GpuStatus.OUTLIER
    assert found.counts[GpuStatus.OUTLIER] == 1
    rollout = next(change for change in found.changes if change.what == "driver roll-out")
    assert rollout.groups.loc["memory", "shift_percent"] == pytest.approx(2.0, abs=0.1)


def test_reports_name_the_bad_gpu_first_and_are_whole(tmp_path, shown, monkeypatch):
    monkeypatch.setattr(report, "pictures", pictures)
    first = fleet(slow={3: 0.06})
    found = analysis.analyse(fleet_table([*first.to_dict("records"), *rows("GPU-3", 30, slow=0.06, mode="again")]))
    written = report.of_fleet(found)
    paths = {path.suffix: path.read_text() for path in report.write(written, tmp_path)}
    document = json.loads(paths[".json"])
    assert document["counts"] == {"OUTLIER": 1, "OK": 15}
    assert document["gpus"][0]["uuid"] == "GPU-3"
    assert paths[".csv"].splitlines()[1].startswith("GPU-3,OUTLIER")
    assert "`GPU-3`" in paths[".md"]
    assert paths[".html"].index("GPU-3<") < paths[".html"].index("GPU-1<")
    assert [each.title for each in written.pictures] == ["GPUs and cases", "Spread per case"]
    assert drained(written) == {"node0"}
    shown("fleet.txt", replace(written, sentences=[each for each in written.sentences if "spread" not in each]))


def test_a_figure_that_is_missing_is_empty_in_the_report():
    found = report.of_fleet(analysis.analyse(fleet(2, more=[lone("GPU-lost", "lost")])))
    for name in ("md", "csv", "html"):
        assert "nan" not in files.text(found, name).partition("<script>")[0]
    assert "\n| `GPU-1` | OK | node0 |  |  | 0 |" in files.text(found, "md")


def test_reports_leave_a_fleets_plan_readable(tmp_path):
    store = Store(tmp_path / "f")
    plan = FleetPlan("f", "digest", "inside", "commit", False, ("-k", "x"), "cpu", False, "harness")
    store.begin(plan, [])
    report.write(report.of_fleet(analysis.analyse(fleet(1))), store.folder)
    assert newest(tmp_path).read() == (plan, {})


def test_a_pass_of_the_emulator_says_that_no_speed_was_judged(tmp_path):
    real = fleet(8)
    emulated = real.assign(emulated=True, slug="cpu-emulator")
    found = [report.of_fleet(analysis.analyse(each)) for each in (real, emulated)]
    assert [each.verdict for each in found] == [Verdict.PASS] * 2
    assert [bool(each.qualified) for each in found] == [False, True]
    (tmp_path / "run.json").write_text(json.dumps(document(slug="cpu-emulator")))
    shown = show.report(load_run(tmp_path / "run.json"), pictures=False)
    assert (shown.verdict, shown.qualified) == (Verdict.PASS, EMULATED_PASS)


def test_the_emulators_times_are_compared_with_none():
    now = fleet(8, slow={3: 0.5}).assign(emulated=True)
    found = analysis.analyse(now, fleet(8))
    assert (found.counts, found.changes, found.together) == ({GpuStatus.OK: 8}, (), None)


@pytest.mark.parametrize("outcome", ["lost", "unfit", None])
def test_a_gpu_without_a_measurement_keeps_a_fleet_from_passing(tmp_path, outcome):
    store = Store(tmp_path / "f")
    plan = FleetPlan("f", "digest", "inside", "commit", False, (), "cpu", False, "harness")
    store.begin(plan, [GpuPlace("GPU-0", "node0", None, emulated=False)])
    if outcome:
        store.add_gate({"uuid": "GPU-0", "mode": "exclusive", "outcome": outcome, "reason": "why"})
    found = analysis.analyse(dataset.gather(store))
    status = GpuStatus.UNFIT if outcome == "unfit" else GpuStatus.LOST
    assert (found.counts, found.exit_code) == ({status: 1}, ExitCode.UNDECIDED)


def test_a_node_name_that_a_shell_takes_apart_is_in_no_command():
    about = lone("GPU-x", "lost") | {"node": "a; rm -rf /"}
    assert not any("rm -" in each for each in report.of_fleet(analysis.analyse(fleet_table([about]))).sentences)


def measured_fleet(folder, count=3):
    """A fleet's folder with gates of the emulator's run file."""
    store = Store(folder)
    places = [
        GpuPlace(f"GPU-{at}", f"node{at}", None, emulated=False, facts={"slug": "nvidia-h200"}) for at in range(count)
    ]
    store.begin(FleetPlan(folder.name, "digest", "inside", "commit", False, (), "cpu", False, "harness"), places)
    for each in places:
        add(store, each.uuid, "exclusive")
    return store


def add(store, uuid, mode):
    run = gzip.compress(json.dumps(document(dict.fromkeys(LADDER, 100.0))).encode())
    gate = {"uuid": uuid, "mode": mode, "outcome": "measured", "exit_code": 0, "run": base64.b64encode(run).decode()}
    store.add_gates([gate])


def test_each_run_file_is_read_once_by_a_command(tmp_path, monkeypatch):
    store, read = measured_fleet(tmp_path / "f"), []
    monkeypatch.setattr(dataset, "load_run", lambda path: read.append(path) or load_run(path))
    first = dataset.gather(store)
    add(store, "GPU-1", "again")
    both = dataset.gather(store)
    assert len(read) == len(set(read)) == 4
    assert both["mode"].astype(str).value_counts().to_dict() == {"exclusive": len(first), "again": len(first) // 3}
    again, by = dataset.gather(Store(store.folder)), ["uuid", "mode", "case"]
    both, again = (each.astype(object).sort_values(by, ignore_index=True) for each in (both, again))
    pd.testing.assert_frame_equal(both, again, check_dtype=False)


def test_a_fleet_is_reported_from_its_parquet_file_alone(tmp_path, capsys):
    store = measured_fleet(tmp_path / "20261124T0000")
    whole = command.main("fleet", ["--report", str(store.folder), "--out", str(tmp_path)])
    reports_of_folder = (store.folder / "fleet.json").read_text()
    alone = tmp_path / "alone.parquet"
    (store.folder / dataset.DATASET_FILE).rename(alone)
    assert command.main("fleet", ["--report", str(alone), "--out", str(tmp_path / "other")]) == whole
    assert (tmp_path / "other" / "fleet" / store.name / "fleet.json").read_text() == reports_of_folder


@pytest.mark.parametrize("change", [{"fleet": "../x"}, {"mode": "shard"}])
def test_a_table_that_is_not_of_one_whole_fleet_is_refused(tmp_path, change):
    write_table(fleet(4).assign(**change), tmp_path / "t.parquet")
    with pytest.raises(PeakgateError, match="one fleet"):
        report.of_table(tmp_path / "t.parquet", tmp_path, ())


def test_of_a_long_past_each_gpu_is_known_by_its_newest_fleet(tmp_path):
    for day in (21, 23, 22):
        table = fleet_table([row for at in range(2) for row in rows(f"GPU-{at}", at, started=f"2026-11-{day}")])
        write_table(table, tmp_path / f"{day}.parquet")
    found = report._earlier(tmp_path / "f", [tmp_path / f"{day}.parquet" for day in (21, 23, 22)])
    assert set(found["started"]) == {"2026-11-23"}
    assert len(found) == 2 * len(BOUND)


def test_the_data_set_is_read_as_it_was_written(tmp_path):
    table = fleet(4)
    write_table(table, tmp_path / dataset.DATASET_FILE)
    read = dataset.read(tmp_path / dataset.DATASET_FILE)
    pd.testing.assert_frame_equal(read.astype(object), table.astype(object), check_dtype=False)
    (tmp_path / dataset.DATASET_FILE).write_bytes(b"no parquet")
    with pytest.raises(PeakgateError, match=dataset.DATASET_FILE):
        dataset.read(tmp_path / dataset.DATASET_FILE)


def test_the_heat_map_names_the_outliers_first_and_every_group():
    found = analysis.analyse(fleet(200, slow={3: 0.06, 150: 0.06}))
    for uuid in ("GPU-3", "GPU-150"):
        found.gpus.loc[uuid, "status"] = GpuStatus.OUTLIER
    drawn = heat_map(found).svg
    named = set(re.findall(r">(node\d+ GPU-\d+)<", drawn))
    assert {"node0 GPU-3", "node18 GPU-150"} <= named
    assert len(named) < 200
    assert {"compute (5)", "memory (20)"} <= set(re.findall(r">(\w+ \(\d+\))<", drawn))
    assert "case7" in drawn


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (fleet(8), "PASS"),
        (fleet(8, more=[lone("GPU-lost", "lost")]), "LOST"),
        (fleet(8, more=[lone("GPU-gone", "crashed"), lone("GPU-lost", "lost")]), "CRASHED"),
    ],
)
def test_a_fleet_has_the_verdict_of_its_worst_gpu(found, verdict):
    assert report.of_fleet(analysis.analyse(found)).verdict == verdict

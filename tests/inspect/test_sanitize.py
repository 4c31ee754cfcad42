"""What a sanitizer run left behind is read right; no GPU and no sanitizer is needed here."""

import json
import re
import shutil
import sys
from datetime import date
from pathlib import Path

import pytest
import sarif

from peakgate.base.processes import run_in_group
from peakgate.base.verdict import ExitCode
from peakgate.inspect.sanitize import command
from peakgate.inspect.sanitize.report import NO_KERNEL, LaunchLog, ToolReport, read_journal, read_records, read_report
from peakgate.inspect.sanitize.report import report as report_of
from peakgate.judge.waivers import rule
from peakgate.spec.case import Scale
from peakgate.spec.catalogue import kernel_name, problems

TOOL = "memcheck"
KERNELS = {name: [f"injected.{name}"] for name in ("past_end", "racing", "unwritten")}


def xml(*records):
    return f'<?xml version="1.0"?><ComputeSanitizerOutput>{"".join(records)}</ComputeSanitizerOutput>'.encode()


def record(text, func="past_end", pc="0xb0", thread=(255, 0, 0), level="<level>Error</level>"):
    who = "".join(
        f"<{name}><x>{x}</x><y>{y}</y><z>{z}</z></{name}>"
        for name, (x, y, z) in (("threadIdx", thread), ("blockIdx", (1, 0, 0)))
    )
    return (
        f"<record><kind>Precise</kind>{level}<who>{who}</who><what><text>{text}</text><size>4</size></what>"
        f"<where><func>{func}</func><pc>{pc}</pc></where></record>"
    )


def race(level, *reads):
    ends = "".join(
        f"<destination><direction>Read</direction><where><func>racing</func><pc>{pc}</pc></where></destination>"
        for pc in reads
    )
    source = "<source><direction>Write</direction><where><func>racing</func><pc>0xe0</pc></where></source>"
    return (
        f"<record><kind>Analysis</kind><level>{level}</level><what><text>Race condition</text>{source}{ends}"
        "</what></record>"
    )


@pytest.fixture
def left(tmp_path):
    """Write what a run leaves and read it back as a report."""

    def write(records=None, log="", journal=()):
        paths = [tmp_path / name for name in ("memcheck.xml", "memcheck.log", "memcheck.jsonl")]
        if records is not None:
            paths[0].write_bytes(records)
        paths[1].write_text(log)
        paths[2].write_text("\n".join(json.dumps(entry) for entry in journal))
        return read_report("memcheck", *paths)

    return write


def judged(*tools):
    """The report of these tools' runs, of which nothing is waived."""
    found = [defect for tool in tools for defect in tool.defects]
    return report_of(tools, rule(found, {}, lambda key: True, date(2026, 11, 22)))


LAUNCH = {"case": "injected.past_end-256", "kernel": "injected.past_end", "functions": ["past_end"]}
DONE = {"done": True}


def test_an_invalid_access_is_put_on_its_kernel_with_instruction_thread_and_block():
    (found,) = read_records(TOOL, xml(record("Invalid __global__ write of size 4 bytes is out of bounds")), KERNELS)
    assert found.key.kernel == "injected.past_end"
    assert found.facts["where"].split(", ") == ["past_end+0xb0", "thread (255,0,0)", "block (1,0,0)"]


def test_the_same_complaint_at_one_instruction_is_one_defect_with_its_count():
    text = "Uninitialized __global__ memory read of size 4 bytes"
    found = read_records(
        TOOL,
        xml(
            *(record(text, "unwritten", thread=(at, 0, 0), level="") for at in range(5)),
            record(text, "unwritten", "0xc0"),
        ),
        KERNELS,
    )
    assert [(defect.count, defect.key.line) for defect in found] == [
        (5, "unwritten+0xb0"),
        (1, "unwritten+0xc0"),
    ]
    assert "thread (0,0,0)" in found[0].what


def test_a_race_names_every_access_and_a_warning_is_no_error():
    error, warning = read_records("racecheck", xml(race("Error", "0xf0", "0x100"), race("Warning", "0xf0")), KERNELS)
    assert re.findall(r"(\w+) at racing\+(\w+)", error.what) == [("write", "0xe0"), ("read", "0xf0"), ("read", "0x100")]
    assert (error.key.kernel, error.warning, warning.warning) == ("injected.racing", False, True)
    assert judged(ToolReport("racecheck", LaunchLog({}, (), (), True), (warning,), 0, None)).exit_code is ExitCode.OK


def test_line_information_is_used_where_the_code_has_it():
    placed = record("Invalid write").replace("<pc>", "<path>past_end.cu</path><line>4</line><pc>")
    assert read_records(TOOL, xml(placed), KERNELS)[0].facts["where"].startswith("past_end.cu:4, ")


def test_a_name_two_families_share_names_both_and_a_foreign_one_stands_for_itself():
    shared, foreign = read_records(
        TOOL, xml(record("bad", "copy"), record("bad", "cupy_add")), {"copy": ["roof.copy", "access.copy"]}
    )
    assert (shared.key.kernel, foreign.key.kernel) == ("access.copy or roof.copy", "cupy_add")


@pytest.mark.parametrize(
    "function", ["void softmax<float, (int)128>(T1 *, const T1 *, int)", "_Z7softmaxIfLi128EEvPT_PKS0_i", "n::softmax"]
)
def test_a_template_kernel_is_known_by_its_own_name(function):
    (found,) = read_records(TOOL, xml(record("bad", function.replace("<", "&lt;"))), {"softmax": ["norms.first"]})
    assert found.key.kernel == "norms.first"


def test_a_record_without_a_kernel_is_kept():
    (found,) = read_records(TOOL, xml("<record><kind>Api</kind><what><text>bad copy</text></what></record>"), KERNELS)
    assert (found.key.kernel, found.what, found.facts["where"]) == (NO_KERNEL, "bad copy", "")


def test_a_clean_run_passes(left):
    report = judged(left(xml(), "========= ERROR SUMMARY: 0 errors", [{"machine": {"name": "x"}}, LAUNCH, DONE]))
    (tool,) = report.fields["tools"]
    assert (report.exit_code, tool["errors"], tool["unfinished"]) == (ExitCode.OK, 0, None)


def test_errors_fail_and_those_beyond_the_tools_limit_count(left):
    log = "========= ERROR SUMMARY: 256 errors\n========= ERROR SUMMARY: 156 errors were not printed. Use --print-limit"
    report = judged(left(xml(record("Invalid write")), log, [LAUNCH, DONE]))
    (tool,) = report.fields["tools"]
    assert (report.exit_code, tool["errors"], tool["unlisted"]) == (ExitCode.REGRESSION, 157, 156)


def test_a_failed_launch_is_an_error_of_its_kernel(left):
    report = left(xml(), "", [LAUNCH, {**LAUNCH, "fault": "an illegal\nmemory access"}, DONE])
    assert judged(report).exit_code is ExitCode.REGRESSION
    (defect,) = report.defects
    assert (defect.key.kernel, defect.facts["where"]) == ("injected.past_end", "injected.past_end-256")
    assert "illegal memory access" in defect.what


@pytest.mark.parametrize(
    ("records", "log", "journal", "reason"),
    [
        (
            None,
            "========= Error: Device not supported\n=========\n",
            [],
            "nothing was launched: Error: Device not supported",
        ),
        (None, "", [LAUNCH], "stopped at injected.past_end-256, the launch number 1: it left no message"),
        (None, "=== Internal Sanitizer Error", [LAUNCH, DONE], "memcheck wrote no records: Internal Sanitizer Error"),
        (b"<ComputeSanitizerOutput><rec", "", [LAUNCH, DONE], "memcheck wrote records that cannot be read: "),
    ],
)
def test_a_run_that_did_not_reach_its_end_is_undecided_and_says_why(left, records, log, journal, reason):
    report = left(records, log, journal)
    assert judged(report).exit_code is ExitCode.UNDECIDED
    assert (report.unfinished or "").startswith(reason)


def test_an_error_outranks_an_unfinished_check(left):
    broken = left(xml(record("Invalid write")), "", [LAUNCH])
    assert broken.unfinished
    assert judged(broken).exit_code is ExitCode.REGRESSION
    clean, unfinished = left(xml(), "", [LAUNCH, DONE]), left(xml(), "", [LAUNCH])
    assert judged(clean, unfinished).exit_code is ExitCode.UNDECIDED
    assert judged(clean, unfinished, broken).exit_code is ExitCode.REGRESSION


def test_the_report_of_several_tools(left, shown):
    racy = ToolReport(
        "racecheck",
        LaunchLog({}, (), (), True),
        tuple(read_records("racecheck", xml(race("Warning", "0xf0")), KERNELS)),
        0,
        "stopped",
    )
    shown("sanitize.txt", judged(left(xml(record("Invalid write"), record("Invalid write")), "", [LAUNCH, DONE]), racy))


def test_a_journal_cut_short_is_read_to_its_last_whole_line(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps({"machine": {"name": "x"}}) + "\n" + json.dumps(LAUNCH) + '\n{"case": "pl')
    journal = read_journal(path)
    assert journal.launched == (("injected.past_end-256", "injected.past_end"),)
    assert (journal.machine, journal.done) == ({"name": "x"}, False)


def test_every_kernel_is_among_the_problems_once_a_launch_and_operations_are_not():
    from peakgate.spec import catalogue  # noqa: PLC0415

    wanted = problems()
    launches = [(case.family, case.stage, case.defines, case.launch, case.arguments) for case in wanted]
    assert len(set(launches)) == len(launches)
    own = [case for case in catalogue.cases(Scale.SMALL) if case.stage.source is not None]
    assert {kernel_name(case) for case in wanted} == {kernel_name(case) for case in own}
    assert len(wanted) > len(own)  # probes are launched too


def test_initcheck_sees_every_kernel_and_the_others_only_ours(tmp_path):
    lines = {
        name: command.command_line("cs", name, tmp_path / "x.xml", ["b", "a"], ["python"])
        for name in command.SANITIZER_TOOLS
    }
    assert "--kernel-name" not in lines["initcheck"]
    assert "regex=(^|[^A-Za-z_])(a|b)" in lines["racecheck"]
    assert [name for name, line in lines.items() if "--padding" in line] == ["memcheck"]
    assert all(line[-1] == "python" for line in lines.values())


def test_a_run_keeps_its_output_and_is_stopped_at_its_limit(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as stream:
        assert run_in_group([sys.executable, "-c", "print('said')"], 60, stdout=stream) == 0
    assert log.read_text() == "said\n"
    assert run_in_group([sys.executable, "-c", "import threading; threading.Event().wait()"], 0.01) is None


@pytest.mark.parametrize(
    ("machine", "reason"),
    [((0, "/bin/compute-sanitizer"), "no usable GPU"), ((1, None), "compute-sanitizer is not on PATH")],
)
def test_without_gpu_or_tool_it_is_undecided_and_the_reason_is_kept(tmp_path, monkeypatch, capsys, machine, reason):
    gpus, on_path = machine
    monkeypatch.setattr("peakgate.device.driver.gpu_count", lambda: gpus)
    monkeypatch.setattr(shutil, "which", lambda name: on_path)
    assert command.main("inspect sanitize", ["--out", str(tmp_path)]) is ExitCode.UNDECIDED
    assert f"not checked: {reason}" in capsys.readouterr().out
    verdict = json.loads((tmp_path / "sanitize.json").read_text())
    assert verdict["exit_code"] == 3
    assert reason in verdict["reason"]


def test_the_verdict_of_a_run_holds_versions_cases_and_errors(tmp_path, monkeypatch, capsys):
    """The commands are replaced, the files are as a run leaves them."""

    def leave(line, limit_s, *, stdout, stderr):
        log = Path(stdout.name)
        name = line[line.index("--tool") + 1]
        log.write_text("")
        log.with_suffix(".xml").write_bytes(xml(record("Invalid write")) if name == "memcheck" else xml())
        entries = [{"machine": {"name": "NVIDIA H200", "driver": "580.1"}}, LAUNCH, DONE]
        log.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, entries)))
        return None if name == "synccheck" else 0

    monkeypatch.setattr("peakgate.device.driver.gpu_count", lambda: 1)
    program = tmp_path / "compute-sanitizer"
    program.write_text("#!/bin/sh\necho Version 2025.3.1.0\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    monkeypatch.setattr(command, "run_in_group", leave)
    assert command.main("inspect sanitize", ["--out", str(tmp_path)]) is ExitCode.REGRESSION
    verdict = json.loads((tmp_path / "sanitize.json").read_text())
    assert (verdict["exit_code"], verdict["sanitizer"], verdict["machine"]["driver"]) == (1, "2025.3.1.0", "580.1")
    assert verdict["cases"] == ["injected.past_end-256"]
    assert {entry["tool"]: entry["errors"] for entry in verdict["tools"]} == {
        "memcheck": 1,
        "racecheck": 0,
        "initcheck": 0,
        "synccheck": 0,
    }
    assert "memcheck: injected.past_end: " in capsys.readouterr().out
    assert "900 s" in verdict["tools"][3]["unfinished"]
    unknown = "pyproject.toml", 1  # no kernel of this project
    expected = [("memcheck", "error", *unknown), ("not-checked", "warning", *unknown)]
    assert sarif.results(tmp_path / "sanitize.sarif") == expected

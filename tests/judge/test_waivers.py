"""Accepted defects: one file for every command, strict both ways."""

from datetime import date
from pathlib import Path

import pytest

from peakgate.base.errors import PeakgateError
from peakgate.inspect.sanitize.report import found
from peakgate.judge.waivers import Defect, DefectKey, Waiver, entry, read, rule

TODAY = date(2026, 11, 22)
KEY = DefectKey("check", "sums.sums", "out of bounds", "sums.cu", 'out[i] = in[i + 1]; // "past"')
WAIVED = {KEY: Waiver("mended in the next release", TODAY)}
SURVIVOR = '[[survivor]]\nfile = "k.cu"\nline = "l"\nchange = "c"\nreason = "r"\n'
ENTRY = entry(KEY).replace('reason = ""', 'reason = "why"').replace('expires = ""', "expires = 2999-12-31") + "\n"


def defect(key, *, warning=False):
    return Defect(key, key.kernel, "what", {"at": key.kernel}, warning=warning)


def test_an_entry_to_copy_is_read_once_it_has_reason_and_day(tmp_path):
    (tmp_path / "waivers.toml").write_text(ENTRY)
    assert read(tmp_path / "waivers.toml").defects == {KEY: Waiver("why", date(2999, 12, 31))}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (ENTRY.replace("kernel", "kernl"), ":3: defect[0].kernl is an unknown key, did you mean 'kernel'?"),
        (ENTRY.replace('"why"', '" "'), ":7: defect[0].reason"),
        (ENTRY.replace('"check"', '"bench"'), ":2: defect[0].command"),
        (ENTRY.replace("2999-12-31", '"soon"'), ":8: defect[0].expires"),
        (ENTRY.partition("expires")[0], ":1: defect[0].expires"),
        (ENTRY + ENTRY, ":9: defect 2"),
        (ENTRY.replace("[[defect]]", "[defect]"), ":1: defect "),
        (ENTRY.replace("[[defect]]", "[[defects]]"), ":1: defects is an unknown key, did you mean 'defect'?"),
        (SURVIVOR.replace('"r"', '" "'), ":5: survivor[0].reason"),
        (SURVIVOR + 'why = "?"\n', ":6: survivor[0].why"),
        (SURVIVOR + "occurrence = 0\n", ":6: survivor[0].occurrence"),
        (SURVIVOR + SURVIVOR, ":6: survivor 2"),
    ],
)
def test_a_mistake_is_one_line_with_line_entry_and_key(tmp_path, text, place):
    (tmp_path / "waivers.toml").write_text(text)
    with pytest.raises(PeakgateError) as reported:
        read(tmp_path / "waivers.toml")
    assert str(reported.value).startswith(f"{tmp_path / 'waivers.toml'}{place}")
    assert "\n" not in str(reported.value)


def test_a_defect_is_accepted_at_its_line_up_to_its_last_day():
    here, elsewhere = defect(KEY), defect(KEY._replace(line="out[i] = in[i];"))
    found = rule((here, elsewhere), WAIVED, lambda _: True, TODAY)
    assert (found.left, found.waived) == ((elsewhere,), ((here, WAIVED[KEY]),))
    found = rule((here, elsewhere), WAIVED, lambda _: True, date(2026, 11, 23))
    assert (found.left, found.waived) == ((here, elsewhere), ())


def test_an_entry_without_use_or_expired_is_a_complaint():
    assert rule([defect(KEY)], WAIVED, lambda _: True, TODAY).complaints == ()
    assert rule([], WAIVED, lambda _: False, TODAY).complaints == ()
    assert "no longer occurs" in rule([], WAIVED, lambda _: True, TODAY).complaints[0]
    expired = rule([defect(KEY)], WAIVED, lambda _: True, date(2026, 11, 23))
    assert "until 2026-11-22" in expired.complaints[0]


def test_a_sanitizers_defect_is_accepted_at_its_instruction():
    first, second = defects = [
        found("memcheck", "sums.sums", "Invalid write", f"sums+{at}") for at in ("0xb0, thread (0,0,0)", "0xc0")
    ]
    ruling = rule(defects, {first.key: Waiver("known", TODAY)}, lambda _: True, TODAY)
    assert (ruling.failing, [defect.key.line for defect in ruling.left]) == (True, ["sums+0xc0"])
    assert [waiver.reason for _, waiver in ruling.waived] == ["known"]
    both = {first.key: Waiver("known", TODAY), second.key: Waiver("known", TODAY)}
    assert not rule(defects, both, lambda _: True, TODAY).failing


def test_a_ruling_fails_by_what_is_left_or_by_a_complaint():
    other, third = KEY._replace(kernel="b.b", command="memcheck"), KEY._replace(kernel="c.c")
    warning, wrong, accepted = defect(other, warning=True), defect(third), defect(KEY)
    assert not rule([warning, accepted], WAIVED, lambda _: True, TODAY).failing
    assert rule([warning], WAIVED, lambda _: True, TODAY).failing  # an entry that matches nothing
    found = rule([warning, wrong, accepted], WAIVED, lambda _: True, TODAY)
    assert found.failing
    assert found.fields(command="check") == {
        "defects": [{"at": "c.c"}],
        "waived": [{"at": KEY.kernel, "reason": WAIVED[KEY].reason, "expires": "2026-11-22"}],
    }
    assert found.fields(kernel="b.b") == {"defects": [{"at": "b.b"}], "waived": []}
    assert found.entries({}) == [entry(third)]
    assert found.entries({third: WAIVED[KEY]}) == []


def test_a_defect_is_named_with_its_place_where_it_has_one():
    assert "sums.cu" not in str(KEY._replace(file="", line=""))
    assert str(KEY).endswith(" in sums.cu")
    assert KEY.line in str(KEY)


def test_what_is_offered_is_read_back_whatever_the_line_holds(tmp_path):
    key = KEY._replace(line=r'print("a\n");')
    twice = rule([defect(key), defect(key)], {}, lambda _: True, TODAY)
    (offered,) = twice.entries({})
    text = offered.replace('reason = ""', 'reason = "why"').replace('""', "2999-12-31")
    (tmp_path / "waivers.toml").write_text(text)
    assert list(read(tmp_path / "waivers.toml").defects) == [key]
    assert rule([], {}, lambda _: True, TODAY).entries({}) == []
    assert read(tmp_path / "none.toml").defects == {}


FAMILY = """
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "sums.cu", arguments=lambda n: [Out(n), In(n), Value(n)], grid=1, block=64,
    bytes=lambda n: 8 * n, reference=lambda xp, x: x, sizes=[40], edges=[40],
)
"""
KERNEL = """__global__ void sums(float* out, const float* in, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = in[i + 1] - in[i + 1] + in[i];
}
"""


def test_check_reports_a_waived_defect_with_its_reason(project, checked, tmp_path, capsys):
    project("sums", FAMILY, sums=KERNEL)
    (baselines := tmp_path / "baselines").mkdir()
    assert checked()[0] == 1
    (offered,) = (line for line in capsys.readouterr().out.splitlines() if "check.toml" in line)
    asked = Path(offered.partition("entry of ")[2].partition(" and ")[0]).read_text()
    waiver = asked.replace('reason = ""', 'reason = "padded"').replace('expires = ""', "expires = 2999-12-31")
    (baselines / "waivers.toml").write_text(waiver)
    code, verdict = checked()
    assert code == 0
    assert "until 2999-12-31" in capsys.readouterr().out
    assert [each["reason"] for each in verdict["kernels"][0]["waived"]] == ["padded"]
    (baselines / "waivers.toml").write_text(waiver.replace("sums.cu", "other.cu"))
    assert checked()[0] == 1
    said = capsys.readouterr().out
    assert "no longer occurs" in said
    assert "1 defect" in said


@pytest.mark.parametrize(("file", "line"), [("sums.cu", "out[i] = 0;"), ("sums.cu", ""), ("", "")])
def test_an_offered_entry_is_read_as_the_same_defect(tmp_path, file, line):
    key = KEY._replace(file=file, line=line)
    text = entry(key).replace('reason = ""', 'reason = "known"').replace('expires = ""', f"expires = {TODAY}")
    assert ("file = " in text, "line = " in text) == (bool(file), bool(line))
    (tmp_path / "waivers.toml").write_text(text, encoding="utf-8")
    assert read(tmp_path / "waivers.toml").defects.keys() == {key}

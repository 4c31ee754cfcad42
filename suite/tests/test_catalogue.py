from pathlib import Path

import pytest

from suite import catalogue
from suite.case import Scale, Tier
from suite.errors import PeakgateError

OWN = catalogue.OWN_FAMILIES
PLANTED = Path(__file__).parent / "planted" / "families"

FAMILY_FILE = """
from suite.case import Family
FAMILY = Family({name!r}, "synthetic", (), lambda scale: iter(()), lambda case: iter(()))
"""


def test_our_own_families_are_found_without_being_listed():
    found = {family.name for family in catalogue.families()}
    assert {path.stem for path in OWN.glob("[!_]*.py")} >= found
    assert {"roof", "transpose"} <= found


def test_families_outside_the_repository_are_found_through_the_environment(monkeypatch):
    monkeypatch.setenv(catalogue.SEARCH_PATH_VARIABLE, str(PLANTED))
    assert "planted.shifted-1024" in {case.id for case in catalogue.cases(Scale.SMALL)}


def test_a_folder_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(catalogue.SEARCH_PATH_VARIABLE, "/no/such/folder")
    with pytest.raises(PeakgateError, match="/no/such/folder is not a folder"):
        catalogue.families()


def test_two_families_of_one_name_are_refused_with_both_files(tmp_path):
    (tmp_path / "one_twin.py").write_text(FAMILY_FILE.format(name="twin"))
    (tmp_path / "other_twin.py").write_text(FAMILY_FILE.format(name="twin"))
    with pytest.raises(PeakgateError, match=r"'twin' is defined in .*one_twin\.py and again in .*other_twin\.py"):
        catalogue.families([tmp_path])


def test_a_family_that_is_none_is_refused(tmp_path):
    (tmp_path / "no_family.py").write_text("FAMILY = 'transpose'\n")
    with pytest.raises(PeakgateError, match="FAMILY is a str"):
        catalogue.families([tmp_path])


def test_the_gate_is_part_of_the_whole_and_covers_every_stage_that_has_cases():
    whole, gate = catalogue.cases(Scale.BENCH), catalogue.cases(Scale.BENCH, Tier.GATE)
    assert {case.id for case in gate} < {case.id for case in whole}
    assert {case.stage for case in gate} == {case.stage for case in whole if not case.stage.host_bound}


def test_the_gate_stays_small_enough_for_every_merge():
    assert len(catalogue.cases(Scale.BENCH, Tier.GATE)) <= 240


def test_every_case_has_probes_of_its_own_build():
    for case in catalogue.cases(Scale.SMALL):
        for probe in catalogue.probes(case):
            assert (probe.stage, probe.defines) == (case.stage, case.defines)

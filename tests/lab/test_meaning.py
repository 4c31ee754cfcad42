"""The list of mistakes of meaning fits the tree, and its record has what became of each of them."""

from __future__ import annotations

import json

import pytest

from lab.mutation import meaning, mutation
from lab.pages import ROOT


@pytest.mark.parametrize("mutant", meaning.listed(), ids=lambda mutant: mutant["name"])
def test_a_mistake_is_one_edit_of_a_file_and_has_its_tests(mutant: dict[str, str]) -> None:
    assert meaning.mutated(mutant) != (ROOT / mutant["file"]).read_text(encoding="utf-8")
    assert all((ROOT / test).is_file() for test in mutant["tests"])


def test_95_percent_were_caught_and_survivors_are_explained() -> None:
    record = json.loads(meaning.RECORD.read_text(encoding="utf-8"))
    explained = {mutant["name"] for mutant in meaning.listed() if "survives" in mutant}
    assert {*record["caught"], *record["survived"]} == {mutant["name"] for mutant in meaning.listed()}
    assert len(record["caught"]) >= meaning.LEAST_CAUGHT * len(meaning.listed())
    assert set(record["survived"]) <= explained


@pytest.mark.parametrize("module", mutation.TESTS)
def test_a_module_to_mutate_is_there_and_its_tests_are_too(module: str) -> None:
    _, change = next(mutation.mutated(module))
    assert change.text != (ROOT / change.file).read_text(encoding="utf-8")
    assert all((ROOT / test).is_file() for test in change.tests)

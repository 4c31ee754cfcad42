"""``peakgate help``: pages, sections and codes, from the wheel or a checkout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from peakgate import help as help_verb
from peakgate.base.errors import Code
from peakgate.cli import main

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "src").rglob("*.py")]


def shown(capsys, *words):
    assert main(["help", *words]) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed(capsys):
    said = shown(capsys)
    assert all(f"{name} " in said for name in help_verb.topics())


def test_no_page_takes_the_topic_of_another():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name in {"docs", *help_verb.FOLDERS}]
    assert len({path.stem for path in pages}) == len(pages)


def test_a_topic_in_the_singular_is_the_page_not_a_section(capsys):
    assert shown(capsys, "check") == shown(capsys, "checks")


@pytest.mark.parametrize("topic", help_verb.topics())
def test_every_topic_is_a_page_with_a_heading(topic, capsys):
    assert shown(capsys, topic).startswith("# ")


@pytest.mark.parametrize("words", [["compiler", "options"], ["Compiler-options"]])
def test_a_heading_shows_its_section_alone(words, capsys):
    lines = shown(capsys, *words).splitlines()
    assert lines[0] == "## Compiler options"
    assert sum(line.startswith("#") for line in lines) == 1


def test_a_comment_in_an_example_is_no_heading(capsys):
    comment = "exit code 1"
    assert f"# {comment}" in shown(capsys, "tutorial")
    assert main(["help", comment]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err


def test_a_heading_of_other_words_is_found_where_none_is_equal(capsys):
    assert shown(capsys, "regression").startswith("## Accept ")


@pytest.mark.parametrize("verdict", ["RIGHT", "RAN"])
def test_a_verdict_of_a_run_without_a_gpu_is_explained(verdict, capsys):
    assert shown(capsys, verdict).startswith("## RIGHT and RAN")


@pytest.mark.parametrize("given", ["PG203", "[pg203]"])
def test_a_code_is_explained(given, capsys):
    assert shown(capsys, given).startswith("PG203: ")


def test_settings_are_the_keys_that_the_reader_knows(capsys):
    text = shown(capsys, "settings")
    assert "build_timeout_s = 600" in text
    assert "::\n" not in text  # its module's docstring is no Markdown
    assert "``[" not in text


def test_messages_name_topics_that_exist_and_no_file():
    text = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    named = {topic for each in text.values() for topic in re.findall(r"`peakgate help ([^`{]+)`", each)}
    assert {"settings", "floors"} <= named
    for topic in named - {"TOPIC"}:
        assert help_verb.text_of(topic)
    messages = [line for each in text.values() for line in each.splitlines() if re.search(r'"[^"]*\.md[";,]', line)]
    assert not [line for line in messages if re.search(r"\b(see|listed in|read) \S+\.md", line)]


def test_a_verb_is_a_topic_wherever_a_page_is_about_it(capsys):
    for verb in help_verb.PAGES_OF_VERBS:
        assert shown(capsys, verb) == shown(capsys, help_verb.PAGES_OF_VERBS[verb])

"""The site: pages that lead to each other, hostile names, what a second call writes, and what it deletes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from refusals import refusal
from synthetic_runs import LADDER, document, save

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.pages.site import LEDGER_FILE
from peakgate.pages.views import SAFE_NAME, page_name

HOSTILE = "a.<script>alert(1)</script>/../../x"
TIMES = {case: LADDER[case] for case in list(LADDER)[:3]} | {HOSTILE: 10.0}
Site = Callable[..., str]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    """Two GPU models with two runs each; calling it writes the site and returns what was printed."""
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        save(tmp_path / "runs", f"h{day}", document(TIMES, day=day))
        save(tmp_path / "runs", f"a{day}", document(TIMES, day=day, slug="nvidia-a100", uuid="GPU-0002"))

    def write() -> str:
        assert main(["show", "--all", "--runs", "runs", "--out", "out"]) == 0
        return capsys.readouterr().out

    return write


def counts(said: str) -> list[int]:
    """GPU models, cases, runs, pages of runs written and pages deleted, as the last line counts them."""
    return [int(number) for number in re.findall(r"\d+", said)][:5]


def page_texts(folder: Path) -> dict[Path, str]:
    return {path.resolve(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_every_page_is_reached_from_the_index_and_no_link_leaves_the_folder(site: Site, tmp_path: Path) -> None:
    assert counts(site()) == [2, 8, 4, 4, 0]
    written = page_texts(tmp_path / "out" / "site")
    reached, waiting = set(), [(tmp_path / "out" / "site" / "index.html").resolve()]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        found = re.findall(r'<a href="?([^">]+)"?>', written[page])
        named = {(page.parent / unquote(link)).resolve() for link in found if not link.startswith("#")}
        assert named <= written.keys()
        waiting += named - reached
    assert reached == written.keys()
    models, lists, families, runs, commits = 2, 4, 1, 2, 1
    assert len(reached) == 1 + models * (lists + families + len(TIMES) + runs + commits)


def test_a_family_has_a_page_with_its_stages_and_its_command(site: Site, tmp_path: Path) -> None:
    site()
    text = (tmp_path / "out" / "site" / "nvidia-h200" / "families" / "transpose.html").read_text(encoding="utf-8")
    assert "<code>peakgate bench --tier full -k transpose.</code>" in text
    assert text.index("transpose: stages</h2>") < text.index("Cases</h2>")


def test_the_first_page_has_the_newest_change_and_the_families(tmp_path: Path) -> None:
    case, *others = LADDER
    for day in range(1, 25):
        times = dict.fromkeys([case, *others], 10.0) | {
            case: 10.0 * (1.05 if day > 12 else 1.0),
            "sgemm.naive-256": 5.0,
        }
        times |= {"sgemm.new-256": 5.0} if day > 22 else {}
        save(tmp_path / "runs", f"run{day:02d}", document(times, day=day, commit=f"{day:02x}" * 20))
    assert main(["show", "--all", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    (newest,) = re.findall(r'newest change of nvidia-h200: <a href="([^"]+)">0d0d0d0d0d0d', text)
    assert (tmp_path / "site" / newest).is_file()
    assert f", 1 of {len(LADDER) + 2} cases NEW" in text[text.index("<h1>") : text.index("</h1>")]
    assert text.index("nvidia-h200: families") < text.index("GPU models</h2>")


def test_names_are_escaped_and_no_path_of_this_machine_is_published(site: Site, tmp_path: Path) -> None:
    site()
    for text in page_texts(tmp_path / "out" / "site").values():
        assert "<script>alert" not in text
        assert str(tmp_path) not in text


def test_a_second_call_writes_the_new_runs_and_deletes_those_that_are_gone(site: Site, tmp_path: Path) -> None:
    site()
    assert counts(site()) == [2, 8, 4, 0, 0]
    save(tmp_path / "runs", "h3", document(TIMES, day=3))
    assert counts(site()) == [2, 8, 5, 1, 0]
    (tmp_path / "runs" / "h3.json").unlink()
    own = tmp_path / "out" / "site" / "nvidia-h200" / "notes.html"
    own.write_text("not of this tool")
    assert counts(site()) == [2, 8, 4, 0, 1]
    assert own.exists()


@pytest.mark.parametrize("text", ["[]", '{"version": "0", "pages": {"../../victim.html": 1}}'])
def test_a_ledger_of_another_version_or_no_ledger_writes_everything_and_deletes_nothing_outside(
    site: Site, tmp_path: Path, text: str
) -> None:
    site()
    victim = tmp_path / "victim.html"
    victim.write_text("mine")
    (tmp_path / "out" / "site" / LEDGER_FILE).write_text(text)
    assert counts(site())[2:4] == [4, 4]
    assert victim.exists()


def test_without_a_run_of_a_gpu_the_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "--all"]) == 2
    assert refusal(capsys) is Code.WHICH_RUN


def test_names_of_pages_are_safe_and_differ_where_the_ids_do() -> None:
    assert page_name("transpose.smem-8192-32x8") == "transpose.smem-8192-32x8"
    names = [page_name(text) for text in ("A.b", "a.b", "../x", "..", "x" * 300, "x" * 301, "", "转置")]
    assert len(set(names)) == len(names)
    assert all(SAFE_NAME.fullmatch(name) for name in names)


def test_a_commit_leads_to_its_page_where_the_repository_is_hosted(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "https://forge.example/team/project/commit/{}"
    settings = tmp_path / "peakgate.toml"
    settings.write_text(f'commit_url = "{address}"')
    assert main(["show", "--all", "--runs", "runs", "--out", "out"]) == 0
    texts = page_texts(tmp_path / "out" / "site")
    (commit,) = {path for path in texts if path.parent.name == "changes" and "nvidia-h200" in path.parts}
    assert f'<a href="{address.format(commit.stem)}">' in texts[commit]
    settings.write_text('commit_url = "javascript:alert(1)//{}"')
    assert main(["show", "--all", "--runs", "runs"]) == 2

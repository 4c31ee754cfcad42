"""What tests of whole runs share."""

from types import SimpleNamespace

import pytest
from peakgate.cli import main


@pytest.fixture
def bench(capfd, monkeypatch):
    """``peakgate bench`` in the emulator, supervised by this process: its exit code and what it printed."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(project, *arguments):
        monkeypatch.chdir(project)
        capfd.readouterr()
        try:
            code = main(["bench", "--device", "cpu", *map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        printed = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return run

"""The command that adds an extra, by where pip recorded that Peakgate came from."""

import json
from importlib import metadata
from types import SimpleNamespace

import pytest

from peakgate.base.packages import install_command

CLONE = {"url": "file:///home/me/my%20clone", "dir_info": {}}
EDITABLE = {"url": "file:///home/me/clone", "dir_info": {"editable": True}}
COMMIT = {"url": "https://forge/peakgate.git", "vcs_info": {"vcs": "git", "commit_id": "0f5e"}}
WHEEL = {"url": "file:///tmp/peakgate-1-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (CLONE, "pip install '/home/me/my clone[nvrtc]'"),
        (EDITABLE, "pip install -e '/home/me/clone[nvrtc]'"),
        (COMMIT, "pip install 'peakgate[nvrtc] @ git+https://forge/peakgate.git@0f5e'"),
        (WHEEL, "pip install 'peakgate[nvrtc] @ file:///tmp/peakgate-1-py3-none-any.whl'"),
        (None, "pip install 'peakgate[nvrtc]'"),
    ],
)
def test_an_extra_is_added_from_where_peakgate_came(origin, command, monkeypatch):
    recorded = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: recorded))
    assert install_command("nvrtc") == command

"""pytest's side of a run: options, fixtures and hooks. Each delegates to suite/."""

from __future__ import annotations

from typing import Any

import pytest

from suite import plugin
from suite.case import Case
from suite.replay import ReplayTimer, install_timer
from suite.session import Session


def pytest_addoption(parser: pytest.Parser) -> None:
    plugin.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    plugin.configure(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    plugin.parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    plugin.skip_gpu_tests_without_gpu(config, items)


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Session:
    return plugin.begin_session(request)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    return plugin.case_of(request)


@pytest.fixture
def replay_timer(request: pytest.FixtureRequest) -> ReplayTimer:
    return install_timer(request)


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    plugin.describe_machine(config, machine_info)


def pytest_benchmark_update_commit_info(config: pytest.Config, commit_info: dict[str, Any]) -> None:
    plugin.name_commit(config, commit_info)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    plugin.describe_run(config, output_json)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    plugin.finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    plugin.summarize(terminalreporter)

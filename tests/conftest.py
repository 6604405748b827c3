"""What tests share: how examples are drawn, which tests run seldom, real data, a PostgreSQL server."""

from __future__ import annotations

import signal
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import paths
import pytest
from hypothesis import HealthCheck, settings
from postgresql import postgres as postgres
from postgresql import postgres_url as postgres_url

# A shell starts what runs in its background with these signals ignored, and each child inherits that.
for _number, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)

# Other work may run beside the tests. They draw the same examples each time; `make soak` draws new ones.
settings.register_profile("soak", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("soak"), derandomize=True)
settings.load_profile("same")


SELDOM = tomllib.loads(Path(__file__).with_name("seldom.toml").read_text())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that seldom.toml names as soak."""
    for item in items:
        own = SELDOM.get(str(item.path.relative_to(paths.ROOT / "tests")), {})
        name, _, parameters = item.name.partition("[")
        if any(fnmatchcase(parameters.removesuffix("]"), pattern) for pattern in own.get(name, ())):
            item.add_marker(pytest.mark.soak)


@pytest.fixture
def beer() -> Path:
    """The beer site of 2017, whole: 663 questions, 1,572 answers."""
    folder = paths.REAL_DATA / "stackexchange" / "beer_2017"
    if not folder.exists():
        pytest.skip("the real dumps are not beside the project")
    return folder

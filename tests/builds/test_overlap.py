"""Independent stages run at the same time; batch jobs of all ready stages are sent before any is waited for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import Silent
from processes import wait_for
from pydantic import BaseModel
from standin_server import serve

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build, declare
from flows.expertqa import ExpertqaConfig
from longform.artifacts.store import Store
from longform.engine.build import Allowance, Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import Threads
from longform.errors import Incomplete
from longform.llm.models import Models

pytestmark = pytest.mark.check


class Meeting(Silent):
    """Progress that holds these stages at their start until all of them have started."""

    def __init__(self, *stages: str) -> None:
        super().__init__()
        self.stages, self.barrier = stages, threading.Barrier(len(stages))

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Any = None) -> None:
        if stage in self.stages:
            self.barrier.wait(timeout=300)
        super().begin(stage, units, calls, endpoint)


@pytest.mark.parametrize(
    ("dataset", "config", "stages"),
    [
        ("axioms", AxiomsConfig(), ("answer_closed_book", "combine_answers", "sign_questions")),
        ("expertqa", ExpertqaConfig(), ("split_randomly", "split_by_field")),
    ],
)
def test_independent_stages_work_side_by_side(
    dataset: str, config: BaseModel, stages: tuple[str, ...], tmp_path: Path
) -> None:
    progress = Meeting(*stages)
    build(dataset, config, Options(tmp_path / "home", "v1"), tasks=Threads(), progress=progress)
    assert set(stages) <= progress.begun.keys()
    assert not progress.barrier.broken


def test_batch_jobs_of_all_stages_that_are_ready_are_sent_before_one_is_done(tmp_path: Path) -> None:
    with serve(batch_seconds=3_600) as server, ThreadPoolExecutor() as threads:
        endpoint = {"base_url": server.url, "model": "m", "capabilities": ["batch"], "price": {"input": 1, "output": 1}}
        config = AxiomsConfig(model="mine", endpoints={"mine": endpoint}, mode="batch")  # type: ignore[arg-type, dict-item]
        home = tmp_path / "home"
        method = declare("axioms", config, Options(home, "v1"))
        with Models(home / "llm" / "responses.sqlite") as models:
            batch = {"answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers"}
            made = Build(
                Store(home), tasks=Threads(), runner=ThreadRunner(), progress=Silent(), models=models, batch=batch
            )
            with closing(made):
                going = threads.submit(made.make, method)
                wait_for(lambda: sum(server.counters()["jobs"].values()) >= 3 or going.done())
                assert sum(server.counters()["jobs"].values()) == 3  # corrupt_answers waits for answer_open_book
                made.stop()
                with pytest.raises(Incomplete):
                    going.result()


def test_stages_that_index_share_an_allowance_and_units_of_one_do_not_wait_for_each_other() -> None:
    allowance, began = Allowance(100), threading.Event()
    with allowance.hold("index", 80), allowance.hold("index", 80), allowance.hold("other", 0):
        other = threading.Thread(target=_held, args=(allowance, "other", 30, began))
        other.start()
        assert not began.wait(0.2)
    assert began.wait(60)
    other.join()
    with allowance.hold("large", 1_000):
        pass


def _held(allowance: Allowance, stage: str, wanted: int, began: threading.Event) -> None:
    with allowance.hold(stage, wanted):
        began.set()

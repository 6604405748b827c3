"""How the pages that answers cite are read, by the settings, and what is said before anything is bought."""

import sys

import pytest

from flows.expertqa import ExpertqaConfig, crawl_of_cited
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint

OFFLINE = {"write_closed_book": Endpoint("offline", "offline-rules-1")}
REAL = {"write_closed_book": Endpoint("mine", "m", base_url="http://127.0.0.1:9/v1")}


def test_pages_are_fetched_for_real_models_and_looked_for_among_the_samples_offline() -> None:
    assert crawl_of_cited(ExpertqaConfig(), (), OFFLINE) is None
    assert crawl_of_cited(ExpertqaConfig(pages=[]), (), REAL) is not None
    assert crawl_of_cited(ExpertqaConfig(cited_pages="fetch"), (), OFFLINE) is not None
    assert crawl_of_cited(ExpertqaConfig(cited_pages="pages"), (), REAL) is None


def test_a_missing_extractor_is_named_with_its_extra_and_the_way_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(UsageError, match=r'"\.\[web\]".* Or set cited_pages = "pages"'):
        crawl_of_cited(ExpertqaConfig(pages=[]), (), REAL)
    assert crawl_of_cited(ExpertqaConfig(cited_pages="pages"), (), REAL) is None

"""Embeddings that are not available are reported before any work is done."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from axioms_builds import build_axioms

from longform.errors import UsageError


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="the extra is installed")
def test_a_model_that_cannot_be_loaded_stops_the_build_before_its_first_stage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'embedding = "nope" names a sentence-transformers model'):
        build_axioms(tmp_path, embedding="nope")
    assert not list(tmp_path.glob("stages/*"))


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="the extra is installed")
def test_a_judge_that_is_no_endpoint_needs_the_extra_and_is_told_so_before_the_first_stage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'negatives_judge = "nope" names no endpoint, .* or add \[endpoints\.nope\]'):
        build_axioms(tmp_path, negatives_judge="nope")
    assert not list(tmp_path.glob("stages/*"))

"""The folder of a trained model: what Hugging Face loads, a card, the run's settings and its metrics.

    model.safetensors config.json tokenizer.json    as AutoModelForSequenceClassification and CrossEncoder load them
    README.md                                       the model card
    run.json                                        settings, version of the data, identity
    metrics.json                                    reports while training, evaluation

It is made in <folder>.unfinished, beside the training's state, and renamed when it is whole: a folder that is there is
a finished run. Equal runs give equal bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longform.artifacts.versions import Version
from longform.errors import UsageError
from longform.files import read_json, remove, unwritable, write_bytes, write_json
from tasks.axioms.training.settings import Training

RUN, METRICS, CARD = "run.json", "metrics.json", "README.md"
STATE, TRAIN, TEST = "state.pt", "train.arrow", "test.arrow"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run's model stands when it is finished (`place`), and what it is in the making (`unfinished`)."""

    place: Path
    run: dict[str, Any]

    @property
    def unfinished(self) -> Path:
        """The folder of state and pairs, which is deleted at the end."""
        return self.place.with_name(f"{self.place.name}.unfinished")

    @property
    def model(self) -> Path:
        """Where the model is saved before it is whole. It has the name of `place`, by which scorers call it."""
        return self.unfinished / self.place.name

    def is_finished(self) -> bool:
        """Whether the model of this run is there; then what an end between renaming and tidying left is deleted.

        UsageError if the folder holds anything else, or if another run is in the making there.
        """
        if self.place.exists():
            found = read_json(self.place / RUN) if self.place.is_dir() else None
            if not isinstance(found, dict) or found.get("run") != self.run["run"]:
                raise UsageError(f"{self.place} holds {self._other(found)}: name another folder with --to.")
            remove(self.unfinished)
            return True
        begun = read_json(self.unfinished / RUN)
        if begun is not None and begun.get("run") != self.run["run"]:
            raise UsageError(
                f"{self.unfinished} holds {self._other(begun)}: name another folder with --to, or delete it."
            )
        return False

    def begin(self) -> None:
        """Note which run is in the making. StoreError if that cannot be written."""
        write_json(self.unfinished / RUN, self.run)

    def _other(self, found: Any) -> str:
        """What is there instead, in words: of another run the first thing that differs."""
        if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
            return "something else than a model of this command"
        theirs, ours = ({**each["settings"], "version": each["version"]} for each in (found, self.run))
        for name, value in ours.items():
            if theirs.get(name) != value:
                return f"a run with {name} = {json.dumps(theirs.get(name))}, not {json.dumps(value)}"
        return "a run on other pairs of a version of the same name"

    def save(self, model: Any, tokenizer: Any) -> None:
        """Write weights, configuration and tokenizer. StoreError if they cannot be written."""
        remove(self.model)
        try:
            model.save_pretrained(self.model)
            tokenizer.save_pretrained(self.model)
        except OSError as error:
            raise unwritable(self.model, error) from None

    def finish(self, metrics: Mapping[str, Any], card: str) -> None:
        """Write run, metrics and card, and rename the folder to its place; delete state and pairs."""
        write_json(self.model / RUN, self.run)
        write_json(self.model / METRICS, metrics)
        write_bytes(self.model / CARD, card.encode())
        try:
            os.replace(self.model, self.place)
        except OSError as error:
            raise unwritable(self.place, error) from None
        remove(self.unfinished)


def run_of(settings: Training, version: Version) -> dict[str, Any]:
    """What run.json holds: identity, dataset and version, its recipe, and all settings that change weights."""
    return {
        "run": settings.run_id(version.manifest),
        "dataset": version.dataset,
        "version": version.name,
        "recipe": version.recipe,
        "offline": bool(version.manifest["offline"]),
        "settings": settings.identity(),
    }


def card(run: Mapping[str, Any], licences: Mapping[str, int], pairs: Mapping[int, int], tables: Sequence[str]) -> str:
    """The model card. `licences`: licence -> pairs that show a text under it; `pairs`: axiom -> pairs trained on;
    `tables`: of the evaluation, as Markdown.
    """
    settings = run["settings"]
    made = "Texts that models wrote are of the offline rules: its figures say nothing of models.\n" * run["offline"]
    rows = "\n".join(f"| {name} | `{json.dumps(value)}` |" for name, value in settings.items())
    counted = ", ".join(f"{number:,} of axiom {axiom}" for axiom, number in pairs.items())
    under = "\n".join(f"- {licence}: {number:,} pairs" for licence, number in licences.items())
    return f"""---
pipeline_tag: text-ranking
library_name: sentence-transformers
base_model: {json.dumps(settings["backbone"])}
---

# Preference model on {run["dataset"]} {run["version"]}

A cross-encoder that gives a question and an answer one score, the higher the better (Axiomatic Preference Modeling for
Longform Question Answering). Trained on {counted or "no pair"}, margins by {settings["margins"]}.
{made}
```python
from sentence_transformers import CrossEncoder

scores = CrossEncoder("{{folder}}").predict([(question, answer)])
```

Evidence stands below the question: an empty line, `Passage 1:`, the passage, and so on. Scores are comparable among the
answers to one question.

## Evaluation

{chr(10).join(tables) or "Not evaluated."}

## Licences of the data

The pairs it was trained on show texts under these licences; their authors are named in `attribution.parquet` of the
version. Whether a model trained on them may be passed on, and how, is for whoever passes it on to decide. A text that
is taken down leaves the dataset, not these weights: train again.

{under or "- none named"}

## Settings

| setting | value |
|---|---|
{rows}

Run `{run["run"]}`, recipe of the data `{run["recipe"]}`.
""".replace("{folder}", "FOLDER")

"""Exports of the axioms dataset as JSON lines: the pairs as trainers read them, from the published files.

{"prompt": [{"role": "user", "content": "…"}], "chosen": […], "rejected": […], "margin": 0.3, …}
"""

from __future__ import annotations

from tasks.publishing.exports import Export, Format, json_line

CONFIGS = ("preference", "preference_sampled", "preference_text")


EXPORTS = {"preference-jsonl": Format(Export.published, json_line, ("train", "test"), CONFIGS, "train")}

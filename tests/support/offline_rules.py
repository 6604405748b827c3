"""The offline model with the rules of all datasets."""

from functools import partial

from flows.registry import offline_rules
from longform.llm import offline

RULES = offline_rules()
respond = partial(offline.respond, RULES)
task_of = partial(offline.task_of, RULES)

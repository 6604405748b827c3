"""Audits of judges: one that says the same of everything judges nothing, so that nothing of it is published.

    entailment_constant   a model finds all claims supported by their evidence, or none
    facts_constant        a model finds all atomic claims true, or none

Each finds nothing below LEAST verdicts of a model: so few may well be alike. Released labels and the lexical baseline
are no judges of ours.
"""

from __future__ import annotations

from tasks.expertqa.estimates.autoais import RELEASED
from tasks.metrics.entailment import LEXICAL
from tasks.publishing.audits import QueryAudit, VersionAudit

CONFIG = "claims"
ENTAILMENT, FACTS = "entailment_constant", "facts_constant"
LEAST = 30
NEARLY = 0.99  # of the verdicts are the same

_ALL = f"""
    SELECT '{CONFIG}', claim_id, {{what}} || ', as ' || same || ' of all ' || number || ' by ' || judge
    FROM (
        SELECT *, count(*) OVER (PARTITION BY judge) AS number, count(*) OVER (PARTITION BY judge, verdict) AS same
        FROM ({{verdicts}}) WHERE verdict IS NOT NULL AND judge NOT IN ('{RELEASED}', '{LEXICAL}')
    ) WHERE number >= {LEAST} AND same >= {NEARLY} * number GROUP BY ALL ORDER BY 2
"""
_ENTAILMENT = _ALL.format(
    what="CASE WHEN verdict THEN 'supported' ELSE 'not supported' END",
    verdicts=f"SELECT claim_id, autoais AS verdict, autoais_backend AS judge FROM {{{CONFIG}}}",
)
_FACTS = _ALL.format(
    what="CASE WHEN verdict THEN 'true' ELSE 'false' END",
    verdicts=f"SELECT claim_id, unnest(atomic_judgements) AS verdict, fact_score_model AS judge FROM {{{CONFIG}}}",
)

OF_JUDGES = (
    VersionAudit(ENTAILMENT, 0.0, QueryAudit(ENTAILMENT, (CONFIG,), _ENTAILMENT), (CONFIG,)),
    VersionAudit(FACTS, 0.0, QueryAudit(FACTS, (CONFIG,), _FACTS), (CONFIG,)),
)

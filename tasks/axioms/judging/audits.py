"""The audits of a critic: one whose scores say nothing makes no margins, so that nothing of it is published.

    critic_same_scores    most of the answers of a call get the same score
    critic_order          the best score goes to the answer that is shown first, or to the last

Each finds nothing unless so many of the critic's answers, or calls, are so that the others are no better: above
MOST of all, and not of fewer than LEAST. Answers stand in the order of a hash, so that the best of n is the first in
1 / n of the calls. What a critique copies or leaves out is refused reply by reply (tasks/axioms/judging/requests.py).
"""

from __future__ import annotations

from tasks.publishing.audits import QueryAudit, VersionAudit

MOST = 0.8
LEAST = 30
CONFIG = "critiques"
SAME, ORDER = "critic_same_scores", "critic_order"

_SAME = f"""
    SELECT '{CONFIG}', critique_id, score || ' points, as most of the answers beside it'
    FROM (
        SELECT *, avg(alike::INT) OVER () AS share, count(*) OVER () AS number FROM (
            SELECT *, 2 * (count(*) OVER same - 1) > count(*) OVER call - 1 AS alike FROM {{{CONFIG}}}
            WINDOW same AS (PARTITION BY question_id, score), call AS (PARTITION BY question_id)
        )
    ) WHERE alike AND share > {MOST} AND number >= {LEAST} ORDER BY 2
"""
_BEST = f"""
    SELECT critique_id, place, shown FROM (
        SELECT *, max(score) OVER (PARTITION BY question_id) AS top,
               count(*) OVER (PARTITION BY question_id, score) AS alike
        FROM {{{CONFIG}}}
    ) WHERE score = top AND alike = 1
"""
_ORDER = f"""
    SELECT '{CONFIG}', critique_id, 'the best of ' || shown || ' answers, shown ' || word
    FROM (
        SELECT *, avg(stands::INT) OVER (PARTITION BY word) AS share, count(*) OVER (PARTITION BY word) AS number FROM (
            SELECT *, 'first' AS word, place = 1 AS stands FROM ({_BEST})
            UNION ALL SELECT *, 'last', place = shown FROM ({_BEST})
        )
    ) WHERE stands AND share > {MOST} AND number >= {LEAST} ORDER BY 2
"""

CRITIC_AUDITS = (
    VersionAudit(SAME, 0.0, QueryAudit(SAME, (CONFIG,), _SAME), (CONFIG,)),
    VersionAudit(ORDER, 0.0, QueryAudit(ORDER, (CONFIG,), _ORDER), (CONFIG,)),
)

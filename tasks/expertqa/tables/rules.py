"""The rules by which tables 5, 6 and 8 choose and count claims: our own, or those of the paper's authors (PARITY).

The paper says little of them; what it leaves open is known from the scoring that its authors released, and from its
numbers. By PARITY

    table 5   claims with evidence, of complete support and cite-worthy; of gpt4 only those whose evidence has a text
    table 6   claims of test questions that nobody called unworthy of a citation: recall 2 % of gpt4 is 1 of some 50
              claims, and a tenth of all questions has so many with complete support
    table 8   a FActScore of 0.5 is factual; answers that abstain and claims that are small talk are left out

and where estimates were released, a claim with evidence but without a released label is not attributable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from longform.artifacts.rows import Row
from tasks.expertqa.answers.abstentions import abstention
from tasks.expertqa.estimates.autoais import RELEASED as RELEASED_LABELS
from tasks.expertqa.estimates.factscore import FACTUAL_ABOVE
from tasks.expertqa.splits import RELEASED
from tasks.expertqa.vocabulary import LABELLED

OWN, PARITY = PRESETS = ("own", "parity")
CLOSED_BOOK = "gpt4"
CLAIMS = [
    *("claim_id", "answer_id", "question_id", "system", "field", "question_types", *LABELLED, "model"),
    *("autoais", "autoais_backend", "fact_score", "fact_score_model"),
    *("random_split", "random_split_from", "domain_split", "domain_split_from"),
]
MARKS = ("claim_id", "answer_id", "answer", "claim", "evidence", "evidence_urls")
_SMALL_TALK = re.compile(
    r"\bbing\b|^\W*hello\b|\bhope (?:this|that|it)\b|\b(?:glad|happy) (?:to (?:help|hear|assist)|you)\b"
    r"|\bthank you for (?:your|asking)\b|\bplease let me know\b|\binteresting question\b"
    r"|\bare you (?:looking for|interested in)\b|\baspect are you interested\b"
    r"|\bnot sure (?:if|whether|that) I understand\b"
    r"|\bI (?:can|could|may be able to|might be able to) (?:also )?"
    r"(?:help you|provide|try to|search for|answer your|give you more)\b"
    r"|\bI (?:found some|searched for)\b|\bI (?:can't|cannot) give you\b",
    re.IGNORECASE,
)
FLAGS = ["claim_id", "has_evidence", "address_only", "abstains", "void"]


def flagged(rows: Iterable[Row]) -> pd.DataFrame:
    """A frame with FLAGS of each published claim. `rows`: with the columns MARKS."""
    known: dict[str, bool] = {}
    found: list[Row] = []
    for row in rows:
        if row["answer_id"] not in known:
            known[row["answer_id"]] = abstention(row["answer"]) is not None
        pairs = list(zip(row["evidence"], row["evidence_urls"], strict=True))
        found.append({
            "claim_id": row["claim_id"],
            "has_evidence": bool(pairs),
            "address_only": any(text == url for text, url in pairs),
            "abstains": known[row["answer_id"]],
            "void": is_small_talk(row["claim"]),
        })  # fmt: skip
    return pd.DataFrame(found, columns=FLAGS)


def is_small_talk(claim: str) -> bool:
    """Whether a chatbot speaks of itself or to the asker anywhere in the claim. More is found than `split_claims`
    leaves out (small_talk.txt), since that must keep what was published as claims.
    """
    return _SMALL_TALK.search(claim.replace("’", "'")) is not None


def of_table_5(claims: pd.DataFrame) -> pd.DataFrame:
    """The claims that PARITY looks at in table 5, with `autoais` by its rules. `claims`: with FLAGS."""
    cited = claims[claims.has_evidence & ~((claims.system == CLOSED_BOOK) & claims.address_only)]
    return _labelled(cited)


def of_table_6(claims: pd.DataFrame) -> pd.DataFrame:
    """Likewise of table 6: those of test questions (`tested`), without claims unworthy of a citation."""
    test = tested(claims, "domain")
    return _labelled(test[test.worthiness != "No"])


def of_table_8(claims: pd.DataFrame) -> pd.DataFrame:
    """Likewise of table 8: without answers that abstain, and without small talk."""
    return claims[~claims.abstains & ~claims.void]


def tested(claims: pd.DataFrame, config: str) -> pd.DataFrame:
    """The claims of the test questions of a split; where some are on a released side, of these alone."""
    test = claims[claims[f"{config}_split"] == "test"]
    released = test[test[f"{config}_split_from"] == RELEASED]
    return released if len(released) else test


def factual(scores: pd.Series[float], preset: str) -> pd.Series[bool]:
    """For each FActScore whether it is factual: above 0.5, by PARITY also at 0.5."""
    return scores >= FACTUAL_ABOVE if preset == PARITY else scores > FACTUAL_ABOVE


def _labelled(claims: pd.DataFrame) -> pd.DataFrame:
    """The claims, in which those with evidence and without a released label are not attributable, for each system of
    which any label was released.
    """
    released = claims.autoais_backend == RELEASED_LABELS
    known = claims.autoais.notna().groupby(claims.system).transform("any")
    silent = released & known & claims.has_evidence & claims.autoais.isna()
    return claims.assign(autoais=np.where(silent, False, claims.autoais))

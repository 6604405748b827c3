"""All audits of ExpertQA: of answers and revisions, of what judges say, and of the sides of the splits."""

from tasks.expertqa.answers.audits import OF_ANSWERS, OF_REVISIONS
from tasks.expertqa.estimates.audits import OF_JUDGES
from tasks.expertqa.sides.audits import ON_TWO_SIDES
from tasks.publishing.audits import Audits, Kinds

WRITERS = ("write_closed_book", "write_from_passages", "answer_post_hoc")
AUDITS = Audits(
    rows={"claims": OF_ANSWERS, "random": OF_REVISIONS, "domain": OF_REVISIONS},
    version=(*OF_JUDGES, *ON_TWO_SIDES),
    kinds=(Kinds("system", WRITERS, "collect_answers", asked="systems", among="response IS NOT NULL"),),
    applied={"claims": "collect_answers"},
)

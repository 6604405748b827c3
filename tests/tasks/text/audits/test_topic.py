"""Texts that have nothing to do with their question, as where a server gives its answers to the wrong callers."""

from __future__ import annotations

import json
from random import Random

import paths
import pytest

from tasks.text.audits.topic import off_topic

RELEASED = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
QUESTIONS = {
    "en": "How cold should a cask of pale ale be kept in summer?",
    "de": "Wie kühl sollte ein Fass Bier im Sommer lagern?",
    "fr": "À quelle température faut-il garder un fût de bière en été ?",
    "es": "¿A qué temperatura se debe guardar un barril de cerveza en verano?",
}
ON_TOPIC = {
    "en": "A cask stays fresh at twelve degrees. Warmer cellars spoil the yeast within days, and the brewer loses the "
    "whole batch, so most pubs install cooling pipes along the wall and check the thermometer every morning.",
    "de": "Das Fass bleibt bei zwölf Grad frisch. Wärmere Keller verderben die Hefe binnen weniger Tage, und der Wirt "
    "verliert die ganze Lieferung, weshalb viele Gasthäuser Rohre zur Kühlung an der Wand entlang verlegen.",
    "fr": "Le fût reste frais à douze degrés. Une cave plus chaude gâte la levure en quelques jours, et le brasseur "
    "perd toute la livraison, si bien que beaucoup d'auberges installent des tuyaux froids le long du mur.",
    "es": "El barril se conserva fresco a doce grados. Una bodega más caliente estropea la levadura en pocos días y el "
    "dueño pierde toda la partida, por lo que muchas tabernas instalan tubos fríos a lo largo de la pared.",
}
ELSEWHERE = {
    "en": "The treaty ended thirty years of war between the princes. Their envoys signed two documents, divided "
    "several provinces, and recognised the independence of the republic, which had fought for eighty years.",
    "de": "Der Vertrag beendete dreißig Jahre Krieg zwischen den Fürsten. Ihre Gesandten unterzeichneten zwei "
    "Urkunden, teilten mehrere Provinzen auf und erkannten die Republik an, die lange um ihre Freiheit gekämpft hatte.",
    "fr": "Le traité mit fin à trente ans de guerre entre les princes. Leurs envoyés signèrent deux documents, "
    "partagèrent plusieurs provinces et reconnurent l'indépendance de la république, qui avait longtemps lutté.",
    "es": "El tratado puso fin a treinta años de guerra entre los príncipes. Sus enviados firmaron dos documentos, "
    "repartieron varias provincias y reconocieron la independencia de la república, que había luchado mucho.",
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_text_that_shares_no_word_with_its_question_is_off_topic(language: str) -> None:
    assert not off_topic(QUESTIONS[language], ON_TOPIC[language])
    assert off_topic(QUESTIONS[language], ELSEWHERE[language])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Why is it?", ELSEWHERE["en"]),  # nothing says what is asked
        (QUESTIONS["en"], "Twelve degrees, not more."),
        (QUESTIONS["en"], ""),
        ("", ELSEWHERE["en"]),
        (QUESTIONS["en"], ELSEWHERE["de"]),  # another language is another audit's
        (QUESTIONS["en"], "条约结束了三十年的战争。使节们签署了两份文件，瓜分了几个省份，并承认了共和国的独立。" * 3),
    ],
)
def test_what_cannot_be_judged_is_on_topic(question: str, text: str) -> None:
    assert not off_topic(question, text)


DECLINED = (
    "Thanks for asking, but I'll have to skip that one.",
    "It's against my rules to answer.",
    "This prompt cannot be answered.",
    "Our policies do not permit a response.",
    "The assistant is unable to fulfil this request.",
)


@pytest.mark.parametrize("text", DECLINED)
@pytest.mark.parametrize("question", [QUESTIONS["en"], "What caused the war of thirty years in Europe?"])
def test_a_short_text_that_speaks_of_itself_alone_is_off_topic(text: str, question: str) -> None:
    assert off_topic(question, text)


@pytest.mark.parametrize(
    "text", ["Twelve degrees.", "I put the cask in the cellar.", "About 54 F, I think; summer is no matter."]
)
def test_a_short_answer_is_on_topic(text: str) -> None:
    assert not off_topic(QUESTIONS["en"], text)


@pytest.mark.skipif(not RELEASED.exists(), reason="needs the released answers of ExpertQA")
def test_released_answers_are_on_topic_and_those_of_other_questions_are_found() -> None:
    rows = [json.loads(line) for line in RELEASED.read_text("utf-8").splitlines()[:80]]
    answers = [each["answer_string"] for row in rows for each in row["answers"].values()]
    questions = [row["question"] for row in rows for _ in row["answers"]]
    assert not any(map(off_topic, questions, answers))
    Random(1).shuffle(questions)
    assert sum(map(off_topic, questions, answers)) > len(answers) / 2

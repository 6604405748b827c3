"""Languages of texts: of sentences by hand, of code and quotations that are of none, and of real questions."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import paths
import pytest

from tasks.text.audits.language import language_of, named_languages, other_language

SITES = paths.REAL_DATA / "stackexchange"
QUESTION = "How cold should a cask of bitter be kept, and how long does it last once it is open?"
TEXTS = {
    "en": "A cask is kept at twelve degrees and should be drunk within three days, because air gets in.",
    "de": "Ein Fass wird bei zwölf Grad gelagert und sollte binnen drei Tagen geleert werden, weil Luft eindringt.",
    "fr": "Un fût se garde à douze degrés et doit être bu en trois jours, parce que l'air y entre.",
    "es": "Un barril se guarda a doce grados y debe beberse en tres días, porque entra aire.",
    "it": "Un fusto si conserva a dodici gradi e va bevuto in tre giorni, perché entra aria.",
    "pt": "Um barril guarda-se a doze graus e deve ser bebido em três dias, porque entra ar.",
    "nl": "Een vat wordt bij twaalf graden bewaard en moet binnen drie dagen leeg zijn, omdat er lucht bij komt.",
    "pl": "Beczkę przechowuje się w dwunastu stopniach i należy ją wypić w ciągu trzech dni, bo wchodzi powietrze.",
    "ru": "Бочку хранят при двенадцати градусах и выпивают за три дня, потому что внутрь попадает воздух.",
    "uk": "Бочку зберігають при дванадцяти градусах і випивають за три дні, бо всередину потрапляє повітря.",
    "tr": "Fıçı on iki derecede saklanır ve içine hava girdiği için üç gün içinde içilmelidir.",
    "ar": "يُحفظ البرميل عند اثنتي عشرة درجة ويجب شربه خلال ثلاثة أيام لأن الهواء يدخل إليه.",
    "hi": "पीपे को बारह डिग्री पर रखा जाता है और तीन दिन में पी लेना चाहिए, क्योंकि उसमें हवा जाती है।",
    "zh": "酒桶应在十二度下保存，并在三天内喝完，因为空气会进入桶中。",
    "ja": "樽は十二度で保管し、空気が入るので三日以内に飲み切るべきです。",
    "ko": "통은 십이 도에서 보관하고 공기가 들어가므로 사흘 안에 마셔야 합니다.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_has_its_language(language: str) -> None:
    assert language_of(TEXTS[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "Ja.",
        "Fermez la vanne.",
        "```python\nfor each in rows:\n    print(each.name, each.size, sep=', ')\n```",
        "    for each in rows:\n        print(each.name, each.size, sep=', ', end='')\n",
        "x_1 = a[0] + b[1]; y_2 = c{3} / d#4; https://a.test/the/quick/brown/fox/jumps/over/the/lazy/dog",
        f"> {TEXTS['fr']}\n\nVoilà!",
        f"{TEXTS['en'] * 4} {TEXTS['de'] * 4}",
    ],
)
def test_too_little_prose_or_prose_of_two_languages_is_undetermined(text: str) -> None:
    assert language_of(text) is None


def test_what_is_quoted_does_not_count() -> None:
    german = TEXTS["de"]
    assert language_of(f"{TEXTS['en']} The label says: “{german}”\n\n> {german}\n> {german}\n> {german}") == "en"
    assert language_of(f"{TEXTS['en']}\n\n```\n{german}\n{german}\n{german}\n```\n") == "en"


@pytest.mark.parametrize("language", [each for each in TEXTS if each != "en"])
def test_an_answer_in_another_language_than_its_question_is_found(language: str) -> None:
    assert other_language(QUESTION, TEXTS[language]) == language
    assert other_language(TEXTS[language], TEXTS[language]) is None
    assert other_language(TEXTS[language], TEXTS["en"]) == "en"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        (f"{QUESTION} Answer in German.", "de"),
        ("Translate this sentence into French, please: a cask is kept at twelve degrees.", "fr"),
        ("How would an inn in Madrid put this on a sign in Spanish? A cask is kept cool.", "es"),
        (f"{TEXTS['de']} Antworte auf Englisch.", "en"),
        (f"{TEXTS['fr']} Répondez en anglais.", "en"),
        (f"{TEXTS['ru']} Ответьте на английском.", "en"),
        (f"{TEXTS['zh']}请用英语回答。", "en"),
        (f"{TEXTS['ja']}英語で答えてください。", "en"),
    ],
)
def test_an_answer_in_a_language_that_its_question_names_passes(question: str, language: str) -> None:
    assert language in named_languages(question)
    assert other_language(question, TEXTS[language]) is None


def test_the_language_that_is_asked_for_counts_before_the_question() -> None:
    assert other_language(QUESTION, TEXTS["fr"], asked="fr") is None
    assert other_language(QUESTION, TEXTS["en"], asked="fr") == "en"


@pytest.mark.parametrize("text", ["", "42", "Voilà.", "`ls -l`"])
def test_an_undetermined_text_passes(text: str) -> None:
    assert other_language(QUESTION, text) is None
    assert other_language(text, TEXTS["fr"]) is None


def test_languages_that_are_hard_to_tell_apart_pass() -> None:
    danish = "Et fad opbevares ved tolv grader og bør drikkes inden for tre dage, fordi der kommer luft ind i det."
    norwegian = "Et fat oppbevares ved tolv grader og bør drikkes innen tre dager, fordi det kommer luft inn i det."
    assert other_language(danish, norwegian) is None
    assert other_language(norwegian, danish) is None


@pytest.mark.parametrize("unit", ["(", '["', "```\n", "> ", "`", "<", "a/", "「", "‘", "x@", " \n"])
def test_a_hostile_text_is_read_like_any_other(unit: str) -> None:
    assert language_of(unit * 100_000) is None


@pytest.mark.check
def test_real_answers_to_real_questions_raise_next_to_no_alarm() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    counted: Counter[bool] = Counter()
    for path in sorted(SITES.glob("*_20*/Posts.xml")):
        rows = [dict(re.findall(r'(\w+)="([^"]*)"', row)) for row in path.read_text("utf-8-sig").split("<row ")[1:]]
        questions = {row["Id"]: f"{row['Title']}\n\n{_text(row)}" for row in rows if row["PostTypeId"] == "1"}
        answers = [row for row in rows if row["PostTypeId"] == "2" and row["ParentId"] in questions]
        counted.update(other_language(questions[row["ParentId"]], _text(row)) is not None for row in answers)
    assert counted.total() > 1_900
    assert counted[True] / counted.total() <= 0.002


def _text(row: dict[str, str]) -> str:
    """The body of a post without its tags; code between backticks."""
    body = re.sub("</?code>", "`", unescape(row["Body"]))
    return unescape(re.sub("<[^>]+>", "", body))

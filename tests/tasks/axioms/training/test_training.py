"""Training itself: loss, caps, gradients, the saved folder, and a run that is killed. `make test-train` has torch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_pairs import WORDS, pair, version_of

from longform.artifacts.versions import Version
from longform.errors import UsageError
from longform.files import sha256_of
from tasks.axioms.training.folder import STATE, RunFolder, run_of
from tasks.axioms.training.pairs import write_pairs
from tasks.axioms.training.sampling import QuestionOrder
from tasks.axioms.training.settings import Training

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

QUICK = {
    "backbone": "random:tiny",
    "axioms": [1],
    "steps": 100,
    "warmup_steps": 10,
    "learning_rate": 1e-3,
    "decay": "linear",
    "questions_per_step": 4,
    "max_tokens": 64,
    "report_every": 50,
    "checkpoint_every": 2,
    "threads": 1,
}
PAIRS = [pair(question, number) for question in range(len(WORDS)) for number in range(2)]
KILLED_RUN = """
import sys, json
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from training_pairs import version_of
from test_training import PAIRS, Quiet, again, run
run(again(Path(sys.argv[2])), Path(sys.argv[3]), **json.loads(sys.argv[4]))
"""


class Quiet:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.reports: list[dict[str, float]] = []

    def begin(self, name: str, steps: int, done: int) -> None:
        self.began.append(done)

    def at(self, step: int, loss: float) -> None:
        pass

    def report(self, report: dict[str, float]) -> None:
        self.reports.append(report)


def again(folder: Path) -> Version:
    """The version of PAIRS in this folder, written by an earlier call or now."""
    if folder.exists():
        folder = folder.with_name(f"{folder.name}-{time.time_ns()}")
    return version_of(folder, PAIRS)


def run(version: Version, to: Path, **settings: Any) -> tuple[RunFolder, Quiet]:
    """A training to the saved model, which stays in the unfinished folder."""
    from tasks.axioms.training.run import train

    chosen, progress = Training(**{**QUICK, **settings}), Quiet()
    manifest_name = Version(version.dataset, "v", version.folder, version.manifest)
    folder = RunFolder(to, run_of(chosen, manifest_name))
    train(version, chosen, folder, progress)
    return folder, progress


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Version:
    pytest.importorskip("torch")
    return version_of(tmp_path_factory.mktemp("versions") / "v", PAIRS)


@pytest.fixture(scope="module")
def trained(version: Version, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Quiet]:
    return run(version, tmp_path_factory.mktemp("undisturbed") / "model")


def reader(texts: list[str], question_tokens: int = 256, max_tokens: int = 2_048) -> Any:
    from tasks.axioms.training.backbone import tokenizer_of
    from tasks.axioms.training.inputs import Reader

    return Reader(tokenizer_of(texts, 200), question_tokens, max_tokens)


def test_the_loss_is_the_margin_less_the_difference_or_nothing(version: Version) -> None:
    import torch

    from tasks.axioms.training.loop import margin_loss

    preferred, rejected, margins = (
        torch.tensor(each) for each in ([1.0, 0.5, -1.0], [0.0, 0.4, 1.0], [0.25, 0.25, 0.5])
    )
    assert margin_loss(preferred, rejected, margins).tolist() == pytest.approx([0.0, 0.15, 2.5])


def test_question_and_whole_are_cut_at_their_caps(version: Version) -> None:
    words = [" ".join(WORDS)] * 60
    read = reader(words)
    question, answer = " ".join(["amber"] * 300), "basil stands here"
    assert len(read.tokenizer(read.cut(question), add_special_tokens=False)["input_ids"]) == 256
    assert read.cut("amber basil") == "amber basil"
    plain = read.read(question, [], answer)["input_ids"]
    shown = read.read(question, ["cedar daisy"] * 2_000, answer)
    assert len(plain) < 300
    assert len(shown["input_ids"]) == 2_048
    tokens = read.tokenizer(answer, add_special_tokens=False)["input_ids"]
    assert shown["input_ids"][-len(tokens) - 1 : -1] == tokens, "the longer text is cut, the answer stays"
    assert sum(shown["token_type_ids"]) == len(tokens) + 1


def test_marks_of_the_tokenizer_in_a_text_are_text(version: Version) -> None:
    read = reader([" ".join(WORDS), "[SEP] [CLS]"])
    found = read.read("amber [SEP] basil", [], "cedar [SEP]")["input_ids"]
    assert found.count(read.tokenizer.sep_token_id) == 2


def test_equal_texts_give_the_same_tokenizer(version: Version) -> None:
    texts = [f"{a} {b}" for a in WORDS for b in reversed(WORDS)]
    first, second = (reader(texts).tokenizer.backend_tokenizer.to_str() for _ in range(2))
    assert first == second


def test_the_pairs_of_a_step_weigh_one_together_and_their_questions_alike(version: Version, tmp_path: Path) -> None:
    from tasks.axioms.training.loop import draws

    rows = [pair(0, number, evidence=["seen"]) for number in range(5)] + [pair(1)]
    pairs = write_pairs(version_of(tmp_path / "v", rows), "train", [1], "votes", tmp_path / "a.arrow")
    found = list(draws(pairs, QuestionOrder(2, 2, 0), Training(questions_per_step=2, evidence_share=1.0), 0))
    weights = {key: sum(each.weight for each in found if each.pair.question_id == key) for key in ("q_0", "q_1")}
    assert weights == pytest.approx({"q_0": 0.5, "q_1": 0.5})
    assert len(found) == 6
    assert {tuple(each.evidence) for each in found} == {("seen",), ()}


def test_gradients_are_the_same_however_many_pairs_are_computed_together(version: Version, tmp_path: Path) -> None:
    import torch

    from tasks.axioms.training import backbone
    from tasks.axioms.training.inputs import Reader
    from tasks.axioms.training.loop import Trainer, draws

    pairs = write_pairs(version, "train", [1], "votes", tmp_path / "a.arrow")
    stepped = []
    for at_once in (1, 8):
        settings = Training(**{**QUICK, "pairs_at_once": at_once})
        model, tokenizer, most = backbone.load("random:tiny", texts=pairs.texts("question"), max_tokens=64, seed=0)
        for each in model.modules():
            if isinstance(each, torch.nn.Dropout):
                each.p = 0.0
        trainer = Trainer(model, Reader(tokenizer, 256, most), settings, tmp_path / "none.pt")
        loss = trainer.step(list(draws(pairs, QuestionOrder(len(WORDS), 4, 0), settings, 0)))
        stepped.append((loss, model.classifier.weight.detach().clone()))
    assert stepped[0][0] == pytest.approx(stepped[1][0], rel=1e-5)
    assert torch.allclose(stepped[0][1], stepped[1][1], atol=1e-5)


def test_a_small_set_is_learned_by_heart(trained: tuple[RunFolder, Quiet]) -> None:
    _, progress = trained
    assert [report["step"] for report in progress.reports] == [50, 100]
    assert progress.reports[-1]["accuracy"] >= 0.95
    assert progress.reports[-1]["loss"] < progress.reports[0]["loss"]


def test_equal_runs_end_with_equal_bytes(version: Version, trained: tuple[RunFolder, Quiet], tmp_path: Path) -> None:
    folder, progress = run(version, tmp_path / "model")
    assert hashes(folder) == hashes(trained[0])
    assert progress.reports == trained[1].reports


def hashes(folder: RunFolder) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in folder.model.iterdir()}


def test_a_run_that_is_killed_goes_on_and_ends_the_same(
    version: Version, trained: tuple[RunFolder, Quiet], tmp_path: Path
) -> None:
    roots = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    arguments = [json.dumps(roots), str(tmp_path / "v"), str(tmp_path / "model"), json.dumps({})]
    state = tmp_path / "model.unfinished" / STATE
    seen = -1
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", KILLED_RUN, *arguments], stderr=subprocess.DEVNULL)
        while (not state.exists() or state.stat().st_mtime_ns == seen) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
        seen = state.stat().st_mtime_ns
    folder, progress = run(version, tmp_path / "model")
    assert 0 < progress.began[0] < QUICK["steps"]
    assert hashes(folder) == hashes(trained[0])
    assert progress.reports == trained[1].reports[-len(progress.reports) :]


def test_a_state_that_is_damaged_is_an_error(version: Version, tmp_path: Path) -> None:
    from longform.errors import StoreError
    from tasks.axioms.training import checkpoint

    (tmp_path / STATE).write_bytes(b"half a state")
    with pytest.raises(StoreError, match="is damaged"):
        checkpoint.load(tmp_path / STATE)
    assert checkpoint.load(tmp_path / "none.pt") is None


def test_a_loss_that_is_no_number_ends_the_training(version: Version, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no number: take a lower learning_rate"):
        run(version, tmp_path / "model", learning_rate=1e30, warmup_steps=0, steps=20)


def test_the_folder_is_read_by_hugging_face_and_scores_as_in_training(trained: tuple[RunFolder, Quiet]) -> None:
    import transformers
    from sentence_transformers import CrossEncoder

    from tasks.axioms.scoring.encoders import by_encoder, question_tokens
    from tasks.axioms.scoring.groups import Group
    from tasks.axioms.training.inputs import Reader
    from tasks.axioms.training.loop import scores
    from tasks.retrieval.cross_encoder import cross_encoder

    place = str(trained[0].model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(place)
    read = Reader(transformers.AutoTokenizer.from_pretrained(place), 256, 64)
    question, evidence = f"where does amber grow {' '.join(WORDS * 40)}", ("basil is no amber",)
    answers = [(str(number), f"most of the {word} stands near water") for number, word in enumerate(WORDS)]
    group = Group("g", question, evidence, answers)
    ours = scores(model, read, [(question, evidence, text) for _, text in answers], 4)
    ((_, theirs),) = by_encoder(cross_encoder(place, sha256_of), [group])
    assert theirs == pytest.approx(ours, abs=1e-4)
    assert question_tokens(place) == 256
    plain = CrossEncoder(place).predict([("where does amber grow", answers[0][1])])
    assert plain[0] == pytest.approx(
        scores(model, read, [("where does amber grow", (), answers[0][1])], 1)[0], abs=1e-4
    )


def test_threads_that_score_and_cut_at_the_same_time_do_not_disturb_each_other(
    trained: tuple[RunFolder, Quiet],
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from tasks.retrieval.cross_encoder import load_raw

    model = load_raw(str(trained[0].model))
    pairs = [(word, " ".join([word] * number)) for number, word in enumerate(WORDS, start=1)]
    alone, long = model.raw(pairs).tolist(), " ".join(WORDS * 40)
    with ThreadPoolExecutor(4) as pool:
        cut = [pool.submit(lambda: [model.beginning(long, 3) for _ in range(400)]) for _ in range(3)]
        assert all(model.raw(pairs).tolist() == alone for _ in range(40))
        assert {text for each in cut for text in each.result()} == {model.beginning(long, 3)}


def family(name: str, folder: Path) -> str:
    """A folder with a model of random weights of a family of Hugging Face, and a tokenizer of WORDS."""
    import transformers

    from tasks.axioms.training.backbone import tokenizer_of

    tokenizer = tokenizer_of([" ".join(WORDS)] * 3, 200)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"vocab_size": len(tokenizer), "max_position_embeddings": 64}
    if name == "T5":
        small = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": len(tokenizer)}
        small |= {"eos_token_id": tokenizer.sep_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    if name != "Bert":
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
        tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    config = getattr(transformers, f"{name}Config")(**small, num_labels=1)
    getattr(transformers, f"{name}ForSequenceClassification")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("name", ["Bert", "Roberta", "Llama", "T5"])
def test_encoders_and_decoders_are_trained_alike(name: str, version: Version, tmp_path: Path) -> None:
    backbone = family(name, tmp_path / "backbone")
    folder, progress = run(version, tmp_path / "model", backbone=backbone, steps=2, checkpoint_every=1)
    assert progress.reports[-1]["step"] == 2
    config = json.loads((folder.model / "config.json").read_text())
    assert config["question_tokens"] == 256
    assert np.isfinite(progress.reports[-1]["loss"])


@pytest.mark.parametrize(
    ("backbone", "why"), [("random:huge", "sizes of random"), ("no/such-model", "cannot be loaded")]
)
def test_a_backbone_that_cannot_be_used_is_named(
    backbone: str, why: str, version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=why):
        run(version, tmp_path / "model", backbone=backbone)

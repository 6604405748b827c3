"""The self-test of an editor: whether a model recovers planted edits, and is not told by drafts what to reply."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.shared.arguments import print_json
from flows.cli.shared.asking import agree, print_plan

if TYPE_CHECKING:
    from flows.measuring.measuring import MeasureConfig
    from tasks.revision_distance.own.selftest import Verdict

NOT_FIT = 1


def self_test(
    endpoint: str,
    chosen: MeasureConfig,
    root: Path,
    *,
    yes: bool,
    plan_only: bool,
    max_cost: float | None,
    retry_errors: bool,
    as_json: bool,
) -> None:
    """Ask the endpoint for the edits of the test's drafts, and print what it recovers; its price comes first. Ends the
    command with exit code 1 if the model is not fit.
    """
    from flows.builds.console import Bars, Lines, console
    from flows.measuring import measuring
    from longform.files import write_bytes
    from longform.llm.retry import Retry
    from tasks.revision_distance.own.selftest import as_lines, verdict

    file = root / measuring.FOLDER / "selftest" / "drafts.jsonl"
    asked = measuring.Asked(file, (endpoint,))
    measuring.check(asked, chosen, priced=max_cost is not None, send=not plan_only)
    write_bytes(file, as_lines())
    given = measuring.kept(asked, root)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        measuring.read_into(asked, root, given, progress)
    if plan_only:
        return print_plan(measuring.plan(asked, chosen, root, given), as_json)
    if not yes:
        agree(measuring.plan(asked, chosen, root, given), yes)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        found = measuring.measure(
            asked, chosen, root, given,
            progress=progress, max_cost=max_cost, retry=Retry.of(retry_errors), accept=(measuring.STAGE,),
        )  # fmt: skip
    (rows,) = found.lists.values()
    told, signatures = verdict(rows), found.summary.signatures
    if as_json:
        print_json({"editor": endpoint, "signatures": signatures, **asdict(told)})
    else:
        _print(endpoint, told, signatures, [row for row in found.left_out if row["editor"]])
    if not told.fit:
        raise typer.Exit(NOT_FIT)


def _print(endpoint: str, told: Verdict, signatures: list[str], left_out: list[dict[str, Any]]) -> None:
    """Print the shares, by language and kind of edit, the verdict and what speaks against it."""
    from flows.builds.console import console, on_one_line
    from tasks.revision_distance.drafts.signature import BASELINE
    from tasks.revision_distance.own.selftest import shown

    out = console()
    for name, share in told.shares.items():
        out.print(f"{name:<26}{shown(share):>8}")
    for counts in (told.kinds, told.languages):
        out.print(", ".join(f"{name} {right} of {number}" for name, (right, number) in counts.items()), soft_wrap=True)
    for row in left_out[:3]:
        said = str(row["raw"] or row["detail"])[:100]
        out.print(on_one_line(f"no list: {row['reason']}, e.g. {said}"), soft_wrap=True)
    for each in signatures:
        out.print(on_one_line(f"signature {each}"), soft_wrap=True)
    if any(BASELINE in each for each in signatures):
        out.print(
            "The offline editor is a lexical baseline: it finds differences of words, and no meaning.", soft_wrap=True
        )
    verdict = "is fit to be the editor" if told.fit else f"is not fit to be the editor: {'; '.join(told.reasons)}"
    out.print(f"{endpoint} {verdict}", soft_wrap=True)

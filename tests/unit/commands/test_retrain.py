"""What `retrain` says: both models side by side, and the decision in a sentence."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
from click.testing import CliRunner
from rich.console import Console

from stream_tgat.commands.retrain import retrain_command, show_result
from stream_tgat.evaluation.beside_rules import not_measured
from stream_tgat.evaluation.comparison import HeadSummary, ModelSummary
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.renewal.gate import Comparison, compare, decide
from stream_tgat.renewal.priority import step_back
from stream_tgat.renewal.retrain import RetrainResult
from stream_tgat.topology import Kafka, Retrain, Topology
from stream_tgat.training.registry import RuleFigure, RulesNote


def model(precision: float, auc: float, rarer: int = 40) -> ModelSummary:
    return ModelSummary(500, precision, (HeadSummary("churn", 90, rarer, auc, 0.25, 0.125),))


def outcome(new: ModelSummary, serving: ModelSummary | None, **changed: object) -> RetrainResult:
    rules = Retrain()
    found = compare(new, serving, None, rules)
    found = Comparison(tuple(replace(each, std_error=0.001) for each in found.figures), 0.001)
    decision = decide(found, "none" if serving is None else "trained", rules)
    made = RetrainResult(
        release="20260101-000000-aaaaaaaa",
        store="runs/releases",
        measured=None,
        promoted=decision.promote,
        version=7 if decision.promote else None,
        passed=decision.promote,
        reason=decision.reason,
        rules=not_measured("nothing is asked"),
        compared=found.figures,
        new=new,
        serving=serving,
        serving_release=None if serving is None else "20250101-000000-bbbbbbbb",
        part=MeasuredPart(1_000, 0.0, 86_400.0, 500, True, "all that is new"),
        interactions=1_500,
        learnt_until=0.0,
        seed=0,
        notes=(),
        seconds=12.0,
    )
    return replace(made, **changed)


def shown(told: RetrainResult) -> str:
    text = StringIO()
    show_result(told, Console(file=text, width=160, highlight=False, soft_wrap=True))
    return text.getvalue()


def cells(text: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in text.splitlines()]
    return {f"{row[0]} {row[1]}": row[2:] for row in rows if row}


def test_both_models_stand_side_by_side_with_what_decides() -> None:
    text = shown(outcome(model(0.75, 0.5), model(0.5, 0.625, 3), notes=("[gone]",)))
    rows = cells(text)
    assert rows[" figure"] == ["answers", "rarer", "new", "serving", "change", "decides"]
    assert rows["links AP"] == ["500", "500", "0.7500", "0.5000", "+0.2500", "yes"]
    assert rows["churn AUC"] == ["90", "40", "0.5000", "0.6250", "-0.1250", "yes"]
    assert rows["churn Brier"] == ["90", "40", "0.1250", "0.1250", "+0.0000", ""]
    assert "Compared (serving is 20250101-000000-bbbbbbbb) on 500 of 1,500 interactions," in text
    assert "1970-01-01 00:00:00 to 1970-01-02 00:00:00 UTC: all that is new" in text
    assert "[gone]" in text
    assert "Kept, not promoted: it is worse in heads.churn.auc 0.5000 against" in text
    assert "release promote 20260101-000000-aaaaaaaa" in text


def test_table_fits_into_a_narrow_terminal() -> None:
    text = StringIO()
    long = replace(model(0.75, 0.5), heads=(HeadSummary("a_rather_long_name_of_a_head", 12_345, 1_234, 0.5, 0.5, 0.5),))
    show_result(outcome(long, long), Console(file=text, width=80, highlight=False, soft_wrap=True))
    assert "…" not in text.getvalue()


def test_head_that_has_no_say_is_told_with_the_reason() -> None:
    text = shown(outcome(model(0.75, 0.5, 3), model(0.5, 0.625)))
    assert cells(text)["churn AUC"][-1] == "too few"
    assert "without a say: heads.churn.auc (3 answers of the rarer class, 20 are needed)" in text
    assert "Promoted, and serves from now on as version 7: " in text
    assert "release promote" not in text


def test_refit_is_told_with_the_model_that_was_measured() -> None:
    text = shown(outcome(model(0.75, 0.7), model(0.5, 0.625), measured="20260101-000000-bbbbbbbb"))
    assert "What was measured is 20260101-000000-bbbbbbbb; its refit has learnt from the newest part too." in text


@pytest.mark.parametrize(("serving", "word"), [(None, "Would be promoted: "), (0.9, "Would be kept, not promoted: ")])
def test_dry_run_says_what_would_be(serving: float | None, word: str) -> None:
    other = None if serving is None else model(serving, 0.7)
    text = shown(outcome(model(0.75, 0.7), other, release=None, store=None, promoted=False, version=None))
    assert word in text
    assert "Release" not in text


def test_nothing_that_serves_has_no_figures() -> None:
    text = shown(outcome(model(0.75, math.nan, 0), None))
    rows = cells(text)
    assert "there is no other" in text
    assert rows["links AP"] == ["500", "500", "0.7500", "-", "", "yes"]
    assert rows["churn AUC"] == ["90", "0", "-", "-", "", "too few"]


def test_last_word_is_how_it_compares_with_simple_rules() -> None:
    figure = RuleFigure("links.average_precision", 500, 0.75, "EdgeBank (unlimited)", 0.5, 0.25, 0.2, 0.3, "")
    note = RulesNote("better", "Better than the best simple rule by a quarter.", 0.25, 0.2, 0.3, (figure,))
    text = shown(outcome(model(0.75, 0.7), None, rules=note))
    assert "0.7500  0.5000  +0.200 to +0.300  EdgeBank (unlimited)" in text
    assert text.endswith("\nBetter than the best simple rule by a quarter.\n")


def test_without_a_broker_it_is_an_error_in_a_line() -> None:
    topology = Topology(name="x", kafka=Kafka(bootstrap_servers="127.0.0.1:1"))
    done = CliRunner().invoke(retrain_command(topology), ["--now"])
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1)
    assert done.output.startswith("Error: no Kafka broker answers")


@pytest.mark.parametrize(("present", "wanted", "asked"), [(0, 10, [10]), (4, 10, [6]), (10, 10, []), (15, 10, [])])
def test_stepping_back_is_done_once(
    present: int, wanted: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def nice(more: int) -> int:
        calls.extend([more] if more else [])
        return present + more

    monkeypatch.setattr("stream_tgat.renewal.priority.os.nice", nice)
    threads: list[int] = []
    monkeypatch.setattr("stream_tgat.nn.threads.use_threads", threads.append)
    step_back(Retrain(nice=wanted, threads=3))
    assert calls == asked
    assert threads == [3]


def test_stepping_back_comes_before_what_takes_long_to_import() -> None:
    lines = (
        "import os, sys",
        "os.nice = lambda more: print('torch' in sys.modules) or 0",
        "from stream_tgat.renewal.priority import step_back",
        "from stream_tgat.topology import Retrain",
        "step_back(Retrain(nice=3))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]

"""`evaluate` against a real broker: the release that serves, on what came after it was trained."""

from __future__ import annotations

import itertools

import orjson
import pytest

from research.datasets.groceries import load_groceries
from stream_tgat.commands.evaluate import evaluate_command
from stream_tgat.commands.release import release_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.commands.train import train_command
from stream_tgat.topology import Topology
from stream_tgat.training.log_part import read_log
from stream_tgat.training.promotion import serving
from tests.integration.shop import load_serving, produce, run, small_shop


@pytest.fixture
def shop(broker, topic_prefix, tmp_path) -> Topology:
    """The demo's topology on topics of its own, with little training."""
    return small_shop(
        broker.bootstrap_servers,
        topic_prefix,
        tmp_path,
        training={"epochs": 1, "epoch_interactions": 400, "head_epochs": 3, "test_share": 0.0},
    )


# kafka-python leaves a connection to the garbage collector if its client is closed while it is being made.
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_release_that_serves_is_measured_on_what_came_after_it_learnt(shop, tmp_path):
    data = load_groceries(20)
    ensure_topics(shop)
    evaluate = evaluate_command(shop)
    nothing = run(evaluate)
    assert nothing.exit_code == 1
    assert "stream_tgat train" in nothing.output, "no release serves, and how to make one"

    produce(shop, itertools.chain(data.nodes(), data.stream(end=data.cutoff)))
    assert run(train_command(shop)).exit_code == 0
    stale = run(evaluate)
    assert stale.exit_code == 1
    assert "Nothing here is new to release" in stale.output

    before, _ = read_log(shop)
    produce(shop, data.stream(begin=data.cutoff))
    log, _ = read_log(shop)
    out = tmp_path / "figures.json"
    result = run(evaluate, "--ranked", "20", "--candidates", "10", "--out", str(out), "--plots", str(tmp_path / "p"))
    assert result.exit_code == 0, result.output
    report = orjson.loads(out.read_bytes())
    _, _, card = load_serving(shop)
    new = int((log.interactions.time >= card.learnt_until).sum())
    assert new > 0.9 * (len(log.interactions) - len(before.interactions)) > 100
    assert (report["release"], report["interactions"]) == (serving(shop).record.release, len(log.interactions))
    assert (report["part"]["count"], report["part"]["unseen"]) == (new, True)
    assert f"on {new:,} of {len(log.interactions):,} interactions" in result.output
    assert " ".join(result.output.split()).endswith(report["rules"]["sentence"])
    assert report["rules"]["figures"][0]["answers"] == new
    answers = {head["head"]: head["answers"] for head in report["heads"]}
    assert set(answers) == {head.name for head in shop.heads}
    assert sum(answers.values()) > 0
    drawn = {path.name for path in (tmp_path / "p").glob("*.svg")}
    assert drawn == {f"reliability-{name}.svg" for name, count in answers.items() if count}

    untrained = run(release_command(shop), "init", "--no-promote")
    assert untrained.exit_code == 0
    name = next(word for word in untrained.output.split() if word.startswith("20"))
    other = run(evaluate, "--release", name, "--ranked", "0", "--max-interactions", "100")
    assert other.exit_code == 0, other.output
    assert "the release has learnt nothing" in " ".join(other.output.split())

"""The newest report becomes metrics, is read once, and what cannot be read changes nothing."""

from __future__ import annotations

import asyncio

from stream_tgat.agents.metrics import quality_samples
from stream_tgat.housekeeping.quality import QualityWatch
from stream_tgat.wire import AnswerFigures, DriftNotice, HeadQuality, LinkQuality, QualityReport
from tests.unit.agents.fakes import FakeCluster, Message


def figures(auc: float | None, count: int = 10) -> AnswerFigures:
    return AnswerFigures(
        count=count,
        base_rate=0.5,
        auc=auc,
        average_precision=0.25,
        brier=0.1,
        calibration_error=0.02,
        alerts=0,
        alert_precision=None,
    )


def report(auc: float | None, model: int = 7) -> QualityReport:
    head = HeadQuality(
        head="ban",
        label="ban",
        overall=figures(0.6, 30),
        by_model={3: figures(0.1), 7: figures(auc)},
        since=0.0,
        until=1.0,
        labels=30,
        without_prediction=0,
        too_old=0,
        learnt_from=0,
    )
    links = tuple(LinkQuality(model=each, pairs=5, average_precision=each / 10) for each in (7, 3))
    return QualityReport(
        created=1.7e9,
        release="r",
        model=model,
        serving_since=0.0,
        releases={7: "r"},
        until=1.0,
        behind=0,
        predictions=30,
        user_share=1.0,
        window=5000,
        heads=(head,),
        links=links,
        drift=(DriftNotice(name="score:ban", since=0.5, reference=0.1, present=0.3),),
        watched=4,
    )


def found(report: QualityReport) -> dict[tuple[str, ...], object]:
    prefix = "stream_tgat_quality_"
    return {(each.metric.name.removeprefix(prefix), *each.labels): each.value for each in quality_samples(report)}


def test_metrics_are_those_of_the_model_that_serves_and_of_no_other() -> None:
    of_all: dict[tuple[str, ...], object] = {
        ("immature_answers", "ban"): 0,
        ("drifting",): 1,
        ("report_timestamp_seconds",): 1.7e9,
        ("stream_tgat_renewal_state", "watching"): 1,
    }
    assert found(report(0.9)) == of_all | {
        ("auc", "ban"): 0.9,
        ("average_precision", "ban"): 0.25,
        ("calibration_error", "ban"): 0.02,
        ("answers", "ban"): 10,
        ("link_average_precision",): 0.7,
    }
    # What is undefined, and what a model has not shown yet, has no number.
    assert ("auc", "ban") not in found(report(None))
    assert found(report(0.9, model=8)) == of_all


def test_a_report_is_read_when_it_is_new_and_not_again() -> None:
    cluster = FakeCluster({"quality": [0]})
    watch = QualityWatch("quality", cluster)
    reads: list[tuple[int, int]] = []
    read = cluster.read

    async def noted(topic: str, partition: int, first: int, end: int) -> list[Message]:
        reads.append((first, end))
        return await read(topic, partition, first, end)

    cluster.read = noted  # type: ignore[method-assign]

    def publish(value: bytes | None) -> None:
        (end,) = cluster.topics["quality"]
        cluster.records.setdefault(("quality", 0), []).append(Message("quality", 0, end, value))
        cluster.topics["quality"] = [end + 1]

    async def looks() -> None:
        await watch.look()
        assert watch.report is None
        publish(report(0.8).model_dump_json().encode())
        publish(report(0.9).model_dump_json().encode())
        await watch.look()
        await watch.look()
        assert watch.report == report(0.9)
        for stray in (None, b"not json", b"{}"):
            publish(stray)
            await watch.look()
            assert watch.report == report(0.9)

    asyncio.run(looks())
    assert reads == [(1, 2), (2, 3), (3, 4), (4, 5)]

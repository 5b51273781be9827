"""What a plan is made of, by hand for coefficients that are easy to reckon with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from stream_tgat.capacity import Coefficients, Load, Shape, plan
from stream_tgat.commands.plan import capacity_shape, plan_command
from stream_tgat.topology import Topology

SHAPE = Shape(
    edge=10, hidden=20, time=10, neighbours=5, candidates=20, layers=2, interaction_bytes=200, embedding_bytes=400,
    half_edge_bytes=100, peer_embedding_bytes=150,
)  # fmt: skip
EASY = Coefficients(
    measured="once", machine="a slate", beside_cores=0.0, engine_us=(10.0, 20.0, 0.0, 0.0), engine_error=0.0,
    path_us=40.0, path_us_per_kb=10.0, rounds_per_s=30.0, partition_us=0.0, packet_us=0.0, base_cores=0.0,
    broker_us=30.0, broker_partition_us=0.0, broker_packet_us=0.0, broker_base_cores=0.0,
    changelog_bytes=(500.0, 0.0, 0.0, 0.0), row_bytes=(100.0, 4.0, 0.0, 8.0), log_factor=1.0, disk_factor=2.0,
)  # fmt: skip


def test_plan_is_what_one_reckons_by_hand() -> None:
    """100 µs an interaction: 10 + 2 · 20 of the engine, 40 beside it, 10 for the kilobyte of three records."""
    assert SHAPE.wire_kb == 1.0
    assert EASY.worker_us(SHAPE) == 100.0
    found = plan(SHAPE, Load(rate=50_000, nodes=1000, replicas=3, worker_cores=1.0, broker_cores=2.0, share=0.5), EASY)
    assert (found.workers, found.partitions, found.worker_cores) == (10, 10, 5.0)
    # 1.5 cores for each copy; a broker is to use one.
    assert (found.brokers, found.broker_cores) == (5, 4.5)
    assert found.packets_per_s == 30 * 10 * 10
    assert found.state_bytes == 1000 * 20 * (100 + 40 + 160)
    assert found.worker_disk_bytes == found.state_bytes * 2 / 10
    assert SHAPE.propagation_bytes == 2 * (100 + 150)
    written = 500 + 800 + 500
    assert found.wire_bytes_per_s == 50_000 * (200 + written + 500)
    assert found.replicated_bytes_per_s == 50_000 * (200 + written) * 2
    assert found.log_bytes_per_day == 50_000 * 1000 * 86_400 * 3


def test_rounds_take_their_part_of_each_partition_packet_and_worker() -> None:
    dear = replace(EASY, partition_us=200.0, packet_us=50.0, base_cores=0.1)
    dear = replace(dear, broker_partition_us=100.0, broker_packet_us=10.0, broker_base_cores=0.01)
    # 30 rounds of 8 partitions, each with a packet of each of 4 workers.
    assert dear.packets_per_s(4, 8) == 30 * 8 * 4
    assert dear.worker_cores(SHAPE, 1000, 4, 8) == pytest.approx(0.1 + 30 * 8 * 400e-6 + 4 * 0.1)
    # Copies are written, and polled by nobody.
    assert dear.broker_cores(1000, 4, 8, 3) == pytest.approx(3 * (0.03 + 30 * 8 * 140e-6) + 4 * 0.01)


def test_packets_between_workers_take_more_than_their_share() -> None:
    """They grow with the square of the workers, so ten times the rate takes more than ten times as many."""
    dear, load = replace(EASY, packet_us=20.0), Load(rate=100_000, nodes=1, replicas=1)
    small, large = plan(SHAPE, load, dear), plan(SHAPE, replace(load, rate=1_000_000), dear)
    assert large.workers > 10 * small.workers
    for found, rate in ((small, 1e5), (large, 1e6)):
        assert found.worker_cores <= load.share * load.worker_cores * found.workers
        fewer = found.workers - 1
        assert 1e-6 * (100 * rate + 20 * 30 * fewer**2) > load.share * load.worker_cores * fewer
    with pytest.raises(ValueError, match="no number of workers is enough"):
        plan(SHAPE, replace(load, rate=1e8), replace(EASY, packet_us=200.0))


def test_command_answers_in_a_readable_table_from_what_was_measured() -> None:
    topology = Topology.model_validate({"name": "shop", "heads": [{"name": "returns"}]})
    said = CliRunner(env={"COLUMNS": "80"}).invoke(plan_command(topology), ["--rate", "20000"])
    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("20,000 interactions a second of 'shop'.")
    assert "Measured 20" in said.output
    more = CliRunner().invoke(plan_command(topology), ["--rate", "200000"]).output.splitlines()[-1]
    workers = [int(line.split()[0].replace(",", "")) for line in (lines[-1], more)]
    # Whole workers: of the smaller number the last one may be hardly needed.
    assert workers[1] >= 10 * (workers[0] - 1)


def test_coefficients_that_were_measured_say_of_what() -> None:
    of = Coefficients.measured_last()
    assert of.measured.startswith("20")
    assert of.engine_error < 0.5
    narrow, wide = (
        of.worker_us(capacity_shape(Topology.model_validate({"name": "x", "model": {"hidden": width}}), 200))
        for width in (32, 256)
    )
    assert 0 < narrow < wide < 5_000

"""A worker reads what producers commit: nothing that they take back, and nothing before it is known whether they do."""

from __future__ import annotations

import orjson
from broker import Broker

from tests.integration.equality.checks import assert_equal
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.streams import START, Log, Record, punctuation, random_log
from tests.integration.transactions import abort, begin, commit, transactional

PARTITIONS = 4


def _interactions(name: str, first: int, count: int) -> list[bytes]:
    """On few nodes, so that each would be a neighbour of those that follow."""
    return [
        orjson.dumps(
            {
                "id": f"{name}-{n:03d}",
                "user": f"a{n % 5}",
                "item": f"b{n % 3}",
                "timestamp": START + n,
                "amount": float(n),
                "kind": "buy",
                "vector": [0.5, -0.5],
            }
        )
        for n in range(first, first + count)
    ]


def _log(*parts: list[bytes]) -> Log:
    read = [Record(n % PARTITIONS, value) for part in parts for n, value in enumerate(part)]
    return random_log(1).with_records([*read, *punctuation(START + 1e6, PARTITIONS)])


def test_only_what_was_committed_is_embedded_and_a_transaction_that_hangs_is_named(
    broker: Broker, deployed: Deployed
) -> None:
    good = [_interactions("good", 0, 40), _interactions("good", 60, 41)]
    bad = _interactions("bad", 40, 23)
    log = _log(*good)
    deployment, oracle = deployed(log)
    topic, everywhere = deployment.topology.topics.interactions, range(PARTITIONS)
    with transactional(broker.bootstrap_servers) as producer:
        with transactional(broker.bootstrap_servers) as gone:
            begin(gone, topic, bad[:5], [3])
            commit(producer, topic, good[0], everywhere)
            abort(producer, topic, bad, everywhere)
            commit(producer, topic, good[1], everywhere)
            deployment.produce(punctuation(START + 1e6, PARTITIONS))
            worker = deployment.start("a")
            deployment.wait_until_said(worker, f"{topic}/3: a transaction hangs: it has begun at offset 0")
            # Partition 3 may still bring something that comes before all else.
            assert not deployment.outputs.embeddings
            gone.abort_transaction()
        deployment.wait_for(2 * (40 + 41))
        deployment.stop()
        assert_equal(deployment, oracle)

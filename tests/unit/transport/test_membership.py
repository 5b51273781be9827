"""What makes a static member of the group of a worker."""

from __future__ import annotations

from stream_tgat.transport.membership import instance_id


def test_instance_id_is_the_same_over_restarts_and_another_with_other_topics() -> None:
    mine = instance_id("worker-1", ["interactions", "labels"])
    assert mine.startswith("worker-1-")
    assert mine == instance_id("worker-1", ["labels", "interactions"])
    others = {instance_id("worker-1", ["interactions"]), instance_id("worker-2", ["interactions", "labels"])}
    assert mine not in others
    assert len(others) == 2

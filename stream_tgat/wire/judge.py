"""Whether a worker would take a record, before it is sent: the verdict of the decoders and of the features' encoder."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from stream_tgat.topology import Topology
from stream_tgat.wire.decode import DeadLetter, DecodedInteraction
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.mapping import Given
from stream_tgat.wire.readers import InteractionReader, LabelReader, NodeReader, Several

InputTopic = Literal["interactions", "labels", "nodes"]


class Candidate(NamedTuple):
    """What may be sent to one of the topics that users produce to."""

    value: bytes | None
    headers: Headers | None = None
    key: bytes | None = None


class Judge:
    """Judges records for one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._topics = topology.topics
        self._interactions = InteractionReader(topology)
        self._labels = LabelReader(topology)
        self._nodes = NodeReader(topology)
        self._encoder = topology.encoder

    def reasons(self, topic: InputTopic, candidates: Sequence[Candidate], now: float) -> list[str | None]:
        """Why each would become a dead letter, None where it would not. now: unix seconds, by the wall clock"""
        if topic == "interactions":
            return self._of_interactions(candidates, now)
        reader, name = (self._labels, self._topics.labels) if topic == "labels" else (self._nodes, self._topics.nodes)
        decoded = [reader.read(_lying(name, each), now) for each in candidates]
        return [each.reason if isinstance(each, DeadLetter) else None for each in decoded]

    def _of_interactions(self, candidates: Sequence[Candidate], now: float) -> list[str | None]:
        reasons: list[str | None] = [None] * len(candidates)
        places: list[int] = []
        fields: list[dict[str, Any]] = []
        for at, each in enumerate(candidates):
            found = self._interactions.read(_lying(self._topics.interactions, each), now)
            if isinstance(found, DeadLetter):
                reasons[at] = found.reason
            elif isinstance(found, DecodedInteraction):
                places.append(at)
                fields.append(found.fields)
            elif isinstance(found, Several):
                places += [at] * len(found.interactions)
                fields += [one.fields for one in found.interactions]
        for at, error in zip(places, self._encoder.encode(fields)[1], strict=True):
            if error is not None and reasons[at] is None:
                reasons[at] = self._interactions.told(error)
        return reasons


def _lying(topic: str, candidate: Candidate) -> Given:
    """A candidate as it would lie on its topic, at a place that does not matter."""
    return Given(topic, 0, 0, candidate.key, candidate.value, candidate.headers)

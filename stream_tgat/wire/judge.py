"""Whether a worker would take a record, before it is sent: the verdict of the decoders and of the features' encoder."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from stream_tgat.topology import Topology
from stream_tgat.wire.decode import DeadLetter, InteractionDecoder, LabelDecoder, NodeDecoder, Punctuation
from stream_tgat.wire.formats import Headers

InputTopic = Literal["interactions", "labels", "nodes"]


class Candidate(NamedTuple):
    """What may be sent to one of the topics that users produce to."""

    value: bytes | None
    headers: Headers | None = None


class Judge:
    """Judges records for one deployment."""

    def __init__(self, topology: Topology) -> None:
        self._topic = topology.topics.interactions
        self._interactions = InteractionDecoder(topology)
        self._labels = LabelDecoder(topology)
        self._nodes = NodeDecoder(topology)
        self._encoder = topology.encoder

    def reasons(self, topic: InputTopic, candidates: Sequence[Candidate], now: float) -> list[str | None]:
        """Why each would become a dead letter, None where it would not. now: unix seconds, by the wall clock"""
        if topic == "interactions":
            return self._of_interactions(candidates, now)
        decoded = (
            self._labels.decode(each.value, each.headers, now)
            if topic == "labels"
            else self._nodes.decode(each.value, each.headers)
            for each in candidates
        )
        return [each.reason if isinstance(each, DeadLetter) else None for each in decoded]

    def _of_interactions(self, candidates: Sequence[Candidate], now: float) -> list[str | None]:
        reasons: list[str | None] = [None] * len(candidates)
        places: list[int] = []
        fields: list[dict[str, Any]] = []
        for at, each in enumerate(candidates):
            decoded = self._interactions.decode(each.value, each.headers, self._topic, 0, 0, now)
            if isinstance(decoded, DeadLetter):
                reasons[at] = decoded.reason
            elif not isinstance(decoded, Punctuation):
                places.append(at)
                fields.append(decoded.fields)
        for at, error in zip(places, self._encoder.encode(fields)[1], strict=True):
            reasons[at] = error
        return reasons

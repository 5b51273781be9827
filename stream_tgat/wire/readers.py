"""The way in for records of all three roles: the contract's decoders, behind the topology's mapping if it has one.

Whoever reads `interactions`, `labels` or `nodes` reads them here, so that a record is the same to workers, training,
monitoring and commands. Where records are as the contract has them nothing stands before the decoders.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from stream_tgat.errors import WireError
from stream_tgat.topology import InputSection, Topology
from stream_tgat.wire.decode import (
    DeadLetter,
    DecodedInteraction,
    DecodedLabel,
    DecodedNode,
    InteractionDecoder,
    LabelDecoder,
    NodeDecoder,
    Punctuation,
    default_interaction_id,
)
from stream_tgat.wire.formats import header
from stream_tgat.wire.letters import first_place_of
from stream_tgat.wire.mapping import KafkaRecord, RoleMapping
from stream_tgat.wire.values import RoleValues


class Several(NamedTuple):
    """What a record holds that may hold any number of interactions, such as the lines of an order."""

    interactions: tuple[DecodedInteraction, ...]


class PassedOver(NamedTuple):
    """A record that the topology does not want: `where` says no, or it is null and those are skipped."""


class _Reader:
    """What the readers of all roles share: schemas that may have to be asked for.

    `read` asks for them when it must, and waits for the answer. Who must not wait, such as an event loop, asks `lacks`
    first, and has `fetch` done elsewhere. Both raise UnreachableRegistryError, AccessError or SettingsError if the
    registry cannot be asked.
    """

    def __init__(self, topology: Topology, section: InputSection) -> None:
        texts = [*section.sources.values(), *getattr(section, "fields", {}).values(), section.where]
        has_keys = any("$key" in text for text in texts if isinstance(text, str))
        self._values = RoleValues(section, topology.schema_registry, has_keys=has_keys)

    def lacks(self, records: Sequence[KafkaRecord]) -> bool:
        """Whether reading these records would ask a schema registry first."""
        return self._values.lacks(records)

    def fetch(self, records: Sequence[KafkaRecord]) -> None:
        """Have all at hand that these records need, so that reading them waits for nobody."""
        self._values.fetch(records)


class InteractionReader(_Reader):
    """Reads the topics of interactions of one deployment.

    contract: the decoder of records as the contract has them; None where the topology maps others
    """

    def __init__(self, topology: Topology) -> None:
        section = topology.input.interactions
        super().__init__(topology, section)
        self._decoder = InteractionDecoder(topology)
        self._id_bytes, self._most = topology.id_bytes, section.most
        self.contract = self._decoder if section.is_contract else None
        features = {feature.name: section.fields.get(feature.name) for feature in topology.features}
        self._mapping = RoleMapping(
            section,
            {name: section.sources.get(name) for name in section.FIELDS} | features,
            self._values,
            topology.kafka.max_record_bytes,
            [feature.name for feature in topology.features if getattr(feature, "default", None) is not None],
        )

    def read(
        self, record: KafkaRecord, written: float
    ) -> DecodedInteraction | Several | PassedOver | Punctuation | DeadLetter:
        """What a record is. written: unix seconds at which Kafka has it that it was

        A basket is taken whole or not at all, so that one that was refused can be sent again as it was.
        """
        if self.contract is not None:
            return self.contract.decode(
                record.value, record.headers, record.topic, record.partition, record.offset, written
            )
        if record.value is None and header(record.headers, "watermark") is not None:
            return self._decoder.decode(None, record.headers, record.topic, record.partition, record.offset, written)
        try:
            return self._mapped(record, written)
        except WireError as problem:
            return DeadLetter(self._mapping.told(str(problem)))

    def told(self, reason: str) -> str:
        """A reason about fields, by the names that they have where they come from."""
        return reason if self.contract is not None else self._mapping.told(reason)

    def _mapped(self, record: KafkaRecord, written: float) -> DecodedInteraction | Several | PassedOver:
        mapping, decode = self._mapping, self._decoder.mapped
        scope = mapping.read(record, written)
        if scope is None:
            return PassedOver()
        place = record.headers and first_place_of(record.headers, self._id_bytes)
        place = place or default_interaction_id(record.topic, record.partition, record.offset)
        elements = mapping.elements(scope, self._most)
        if elements is None:
            return decode(mapping.fields(scope), place, written)
        found = []
        for index, element in enumerate(elements):
            scope["$each"], scope["$index"] = element, index
            try:
                found.append(decode(mapping.fields(scope), b"%b/%d" % (place, index), written))
            except WireError as problem:
                raise WireError(f"{problem}, in element {index} of `each`") from None
        return Several(tuple(found))


class LabelReader(_Reader):
    """Reads the topics of labels of one deployment."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.input.labels)
        self._decoder = LabelDecoder(topology)
        self._mapping = _mapping(topology, topology.input.labels, self._values)

    def read(self, record: KafkaRecord, written: float) -> DecodedLabel | PassedOver | DeadLetter:
        """What a record is. written: unix seconds at which Kafka has it that it was"""
        if self._mapping is None:
            return self._decoder.decode(record.value, record.headers, written)
        try:
            scope = self._mapping.read(record, written)
            return PassedOver() if scope is None else self._decoder.of_fields(self._mapping.fields(scope), written)
        except WireError as problem:
            return DeadLetter(self._mapping.told(str(problem)))


class NodeReader(_Reader):
    """Reads the topics of node features of one deployment."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, topology.input.nodes)
        self._decoder = NodeDecoder(topology)
        self._mapping = _mapping(topology, topology.input.nodes, self._values)

    def read(self, record: KafkaRecord, written: float) -> DecodedNode | PassedOver | DeadLetter:
        """What a record is. written: unix seconds at which Kafka has it that it was"""
        if self._mapping is None:
            return self._decoder.decode(record.value, record.headers)
        try:
            scope = self._mapping.read(record, written)
            return PassedOver() if scope is None else self._decoder.of_fields(self._mapping.fields(scope))
        except WireError as problem:
            return DeadLetter(self._mapping.told(str(problem)))


def _mapping(topology: Topology, section: InputSection, values: RoleValues) -> RoleMapping | None:
    if section.is_contract:
        return None
    sources: dict[str, Any] = {name: section.sources.get(name) for name in section.FIELDS}
    return RoleMapping(section, sources, values, topology.kafka.max_record_bytes)

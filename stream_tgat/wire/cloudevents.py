"""CloudEvents on Kafka, in both of their modes: attributes at the top, and the event's data under `data`.

Binary mode has the attributes in headers that begin with ce_, structured mode has all in one JSON object.
"""

from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from typing import Any, Final

from stream_tgat.errors import SettingsError, WireError
from stream_tgat.wire.formats import Headers, decode_object, header

_STRUCTURED: Final = b"application/cloudevents"


def require_sdk() -> None:
    """SettingsError if the SDK is not installed."""
    if find_spec("cloudevents") is None:
        raise SettingsError(
            'format = "cloudevents": these are read with their SDK, which is not installed: pip install '
            "'stream-tgat[cloudevents]'"
        )


def is_cloudevent(headers: Headers | None) -> bool:
    """Whether a record says that it is a CloudEvent, in either mode."""
    structured = header(headers, "content-type") or b""
    return structured.startswith(_STRUCTURED) or header(headers, "ce_specversion") is not None


def read_cloudevent(value: bytes, headers: Headers | None) -> dict[str, Any]:
    """The attributes of an event, and its `data`. WireError says what is wrong."""
    from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
    from cloudevents.core.exceptions import BaseCloudEventException

    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    names = {name.lower(): text or b"" for name, text in pairs}
    try:
        event = from_kafka_event(KafkaMessage(names, None, value))
        found, data = dict(event.get_attributes()), event.get_data()
    except (BaseCloudEventException, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise WireError(f"not a CloudEvent: {' '.join(str(problem).split())[:200] or type(problem).__name__}") from None
    for name, attribute in found.items():
        if isinstance(attribute, datetime):
            found[name] = attribute.isoformat()
    if not names.get("content-type", b"").startswith(_STRUCTURED):
        # The SDK leaves as a text what is no JSON, though the event says that it is.
        data = decode_object(value, headers)
    return {**found, "data": data}

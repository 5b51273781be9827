"""Every error that this package raises on purpose, in one tree, and how a value is shown in its message."""


class StreamTgatError(Exception):
    """Base of all errors; the message says what was wrong, where, and what to do."""


class TopologyError(StreamTgatError):
    """A topology file is missing, malformed or contradicts itself."""


class WireError(StreamTgatError, ValueError):
    """A record cannot be decoded; its message becomes the reason in the dead letters."""


class ReleaseError(StreamTgatError):
    """A release is absent, altered or does not fit the topology."""


class UnreachableStoreError(ReleaseError):
    """A release store cannot be asked now, which says nothing about its releases: try again."""


class TopicError(StreamTgatError):
    """A topic is missing, does not fit, or does not take what is sent to it."""


class MissingTopicError(TopicError):
    """There is no topic of this name."""


class AccessError(StreamTgatError):
    """The brokers do not let this client in, or what it would show them is not there: TLS, or the login."""


class UnreachableRegistryError(StreamTgatError):
    """The schema registry cannot be asked now, which says nothing about its schemas: wait, or try again."""


class DataError(StreamTgatError):
    """A data set is absent or not in the format its loader reads."""


class LostDataError(StreamTgatError):
    """Offsets that must follow each other do not: records were lost, so the worker stops."""


class FormatError(StreamTgatError):
    """What is stored was written in a format that this version does not read; it is as it was."""


class FencedError(StreamTgatError):
    """The partition may no longer belong to the worker, so nothing is committed."""


class FullDiskError(StreamTgatError):
    """A disk has no room for what is to be written; what is on it is as it was."""


class TrainingError(StreamTgatError):
    """A training went astray: its loss or its weights are no longer numbers."""


class ModelError(StreamTgatError):
    """A model's configuration contradicts itself."""


class DamagedStateError(FencedError):
    """The local state of a partition is not what was written; it has been set aside and is recovered anew."""


class ForeignWriterError(FencedError):
    """Someone else appended to a changelog that only this worker may write to."""


class BatchTooLargeError(StreamTgatError):
    """What must be sent as one batch does not fit into one, or is more than the topic takes."""


class StalledError(StreamTgatError):
    """Records wait and nothing was processed for too long, so the worker stops."""


class SettingsError(StreamTgatError):
    """A setting of the application is not supported; the message says why."""


class StateError(StreamTgatError):
    """The state of a partition is used out of turn, or its store lacks what it should hold."""


class NotHereError(StreamTgatError):
    """What was asked about is not with this worker now; somebody else has it, or will."""


class QueryError(StreamTgatError):
    """A question to the service cannot be answered; the message says what was wrong with it, or who is missing."""


def shown(value: object) -> str:
    """A value as it is shown in a reason: short, and recognisably text where it is text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

"""JSON Schemas of the records, and Avro schemas of what workers write, made of the pydantic models that define them."""

from pathlib import Path

import orjson

from stream_tgat.wire.models import RECORDS
from stream_tgat.wire.output_schemas import AVRO_RECORDS, avro_schema

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def schemas() -> dict[str, bytes]:
    """File name and content of every schema."""
    return {
        f"{name}.schema.json": orjson.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **model.model_json_schema(mode="validation"),
            },
            option=_OPTIONS,
        )
        for name, model in RECORDS.items()
    } | {f"{name}.avsc": orjson.dumps(avro_schema(model), option=_OPTIONS) for name, model in AVRO_RECORDS.items()}


def export_schemas(folder: Path) -> None:
    """Write all schemas into `folder`, which then holds these schemas and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = schemas()
    for stale in (*folder.glob("*.schema.json"), *folder.glob("*.avsc")):
        if stale.name not in wanted:
            stale.unlink()
    for name, content in wanted.items():
        (folder / name).write_bytes(content)

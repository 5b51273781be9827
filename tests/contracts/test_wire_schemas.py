"""docs/schemas/ is what the models say today."""

from pathlib import Path

from stream_tgat.wire.schemas import export_schemas, schemas

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def test_published_schemas_equal_the_models() -> None:
    published = {file.name: file.read_bytes() for file in FOLDER.iterdir()}
    assert published == schemas(), "run: python -m stream_tgat.wire docs/schemas"


def test_export_replaces_what_is_stale_and_leaves_other_files(tmp_path: Path) -> None:
    (tmp_path / "gone.schema.json").write_text("{}")
    (tmp_path / "gone.avsc").write_text("{}")
    (tmp_path / "README.md").write_text("x")
    export_schemas(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {*schemas(), "README.md"}

"""A run's manifest on disk: the same part of the log when it goes on."""

from uuid import UUID

import pytest

from stream_tgat.errors import DataError
from stream_tgat.training.log_part import keep_manifest, kept_manifest


def test_manifest_is_kept_as_it_is(tmp_path):
    file = tmp_path / "run" / "manifest.json"
    assert kept_manifest(file) is None
    manifest = {"a.interactions": {0: (3, 17), 11: (0, 0)}, "a.labels": {}}
    ids = {"a.interactions": UUID(int=7)}
    keep_manifest(file, manifest, ids)
    assert kept_manifest(file) == (manifest, ids)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"manifest": {"a": {"0": [1]}}, "topic_ids": {}}',
        b'{"manifest": {"a": {"x": [1, 2]}}}',
        b'{"a": 3}',
    ],
)
def test_manifest_that_is_none_is_refused_with_what_to_do(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match=r"manifest.json is not a readable manifest: .* start over"):
        kept_manifest(tmp_path / "manifest.json")

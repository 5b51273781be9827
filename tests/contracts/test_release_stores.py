"""What a release store promises, wherever it lies: a folder, a file URL, an object store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import torch
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem

from stream_tgat.errors import ReleaseError, UnreachableStoreError
from stream_tgat.topology import Topology
from stream_tgat.training.folders import announced, open_folder, without_user
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import Promotion, load_release
from stream_tgat.training.registry import CARD_FILE, WEIGHTS_FILE, Release, ReleaseStore, new_card
from stream_tgat.wire import ModelRecord
from tests.s3 import BUCKET, RunningS3, running_s3

TOPOLOGY = Topology.model_validate(
    {"name": "shop", "model": {"hidden": 4, "time_dim": 4, "neighbours": 2, "candidates": 3}, "heads": [{"name": "a"}]}
)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningS3]:
    with running_s3(tmp_path_factory.mktemp("s3")) as running, pytest.MonkeyPatch.context() as patched:
        for name, value in running.environment.items():
            patched.setenv(name, value)
        yield running


@pytest.fixture(params=["folder", "file URL", "memory URL", "S3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "S3":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/{uuid.uuid4().hex}"
    if request.param == "memory URL":
        return f"memory://{uuid.uuid4().hex}/releases"
    return str(tmp_path / "releases") if request.param == "folder" else f"file://{tmp_path}/releases"


def save(store: ReleaseStore, seed: int = 1) -> Release:
    model = untrained(TOPOLOGY, seed)
    return store.save(model, new_card(TOPOLOGY, model.config, seed=seed))


def files(address: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The place as somebody else sees it."""
    system, path = url_to_fs(address)
    return system, path.rstrip("/")


def test_empty_place_has_no_releases(address: str) -> None:
    store = ReleaseStore(address)
    assert store.names() == []
    with pytest.raises(ReleaseError, match="there are: none"):
        store.find("x")


def test_release_comes_back_as_it_was(address: str) -> None:
    first, second = save(ReleaseStore(address), 1), save(ReleaseStore(address), 2)
    store = ReleaseStore(address)
    assert store.names() == sorted([first.name, second.name])
    model, again = store.load(first.name)
    assert again == first
    expected = untrained(TOPOLOGY, 1).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


def test_release_saved_twice_is_one(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ReleaseStore(address)
    model = untrained(TOPOLOGY, 1)
    card = new_card(TOPOLOGY, model.config, seed=1)
    assert store.save(model, card) == store.save(model, card)
    assert len(store.names()) == 1


@pytest.mark.parametrize("file", [WEIGHTS_FILE, CARD_FILE])
@pytest.mark.parametrize("damage", ["cut", "altered", "gone"])
def test_damaged_release_is_refused_with_its_place(address: str, file: str, damage: str) -> None:
    store = ReleaseStore(address)
    release = save(store)
    system, root = files(address)
    path = f"{root}/{release.name}/{file}"
    content = bytearray(system.cat_file(path))
    if damage == "gone":
        system.rm_file(path)
    else:
        content[-20] ^= 1
        system.pipe_file(path, bytes(content[:-9] if damage == "cut" else content))
    with pytest.raises(ReleaseError, match=r"release list|there are: none"):
        store.load(release.name)


def test_entry_without_a_card_is_no_release(address: str) -> None:
    store = ReleaseStore(address)
    release = save(store)
    system, root = files(address)
    system.makedirs(f"{root}/20990101-000000-ffffffff", exist_ok=True)
    system.pipe_file(f"{root}/20990101-000000-ffffffff/{WEIGHTS_FILE}", b"half")
    system.makedirs(f"{root}/.20990101-000000-ffffffff.abcd", exist_ok=True)
    system.pipe_file(f"{root}/.20990101-000000-ffffffff.abcd/{CARD_FILE}", b"{}")
    assert store.names() == [release.name]


@pytest.mark.parametrize(("step", "nth"), [("pipe_file", 1), ("pipe_file", 2), ("mv", 1)])
def test_write_that_fails_on_an_object_store_leaves_no_release(
    step: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReleaseStore(f"memory://{uuid.uuid4().hex}/releases")
    calls, original = [0], getattr(MemoryFileSystem, step)

    def fail(self, *args, **settings):
        calls[0] += 1
        if calls[0] >= nth:
            raise OSError("no space left")
        return original(self, *args, **settings)

    monkeypatch.setattr(MemoryFileSystem, step, fail)
    with pytest.raises(ReleaseError, match=r"release store memory://.*no space left"):
        save(store)
    monkeypatch.undo()
    assert store.names() == []
    save(store)
    assert len(store.names()) == 1


def test_absent_bucket_holds_nothing_and_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("The specified bucket does not exist")

    for step in ("glob", "exists", "makedirs", "pipe_file"):
        monkeypatch.setattr(MemoryFileSystem, step, absent)
    store = ReleaseStore("memory://absent")
    assert store.names() == []
    with pytest.raises(UnreachableStoreError, match=r"memory://absent cannot be used.*does not exist"):
        save(store)


def test_promotion_is_found_where_its_record_says_and_else_where_the_topology_says(address: str) -> None:
    release = save(ReleaseStore(address))
    record = ModelRecord(release=release.name, store=announced(address), hash=release.hash)
    assert load_release(TOPOLOGY, Promotion(0, record))[1].name == release.name
    elsewhere = record.model_copy(update={"store": f"memory://{uuid.uuid4().hex}"})
    with pytest.raises(ReleaseError, match="it is not in"):
        load_release(TOPOLOGY, Promotion(0, elsewhere))
    own = TOPOLOGY.model_copy(update={"releases": TOPOLOGY.releases.model_copy(update={"store": address})})
    assert load_release(own, Promotion(0, elsewhere))[1].name == release.name


def test_plain_path_is_announced_absolute_and_shown_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert announced("runs/releases") == str(tmp_path / "runs" / "releases")
    assert announced(f"file://{tmp_path}/runs") == str(tmp_path / "runs")
    assert announced("s3://bucket/releases") == "s3://bucket/releases"
    release = save(ReleaseStore("runs/releases"))
    assert release.store == "runs/releases"
    assert release.folder.is_dir()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sftp://ann:secret@host/releases", "sftp://host/releases"),
        ("s3://KEY:se/cr+et@bucket/releases", "s3://bucket/releases"),
        ("ftp://ann@host/x", "ftp://host/x"),
        ("simplecache::ftp://ann:secret@host/x", "simplecache::ftp://host/x"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("no address: ann@host", "no address: ann@host"),
    ],
)
def test_user_and_password_are_never_shown(url: str, shown: str) -> None:
    assert without_user(url) == shown
    if "://" in url:
        assert announced(url) == shown
        assert open_folder(url, CARD_FILE).address == shown


def test_place_that_cannot_be_reached_is_an_error_that_keeps_the_secret() -> None:
    store = ReleaseStore("nosuch://ann:secret@host/releases")
    with pytest.raises(ReleaseError, match=r"release store nosuch://host/releases cannot be used.*s3fs") as caught:
        store.names()
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.fixture
def anew() -> Iterator[None]:
    """Clients read the environment when they are made, and fsspec keeps them: none is kept over this test."""
    kind = fsspec.get_filesystem_class("s3")
    kind.clear_instance_cache()
    yield
    kind.clear_instance_cache()


@pytest.mark.usefixtures("anew")
def test_s3_that_does_not_know_the_secret_is_told(s3: RunningS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "horse battery")
    store = ReleaseStore(f"s3://{BUCKET}/refused")
    for ask in (store.names, lambda: save(store)):
        with pytest.raises(UnreachableStoreError, match=rf"s3://{BUCKET}/refused cannot be used: \w+Error") as told:
            ask()
        assert "horse" not in str(told.value)


def test_s3_without_the_bucket_has_no_releases(s3: RunningS3) -> None:
    store = ReleaseStore(f"s3://{uuid.uuid4().hex}/releases")
    assert store.names() == []
    with pytest.raises(ReleaseError, match="there are: none"):
        store.find("x")
    with pytest.raises(UnreachableStoreError):
        save(store)


@pytest.mark.slow
@pytest.mark.usefixtures("anew")
def test_s3_that_hangs_is_told(s3: RunningS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 1, "connect_timeout": 1}})
    store = ReleaseStore(f"s3://{BUCKET}/slow")
    release = save(store)
    with s3.hanging(), pytest.raises(UnreachableStoreError, match=r"s3://shop/slow cannot be used: .*[tT]imeout"):
        store.load(release.name)
    assert store.names() == [release.name]

"""`release init | list | show | promote | rollback | reencode | diff`: the models there are, and which one serves."""

from __future__ import annotations

import click
import orjson
from rich.table import Table

from stream_tgat.brokers import reach
from stream_tgat.commands.base import CommandGroup, console
from stream_tgat.commands.cards import card_table, show_difference
from stream_tgat.commands.reencode import add_reencode
from stream_tgat.topology import Topology


def release_command(topology: Topology) -> click.Group:
    """`release init | list | show | promote | rollback | reencode | diff`."""

    @click.group(cls=CommandGroup)
    def release() -> None:
        """See the trained models, and choose which one serves.

        Releases lie in a folder or under a URL (releases.store in the topology); the topic `models` says which of them
        serves.

          faust -A stream_tgat release list
          faust -A stream_tgat release promote 20260101-120000-1f2e3d4c

        Workers that run switch within seconds, between two events; nothing is restarted, lost or done twice.
        """

    _add_init(release, topology)
    _add_list(release, topology)
    _add_show(release, topology)
    _add_promote(release, topology)
    _add_rollback(release, topology)
    add_reencode(release, topology)
    _add_diff(release, topology)
    return release


def _add_init(group: click.Group, topology: Topology) -> None:
    @group.command()
    @click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Where the weights come from."
    )
    @click.option("--no-promote", is_flag=True, help="Only write it to the store.")
    @click.option("--force", is_flag=True, help="Let it serve even where a trained release does.")
    def init(seed: int, no_promote: bool, force: bool) -> None:
        """Make a release with untrained weights, and let it serve.

        For the first day: neighbourhoods fill and the topics can be tried out. Embeddings and predictions mean little,
        nothing alerts. Where a trained release serves it is refused.

          faust -A stream_tgat release init
        """
        from stream_tgat.training.pipeline import untrained
        from stream_tgat.training.promotion import promote
        from stream_tgat.training.registry import ReleaseStore, new_card

        if not no_promote:
            reach(topology.kafka)
            if not force:
                _refuse_to_replace_trained(topology)
        model = untrained(topology, seed)
        made = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=seed))
        console().print(f"Release [bold]{made.name}[/] in {made.store} (untrained)")
        if not no_promote:
            console().print(f"Serves from now on, as version {promote(topology, made).version}.")


def _refuse_to_replace_trained(topology: Topology) -> None:
    """Raises ReleaseError if what serves has learnt something."""
    from stream_tgat.errors import ReleaseError
    from stream_tgat.training import promotion

    serving, _ = promotion.newest_loadable(topology, promotion.promotions(topology), any_heads=True)
    if serving is not None and not serving.release.card.is_untrained:
        raise ReleaseError(
            f"{serving.release.name} serves, which is trained; untrained weights would take its place. Keep them apart "
            "with --no-promote, or say --force"
        )


def _add_list(group: click.Group, topology: Topology) -> None:
    @group.command(name="list")
    def list_releases() -> None:
        """List the releases in the store, oldest first, with what they reached.

        The one that serves is marked with its version, if the broker can be asked. Of its parent stands the end of the
        name, which is enough wherever a name is asked for.

          faust -A stream_tgat release list
        """
        from stream_tgat.errors import StreamTgatError
        from stream_tgat.training.promotion import serving_or_none
        from stream_tgat.training.registry import ReleaseStore

        store = ReleaseStore(topology.releases.store)
        try:
            reach(topology.kafka)
            serving = serving_or_none(topology)
        except StreamTgatError as error:
            # The store can be read without a broker; what is then missing is said.
            console(stderr=True).print(f"[yellow]Which release serves is not known:[/] {error}")
            serving = None
        table = Table("release", "parent", "links AP", "heads AUC", "serves as")
        table.columns[0].no_wrap = True
        for name in store.names():
            card = store.find(name).card
            links = card.newest("links", "average_precision")
            heads = [card.newest(f"heads.{head}", "auc") for head in card.config.head_names]
            version = f"version {serving.version}" if serving and serving.record.release == name else ""
            table.add_row(
                name,
                (card.parent or "").rpartition("-")[2],
                _numbers([links]),
                _numbers(heads),
                version,
            )
        console().print(table if table.row_count else f"No releases in {store.address}.")


def _add_show(group: click.Group, topology: Topology) -> None:
    @group.command()
    @click.argument("name")
    @click.option("--json", "as_json", is_flag=True, help="The card as it lies in the store.")
    def show(name: str, as_json: bool) -> None:
        """Show the card of a release, after checking its hash: what it is, where it comes from, what it reached.

        A beginning or end of its name is enough if only one release has it.

          faust -A stream_tgat release show 1f2e3d4c
          faust -A stream_tgat release show 1f2e3d4c --json
        """
        from stream_tgat.training.registry import ReleaseStore

        store = ReleaseStore(topology.releases.store)
        _, found = store.load(store.find(name).name)
        if as_json:
            content = orjson.dumps(found.card.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
            console().print(content.decode(), markup=False)
        else:
            console().print(card_table(found))


def _add_promote(group: click.Group, topology: Topology) -> None:
    @group.command()
    @click.argument("name")
    def promote(name: str) -> None:
        """Let a release serve from now on; also the way back to an older one.

        It is checked first: its hash, its weights, and that it fits the topology. Workers switch within seconds.

          faust -A stream_tgat release promote 1f2e3d4c
        """
        from stream_tgat.training import promotion
        from stream_tgat.training.registry import ReleaseStore

        reach(topology.kafka)
        store = ReleaseStore(topology.releases.store)
        _, found = store.load(store.find(name).name)
        version = promotion.promote(topology, found).version
        console().print(f"Release [bold]{found.name}[/] serves from now on, as version {version}.")
        _say_what_is_left(version, found.card.config.layers)


def _add_rollback(group: click.Group, topology: Topology) -> None:
    @group.command()
    def rollback() -> None:
        """Let the release serve again that served before the one promoted last.

        It is promoted anew, as a new version, after the checks of `promote`. Twice in a row leads back to where it
        began; to go further, name a release to `promote`.

          faust -A stream_tgat release rollback
        """
        from stream_tgat.training import promotion

        reach(topology.kafka)
        before = promotion.served_before(topology)
        _, found = promotion.load_release(topology, before)
        version = promotion.promote(topology, found).version
        console().print(
            f"Release [bold]{found.name}[/], which served as version {before.version}, serves again from now on, as "
            f"version {version}."
        )
        _say_what_is_left(version, found.card.config.layers)


def _add_diff(group: click.Group, topology: Topology) -> None:
    @group.command()
    @click.argument("name")
    @click.argument("other", required=False)
    def diff(name: str, other: str | None) -> None:
        """Compare two releases side by side: metrics, model, and the part of the log that each has learnt from.

        Without a second name, with the one promoted last. Metrics compare only where both were measured on the same
        part of the log; `evaluate --release NAME --since TIME` measures each on the same events.

          faust -A stream_tgat release diff 1f2e3d4c 5b6a7988
        """
        from stream_tgat.training.promotion import serving
        from stream_tgat.training.registry import ReleaseStore

        store = ReleaseStore(topology.releases.store)
        first = store.find(name)
        if other is None:
            reach(topology.kafka)
            other = serving(topology).record.release
        second = store.find(other)
        if first.name == second.name:
            console().print(f"Both are {first.name}.")
        else:
            show_difference(console(), first, second)


def _say_what_is_left(version: int, layers: int) -> None:
    if version and layers > 1:
        console().print(
            "Rows keep peer embeddings of the model before; to make them anew: faust -A stream_tgat release reencode"
        )


def _numbers(values: list[float | None]) -> str:
    return " ".join("-" if value is None else f"{value:.3f}" for value in values)

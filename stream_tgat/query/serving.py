"""The release that serves, and the models by whose weights workers have answered."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from stream_tgat.errors import ReleaseError, StreamTgatError
from stream_tgat.query.answers import HeadInfo, ModelInfo
from stream_tgat.topology import Topology
from stream_tgat.training.promotion import Loaded, load_promoted, newest_loadable, no_release, promotions

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

_log = logging.getLogger(__name__)

#: What is promoted is looked at anew after so long.
_FRESH_S: Final = 2.0
_OTHERS: Final = 2


class ServingModels:
    """Reads the promotions, and keeps what it has loaded."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._loaded: Loaded | None = None
        self._looked_at = 0.0
        self._looking = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        # While workers switch, or cannot load the newest, they answer by another.
        self._others: dict[int, Model] = {}

    async def newest(self) -> Loaded:
        """The newest promotion that can serve; ReleaseError where there is none.

        Whether there is a newer one is looked at beside the questions, none of which waits for that.
        """
        if self._loaded is None:
            async with self._looking:
                if self._loaded is None:
                    self._loaded = await asyncio.to_thread(self._load)
                    self._looked_at = time.monotonic()
        elif time.monotonic() - self._looked_at > _FRESH_S:
            self._looked_at = time.monotonic()
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(self._renew())
        return self._loaded

    async def begin(self) -> None:
        """Load what serves before anybody asks; what is in the way is told to those who ask."""
        with suppress(StreamTgatError):
            await self.newest()

    async def _renew(self) -> None:
        try:
            self._loaded = await asyncio.to_thread(self._load)
        except StreamTgatError as problem:
            _log.warning("It could not be looked at what serves, and it is tried again: %s", problem)

    async def model(self, version: int | None = None) -> Model:
        """The model of this version; by default of the newest promotion that can serve."""
        newest = await self.newest()
        if version is None or version == newest.promotion.version:
            return newest.model
        if version not in self._others:
            if len(self._others) >= _OTHERS:
                self._others.clear()
            self._others[version] = await asyncio.to_thread(self._load_other, version)
        return self._others[version]

    async def info(self) -> ModelInfo:
        """What it is, for those who ask."""
        loaded = await self.newest()
        config, card = loaded.model.config, loaded.release.card
        given = [head.threshold for head in self._topology.heads]
        thresholds = [
            learnt if threshold is None else threshold
            for threshold, learnt in zip(given, loaded.model.thresholds.tolist(), strict=True)
        ]
        return ModelInfo(
            version=loaded.promotion.version,
            release=loaded.release.name,
            created=card.created.isoformat(),
            hidden=config.hidden,
            layers=config.layers,
            neighbours=config.neighbours,
            affinity=config.affinity,
            pair_features=config.pair_features,
            heads=[
                HeadInfo(name=name, threshold=threshold)
                for name, threshold in zip(config.head_names, thresholds, strict=True)
            ],
            metrics=card.metrics,
        )

    def _load_other(self, version: int) -> Model:
        found = [each for each in promotions(self._topology) if each.version == version]
        if not found:
            raise ReleaseError(f"workers answer by model {version}, which is not on {self._topology.topics.models!r}")
        return load_promoted(self._topology, found[0])[0]

    def _load(self) -> Loaded:
        # Here, as loading torch takes seconds: in the background of a service that starts.
        from stream_tgat.nn.threads import use_one_thread

        use_one_thread()
        found = promotions(self._topology)
        if not found:
            raise no_release(self._topology)
        if self._loaded is not None and found[-1].version == self._loaded.promotion.version:
            return self._loaded
        loaded, refused = newest_loadable(self._topology, found)
        if loaded is None:
            raise refused[0][1]
        return loaded

"""The named variants of the model: which choices of the paper, its authors' code and DyGLib belong together.

A preset is one value, read once where the modules are built; nothing below looks at its name.
"""

from dataclasses import dataclass

from stream_tgat.errors import ModelError
from stream_tgat.topology import PresetName


@dataclass(frozen=True)
class Preset:
    """What distinguishes one variant of TGAT from another.

    bochner: the time encoding is sqrt(1/d) [cos ω_1 t, sin ω_1 t, …] with learnt log ω; otherwise cos(ω t + φ), raw ω.
    query_has_edge_block: the query holds zeros where a neighbour has edge features (widens residual and LayerNorm).
    residual: heads go through an output projection, the query is added, LayerNorm follows; otherwise heads as they are.
    merge_raw: the feed-forward network reads the node's layer-0 state; otherwise its state of the layer below.
    """

    name: PresetName
    bochner: bool
    query_has_edge_block: bool
    residual: bool
    merge_raw: bool


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("paper", bochner=True, query_has_edge_block=False, residual=False, merge_raw=True),
        Preset("reference", bochner=False, query_has_edge_block=True, residual=True, merge_raw=False),
        Preset("dyglib", bochner=False, query_has_edge_block=False, residual=True, merge_raw=True),
    )
}


def preset_named(name: str) -> Preset:
    """The preset of that name, or a ModelError that lists those there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ModelError(f"no preset is called {name!r}; choose one of {', '.join(PRESETS)}") from None

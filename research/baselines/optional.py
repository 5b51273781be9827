"""Libraries that only experiments need, imported where they are used; the extra `research` installs them."""

import warnings
from importlib.util import find_spec
from typing import Any

from stream_tgat.errors import DataError


def word2vec() -> Any:
    """The class gensim.models.Word2Vec."""
    _require("gensim")
    from gensim.models import Word2Vec

    return Word2Vec


def geometric() -> Any:
    """The module torch_geometric.nn."""
    _require("torch_geometric")
    with warnings.catch_warnings():
        # It scripts a class on import, which newer versions of torch warn of; it calls nothing that was scripted here.
        warnings.filterwarnings("ignore", message="`torch.jit", category=FutureWarning)
        warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)
        import torch_geometric.nn

        return torch_geometric.nn


def lowess() -> Any:
    """The function of that name in statsmodels."""
    _require("statsmodels")
    from statsmodels.nonparametric.smoothers_lowess import lowess

    return lowess


def matplotlib() -> Any:
    """The module matplotlib, with matplotlib.figure."""
    _require("matplotlib")
    import matplotlib.figure

    return matplotlib


def _require(module: str) -> None:
    if find_spec(module) is None:
        raise DataError(f"This needs {module}, which is not installed: pip install '.[research]'")

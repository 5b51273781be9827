"""Small models with weights that leave no term of an equation at zero or one."""

from typing import Any

import torch

from stream_tgat.nn.model import Model, ModelConfig

PRESET_NAMES = ("paper", "reference", "dyglib")


def random_model(dtype: torch.dtype = torch.float64, seed: int = 0, **config: Any) -> Model:
    """A model in evaluation mode; biases, norms, phases and frequencies are moved off their initial values."""
    torch.manual_seed(seed)
    small: dict[str, Any] = {"hidden": 8, "time_dim": 4, "neighbours": 3, "candidates": 6, "head_hidden": (6, 4)}
    model = Model(ModelConfig(**(small | config)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.1 if "omega" in name or "norm.weight" in name else 0.5
            scale = parameter.abs() if name.endswith("time_encoding.omega") else torch.ones(())
            parameter.add_(torch.randn_like(parameter) * spread * scale)
    return model.to(dtype).eval()

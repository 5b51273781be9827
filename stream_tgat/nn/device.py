"""Which device a model runs on."""

import torch


def chosen_device(wanted: str) -> str:
    """The device that `wanted` means, a name as torch has it; "auto" is a GPU if there is one, else the CPU."""
    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"

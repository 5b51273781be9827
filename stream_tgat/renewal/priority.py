"""Stepping back: a training takes what the stream leaves of the machine."""

import os

from stream_tgat.topology import Retrain


def step_back(rules: Retrain) -> None:
    """Take the priority and the threads that the topology says, in this process and for good.

    A process that has stepped back that far already stays as it is.
    """
    more = rules.nice - os.nice(0)
    if more > 0:
        os.nice(more)
    # Behind it: importing torch takes a core for two seconds, which the stream beside it may need.
    from stream_tgat.nn.threads import use_threads

    use_threads(rules.threads)

"""Faust's `agents`, which ends in a traceback where an agent reads several topics, as ours do."""

from typing import Any

from faust.cli import agents as faust_agents


class agents(faust_agents.agents):  # noqa: N801
    """List agents, and the topics that each reads."""

    # Faust makes a command of its class' name when the class is made; this one takes the place of Faust's.

    def _maybe_topic(self, agent: Any) -> str:
        return ", ".join(agent.channel.topics)

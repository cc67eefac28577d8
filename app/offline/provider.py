"""The SDK's `ModelProvider` for the offline model."""

from __future__ import annotations

from agents import Model, ModelProvider, UserError

from app.offline.desk import Desks
from app.offline.directory import Directory
from app.offline.model import OfflineModel
from handoffs.encoder import Encoder
from handoffs.roster import Roster

PREFIX = "offline"
DELAY_S = 0.012  # between words: 80 words a second read as typing and cost a 40-word answer half a second


class OfflineProvider(ModelProvider):
    """Gives `offline/<agent id>` for one agent of the roster, and `offline` for whichever agent the system text is of.

    A desk is fitted once: `for_roster` gives the provider of a reloaded roster and keeps what did not change.
    """

    def __init__(
        self, roster: Roster, encoder: Encoder, delay_s: float = DELAY_S, *, desks: Desks | None = None
    ) -> None:
        self._desks = desks or Desks(encoder)
        self._directory = Directory.of(roster)
        self._desk = self._desks.of(self._directory)
        self._delay_s = delay_s

    def get_model(self, model_name: str | None) -> Model:
        """The model for a name; UserError for an agent that the roster does not have."""
        prefix, _, agent_id = (model_name or PREFIX).partition("/")
        if prefix != PREFIX:
            raise UserError(f"The offline provider has no model {model_name!r}; it has offline and offline/<agent id>.")
        if agent_id and agent_id not in self._directory.instructions:
            known = ", ".join(self._directory.instructions)
            raise UserError(f"The offline provider knows no agent {agent_id!r}; the roster has {known}.")
        return OfflineModel(self._desk, agent_id or None, self._delay_s)

    def for_roster(self, roster: Roster) -> OfflineProvider:
        """The provider of another version of the roster, sharing encoder and fitted desks."""
        return OfflineProvider(roster, self._desks.encoder, self._delay_s, desks=self._desks)

    def warm(self) -> None:
        """Load the encoder and fit the classifier now (about 2 s) instead of in the first conversation."""
        self._desk.responder()

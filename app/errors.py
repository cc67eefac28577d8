"""What can go wrong at the front door, light enough to import for `frontdesk --help`.

FrontdeskError (sessions.errors)  the root
  SettingsInvalid                 a variable cannot be used; `problems` has every one (in app.settings, with its words)
  ModelMisconfigured              the settings ask for a model that cannot be used
"""

from __future__ import annotations

from sessions.errors import FrontdeskError


class ModelMisconfigured(FrontdeskError):
    """The settings ask for a model that cannot be used; the message says which variable to set."""

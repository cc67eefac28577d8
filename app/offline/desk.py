"""A desk with its classifier fitted: once per roster and encoder, whoever asks first."""

from __future__ import annotations

import threading
from collections import OrderedDict

from app.offline.classifier import FLOOR_FEW, Classifier
from app.offline.directory import Directory
from app.offline.queues import Queues
from app.offline.remarks import Remarks
from app.offline.responder import Responder
from handoffs.encoder import Encoder

DESKS_KEPT = 8  # rosters alive at once: the running one, a few pinned older ones


class FittedDesk:
    """`directory` is known at once; the classifier is fitted on first use (about 0.1 s for ten agents) and kept."""

    def __init__(self, directory: Directory, encoder: Encoder) -> None:
        self.directory = directory
        self._encoder = encoder
        self._lock = threading.Lock()
        self._responder: Responder | None = None

    def responder(self) -> Responder:
        """The fitted parts. CPU-bound on first use: call it in a thread."""
        with self._lock:
            if self._responder is None:
                classifier = Classifier.fit(self.directory.subjects, self._encoder)
                floor = classifier.floor if classifier else FLOOR_FEW
                queues = Queues.fit(self.directory.queues, self.directory.subjects, self._encoder)
                self._responder = Responder(classifier, queues, Remarks(self._encoder), self._encoder, floor)
            return self._responder


class Desks:
    """The fitted desks of one encoder, the most recent kept; a roster with the same words shares one."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, FittedDesk] = OrderedDict()

    def of(self, directory: Directory) -> FittedDesk:
        """The desk of this directory, made when it is new."""
        key = repr(directory)
        with self._lock:
            desk = self._kept.pop(key, None) or FittedDesk(directory, self.encoder)
            self._kept[key] = desk
            while len(self._kept) > DESKS_KEPT:
                self._kept.popitem(last=False)
            return desk

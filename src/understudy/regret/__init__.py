"""Regret: the ledger, the best in hindsight, and what bounds the difference."""

from __future__ import annotations

from . import bounds, certificate
from .certificate import Certificate
from .confidence import Confidence
from .ledger import COLUMNS, Ledger

__all__ = ["COLUMNS", "Certificate", "Confidence", "Ledger", "bounds", "certificate"]

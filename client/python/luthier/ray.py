"""Ray Tune's searcher of Luthier, under a short name."""

from __future__ import annotations

from luthier.integrations.ray import LuthierSearch

__all__ = ["LuthierSearch"]

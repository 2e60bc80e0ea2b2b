"""scikit-learn's search of Luthier, under a short name."""

from __future__ import annotations

from luthier.integrations.sklearn import LuthierSearchCV

__all__ = ["LuthierSearchCV"]

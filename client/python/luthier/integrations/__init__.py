"""Luthier inside other packages: one module for each, imported only by those who have the package."""

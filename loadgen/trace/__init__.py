"""Trace: the noun the whole tool is about."""

"""Logs to a Trace."""

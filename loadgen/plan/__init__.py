"""Trace to Schedule, and the prompts to send."""

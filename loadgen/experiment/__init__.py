"""Experiments: one trace at many set-ups, in one table; where a set-up stops holding."""

"""Simulation: the bundled server's own policies on a clock that jumps: seconds instead of hours."""

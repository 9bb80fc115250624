"""`python -m loadgen` is the `loadgen` command."""

from loadgen.cli.main import main

main()

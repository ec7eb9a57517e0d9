"""`python -m mooring` is `moor`."""

from mooring.cli.main import main

main()

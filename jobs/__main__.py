"""`python -m jobs` is `pipeline`: how the command starts itself again, wherever its script lies."""

from jobs.cli import main

main()

"""Groups of commands for the command line; each module registers its own."""

"""Checks of parameters, timers, BLAS threads, fingerprints and the version."""

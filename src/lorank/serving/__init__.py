"""A fitted model for people to try: one page and JSON, served to this machine.

Starlette and uvicorn are an extra, ``lorank[serve]``: ``app.py`` and ``command.py`` need them, the other modules do not.
"""

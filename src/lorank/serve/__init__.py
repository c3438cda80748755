"""A web page and JSON interface for a fitted model: ``lorank serve``."""

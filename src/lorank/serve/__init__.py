"""Web application for a fitted model, with a page and a JSON interface: ``lorank serve``."""

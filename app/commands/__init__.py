"""The commands of `frontdesk`, one module each; `app/cli.py` puts them together."""

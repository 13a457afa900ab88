"""The command line: a file per command. A command parses, calls `consumer.app`, prints."""

import os

# Else pydantic looks through everything that is installed for plug-ins, at every start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

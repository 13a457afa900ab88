"""The command line: a file per command. A command parses, calls `consumer.app`, prints."""

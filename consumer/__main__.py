"""``python -m consumer`` is the command line."""

from consumer.cli.main import main

if __name__ == "__main__":
    main()

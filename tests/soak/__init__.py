"""A soak: the program beside a live changefeed, killed again and again, then left alone and watched."""

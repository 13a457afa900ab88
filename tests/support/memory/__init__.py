"""A target of plain Python values, slow and obvious: the reference for ports.Sink, and docs/add-a-target.md's example.

Values stay as the files carry them. Everything is lost with the process. Writers work in the driver's process only.
"""

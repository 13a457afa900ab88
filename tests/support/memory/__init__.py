"""A target of plain Python values, slow and obvious: the reference for ports.Sink.

The example of docs/add-a-target.md. Values stay as the files carry them. Everything is lost with the process, and writers
work in the driver's process only.
"""

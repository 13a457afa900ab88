"""The reference for ports.Sink: a target of plain Python values, slow and obvious. For tests, and to try things out.

Values stay as the files carry them. Everything is lost with the process, and writers work in the driver's process only.
"""

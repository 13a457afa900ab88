"""The server: how it is reached, what its errors mean."""

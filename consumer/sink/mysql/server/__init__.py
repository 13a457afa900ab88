"""The server: connections, sessions, and the meaning of its errors."""

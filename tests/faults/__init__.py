"""Faults at named points of a round: the consumer is killed, frozen or cut off there, and must still end right."""

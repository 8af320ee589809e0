"""Federated zeroth-order fine-tuning: clients upload integer scalars; the server rebuilds every model bit for bit."""

"""Transformers: their normal form, and importers of users' models."""

"""Commands on hardware blocks."""

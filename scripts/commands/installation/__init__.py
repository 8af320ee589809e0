"""Commands on the installation."""

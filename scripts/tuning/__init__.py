"""`fabtune tune`: one flow for all methods, and its saved runs."""

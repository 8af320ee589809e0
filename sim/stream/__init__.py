"""Test benches and formal rules of the streaming core's components."""

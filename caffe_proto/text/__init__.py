"""The text of a net: tokens, values, messages with their lines."""

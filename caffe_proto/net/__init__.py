"""The meaning of a file as a net: its phase, its blobs, and the removal of training layers."""

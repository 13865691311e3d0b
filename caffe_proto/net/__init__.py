"""What a file means as a net: its phase, its blobs, what training leaves behind."""

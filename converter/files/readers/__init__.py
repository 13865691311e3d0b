"""What the programs that read a net take, before one of them reads it."""

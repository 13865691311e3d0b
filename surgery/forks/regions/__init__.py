"""What single forks read of regions, and where offsets point."""

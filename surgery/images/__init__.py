"""What layers of all frameworks read from images: sums between elements, other sizes, regions of interest."""

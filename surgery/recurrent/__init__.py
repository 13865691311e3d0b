"""What a recurrent net computes, whichever framework wrote it: cells, layers of them, and their Scans."""

"""The computation of recurrent nets from all frameworks: cells, layers of cells, and their Scans."""

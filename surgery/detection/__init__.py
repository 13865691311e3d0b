"""What detectors of all frameworks compute: lists of boxes, their overlaps, suppression, proposals, rows that count."""

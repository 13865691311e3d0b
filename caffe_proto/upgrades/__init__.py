"""Nets in Caffe's older forms, rewritten as layers of the current form."""

"""One HTML file that shows a net beside what becomes of it, and needs no network."""

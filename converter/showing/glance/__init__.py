"""What a file is, judged by its content, and what it holds."""

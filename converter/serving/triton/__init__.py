"""Model repositories for Triton Inference Server: what `prototrt triton` writes, and what runs inside the server."""

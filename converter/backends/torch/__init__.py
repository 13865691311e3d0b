"""A graph as a PyTorch module that people read: its source, and its weights as safetensors."""

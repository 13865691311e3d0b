"""Views of a net or a graph: pictures, costs, the table of supported layers."""

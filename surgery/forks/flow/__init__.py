"""FlowNet's layers, and PWC-Net's."""

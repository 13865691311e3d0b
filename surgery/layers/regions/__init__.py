"""Layers that read regions of an image: the rules of R-CNN, R-FCN, MS-CNN and Cascade R-CNN."""

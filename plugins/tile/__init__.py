"""The Tile plugin of enterprise TensorRT 10.9 and later: copies of a tensor one after the other along one axis.

Its kernel is built into the engine, which then needs nothing but TensorRT.
"""

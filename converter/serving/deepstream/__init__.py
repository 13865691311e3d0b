"""What DeepStream's Gst-nvinfer needs: what `prototrt deepstream` writes."""

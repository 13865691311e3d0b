"""The recurrent layers of Caffe and its forks: how they are read from a net and expanded."""

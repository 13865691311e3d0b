.PHONY: proto

# Needed only after a change of caffe.proto. grpcio-tools brings protoc; it is installed nowhere else.
proto:
	python3 -m venv build/protoc
	build/protoc/bin/pip install --quiet grpcio-tools
	build/protoc/bin/python -m grpc_tools.protoc -I caffe_proto \
		--descriptor_set_out=caffe_proto/caffe.binpb caffe_proto/caffe.proto

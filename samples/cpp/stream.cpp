// Runs an engine call by call, as for the frames of a video:
//
//     stream PLAN FRAMES RESULTS [DIGEST]
//
// With DIGEST, as in sha256:4f0c..., only the plan runs whose manifest has this digest: `prototrt inspect PLAN` shows it.
// FRAMES holds the inputs of one call after another: raw numbers in the order of the manifest, without states.
// RESULTS gets the outputs in the same form. A size that may vary is the one that the engine was optimized for.
//
// State stays on the GPU, in two buffers: a call reads one and writes the other, and the next call swaps them. Each of
// these two kinds of calls becomes a CUDA graph, where TensorRT allows it.

#include <NvInferRuntime.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sha256.h"

#ifdef NET_HEADER  // written by `prototrt convert --emit-header`; NET is its namespace
#include NET_HEADER
#else
#include <nlohmann/json.hpp>
#endif

[[noreturn]] void fail(const std::string& problem) { throw std::runtime_error(problem); }

void check(cudaError_t code, const std::string& action) {
    if (code != cudaSuccess) fail("cannot " + action + ": " + cudaGetErrorString(code));
}

template <auto destroy>
struct Destroy {
    template <typename T>
    void operator()(T* resource) const { destroy(resource); }
};
using DeviceMemory = std::unique_ptr<void, Destroy<cudaFree>>;
using PinnedMemory = std::unique_ptr<void, Destroy<cudaFreeHost>>;
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using Replay = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;

template <typename Memory>
Memory allocate(cudaError_t function(void**, std::size_t), std::size_t bytes) {
    void* address = nullptr;
    check(function(&address, bytes), "allocate " + std::to_string(bytes) + " bytes");
    return Memory(address);
}

/// The file is read once: the bytes that are hashed are those that are used.
std::vector<char> content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// What the plan itself does not say.
struct Description {
    std::string plan_sha256;  // empty if trtexec built the plan, from an ONNX model
    std::vector<std::string> inputs, outputs;
    std::vector<std::pair<std::string, std::string>> recurrences;  // from an output to an input
};

Description description_of([[maybe_unused]] const std::string& plan, const std::string& digest) {
#ifdef NET_HEADER
    if (!digest.empty()) fail("this program holds the plan's SHA-256 and reads no manifest: leave the digest out");
    Description net{NET::plan_sha256, {}, {}, {}};
    for (const auto* each : NET::inputs) net.inputs.emplace_back(each->name);
    for (const auto* each : NET::outputs) net.outputs.emplace_back(each->name);
    for (const auto& each : NET::recurrences)
        if (!each.exposed) net.recurrences.emplace_back(each.output->name, each.input->name);
#else
    const std::vector<char> content = content_of(plan + ".json");
    if (content.empty()) fail("cannot read " + plan + ".json, which prototrt wrote beside the plan");
    if (!digest.empty() && digest != "sha256:" + sha256(content))
        fail(plan + ".json has the digest sha256:" + sha256(content) + ", expected " + digest);
    const auto manifest = nlohmann::json::parse(content);
    if (manifest.at("format") != 1) fail(plan + ".json is for a newer version of this program");
    Description net{manifest.contains("plan") ? manifest["plan"].at("sha256").get<std::string>() : "", {}, {}, {}};
    if (!digest.empty() && net.plan_sha256.empty()) fail(plan + ".json is about an ONNX model, and lists no plan");
    for (const auto& each : manifest.at("inputs")) net.inputs.push_back(each.at("name"));
    for (const auto& each : manifest.at("outputs")) net.outputs.push_back(each.at("name"));
    for (const auto& each : manifest.at("recurrences"))
        if (!each.at("exposed")) net.recurrences.emplace_back(each.at("output"), each.at("input"));
#endif
    return net;
}

struct Logger : nvinfer1::ILogger {
    void log(Severity severity, const char* message) noexcept override {
        if (severity <= Severity::kWARNING) std::cerr << "TensorRT: " << message << '\n';
    }
};

class Engine {
public:
    Engine(const std::string& path, const std::string& digest) {
        const Description net = description_of(path, digest);
        const std::vector<char> plan = content_of(path);
        if (plan.empty()) fail("cannot read " + path);
        if (!net.plan_sha256.empty() && sha256(plan) != net.plan_sha256)
            fail(path + " has the SHA-256 " + sha256(plan) + ", expected " + net.plan_sha256 +
                 ": it is not the plan that was described");
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "use a GPU");
        stream_.reset(stream);
        runtime_.reset(nvinfer1::createInferRuntime(logger_));
        if (!runtime_) fail("TensorRT does not start");
        engine_.reset(runtime_->deserializeCudaEngine(plan.data(), plan.size()));
        if (!engine_) fail("TensorRT does not load " + path + ": it must be the version that built the plan");
        context_.reset(engine_->createExecutionContext());
        if (!context_) fail("TensorRT cannot prepare the engine");

        for (const auto& name : net.inputs) {
            const nvinfer1::Dims shape = engine_->getTensorShape(name.c_str());
            if (std::count(shape.d, shape.d + shape.nbDims, -1) == 0) continue;
            const auto usual = engine_->getProfileShape(name.c_str(), 0, nvinfer1::OptProfileSelector::kOPT);
            if (!context_->setInputShape(name.c_str(), usual)) fail("TensorRT refuses the shape of " + name);
        }
        std::set<std::string> in_states;
        for (const auto& [output, input] : net.recurrences) {
            const std::size_t bytes = bytes_of(input);
            states_.push_back({output, input, {on_gpu(bytes), on_gpu(bytes)}});
            check(cudaMemsetAsync(states_.back().buffers[0].get(), 0, bytes, stream), "clear a state");
            in_states.insert({output, input});
        }
        for (const auto& name : net.inputs)
            if (in_states.count(name) == 0) add(inputs_, name);
        for (const auto& name : net.outputs)
            if (in_states.count(name) == 0) add(outputs_, name);
    }

    /// Read the inputs of a call. False at the end of the frames.
    bool read(std::istream& frames) {
        for (const auto& [name, bytes, device, host] : inputs_) {
            if (&name == &inputs_.front().name && frames.peek() == std::char_traits<char>::eof()) return false;
            if (!frames.read(static_cast<char*>(host.get()), static_cast<std::streamsize>(bytes)))
                fail("the frames end in the middle of " + name);
        }
        return true;
    }

    void run() {
        const std::size_t side = calls_++ % 2;
        for (const auto& [output, input, buffers] : states_) {
            bind(input, buffers[side]);
            bind(output, buffers[1 - side]);
        }
        if (calls_ > 2 && can_capture_ && !replays_[side]) capture(side);  // TensorRT wants an ordinary call first
        if (replays_[side])
            check(cudaGraphLaunch(replays_[side].get(), stream_.get()), "replay a call");
        else if (!enqueue())
            fail("TensorRT does not run the engine");
        check(cudaStreamSynchronize(stream_.get()), "finish a call");
    }

    void write(std::ostream& results) const {
        for (const auto& [name, bytes, device, host] : outputs_)
            results.write(static_cast<const char*>(host.get()), static_cast<std::streamsize>(bytes));
    }

    std::string summary() const {
        return std::to_string(calls_) + " calls" + (replays_[0] ? ", replayed from CUDA graphs" : "");
    }

private:
    struct State {
        std::string output, input;
        std::array<DeviceMemory, 2> buffers;
    };
    struct Tensor {
        std::string name;
        std::size_t bytes;
        DeviceMemory device;
        PinnedMemory host;
    };

    static DeviceMemory on_gpu(std::size_t bytes) { return allocate<DeviceMemory>(cudaMalloc, bytes); }

    void add(std::vector<Tensor>& tensors, const std::string& name) {
        const std::size_t bytes = bytes_of(name);
        tensors.push_back({name, bytes, on_gpu(bytes), allocate<PinnedMemory>(cudaMallocHost, bytes)});
        bind(name, tensors.back().device);
    }

    void bind(const std::string& name, const DeviceMemory& memory) {
        if (!context_->setTensorAddress(name.c_str(), memory.get())) fail("TensorRT refuses the memory of " + name);
    }

    std::size_t bytes_of(const std::string& name) const {
        using nvinfer1::DataType;
        const DataType type = engine_->getTensorDataType(name.c_str());  // kFLOAT, kINT32, kHALF or kBOOL
        std::size_t bytes = type == DataType::kBOOL ? 1 : type == DataType::kHALF ? 2 : 4;
        const nvinfer1::Dims shape = context_->getTensorShape(name.c_str());
        for (int axis = 0; axis < shape.nbDims; ++axis) bytes *= static_cast<std::size_t>(shape.d[axis]);
        return bytes;
    }

    /// Queue a call. False if TensorRT refuses.
    bool enqueue() {
        const cudaStream_t stream = stream_.get();
        for (const auto& [name, bytes, device, host] : inputs_)
            check(cudaMemcpyAsync(device.get(), host.get(), bytes, cudaMemcpyHostToDevice, stream), "copy " + name);
        if (!context_->enqueueV3(stream)) return false;
        for (const auto& [name, bytes, device, host] : outputs_)
            check(cudaMemcpyAsync(host.get(), device.get(), bytes, cudaMemcpyDeviceToHost, stream), "copy " + name);
        return true;
    }

    /// What cannot be captured, as some loops, is queued call by call.
    void capture(std::size_t side) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "begin to capture a call");
        can_capture_ = enqueue();
        can_capture_ &= cudaStreamEndCapture(stream_.get(), &graph) == cudaSuccess;
        const Graph captured(graph);
        can_capture_ = can_capture_ && cudaGraphInstantiateWithFlags(&replay, graph, 0) == cudaSuccess;
        replays_[side].reset(replay);
    }

    Logger logger_;
    Stream stream_;
    std::unique_ptr<nvinfer1::IRuntime> runtime_;
    std::unique_ptr<nvinfer1::ICudaEngine> engine_;
    std::unique_ptr<nvinfer1::IExecutionContext> context_;
    std::vector<State> states_;
    std::vector<Tensor> inputs_, outputs_;
    std::array<Replay, 2> replays_;
    std::size_t calls_ = 0;
    bool can_capture_ = true;
};

int main(int count, char** arguments) try {
    if (count != 4 && count != 5) fail("give three files: stream PLAN FRAMES RESULTS [DIGEST]");
    std::ifstream frames(arguments[2], std::ios::binary);
    if (!frames) fail(std::string("cannot read ") + arguments[2]);
    Engine engine(arguments[1], count == 5 ? arguments[4] : "");
    std::ofstream results(arguments[3], std::ios::binary);
    while (results && engine.read(frames)) {
        engine.run();
        engine.write(results);
    }
    if (!results.flush()) fail(std::string("cannot write ") + arguments[3]);
    std::cerr << engine.summary() << '\n';
} catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
}

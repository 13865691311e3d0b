// CUDA's runtime as the sample of samples/cpp calls it, in the memory of the host. It is strict: device memory has
// addresses that no program can follow, holds 0xFF until it is written, and is never given twice. Work waits in its
// stream until somebody synchronizes. FAKE_FAILS names a function that fails. What is left at the end is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

enum cudaError_t { cudaSuccess, cudaErrorFake, cudaErrorStreamCapture };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
constexpr unsigned cudaStreamNonBlocking = 1;

using Work = std::vector<std::function<void()>>;
struct CUstream_st {
    Work queued, captured;
    bool is_capturing = false;
};
struct CUgraph_st {
    Work work;
};
struct CUgraphExec_st {
    Work work;
};
using cudaStream_t = CUstream_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

namespace fake {

[[noreturn]] inline void crash(const std::string& fault) {
    std::fprintf(stderr, "fault: %s\n", fault.c_str());
    std::_Exit(70);
}

/// What exists, and what was done.
struct Machine {
    std::map<std::uintptr_t, std::vector<unsigned char>> device;
    std::map<void*, std::size_t> pinned;
    std::uintptr_t next = 1 << 12;  // the first pages of a process are never mapped
    int handles = 0, runs = 0, replays = 0;

    ~Machine() {
        const std::size_t left = device.size() + pinned.size() + static_cast<std::size_t>(handles);
        std::fprintf(stderr, "fake: %d runs, %d replays, %zu left\n", runs, replays, left);
    }

    unsigned char* at(const void* address, std::size_t bytes) {
        const auto place = reinterpret_cast<std::uintptr_t>(address);
        const auto after = device.upper_bound(place);
        if (after == device.begin()) crash("no memory of the GPU");
        auto& [start, block] = *std::prev(after);
        if (place + bytes > start + block.size()) crash("behind the end of memory of the GPU");
        return block.data() + (place - start);
    }
};

inline Machine& machine() {
    static Machine only;
    return only;
}

inline bool fails(const char* function) {
    machine();  // is there to tell at the end, even if nothing succeeds
    const char* named = std::getenv("FAKE_FAILS");
    return named != nullptr && std::strcmp(named, function) == 0;
}

inline void queue(cudaStream_t stream, std::function<void()> work) {
    (stream->is_capturing ? stream->captured : stream->queued).push_back(std::move(work));
}

template <typename Handle>
cudaError_t destroy(Handle handle) {
    --machine().handles;
    delete handle;
    return cudaSuccess;
}

}  // namespace fake

inline const char* cudaGetErrorString(cudaError_t) { return "it was told to fail"; }

inline cudaError_t cudaMalloc(void** address, std::size_t bytes) {
    if (fake::fails("cudaMalloc")) return cudaErrorFake;
    auto& machine = fake::machine();
    machine.device[machine.next].assign(bytes, 0xFF);
    *address = reinterpret_cast<void*>(machine.next);
    machine.next += (bytes + 255) / 256 * 256;
    if (machine.next > 1 << 16) fake::crash("the GPU has no memory left");
    return cudaSuccess;
}

inline cudaError_t cudaFree(void* address) {
    if (fake::machine().device.erase(reinterpret_cast<std::uintptr_t>(address)) != 1) fake::crash("freed twice");
    return cudaSuccess;
}

inline cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
    if (fake::fails("cudaMallocHost")) return cudaErrorFake;
    *address = std::memset(std::malloc(bytes), 0xFF, bytes);
    fake::machine().pinned[*address] = bytes;
    return cudaSuccess;
}

inline cudaError_t cudaFreeHost(void* address) {
    if (fake::machine().pinned.erase(address) != 1) fake::crash("freed twice");
    std::free(address);
    return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    if (fake::fails("cudaStreamCreateWithFlags")) return cudaErrorFake;
    ++fake::machine().handles;
    *stream = new CUstream_st;
    return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return fake::destroy(stream); }

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (fake::fails("cudaStreamSynchronize")) return cudaErrorFake;
    for (const auto& work : std::exchange(stream->queued, {})) work();
    return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
    if (fake::fails("cudaMemsetAsync")) return cudaErrorFake;
    fake::queue(stream, [=] { std::memset(fake::machine().at(address, bytes), value, bytes); });
    return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    if (fake::fails("cudaMemcpyAsync")) return cudaErrorFake;
    const bool is_upload = kind == cudaMemcpyHostToDevice;
    if (fake::machine().pinned.count(const_cast<void*>(is_upload ? from : to)) == 0) fake::crash("not pinned");
    fake::queue(stream, [=] {
        if (is_upload)
            std::memcpy(fake::machine().at(to, bytes), from, bytes);
        else
            std::memcpy(to, fake::machine().at(from, bytes), bytes);
    });
    return cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (fake::fails("cudaStreamBeginCapture")) return cudaErrorFake;
    stream->is_capturing = true;
    return cudaSuccess;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    stream->is_capturing = false;
    Work captured = std::exchange(stream->captured, {});
    if (fake::fails("cudaStreamEndCapture")) return cudaErrorStreamCapture;
    ++fake::machine().handles;
    *graph = new CUgraph_st{std::move(captured)};
    return cudaSuccess;
}

inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return fake::destroy(graph); }

inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* replay, cudaGraph_t graph, unsigned long long) {
    if (fake::fails("cudaGraphInstantiateWithFlags")) return cudaErrorFake;
    ++fake::machine().handles;
    *replay = new CUgraphExec_st{graph->work};
    return cudaSuccess;
}

inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t replay) { return fake::destroy(replay); }

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t replay, cudaStream_t stream) {
    if (fake::fails("cudaGraphLaunch")) return cudaErrorFake;
    ++fake::machine().replays;
    for (const auto& work : replay->work) fake::queue(stream, work);
    return cudaSuccess;
}

// TensorRT as the sample of samples/cpp calls it, with one engine on the fake GPU:
//
//     h_T = cont * h_0 + x        y = 2 * h_T        is_large = h_T > 10
//
// x, h_0, h_T, y and is_large have the shape N x 2, where N may be 1 to 8 and is 2 unless somebody says otherwise.
// cont has the shape 1. A run first writes over all its outputs: an input that shares their memory is lost.
#pragma once

#include "cuda_runtime_api.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace nvinfer1 {

enum class DataType { kFLOAT, kHALF, kINT8, kINT32, kBOOL };
enum class OptProfileSelector { kMIN, kOPT, kMAX };

struct Dims {
    std::int32_t nbDims;
    std::int64_t d[8];
};

class ILogger {
public:
    enum class Severity { kINTERNAL_ERROR, kERROR, kWARNING, kINFO, kVERBOSE };
    virtual void log(Severity severity, const char* message) noexcept = 0;

protected:
    virtual ~ILogger() = default;
};

class IExecutionContext {
public:
    bool setInputShape(const char* name, const Dims& shape) {
        if (fake::fails("setInputShape") || std::string(name) == "cont") return false;
        rows_ = shape.d[0];
        return true;
    }

    Dims getTensorShape(const char* name) const {
        return std::string(name) == "cont" ? Dims{1, {1}} : Dims{2, {rows_, 2}};
    }

    bool setTensorAddress(const char* name, void* address) {
        addresses_[name] = address;
        return !fake::fails("setTensorAddress") && reinterpret_cast<std::uintptr_t>(address) % 256 == 0;
    }

    bool enqueueV3(cudaStream_t stream) {
        if (fake::fails(stream->is_capturing ? "capture" : "enqueueV3")) return false;
        if (addresses_.size() != 6) fake::crash("an input or output has no address");
        ++fake::machine().runs;
        fake::queue(stream, [addresses = addresses_, count = static_cast<std::size_t>(2 * rows_)]() mutable {
            const auto floats = [&](const char* name, std::size_t size) {
                return reinterpret_cast<float*>(fake::machine().at(addresses.at(name), size * sizeof(float)));
            };
            float* const h_T = floats("h_T", count);
            float* const y = floats("y", count);
            unsigned char* const is_large = fake::machine().at(addresses.at("is_large"), count);
            std::fill_n(h_T, count, -1e9F);
            std::fill_n(y, count, -1e9F);
            const float cont = *floats("cont", 1);
            for (std::size_t i = 0; i < count; ++i) {
                h_T[i] = cont * floats("h_0", count)[i] + floats("x", count)[i];
                y[i] = 2 * h_T[i];
                is_large[i] = h_T[i] > 10;
            }
        });
        return true;
    }

private:
    std::int64_t rows_ = -1;
    std::map<std::string, void*> addresses_;
};

class ICudaEngine {
public:
    IExecutionContext* createExecutionContext() {
        return fake::fails("createExecutionContext") ? nullptr : new IExecutionContext;
    }

    DataType getTensorDataType(const char* name) const {
        return std::string(name) == "is_large" ? DataType::kBOOL : DataType::kFLOAT;
    }

    Dims getTensorShape(const char* name) const {
        return std::string(name) == "cont" ? Dims{1, {1}} : Dims{2, {-1, 2}};
    }

    Dims getProfileShape(const char*, std::int32_t, OptProfileSelector select) const {
        const std::int64_t rows[] = {1, 2, 8};
        return Dims{2, {rows[static_cast<int>(select)], 2}};
    }
};

class IRuntime {
public:
    explicit IRuntime(ILogger& logger) : logger_(logger) {}

    ICudaEngine* deserializeCudaEngine(const void*, std::size_t) {
        logger_.log(ILogger::Severity::kINFO, "an engine is loaded");
        if (!fake::fails("deserializeCudaEngine")) return new ICudaEngine;
        logger_.log(ILogger::Severity::kERROR, "the plan is bad");
        return nullptr;
    }

private:
    ILogger& logger_;
};

inline IRuntime* createInferRuntime(ILogger& logger) {
    return fake::fails("createInferRuntime") ? nullptr : new IRuntime(logger);
}

}  // namespace nvinfer1

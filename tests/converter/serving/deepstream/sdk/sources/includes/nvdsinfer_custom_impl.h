// What a parser sees of DeepStream's header of this name, by the SDK's API reference.
#pragma once

#include <vector>

struct NvDsInferDims {
    unsigned int numDims;
    unsigned int d[8];
    unsigned int numElements;
};

enum NvDsInferDataType { FLOAT = 0, HALF = 1, INT8 = 2, INT32 = 3 };

struct NvDsInferLayerInfo {
    NvDsInferDataType dataType;
    union {
        NvDsInferDims inferDims;
        NvDsInferDims dims;
    };
    int bindingIndex;
    const char* layerName;
    void* buffer;
    int isInput;
};

struct NvDsInferNetworkInfo {
    unsigned int width;
    unsigned int height;
    unsigned int channels;
};

struct NvDsInferObjectDetectionInfo {
    unsigned int classId;
    float left;
    float top;
    float width;
    float height;
    float detectionConfidence;
};

struct NvDsInferParseDetectionParams {
    unsigned int numClassesConfigured;
    std::vector<float> perClassPreclusterThreshold;
    std::vector<float> perClassPostclusterThreshold;
};

typedef bool (*NvDsInferParseCustomFunc)(std::vector<NvDsInferLayerInfo> const&, NvDsInferNetworkInfo const&,
                                         NvDsInferParseDetectionParams const&,
                                         std::vector<NvDsInferObjectDetectionInfo>&);

#define CHECK_CUSTOM_PARSE_FUNC_PROTOTYPE(name) static_assert(NvDsInferParseCustomFunc(name) != nullptr, "")

// Loads a parser as Gst-nvinfer does, and prints the objects of the outputs on standard input.
// Arguments: library, function, width, height, classes, threshold, and for each output name, type and sizes (3x5).

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "nvdsinfer_custom_impl.h"

int main(int count, char** words) {
    void* library = dlopen(words[1], RTLD_NOW);
    void* symbol = library == nullptr ? nullptr : dlsym(library, words[2]);
    if (symbol == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    NvDsInferNetworkInfo network{unsigned(atoi(words[3])), unsigned(atoi(words[4])), 3};
    NvDsInferParseDetectionParams params{};
    params.numClassesConfigured = unsigned(atoi(words[5]));
    params.perClassPreclusterThreshold.assign(params.numClassesConfigured, float(atof(words[6])));
    std::vector<NvDsInferLayerInfo> layers;
    std::deque<std::vector<float>> buffers;
    for (int place = 7; place + 2 < count; place += 3) {
        NvDsInferLayerInfo layer{};
        layer.layerName = words[place];
        layer.dataType = NvDsInferDataType(atoi(words[place + 1]));
        unsigned elements = 1;
        for (char* text = words[place + 2]; *text != '\0'; text += *text == 'x') {
            layer.inferDims.d[layer.inferDims.numDims++] = unsigned(strtoul(text, &text, 10));
            elements *= layer.inferDims.d[layer.inferDims.numDims - 1];
        }
        layer.inferDims.numElements = elements;
        buffers.emplace_back(elements);
        std::vector<float>& buffer = buffers.back();
        if (std::fread(buffer.data(), sizeof(float), elements, stdin) != elements) return 3;
        layer.buffer = buffer.data();
        layers.push_back(layer);
    }
    std::vector<NvDsInferObjectDetectionInfo> objects;
    if (!reinterpret_cast<NvDsInferParseCustomFunc>(symbol)(layers, network, params, objects)) return 1;
    for (const NvDsInferObjectDetectionInfo& each : objects) {
        std::printf("%u %.9g %.9g %.9g %.9g %.9g\n", each.classId, each.detectionConfidence, each.left, each.top,
                    each.left + each.width, each.top + each.height);
    }
    return 0;
}

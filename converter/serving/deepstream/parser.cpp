// Reads the outputs of the net for Gst-nvinfer. Written by prototrt; compile it on the machine that runs DeepStream:
//   make, or: g++ -O2 -shared -fPIC -I/opt/nvidia/deepstream/deepstream/sources/includes @FILE@ -o @LIBRARY@

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "nvdsinfer_custom_impl.h"

namespace {

const std::vector<std::string> kOutputs = {@OUTPUTS@};

using Layers = std::vector<NvDsInferLayerInfo>;
using Objects = std::vector<NvDsInferObjectDetectionInfo>;

// The output with this place in kOutputs; null, with a message, if it is missing or not float32.
const NvDsInferLayerInfo* output(const Layers& layers, size_t place) {
    for (const NvDsInferLayerInfo& layer : layers) {
        if (layer.layerName == nullptr || kOutputs[place] != layer.layerName) continue;
        if (layer.dataType == FLOAT && layer.buffer != nullptr) return &layer;
    }
    std::fprintf(stderr, "prototrt: there is no float32 output \"%s\"\n", kOutputs[place].c_str());
    return nullptr;
}

// The size of an axis, counted from the last one.
unsigned size_from_end(const NvDsInferLayerInfo& layer, unsigned axis) {
    const NvDsInferDims& dims = layer.inferDims;
    return axis < dims.numDims ? dims.d[dims.numDims - 1 - axis] : 1;
}

float threshold(const NvDsInferParseDetectionParams& params, unsigned label) {
    const std::vector<float>& each = params.perClassPreclusterThreshold;
    return label < each.size() ? each[label] : 0.0F;
}

// Adds the object with these corners in pixels, cut at the border of the image, if its class counts.
void add(Objects& objects, const NvDsInferParseDetectionParams& params, const NvDsInferNetworkInfo& network,
         unsigned label, float score, float left, float top, float right, float bottom) {
    if (label >= params.numClassesConfigured || !(score >= threshold(params, label))) return;
    const float width = static_cast<float>(network.width), height = static_cast<float>(network.height);
    left = std::min(std::max(left, 0.0F), width);
    top = std::min(std::max(top, 0.0F), height);
    right = std::min(std::max(right, 0.0F), width);
    bottom = std::min(std::max(bottom, 0.0F), height);
    if (!(right > left && bottom > top)) return;
    NvDsInferObjectDetectionInfo object{};
    object.classId = label;
    object.left = left;
    object.top = top;
    object.width = right - left;
    object.height = bottom - top;
    object.detectionConfidence = std::min(std::max(score, 0.0F), 1.0F);
    objects.push_back(object);
}

}  // namespace

// SSD and YOLO: rows of image, class, score, and corners as parts of the image. Rows of -1 follow the last one.
extern "C" bool PrototrtParseDetections(const Layers& layers, const NvDsInferNetworkInfo& network,
                                        const NvDsInferParseDetectionParams& params, Objects& objects) {
    const NvDsInferLayerInfo* rows = output(layers, 0);
    if (rows == nullptr) return false;
    const float width = static_cast<float>(network.width), height = static_cast<float>(network.height);
    const float* row = static_cast<const float*>(rows->buffer);
    for (unsigned left = size_from_end(*rows, 1); left > 0 && row[0] >= 0; --left, row += 7) {
        add(objects, params, network, static_cast<unsigned>(row[1]), row[2], row[3] * width, row[4] * height,
            row[5] * width, row[6] * height);
    }
    return true;
}

// DetectNet with its last layer: an output for each class, of corners in pixels and the logarithm of the number n of
// boxes that were joined. Rows of 0 follow the last one. The confidence is 1 - 1/n.
extern "C" bool PrototrtParseClusters(const Layers& layers, const NvDsInferNetworkInfo& network,
                                      const NvDsInferParseDetectionParams& params, Objects& objects) {
    for (size_t label = 0; label < kOutputs.size(); ++label) {
        const NvDsInferLayerInfo* rows = output(layers, label);
        if (rows == nullptr) return false;
        const float* row = static_cast<const float*>(rows->buffer);
        for (unsigned left = size_from_end(*rows, 1); left > 0; --left, row += 5) {
            add(objects, params, network, static_cast<unsigned>(label), 1.0F - std::exp(-row[4]), row[0], row[1],
                row[2], row[3]);
        }
    }
    return true;
}

// DetectNet without its last layer: the coverage of each class, and at each place the corners of a box, in pixels from
// that place on. Gst-nvinfer joins the boxes (cluster-mode=0).
extern "C" bool PrototrtParseCoverage(const Layers& layers, const NvDsInferNetworkInfo& network,
                                      const NvDsInferParseDetectionParams& params, Objects& objects) {
    const NvDsInferLayerInfo* coverage = output(layers, 0);
    const NvDsInferLayerInfo* corners = coverage == nullptr ? nullptr : output(layers, 1);
    if (corners == nullptr) return false;
    const unsigned columns = size_from_end(*coverage, 0), rows = size_from_end(*coverage, 1);
    const unsigned classes = size_from_end(*coverage, 2), places = rows * columns;
    const unsigned across = network.width / columns, down = network.height / rows;
    const float* scores = static_cast<const float*>(coverage->buffer);
    const float* corner = static_cast<const float*>(corners->buffer);
    for (unsigned label = 0; label < classes; ++label) {
        for (unsigned place = 0; place < places; ++place) {
            const float x = static_cast<float>(place % columns * across);
            const float y = static_cast<float>(place / columns * down);
            add(objects, params, network, label, scores[label * places + place], x + corner[place],
                y + corner[places + place], x + corner[2 * places + place], y + corner[3 * places + place]);
        }
    }
    return true;
}

CHECK_CUSTOM_PARSE_FUNC_PROTOTYPE(PrototrtParseDetections);
CHECK_CUSTOM_PARSE_FUNC_PROTOTYPE(PrototrtParseClusters);
CHECK_CUSTOM_PARSE_FUNC_PROTOTYPE(PrototrtParseCoverage);

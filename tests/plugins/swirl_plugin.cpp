// A plugin as a user writes one, on the public headers of TensorRT. It computes on the memory of the host, so that tests run it.

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "NvInfer.h"

using namespace nvinfer1;

namespace {

PluginField const kFields[] = {
    {"angle", nullptr, PluginFieldType::kFLOAT32, 1},
    {"mode", nullptr, PluginFieldType::kCHAR, 1},
    {"centers", nullptr, PluginFieldType::kFLOAT32, 1},
    {"deep_size", nullptr, PluginFieldType::kINT32, 1},
};

class Swirl : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
public:
    explicit Swirl(PluginFieldCollection const& fields) {
        for (int32_t i = 0; i < fields.nbFields; ++i) take(fields.fields[i]);
    }

    InterfaceInfo getInterfaceInfo() const noexcept override { return IPluginV3::getInterfaceInfo(); }

    IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
        if (type == PluginCapabilityType::kCORE) return static_cast<IPluginV3OneCore*>(this);
        if (type == PluginCapabilityType::kBUILD) return static_cast<IPluginV3OneBuild*>(this);
        return static_cast<IPluginV3OneRuntime*>(this);
    }

    IPluginV3* clone() noexcept override { return new Swirl(*this); }
    AsciiChar const* getPluginName() const noexcept override { return "SwirlPlugin"; }
    AsciiChar const* getPluginVersion() const noexcept override { return "1"; }
    AsciiChar const* getPluginNamespace() const noexcept override { return "acme"; }
    int32_t getNbOutputs() const noexcept override { return 2; }

    int32_t configurePlugin(DynamicPluginTensorDesc const*, int32_t, DynamicPluginTensorDesc const*,
                            int32_t) noexcept override {
        return 0;
    }

    int32_t getOutputDataTypes(DataType* outputs, int32_t count, DataType const*, int32_t) const noexcept override {
        for (int32_t i = 0; i < count; ++i) outputs[i] = DataType::kFLOAT;
        return 0;
    }

    bool supportsFormatCombination(int32_t index, DynamicPluginTensorDesc const* tensors, int32_t,
                                   int32_t) noexcept override {
        return tensors[index].desc.type == DataType::kFLOAT && tensors[index].desc.format == TensorFormat::kLINEAR;
    }

    // x (N, D) and offset (D): y (N, D) and sums (N, deep_size).
    int32_t getOutputShapes(DimsExprs const* inputs, int32_t count, DimsExprs const*, int32_t, DimsExprs* outputs,
                            int32_t, IExprBuilder& expressions) noexcept override {
        if (count != 2 || inputs[0].nbDims != 2) return -1;
        outputs[0] = inputs[0];
        outputs[1] = inputs[0];
        outputs[1].d[1] = expressions.constant(mDeepSize);
        return 0;
    }

    int32_t onShapeChange(PluginTensorDesc const*, int32_t, PluginTensorDesc const*, int32_t) noexcept override {
        return 0;
    }

    int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const*, void const* const* inputs,
                    void* const* outputs, void*, cudaStream_t) noexcept override {
        if (mMode != "FAST") return -1;
        auto const* x = static_cast<float const*>(inputs[0]);
        auto const* offset = static_cast<float const*>(inputs[1]);
        auto *y = static_cast<float*>(outputs[0]), *sums = static_cast<float*>(outputs[1]);
        int64_t const rows = inputDesc[0].dims.d[0], columns = inputDesc[0].dims.d[1];
        float const center = std::accumulate(mCenters.begin(), mCenters.end(), 0.0F);
        for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
            for (int64_t i = 0; i < columns; ++i) y[i] = x[i] * mAngle + offset[i] + center;
            float const sum = std::accumulate(x, x + columns, 0.0F);
            for (int32_t i = 0; i < mDeepSize; ++i) *sums++ = sum * static_cast<float>(i + 1);
        }
        return 0;
    }

    IPluginV3* attachToContext(IPluginResourceContext*) noexcept override { return clone(); }

    PluginFieldCollection const* getFieldsToSerialize() noexcept override {
        mStored = {{"angle", &mAngle, PluginFieldType::kFLOAT32, 1},
                   {"mode", mMode.data(), PluginFieldType::kCHAR, static_cast<int32_t>(mMode.size())},
                   {"centers", mCenters.data(), PluginFieldType::kFLOAT32, static_cast<int32_t>(mCenters.size())},
                   {"deep_size", &mDeepSize, PluginFieldType::kINT32, 1}};
        mCollection = {static_cast<int32_t>(mStored.size()), mStored.data()};
        return &mCollection;
    }

private:
    void take(PluginField const& field) {
        std::string const name = field.name;
        auto const length = static_cast<size_t>(field.length);
        if (name == "angle") mAngle = *static_cast<float const*>(field.data);
        if (name == "mode") mMode.assign(static_cast<char const*>(field.data), length);
        if (name == "deep_size") mDeepSize = *static_cast<int32_t const*>(field.data);
        if (name == "centers") {
            auto const* first = static_cast<float const*>(field.data);
            mCenters.assign(first, first + length);
        }
    }

    float mAngle{};
    std::string mMode;
    std::vector<float> mCenters;
    int32_t mDeepSize{};
    std::vector<PluginField> mStored;
    PluginFieldCollection mCollection{};
};

class SwirlCreator : public IPluginCreatorV3One {
public:
    IPluginV3* createPlugin(AsciiChar const*, PluginFieldCollection const* fields, TensorRTPhase) noexcept override {
        return new Swirl(*fields);
    }

    PluginFieldCollection const* getFieldNames() noexcept override { return &mFields; }
    AsciiChar const* getPluginName() const noexcept override { return "SwirlPlugin"; }
    AsciiChar const* getPluginVersion() const noexcept override { return "1"; }
    AsciiChar const* getPluginNamespace() const noexcept override { return "acme"; }

private:
    PluginFieldCollection mFields{4, kFields};
};

REGISTER_TENSORRT_PLUGIN(SwirlCreator);

}  // namespace

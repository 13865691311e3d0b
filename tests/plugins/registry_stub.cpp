// What TensorRT does with a library of plugins, for Python: a registry that holds creators, and calls of their plugins.

#include <cstdint>
#include <memory>
#include <vector>

#include "NvInfer.h"

using namespace nvinfer1;

namespace {

class Size : public IDimensionExpr, apiv::VDimensionExpr {
public:
    explicit Size(int64_t value) : mValue(value) { mImpl = this; }
    bool isConstant() const override { return true; }
    int64_t getConstantValue() const override { return mValue; }
    bool isSizeTensor() const override { return false; }

private:
    int64_t mValue;
};

class Sizes : public IExprBuilder, apiv::VExprBuilder {
public:
    Sizes() { mImpl = this; }
    IDimensionExpr const* constant(int64_t value) override {
        mSizes.push_back(std::make_unique<Size>(value));
        return mSizes.back().get();
    }
    IDimensionExpr const* operation(DimensionOperation, IDimensionExpr const&, IDimensionExpr const&) override {
        return nullptr;
    }
    IDimensionExpr const* declareSizeTensor(int32_t, IDimensionExpr const&, IDimensionExpr const&) override {
        return nullptr;
    }

private:
    std::vector<std::unique_ptr<Size>> mSizes;
};

class Registry : public IPluginRegistry {
public:
    bool registerCreator(IPluginCreatorInterface& creator, AsciiChar const*) noexcept override {
        mCreators.push_back(&creator);
        return true;
    }
    IPluginCreatorInterface* const* getAllCreators(int32_t* count) const noexcept override {
        *count = static_cast<int32_t>(mCreators.size());
        return mCreators.data();
    }
    IPluginCreatorInterface* const* getAllCreatorsRecursive(int32_t* count) noexcept override {
        return getAllCreators(count);
    }
    IPluginCreatorInterface* getCreator(AsciiChar const*, AsciiChar const*, AsciiChar const*) noexcept override {
        return nullptr;
    }
    bool deregisterCreator(IPluginCreatorInterface const&) noexcept override { return false; }
    IPluginResource* acquirePluginResource(AsciiChar const*, IPluginResource*) noexcept override { return nullptr; }
    int32_t releasePluginResource(AsciiChar const*) noexcept override { return -1; }
    void setErrorRecorder(IErrorRecorder*) noexcept override {}
    IErrorRecorder* getErrorRecorder() const noexcept override { return nullptr; }
    bool isParentSearchEnabled() const override { return false; }
    void setParentSearchEnabled(bool) override {}
    PluginLibraryHandle loadLibrary(AsciiChar const*) noexcept override { return nullptr; }
    void deregisterLibrary(PluginLibraryHandle) noexcept override {}

private:
    std::vector<IPluginCreatorInterface*> mCreators;
};

IPluginCreatorV3One& creator(int32_t index) {
    int32_t count = 0;
    return *static_cast<IPluginCreatorV3One*>(getPluginRegistry()->getAllCreators(&count)[index]);
}

template <typename T>
T* part(void* plugin, PluginCapabilityType type) {
    return static_cast<T*>(static_cast<IPluginV3*>(plugin)->getCapabilityInterface(type));
}

}  // namespace

extern "C" {

IPluginRegistry* getPluginRegistry() noexcept {
    static Registry registry;
    return &registry;
}

int32_t number_of_creators() {
    int32_t count = 0;
    getPluginRegistry()->getAllCreators(&count);
    return count;
}

char const* creator_name(int32_t index) { return creator(index).getPluginName(); }
char const* creator_version(int32_t index) { return creator(index).getPluginVersion(); }
char const* creator_namespace(int32_t index) { return creator(index).getPluginNamespace(); }
int32_t number_of_fields(int32_t index) { return creator(index).getFieldNames()->nbFields; }

char const* field_name(int32_t index, int32_t field, int32_t* type) {
    PluginField const& each = creator(index).getFieldNames()->fields[field];
    *type = static_cast<int32_t>(each.type);
    return each.name;
}

void* create(int32_t index, char const* name, int32_t count, char const* const* names, void const* const* data,
             int32_t const* types, int32_t const* lengths) {
    std::vector<PluginField> fields;
    for (int32_t i = 0; i < count; ++i) {
        fields.emplace_back(names[i], data[i], static_cast<PluginFieldType>(types[i]), lengths[i]);
    }
    PluginFieldCollection const collection{count, fields.data()};
    IPluginV3* plugin = creator(index).createPlugin(name, &collection, TensorRTPhase::kBUILD);
    // An engine stores the fields that the plugin names, and makes it again of them where it runs.
    auto* runtime = part<IPluginV3OneRuntime>(plugin, PluginCapabilityType::kRUNTIME);
    return creator(index).createPlugin(name, runtime->getFieldsToSerialize(), TensorRTPhase::kRUNTIME);
}

// The shapes of the outputs, one after another, each with its rank; -1 for a failure, else the number of outputs.
int32_t output_shapes(void* plugin, int32_t count, int64_t const* const* dims, int32_t const* ranks, int64_t* result) {
    Sizes sizes;
    std::vector<DimsExprs> inputs(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
        inputs[static_cast<size_t>(i)].nbDims = ranks[i];
        for (int32_t axis = 0; axis < ranks[i]; ++axis) {
            inputs[static_cast<size_t>(i)].d[axis] = sizes.constant(dims[i][axis]);
        }
    }
    auto* build = part<IPluginV3OneBuild>(plugin, PluginCapabilityType::kBUILD);
    std::vector<DimsExprs> outputs(static_cast<size_t>(build->getNbOutputs()));
    int32_t const made = build->getNbOutputs();
    if (build->getOutputShapes(inputs.data(), count, nullptr, 0, outputs.data(), made, sizes) != 0) return -1;
    for (DimsExprs const& shape : outputs) {
        *result++ = shape.nbDims;
        for (int32_t axis = 0; axis < shape.nbDims; ++axis) *result++ = shape.d[axis]->getConstantValue();
    }
    return made;
}

int32_t enqueue(void* plugin, int64_t const* dims, int32_t rank, void const* const* inputs, void* const* outputs) {
    PluginTensorDesc first{};
    first.dims.nbDims = rank;
    for (int32_t axis = 0; axis < rank; ++axis) first.dims.d[axis] = dims[axis];
    auto* runtime = part<IPluginV3OneRuntime>(plugin, PluginCapabilityType::kRUNTIME);
    return runtime->enqueue(&first, nullptr, inputs, outputs, nullptr, nullptr);
}
}

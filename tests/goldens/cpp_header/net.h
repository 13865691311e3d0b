// Written by prototrt 0, and overwritten when the model is converted again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace prototrt_net {

inline constexpr std::size_t plan_bytes = 12;
inline constexpr const char* plan_sha256 = "abababababababababababababababababababababababababababababababab";
inline constexpr const char* tensorrt_flavour = "rtx";
inline constexpr const char* tensorrt_version = "1.7.1";

enum class Type { boolean, float16, float32, int32 };

/// An input or output. A size that may vary has three values; the three values of a fixed size are equal.
struct Tensor {
    const char* name;
    Type type;
    std::size_t element_bytes;
    std::size_t rank;  // as many of the sizes count
    std::array<std::int64_t, 8> min, opt, max;
};

/// What a call writes to the output is the input of the next call. The first call begins with zeros.
/// An exposed state is a blob of the net itself: feed it back only if you want to.
struct Recurrence {
    const Tensor* output;
    const Tensor* input;
    bool exposed;
};

/// Only the first elements of the tensor on this axis count. After each call, `number` holds how many.
struct Count {
    const Tensor* tensor;
    std::size_t axis;
    const Tensor* number;
};

inline constexpr Tensor input_data{"data", Type::float32, 4, 3, {{1, 1, 3}}, {{40, 1, 3}}, {{64, 8, 3}}};
inline constexpr Tensor input_mask{"mask", Type::boolean, 1, 1, {{7}}, {{7}}, {{7}}};
inline constexpr Tensor input_ids{"ids", Type::int32, 4, 0, {}, {}, {}};
inline constexpr Tensor input_a_b_2{"a/b", Type::float32, 4, 2, {{1, 2}}, {{1, 2}}, {{1, 2}}};
inline constexpr Tensor input_a_b{"a_b", Type::float16, 2, 2, {{1, 2}}, {{1, 2}}, {{1, 2}}};
inline constexpr Tensor input_h_0{"h_0", Type::float32, 4, 3, {{1, 1, 4}}, {{1, 1, 4}}, {{1, 8, 4}}};
inline constexpr Tensor output_boxes{"boxes", Type::float32, 4, 3, {{1, 20, 4}}, {{1, 20, 4}}, {{1, 20, 4}}};
inline constexpr Tensor output_boxes_count{"boxes_count", Type::int32, 4, 0, {}, {}, {}};
inline constexpr Tensor output_h_T{"h_T", Type::float32, 4, 3, {{1, 1, 4}}, {{1, 1, 4}}, {{1, 8, 4}}};

inline constexpr std::array<const Tensor*, 6> inputs{{
    &input_data,
    &input_mask,
    &input_ids,
    &input_a_b_2,
    &input_a_b,
    &input_h_0,
}};
inline constexpr std::array<const Tensor*, 3> outputs{{
    &output_boxes,
    &output_boxes_count,
    &output_h_T,
}};
inline constexpr std::array<Recurrence, 2> recurrences{{
    {&output_h_T, &input_h_0, false},
    {&output_h_T, &input_a_b_2, true},
}};
inline constexpr std::array<Count, 1> counts{{
    {&output_boxes, 1, &output_boxes_count},
}};

}  // namespace prototrt_net

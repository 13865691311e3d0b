// Tile: copies of a tensor one behind the other along one axis. `make ptx` compiles this to tile.ptx.
//
// The order of the arguments is the one that TensorRT gives to kernels which are compiled ahead: inputs, scalars,
// outputs. Elements are moved as they are, so that their width alone matters.

#define TILE_FUNCTION static __device__ __forceinline__

#define BITS 16
#define ELEMENT unsigned short
#include "tile_thread.h"
#undef BITS
#undef ELEMENT

#define BITS 32
#define ELEMENT unsigned int
#include "tile_thread.h"

extern "C" __global__ void prototrt_tile_16(const unsigned short *x, int inner, int copies, int count,
                                            unsigned short *y) {
    tile_thread_16(x, inner, copies, count, y, blockIdx.x * blockDim.x + threadIdx.x);
}

extern "C" __global__ void prototrt_tile_32(const unsigned int *x, int inner, int copies, int count,
                                            unsigned int *y) {
    tile_thread_32(x, inner, copies, count, y, blockIdx.x * blockDim.x + threadIdx.x);
}

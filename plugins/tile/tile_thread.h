/* What one thread of the Tile kernel does, for elements of BITS bits: 16 or 32.
 *
 * The input is (rows, inner), the output (rows, copies, inner): y[r][k][i] = x[r][i]. Each thread writes 16 bytes
 * of the output, at once where they are aligned. Nothing here knows of CUDA: a test compiles it for the CPU.
 *
 * Included once per width, with BITS and ELEMENT defined; places are unsigned, so that place + LANES cannot
 * overflow in a tensor of TensorRT, which has fewer than 2^31 elements.
 */
#ifndef TILE_FUNCTION
#define TILE_FUNCTION static inline
#endif

#define TILE_JOIN(name, bits) name##_##bits
#define TILE_NAME(name, bits) TILE_JOIN(name, bits)
#define LANES (128u / BITS)
#define VECTOR TILE_NAME(tile_vector, BITS)

typedef struct {
    ELEMENT lane[128 / BITS];
} __attribute__((aligned(16), may_alias)) VECTOR;

#ifndef TILE_SHARED
#define TILE_SHARED

/* Where the element at this place of the output stands in the input. */
TILE_FUNCTION unsigned tile_source(unsigned place, unsigned inner, unsigned copies) {
    return place / (inner * copies) * inner + place % inner;
}

TILE_FUNCTION int tile_is_aligned(const void *address) { return (unsigned long long)address % 16 == 0; }

#endif

/* LANES elements of the output from this place on. */
TILE_FUNCTION VECTOR TILE_NAME(tile_gather, BITS)(const ELEMENT *x, unsigned place, unsigned inner,
                                                  unsigned copies) {
    VECTOR lanes;
    /* Where inner is a multiple of LANES, they stand side by side in the input, too. */
    if (inner % LANES == 0 && tile_is_aligned(x))
        return *(const VECTOR *)(x + tile_source(place, inner, copies));
    for (unsigned lane = 0; lane < LANES; ++lane) lanes.lane[lane] = x[tile_source(place + lane, inner, copies)];
    return lanes;
}

TILE_FUNCTION void TILE_NAME(tile_thread, BITS)(const ELEMENT *x, unsigned inner, unsigned copies, unsigned count,
                                                ELEMENT *y, unsigned thread) {
    unsigned place = thread * LANES;
    if (place + LANES <= count && tile_is_aligned(y)) {
        *(VECTOR *)(y + place) = TILE_NAME(tile_gather, BITS)(x, place, inner, copies);
        return;
    }
    for (unsigned end = place + LANES; place < end && place < count; ++place)
        y[place] = x[tile_source(place, inner, copies)];
}

#undef TILE_JOIN
#undef TILE_NAME
#undef LANES
#undef VECTOR

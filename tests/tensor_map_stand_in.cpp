// Replaces the driver if there is none: has its documented signature, and records its arguments.

#include <cstdint>
#include <cstring>

struct Given {
    int type;
    uint32_t rank;
    uint64_t address, dims[5], strides[4];
    uint32_t box[5], steps[5];
    int options[4];
};

extern "C" Given seen;
Given seen;

extern "C" int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                      const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                      int interleave, int swizzle, int promotion, int fill)
{
    if (reinterpret_cast<uint64_t>(map) % 64) return 1;
    if (reinterpret_cast<uint64_t>(address) == 32) return 700;
    seen = {type, rank, reinterpret_cast<uint64_t>(address), {}, {}, {}, {}, {interleave, swizzle, promotion, fill}};
    std::memcpy(seen.dims, dims, rank * sizeof *dims);
    std::memcpy(seen.strides, strides, (rank - 1) * sizeof *strides);
    std::memcpy(seen.box, box, rank * sizeof *box);
    std::memcpy(seen.steps, steps, rank * sizeof *steps);
    std::memset(map, 7, 128);
    return 0;
}

extern "C" int cuGetErrorName(int code, const char **name)
{
    *name = "CUDA_ERROR_OF_A_KIND";
    return code != 700;
}

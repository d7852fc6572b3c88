// A kernel with one parameter, made callable: KERNEL_SOURCE is its file, KERNEL_NAME its name, KERNEL_PARAMETERS the type of
// the parameter; names that the library's headers do not have, or they could not be compiled in advance.
#include KERNEL_SOURCE

extern "C" const char *run(const void *parameters, const unsigned int *grid, unsigned int threads, unsigned int cluster,
                           size_t nbytes, int schedule)
{
    const KERNEL_PARAMETERS &p = *static_cast<const KERNEL_PARAMETERS *>(parameters);
    return host::launch({grid[0], grid[1], grid[2]}, threads, cluster, nbytes, schedule, [&] { KERNEL_NAME(p); });
}

// From now on copies that read elsewhere fail; ranges are pairs of addresses.
extern "C" void allow(const uintptr_t *ranges, size_t count)
{
    host::operands.clear();
    for (size_t i = 0; i < count; ++i) host::operands.emplace_back(ranges[2 * i], ranges[2 * i + 1]);
}

extern "C" size_t nbytes() { return sizeof(KERNEL_PARAMETERS); }

// A kernel with one parameter, made callable: KERNEL_SOURCE is its file, KERNEL_NAME its name, KERNEL_PARAMETERS the type of
// the parameter; names that the library's headers do not have, or they could not be compiled in advance.
#include KERNEL_SOURCE

extern "C" const char *run(const void *parameters, const unsigned int *grid, unsigned int threads, unsigned int cluster,
                           size_t nbytes, int schedule)
{
    const KERNEL_PARAMETERS &p = *static_cast<const KERNEL_PARAMETERS *>(parameters);
    return host::launch({grid[0], grid[1], grid[2]}, threads, cluster, nbytes, schedule, [&] { KERNEL_NAME(p); });
}

extern "C" size_t nbytes() { return sizeof(KERNEL_PARAMETERS); }

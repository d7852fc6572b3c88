// A kernel with one parameter, made callable: KERNEL is its source, NAME its name, PARAMETERS the type of the parameter.
#include KERNEL

extern "C" const char *run(const void *parameters, const unsigned int *grid, unsigned int threads, unsigned int cluster,
                           size_t nbytes, int schedule)
{
    const PARAMETERS &p = *static_cast<const PARAMETERS *>(parameters);
    return host::launch({grid[0], grid[1], grid[2]}, threads, cluster, nbytes, schedule, [&] { NAME(p); });
}

extern "C" size_t nbytes() { return sizeof(PARAMETERS); }

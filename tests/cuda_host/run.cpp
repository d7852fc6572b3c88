// A callable kernel: KERNEL_SOURCE is its file, KERNEL_NAME its name; the library's headers do not use these names,
// so that they can be precompiled. Arguments are given by their addresses.
#include KERNEL_SOURCE

template <class... Types, size_t... PLACES>
static void call(void (*kernel)(Types...), const void *const *arguments, std::index_sequence<PLACES...>)
{
    kernel(*static_cast<const Types *>(arguments[PLACES])...);
}

template <class... Types> static void call(void (*kernel)(Types...), const void *const *arguments)
{
    call(kernel, arguments, std::index_sequence_for<Types...>());
}

template <class... Types> static size_t size_of(void (*)(Types...), size_t place)
{
    const size_t sizes[] = {sizeof(Types)..., 0};
    return place < sizeof...(Types) ? sizes[place] : 0;
}

extern "C" const char *run(const void *const *arguments, const unsigned int *grid, unsigned int threads,
                           unsigned int cluster, size_t nbytes, int schedule)
{
    const auto kernel = [&] { call(KERNEL_NAME, arguments); };
    return host::launch({grid[0], grid[1], grid[2]}, threads, cluster, nbytes, schedule, kernel);
}

// Bytes of an argument, 0 after the last one.
extern "C" size_t nbytes(size_t place) { return size_of(KERNEL_NAME, place); }

// From now on copies that read elsewhere fail; ranges are pairs of addresses.
extern "C" void allow(const uintptr_t *ranges, size_t count)
{
    host::operands.clear();
    for (size_t i = 0; i < count; ++i) host::operands.emplace_back(ranges[2 * i], ranges[2 * i + 1]);
}

// The words of CUDA that our kernels use, for a compiler of C++: the threads of a block take turns on one processor and
// change at each barrier, in ascending or descending order. What depends on that order is a race.
#include <ucontext.h>

#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static  // of one block at a time

struct Index {
    unsigned int x, y, z;
};
static Index blockIdx, threadIdx, blockDim, gridDim;

struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    bool ended;
};
static ucontext_t host;
static std::vector<Thread> team;
static std::function<void()> work;

static void __syncthreads() { swapcontext(&team[threadIdx.x].context, &host); }
static unsigned int atomicOr(unsigned int *place, unsigned int bits) { return (*place |= bits) & ~bits; }
static int __ffs(unsigned int word) { return __builtin_ffs(static_cast<int>(word)); }

static void begin_thread()
{
    work();
    team[threadIdx.x].ended = true;
}

static void prepare_thread(Thread &thread)
{
    getcontext(&thread.context);
    thread.stack.resize(1 << 16);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = &host;
    thread.ended = false;
    makecontext(&thread.context, begin_thread, 0);
}

static void run_block(bool descending)
{
    const unsigned int threads = blockDim.x;
    team.resize(threads);
    for (Thread &thread : team) prepare_thread(thread);
    for (bool running = true; running;) {
        running = false;
        for (unsigned int turn = 0; turn < threads; ++turn) {
            threadIdx = {descending ? threads - 1 - turn : turn, 0, 0};
            if (team[threadIdx.x].ended) continue;
            swapcontext(&host, &team[threadIdx.x].context);
            running = running || !team[threadIdx.x].ended;
        }
    }
}

static void launch(Index grid, unsigned int threads, bool descending, std::function<void()> kernel)
{
    work = kernel;
    gridDim = grid;
    blockDim = {threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block(descending);
}

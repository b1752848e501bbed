// The source's scenario for a packet pool, and steady use.
//
//   source  each thread takes a random number of packets, sleeps for a random time, and returns them; at
//           most packets / threads, so that the pool is never empty
//   steady  each thread takes eight packets and returns them, again and again
//
// A sample is one run: the mean over its threads of the time of one get and one ret. Numbers and times of
// sleep follow from the seed, for every implementation the same.
//
// Pool needs: Pool(packets, threads), Pool::Local(pool), local.get() -> void* or null, local.ret(void*).
#pragma once

#include "peer.hpp"

namespace peer {

// The index-th random number of a thread (splitmix64).
inline uint64_t random_of(uint64_t seed, uint64_t thread, uint64_t index)
{
    uint64_t bits = seed + (thread << 40) + (index + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
}

template <typename Pool> Samples pool(const Request &request)
{
    const bool steady = request.text("mode") == "steady";
    const uint64_t threads = request.number("threads"), runs = request.number("runs");
    const uint64_t packets = request.number("packets"), rounds = request.number("rounds");
    const uint64_t most = packets / threads, longest = request.number("sleep");
    Pool pool(packets, threads);
    Samples samples;
    for (uint64_t run = 0; run < runs; run++) {
        const uint64_t seed = request.number("seed") + run;
        samples.push_back(mean_of_threads(threads, [&](uint64_t thread) {
            typename Pool::Local local(pool);
            std::vector<void *> held(most);
            double time = 0;
            uint64_t taken = 0;
            for (uint64_t round = 0; round < rounds; round++) {
                const uint64_t count = steady ? 8 : 1 + random_of(seed, thread, 2 * round) % most;
                const double start = now();
                for (uint64_t repeat = 0; repeat < (steady ? 100 : 1); repeat++) {
                    for (uint64_t at = 0; at < count; at++)
                        if (!(held[at] = local.get()))
                            throw std::runtime_error("the pool is empty although it cannot be");
                    if (!steady) {
                        const double pause = now();
                        const long span = long(random_of(seed, thread, 2 * round + 1) % longest);
                        const timespec sleep = {0, span};
                        nanosleep(&sleep, nullptr);
                        time -= now() - pause;
                    }
                    for (uint64_t at = 0; at < count; at++)
                        local.ret(held[at]);
                    taken += count;
                }
                time += now() - start;
            }
            return time / double(taken);
        }));
    }
    return samples;
}

} // namespace peer

// The source's two scenarios for a hash table, and steady use.
//
//   insert  each thread inserts keys that nobody has inserted
//   match   the keys are there: each thread inserts each of its keys, which finds it, and erases it
//   steady  each thread inserts a window of keys and matches them, again and again; caches warm
//
// A key is a source and a tag of 32 bits each, at random from the seed: no two are the same, no
// implementation can profit from their order, and its own hash function serves each. A sample is one run:
// the mean over its threads of the time of one operation (in match: of insert and erase together).
//
// Map needs: Map(size), insert(key, value), match(key).
#pragma once

#include "peer.hpp"

#include <memory>

namespace peer {

// The index-th of the keys of a seed (splitmix64, which maps 64 bits one to one).
inline uint64_t key_of(uint64_t seed, uint64_t index)
{
    uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
}

template <typename Map> Samples hash(const Request &request)
{
    const std::string mode = request.text("mode");
    const uint64_t threads = request.number("threads"), runs = request.number("runs");
    const uint64_t size = request.number("size"), sweep_bytes = request.number("sweep");
    const uint64_t each = request.number("inserts") / threads, rounds = request.number("rounds");
    std::vector<uint64_t> keys;
    for (uint64_t index = 0; index < each * threads; index++)
        keys.push_back(key_of(request.number("seed"), index));
    Samples samples;
    for (uint64_t run = 0; run < runs; run++) {
        Map map(size);
        if (mode == "match")
            mean_of_threads(threads, [&](uint64_t thread) {
                for (uint64_t at = thread * each; at < (thread + 1) * each; at++)
                    map.insert(keys[at], at);
                return 0.0;
            });
        sweep(sweep_bytes);
        samples.push_back(mean_of_threads(threads, [&](uint64_t thread) {
            const uint64_t first = thread * each, end = first + each;
            const double start = now();
            if (mode == "insert") {
                for (uint64_t at = first; at < end; at++)
                    map.insert(keys[at], at);
                return (now() - start) / double(each);
            }
            if (mode == "match") {
                for (uint64_t at = first; at < end; at++)
                    map.match(keys[at]);
                return (now() - start) / double(each);
            }
            for (uint64_t round = 0; round < rounds; round++) {
                for (uint64_t at = first; at < end; at++)
                    map.insert(keys[at], at);
                for (uint64_t at = first; at < end; at++)
                    map.match(keys[at]);
            }
            return (now() - start) / double(2 * each * rounds);
        }));
    }
    return samples;
}

} // namespace peer

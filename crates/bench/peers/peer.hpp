// What every program of a compared library has in common: it answers requests of the harness.
//
//   standard output, once:  hello <name> <version>
//   standard input:         verb key=value key=value …
//   standard output:        ok sample sample …      (nanoseconds per operation)
//                           error what is wrong
//
// The loops stand in hash.hpp, pool.hpp and threads.hpp, each written once for all libraries. Weft's own
// (crates/bench/src/components) are the same loops in Rust.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace peer {

inline double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * double(time.tv_sec) + double(time.tv_nsec);
}

// The keys and values of a request.
class Request {
public:
    explicit Request(const std::string &line)
    {
        std::istringstream words(line);
        words >> verb;
        for (std::string word; words >> word;) {
            auto equals = word.find('=');
            if (equals == std::string::npos)
                throw std::runtime_error("not key=value: " + word);
            values[word.substr(0, equals)] = word.substr(equals + 1);
        }
    }
    std::string text(const std::string &key) const
    {
        auto found = values.find(key);
        if (found == values.end())
            throw std::runtime_error("the request has no " + key);
        return found->second;
    }
    uint64_t number(const std::string &key) const { return std::stoull(text(key)); }

    std::string verb;

private:
    std::map<std::string, std::string> values;
};

using Samples = std::vector<double>;
using Verbs = std::map<std::string, std::function<Samples(const Request &)>>;

// Answers requests until standard input ends.
inline int serve(const std::string &name, const std::string &version, const Verbs &verbs)
{
    std::cout << "hello " << name << " " << version << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        try {
            Request request(line);
            auto verb = verbs.find(request.verb);
            if (verb == verbs.end())
                throw std::runtime_error("this program has no " + request.verb);
            Samples samples = verb->second(request);
            std::cout << "ok";
            for (double sample : samples)
                std::cout << " " << sample;
            std::cout << std::endl;
        } catch (const std::exception &error) {
            std::cout << "error " << error.what() << std::endl;
        }
    }
    return 0;
}

// Starts so many threads at once and returns the mean of what they return.
template <typename Body> double mean_of_threads(uint64_t threads, Body body)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, nullptr, unsigned(threads));
    std::vector<double> found(threads);
    std::vector<std::thread> running;
    for (uint64_t thread = 0; thread < threads; thread++)
        running.emplace_back([&, thread] {
            pthread_barrier_wait(&start);
            found[thread] = body(thread);
        });
    double sum = 0;
    for (uint64_t thread = 0; thread < threads; thread++) {
        running[thread].join();
        sum += found[thread];
    }
    pthread_barrier_destroy(&start);
    return sum / double(threads);
}

// Invalidates the caches by reading more than they hold.
inline void sweep(uint64_t bytes)
{
    static std::vector<char> memory;
    if (memory.size() < bytes)
        memory.assign(bytes, 1);
    uint64_t sum = 0;
    for (uint64_t at = 0; at < bytes; at += 64)
        sum += uint64_t(memory[at]);
    volatile uint64_t kept = sum;
    (void)kept;
}

// Keeps the calling thread on the n-th of the cores that this process may use.
inline void pin(unsigned place)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed))
        return;
    unsigned count = unsigned(CPU_COUNT(&allowed));
    unsigned wanted = count ? place % count : 0;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            return;
        }
}

} // namespace peer

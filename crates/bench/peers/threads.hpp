// Scheduling and signalling of threads that a library offers.
//
//   yield   so many threads on one worker give way in turn; a sample is the time of one yield
//   signal  so many threads wait on one worker, another worker signals each of them once; a sample is
//           the sender's time for one signal. All of them have run before the next sample begins.
//   create  one thread after another is made, runs nothing and is joined, on one worker; a sample is the
//           time of one
//
// Library needs:
//   yield(count, rounds)  -> nanoseconds from the first yield to the last
//   signal(count, rounds) -> nanoseconds that each round of `count` signals took its sender
//   create(count)         -> nanoseconds of all
#pragma once

#include "peer.hpp"

#include <atomic>

namespace peer {

template <typename Library> Samples yield(const Request &request)
{
    const uint64_t count = request.number("count"), runs = request.number("runs");
    const uint64_t rounds = request.number("rounds");
    Samples samples;
    for (uint64_t run = 0; run < runs; run++)
        samples.push_back(Library::yield(count, rounds) / double(count * rounds));
    return samples;
}

template <typename Library> Samples signal(const Request &request)
{
    const uint64_t count = request.number("count"), runs = request.number("runs");
    Samples samples = Library::signal(count, runs);
    for (double &sample : samples)
        sample /= double(count);
    return samples;
}

template <typename Library> Samples create(const Request &request)
{
    const uint64_t count = request.number("count"), runs = request.number("runs");
    Samples samples;
    for (uint64_t run = 0; run < runs; run++)
        samples.push_back(Library::create(count) / double(count));
    return samples;
}

} // namespace peer

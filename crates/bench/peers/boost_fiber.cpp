// Boost.Fiber: this_fiber::yield, and a mutex with a condition for each fiber.
#include "threads.hpp"

#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#include <memory>

namespace fibers = boost::fibers;

struct Fiber {
    static fibers::fixedsize_stack stack() { return fibers::fixedsize_stack(16384); }

    static double yield(uint64_t count, uint64_t rounds)
    {
        double took = 0;
        // In a thread of its own, so that its fibers are the only ones of their scheduler.
        std::thread([&] {
            peer::pin(0);
            std::vector<fibers::fiber> all;
            uint64_t running = 0, ended = 0;
            double start = 0, end = 0;
            for (uint64_t index = 0; index < count; index++)
                all.emplace_back(std::allocator_arg, stack(), [&] {
                    running++;
                    while (running < count)
                        boost::this_fiber::yield();
                    if (start == 0)
                        start = peer::now();
                    for (uint64_t round = 0; round < rounds; round++)
                        boost::this_fiber::yield();
                    if (++ended == count)
                        end = peer::now();
                });
            for (fibers::fiber &one : all)
                one.join();
            took = end - start;
        }).join();
        return took;
    }

    static double create(uint64_t count)
    {
        double took = 0;
        std::thread([&] {
            peer::pin(0);
            boost::fibers::pooled_fixedsize_stack stacks(16384);
            const double start = peer::now();
            for (uint64_t index = 0; index < count; index++)
                fibers::fiber(std::allocator_arg, stacks, [] {}).join();
            took = peer::now() - start;
        }).join();
        return took;
    }

    struct alignas(128) Waiter {
        fibers::mutex mutex;
        fibers::condition_variable condition;
        uint64_t signals = 0;
    };

    static std::vector<double> signal(uint64_t count, uint64_t rounds)
    {
        std::unique_ptr<Waiter[]> waiters(new Waiter[count]);
        std::atomic<uint64_t> ready{0};
        std::thread worker([&] {
            peer::pin(1);
            std::vector<fibers::fiber> all;
            for (uint64_t index = 0; index < count; index++)
                all.emplace_back(std::allocator_arg, stack(), [&, index] {
                    Waiter &self = waiters[index];
                    for (uint64_t round = 0; round < rounds; round++) {
                        std::unique_lock<fibers::mutex> lock(self.mutex);
                        ready++;
                        while (self.signals <= round)
                            self.condition.wait(lock);
                    }
                });
            for (fibers::fiber &one : all)
                one.join();
        });
        std::vector<double> samples;
        std::thread([&] {
            peer::pin(0);
            for (uint64_t round = 0; round < rounds; round++) {
                while (ready < (round + 1) * count)
                    sched_yield();
                usleep(200);
                const double start = peer::now();
                for (uint64_t index = 0; index < count; index++) {
                    Waiter &one = waiters[index];
                    one.mutex.lock();
                    one.signals++;
                    one.condition.notify_one();
                    one.mutex.unlock();
                }
                samples.push_back(peer::now() - start);
            }
        }).join();
        worker.join();
        return samples;
    }
};

int main()
{
    return peer::serve("Boost.Fiber", BOOST_LIB_VERSION,
                       {{"yield", peer::yield<Fiber>}, {"signal", peer::signal<Fiber>}, {"create", peer::create<Fiber>}});
}

// Argobots, from a prefix that the user names: ABT_thread_yield, and an eventual for each thread.
#include "threads.hpp"

#include <abt.h>

struct Argobots {
    static void must(int code, const char *what)
    {
        if (code != ABT_SUCCESS)
            throw std::runtime_error(std::string(what) + " fails");
    }

    // An execution stream on a core of its own, with a pool that others may push to.
    struct Stream {
        explicit Stream(unsigned core)
        {
            must(ABT_pool_create_basic(ABT_POOL_FIFO, ABT_POOL_ACCESS_MPMC, ABT_TRUE, &pool), "ABT_pool_create_basic");
            must(ABT_xstream_create_basic(ABT_SCHED_BASIC, 1, &pool, ABT_SCHED_CONFIG_NULL, &stream), "ABT_xstream_create_basic");
            static unsigned place;
            place = core;
            run([](void *) { peer::pin(place); }, nullptr);
        }
        ~Stream()
        {
            ABT_xstream_join(stream);
            ABT_xstream_free(&stream);
        }
        void run(void (*body)(void *), void *argument)
        {
            ABT_thread thread;
            must(ABT_thread_create(pool, body, argument, ABT_THREAD_ATTR_NULL, &thread), "ABT_thread_create");
            ABT_thread_free(&thread);
        }
        ABT_pool pool;
        ABT_xstream stream;
    };

    struct Yielding {
        uint64_t count, rounds, running = 0, ended = 0;
        double start = 0, end = 0;
    };

    static double yield(uint64_t count, uint64_t rounds)
    {
        Stream stream(0);
        Yielding all{count, rounds};
        std::vector<ABT_thread> threads(count);
        for (ABT_thread &thread : threads)
            must(ABT_thread_create(
                     stream.pool,
                     [](void *argument) {
                         Yielding &all = *static_cast<Yielding *>(argument);
                         all.running++;
                         while (all.running < all.count)
                             ABT_thread_yield();
                         if (all.start == 0)
                             all.start = peer::now();
                         for (uint64_t round = 0; round < all.rounds; round++)
                             ABT_thread_yield();
                         if (++all.ended == all.count)
                             all.end = peer::now();
                     },
                     &all, ABT_THREAD_ATTR_NULL, &thread),
                 "ABT_thread_create");
        for (ABT_thread &thread : threads)
            ABT_thread_free(&thread);
        return all.end - all.start;
    }

    static double create(uint64_t count)
    {
        struct All {
            ABT_pool pool;
            uint64_t count;
            double took;
        };
        Stream stream(0);
        All all{stream.pool, count, 0};
        // By a thread of the same stream, as the others.
        stream.run(
            [](void *argument) {
                All &all = *static_cast<All *>(argument);
                const double start = peer::now();
                for (uint64_t index = 0; index < all.count; index++) {
                    ABT_thread thread;
                    must(ABT_thread_create(all.pool, [](void *) {}, nullptr, ABT_THREAD_ATTR_NULL, &thread),
                         "ABT_thread_create");
                    ABT_thread_free(&thread);
                }
                all.took = peer::now() - start;
            },
            &all);
        return all.took;
    }

    struct Waiter {
        ABT_eventual eventual;
        uint64_t rounds;
        std::atomic<uint64_t> *ready;
    };

    static std::vector<double> signal(uint64_t count, uint64_t rounds)
    {
        Stream stream(1);
        std::atomic<uint64_t> ready{0};
        std::vector<Waiter> waiters(count);
        std::vector<ABT_thread> threads(count);
        for (uint64_t index = 0; index < count; index++) {
            waiters[index].rounds = rounds;
            waiters[index].ready = &ready;
            must(ABT_eventual_create(0, &waiters[index].eventual), "ABT_eventual_create");
            must(ABT_thread_create(
                     stream.pool,
                     [](void *argument) {
                         Waiter &self = *static_cast<Waiter *>(argument);
                         for (uint64_t round = 0; round < self.rounds; round++) {
                             (*self.ready)++;
                             ABT_eventual_wait(self.eventual, nullptr);
                             ABT_eventual_reset(self.eventual);
                         }
                     },
                     &waiters[index], ABT_THREAD_ATTR_NULL, &threads[index]),
                 "ABT_thread_create");
        }
        peer::pin(0);
        std::vector<double> samples;
        for (uint64_t round = 0; round < rounds; round++) {
            while (ready < (round + 1) * count)
                sched_yield();
            usleep(200);
            const double start = peer::now();
            for (Waiter &one : waiters)
                ABT_eventual_set(one.eventual, nullptr, 0);
            samples.push_back(peer::now() - start);
        }
        for (ABT_thread &thread : threads)
            ABT_thread_free(&thread);
        for (Waiter &one : waiters)
            ABT_eventual_free(&one.eventual);
        return samples;
    }
};

int main()
{
    ABT_init(0, nullptr);
    int ended = peer::serve("Argobots", "",
                            {{"yield", peer::yield<Argobots>}, {"signal", peer::signal<Argobots>}, {"create", peer::create<Argobots>}});
    ABT_finalize();
    return ended;
}

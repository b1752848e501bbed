// POSIX threads: sched_yield, and a mutex with a condition for each thread.
#include "threads.hpp"

#include <memory>

struct Posix {
    static double yield(uint64_t count, uint64_t rounds)
    {
        std::vector<double> begun(count), ended(count);
        mean(count, [&](uint64_t thread) {
            pin(0);
            begun[thread] = peer::now();
            for (uint64_t round = 0; round < rounds; round++)
                sched_yield();
            ended[thread] = peer::now();
        });
        double first = begun[0], last = ended[0];
        for (uint64_t thread = 1; thread < count; thread++) {
            first = std::min(first, begun[thread]);
            last = std::max(last, ended[thread]);
        }
        return last - first;
    }

    static double create(uint64_t count)
    {
        double took = 0;
        std::thread([&] {
            pin(0);
            const double start = peer::now();
            for (uint64_t index = 0; index < count; index++)
                std::thread([] {}).join();
            took = peer::now() - start;
        }).join();
        return took;
    }

    struct alignas(128) Waiter {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
        uint64_t signals = 0;
    };

    static std::vector<double> signal(uint64_t count, uint64_t rounds)
    {
        std::unique_ptr<Waiter[]> waiters(new Waiter[count]);
        std::atomic<uint64_t> ready{0};
        std::vector<std::thread> threads;
        for (uint64_t thread = 0; thread < count; thread++)
            threads.emplace_back([&, thread] {
                pin(1);
                Waiter &self = waiters[thread];
                for (uint64_t round = 0; round < rounds; round++) {
                    pthread_mutex_lock(&self.mutex);
                    ready++;
                    while (self.signals <= round)
                        pthread_cond_wait(&self.condition, &self.mutex);
                    pthread_mutex_unlock(&self.mutex);
                }
                ready++;
            });
        pin(0);
        std::vector<double> samples;
        for (uint64_t round = 0; round < rounds; round++) {
            while (ready < (round + 1) * count)
                sched_yield();
            // The last of them may still be between counting itself and sleeping.
            usleep(200);
            const double start = peer::now();
            for (uint64_t thread = 0; thread < count; thread++) {
                Waiter &one = waiters[thread];
                pthread_mutex_lock(&one.mutex);
                one.signals++;
                pthread_cond_signal(&one.condition);
                pthread_mutex_unlock(&one.mutex);
            }
            samples.push_back(peer::now() - start);
        }
        for (std::thread &thread : threads)
            thread.join();
        return samples;
    }

private:
    static void pin(unsigned place) { peer::pin(place); }
    template <typename Body> static void mean(uint64_t count, Body body)
    {
        peer::mean_of_threads(count, [&](uint64_t thread) {
            body(thread);
            return 0.0;
        });
    }
};

int main()
{
    return peer::serve("POSIX threads", "",
                       {{"yield", peer::yield<Posix>}, {"signal", peer::signal<Posix>}, {"create", peer::create<Posix>}});
}

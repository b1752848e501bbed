// Pools of Boost.Lockfree: a stack and a queue of free packets.
#include "pool.hpp"

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <boost/version.hpp>

template <typename List> struct Pool {
    Pool(uint64_t packets, uint64_t) : memory(packets * 64), list(packets)
    {
        for (uint64_t packet = 0; packet < packets; packet++)
            list.push(&memory[packet * 64]);
    }
    struct Local {
        explicit Local(Pool &pool) : list(pool.list) {}
        void *get()
        {
            void *packet;
            return list.pop(packet) ? packet : nullptr;
        }
        void ret(void *packet) { list.bounded_push(packet); }
        List &list;
    };
    std::vector<char> memory;
    List list;
};

int main()
{
    return peer::serve("Boost.Lockfree", BOOST_LIB_VERSION,
                       {{"pool-stack", peer::pool<Pool<boost::lockfree::stack<void *>>>},
                        {"pool-queue", peer::pool<Pool<boost::lockfree::queue<void *>>>}});
}

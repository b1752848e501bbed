// libcuckoo's table.
#include "hash.hpp"

#include <libcuckoo/cuckoohash_map.hh>

struct Map {
    explicit Map(uint64_t size) : table(size) {}
    void insert(uint64_t key, uint64_t value) { table.insert(key, value); }
    void match(uint64_t key)
    {
        if (!table.insert(key, key))
            table.erase(key);
    }
    libcuckoo::cuckoohash_map<uint64_t, uint64_t> table;
};

// The same by the one call that libcuckoo has for it: insert, or look at what is there and erase it.
struct OneCall : Map {
    using Map::Map;
    void match(uint64_t key)
    {
        table.uprase_fn(key, [](uint64_t &) { return true; }, key);
    }
};

int main()
{
    return peer::serve("libcuckoo", "0.3",
                       {{"hash", peer::hash<Map>}, {"hash-one-call", peer::hash<OneCall>}});
}
